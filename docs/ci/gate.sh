#!/usr/bin/env bash
# Judges the kernels of this checkout and says whether they may be merged: exit code 0, 1 or 2, as `conformance gate`.
# For a pre-push hook, a Jenkins stage, or by hand.
set -euo pipefail

SUBJECT=${SUBJECT:-my_kernels.py:subject} # what --subject takes
NAME=${NAME:-mine}                        # the name that the subject gives itself
BACKEND=${BACKEND:-interpreter}
REQUIRE=${REQUIRE:---require interpreter}
POLICY=${POLICY:-} # --waivers waivers.toml --baseline baseline.jsonl

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# Exit code 1 means that a case failed. Whether it may is the gate's question, which knows the waivers.
# shellcheck disable=SC2086 # several words are meant
pytest --pyargs conformance.suites -m quick -q --backend=$BACKEND --subject "$SUBJECT" --results "$results" ||
    [ $? -eq 1 ] || exit 2
# shellcheck disable=SC2086
conformance gate "$results" --quick --verify 20 --subject "$NAME" --commit "$(git rev-parse HEAD)" $REQUIRE $POLICY
