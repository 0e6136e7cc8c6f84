"""A repository, a kernel and two pull requests: the gates of the documentation block the bad one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.reports.render import FORMATS
from tests.gate.conftest import EXAMPLE
from tests.gate.conftest import RIGHT
from tests.gate.conftest import WRONG


CI = Path(__file__).parents[2] / "docs" / "ci"
#: A right change: the mean by a product.
FASTER = "tl.sum(x * x) * (1.0 / hidden_size)"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, branch: str, text: str) -> None:
    git(folder, "checkout", "-q", "-b", branch)
    (folder / "my_kernels.py").write_text(text)
    git(folder, "add", "my_kernels.py")
    git(folder, "commit", "-qm", branch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a kernel on its main branch, and a pull request that is right and one that is not."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("conformance-results\njournals\n__pycache__\n")
    commit(folder, "main", EXAMPLE)
    commit(folder, "right", EXAMPLE.replace(RIGHT, FASTER))
    git(folder, "checkout", "-q", "main")
    commit(folder, "wrong", EXAMPLE.replace(RIGHT, WRONG))
    return folder


def run(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A step as GitHub's and GitLab's runners run it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def job(text: str, name: str) -> str:
    """The lines of one job of a workflow."""
    found = re.search(rf"^  {name}:\n(.*?)(?=^  \S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


def steps(text: str) -> dict[str, str]:
    """Name to script of a job's steps that run something."""
    found = {}
    for block in re.split(r"^      - ", text, flags=re.MULTILINE)[1:]:
        name = re.search(r"^name: (.+)$", block, re.MULTILINE)
        script = re.search(r"^        run: (?:\|\n((?:          .*\n|\n)+)|(.+))", block, re.MULTILINE)
        if name and script:
            found[name[1]] = re.sub(r"^          ", "", script[1] or script[2], flags=re.MULTILINE)
    return found


@pytest.mark.parametrize(("branch", "code"), [("right", 0), ("wrong", 1)])
def test_the_steps_of_the_github_workflow(project: Path, tmp_path: Path, branch: str, code: int) -> None:
    """The one check that protects the branch: open for the right change, and for the wrong one closed with
    clause, smallest call, the line to look at and the command to run.
    """
    git(project, "checkout", "-q", branch)
    workflow = (CI / "github.yml").read_text()
    judge, gate = steps(job(workflow, "judge")), steps(job(workflow, "gate"))
    summary = tmp_path / "summary.md"
    variables = {
        "SUBJECT": "my_kernels.py:subject",
        "NAME": "mine",
        "REQUIRE": "--require interpreter",
        "DEVICE": "",
        "POLICY": "",
        "GITHUB_SHA": git(project, "rev-parse", "HEAD"),
        "GITHUB_STEP_SUMMARY": str(summary),
        "JUDGED": "success skipped",
    }
    script = judge["Judge"].replace("${{ matrix.backend }}", "interpreter").replace("-n auto", "-n 2")
    for step in (script, judge["Run some again, with inputs that no kernel can know"]):
        done = run(step, project, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
    (project / "conformance-results").rename(project / "journals")
    gated = run(gate["Gate"], project, **variables)
    assert gated.returncode == code, gated.stdout + gated.stderr
    assert gated.stdout == (project / "gate.txt").read_text()
    if code:
        assert_says_what_to_do(gated.stdout)
    if {"github-summary", "github-annotations"} <= set(FORMATS):
        shown = run(gate["Show"], project, **variables)
        assert shown.returncode == 0, shown.stderr
        assert ("::error " in shown.stdout) == bool(code)
        assert gated.stdout in summary.read_text()
    assert run(gate["Nothing else may have failed"], project, **variables).returncode == 0
    variables["JUDGED"] = "failure skipped"
    assert run(gate["Nothing else may have failed"], project, **variables).returncode == 1


def assert_is_small(failure: str) -> None:
    """The smallest call is one that a person can work out by hand; how small depends on the load."""
    found = re.search(r"call     rms_norm\(x=\w+\[(\d+), (\d+)\], weight=\w+\[\2\], eps=1e-06\)", failure)
    assert found, failure
    assert int(found[1]) * int(found[2]) < 100


def assert_says_what_to_do(said: str) -> None:
    assert said.startswith("CLOSED: 62 of 116 proven cases failed")
    line = EXAMPLE.splitlines().index("def rms_norm(x, weight, eps):") + 1
    common, first = said.split("\n\n")[1:3]
    assert common.startswith("Probably one fault makes 62 of 62 failures of mine 1")
    assert "MASK-1 fails where the hidden size is no power of two" in common
    assert "clause   MASK-1: every H >= 1 is computed; the denominator is H" in first
    assert_is_small(first)
    assert f"look at  my_kernels.py:{line} (rms_norm)" in first
    assert "again    conformance show MASK-1/rms_norm/forward/" in first


def test_the_plain_script(project: Path) -> None:
    """docs/ci/gate.sh, with a folder for the results that lies elsewhere, blocks the wrong branch."""
    git(project, "checkout", "-q", "wrong")
    done = run(str(CI / "gate.sh"), project)
    assert done.returncode == 1, done.stdout + done.stderr
    assert_says_what_to_do(done.stdout[done.stdout.index("CLOSED") :])


def test_an_array_of_jobs(project: Path) -> None:
    """docs/ci/slurm.sh, task by task, with a few cases left of each share: merged, it is one run."""
    git(project, "checkout", "-q", "right")
    script = (CI / "slurm.sh").read_text()
    for family in ("MASK or ROWS", "STRIDE or ALIAS or EPS", "ACC or MAG or NONFINITE", "STATE or DEVICE or"):
        assert family in script
    smaller = script.replace(
        '"${shares[$SLURM_ARRAY_TASK_ID]}"', '"(${shares[$SLURM_ARRAY_TASK_ID]}) and -3/rms"'
    )
    for task in range(4):
        done = run(smaller, project, BACKEND="interpreter", SLURM_ARRAY_TASK_ID=str(task))
        assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((project / "results").glob("*.jsonl"))) == 4
    merged = run("conformance merge results -o all.jsonl", project)
    assert merged.stdout.splitlines()[-1] == "4 journals in all.jsonl", merged.stderr
    gated = run("conformance gate all.jsonl", project)
    assert gated.returncode == 2
    assert gated.stdout.count("that are asked for are missing") == 1


def test_every_clause_has_a_share() -> None:
    """The array leaves out no family."""
    from conformance.clause import CLAUSES

    shares = re.findall(r'^    "(.+)"$', (CI / "slurm.sh").read_text(), re.MULTILINE)
    families = [family for share in shares for family in share.split(" or ")]
    assert sorted(families) == sorted({clause.family for clause in CLAUSES.values()})


@pytest.mark.parametrize("file", ["github.yml", "gitlab.yml", "gate.sh", "slurm.sh"])
def test_nothing_is_swallowed(file: str) -> None:
    """A step that fails for another reason than a failing case ends the job; actions are pinned."""
    text = (CI / file).read_text()
    assert "|| true" not in text
    assert "continue-on-error" not in text
    assert len(re.findall(r"\|\|\s+\[\[? \$\? (?:-eq 1|=~ \^\[15\]\$) \]", text)) == text.count("--pyargs")
    used = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", each)] == []
