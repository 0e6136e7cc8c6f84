"""Machine code of two targets and the corrected interpreter, against each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def outputs(*backend: str) -> dict[str, str]:
    """Digests of the built-in kernels' outputs there, without fused multiplication and addition."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("agreement.py")
    done = subprocess.run(
        [sys.executable, str(script), *backend],
        capture_output=True,
        text=True,
        timeout=400,
        env={**environment, "TRITON_DEFAULT_FP_FUSION": "0"},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_where_every_order_of_the_sum_is_exact_the_bits_are_the_same() -> None:
    """Three machines, three ways to get there: 48 outputs in three dtypes, not one bit between them."""
    interpreted = outputs("interpreter")
    assert len(interpreted) == 48
    for target in ("gfx942", "gfx1100"):
        emulated = outputs("rocm-emulated", target)
        assert {name for name in emulated if emulated[name] != interpreted[name]} == set()
