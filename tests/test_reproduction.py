"""A failure's script runs alone, shows the failure, and stops showing it once the library is mended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance import reproduction
from conformance.alone import why_not_shown
from conformance.cli import main
from conformance.sources import NoSource
from conformance.sources import source_of


NOISE = "MASK-1/rms_norm/forward/float16/3x127/regime=offset"


def written(folder: Path, spec: str, case: str) -> Path:
    """The script that ``conformance repro`` writes."""
    path = folder / "repro.py"
    with pytest.raises(SystemExit) as caught:
        main(["repro", case, "--subject", spec, "--backend", "interpreter", "-o", str(path)])
    assert caught.value.code == 0
    return path


def alone(path: Path, library: Path | None = None) -> tuple[int, str]:
    """Exit code and output of a script, in a process that has torch, and `library` on its path."""
    environment = {**os.environ, "PYTHONPATH": str(library or "")}
    done = subprocess.run(
        [sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def test_the_smallest_script(tmp_path: Path, subjects: Path) -> None:
    """One row, one column, plain values, the library's own function; got, want, and what was allowed."""
    path = written(tmp_path, f"{subjects / 'broken.py'}:wrong_mean", NOISE)
    text = path.read_text()
    assert "x = torch.tensor([[0.25]], dtype=torch.float32, device=DEVICE)" in text
    assert "call = partial(normalize, extra=1)" in text
    assert "conformance" not in text.replace("conformance_subject_broken", "")
    code, said = alone(path, subjects)
    assert code == 3, said
    assert "y[0, 0]: got 0.3535" in said
    assert "want 0.24999" in said


def test_it_no_longer_shows_what_was_mended(tmp_path: Path, subjects: Path) -> None:
    """The same script against a library without the fault exits with 0."""
    path = written(tmp_path, f"{subjects / 'broken.py'}:wrong_mean", NOISE)
    mended = (subjects / "broken_library.py").read_text().replace("+ extra", "")
    (tmp_path / "broken_library.py").write_text(mended)
    assert alone(path, tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("fault", "code"), [("CUDA error: an illegal memory access was encountered", 3), ("no kernel image", 1)]
)
def test_a_gpu_that_faults_shows_a_wrong_offset(
    tmp_path: Path, subjects: Path, fault: str, code: int
) -> None:
    """What the checked interpreter calls a read outside may end a GPU's call; any other error is none."""
    case = "OFFSET-3/rms_norm/forward/float16/3x65/layout.x=far-bytes"
    path = written(tmp_path, f"{subjects / 'broken.py'}:wrong_mean", case)
    (tmp_path / "broken_library.py").write_text(
        f"def normalize(*a, **b):\n    raise RuntimeError({fault!r})\n"
    )
    ended, said = alone(path, tmp_path)
    assert ended == code, said
    assert fault in said


@pytest.mark.parametrize(
    ("subject", "case", "said"),
    [
        ("writes_x", "ALIAS-1/rms_norm/forward/float16/3x65", "x after  tensor"),
        ("raises", NOISE, "raised KeyError: 'no such kernel'"),
        ("needs_rows", "ROWS-1/rms_norm/forward/float16/3x0x129", "no rows in (3, 0, 1)"),
        ("through_glue", "EPS-3/rms_norm/forward/float32/3x64/eps=nan", "not refused; got"),
        (
            "constant_gradient",
            "GRAD-5/rms_norm/backward/float32/2x33/procedure=double-backward",
            "the second derivative is silently lost",
        ),
    ],
)
def test_other_kinds_of_failure(tmp_path: Path, subjects: Path, subject: str, case: str, said: str) -> None:
    """A changed input, an exception, one for an empty tensor, a silence, a lost derivative."""
    code, output = alone(written(tmp_path, f"{subjects / 'broken.py'}:{subject}", case), subjects)
    assert code == 3, output
    assert said in output


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("rounds", "y[0, 0]: got "),
        ("returns", "residual_out has dtype bfloat16"),
        ("silent", "residual_out has"),
    ],
)
def test_a_residual_stream_with_its_own_dtype(
    tmp_path: Path, subjects: Path, subject: str, said: str
) -> None:
    """Got and want follow what the contract says of the sum's dtype: that of ``residual``, or of ``x``."""
    case = "DTYPE-2/fused_add_rms_norm/forward/bfloat16/4x129/dtype.residual=float16"
    code, output = alone(written(tmp_path, f"{subjects / 'streams.py'}:{subject}", case), subjects)
    assert code == 3, output
    assert said in output


def test_a_gradient(tmp_path: Path) -> None:
    """Of PyTorch's own LayerNorm on the CPU, whose 16-bit gradients are rough; it needs torch alone."""
    path = written(tmp_path, "torch", "GRAD-1/layer_norm/backward/bfloat16/37x129")
    code, output = alone(path)
    assert code == 3, output
    assert " apart, " in output


def test_layouts_are_kept_where_they_matter(tmp_path: Path, subjects: Path) -> None:
    """A view in a buffer of NaN, where the failure needs it; here it does not, so it goes."""
    path = written(
        tmp_path,
        f"{subjects / 'broken.py'}:wrong_mean",
        "STRIDE-1/rms_norm/forward/float16/3x1024/layout.x=row-gap",
    )
    assert "as_strided" not in path.read_text()


@pytest.mark.parametrize(
    ("attribute", "case", "said"),
    [
        ("nan", "MASK-1/rms_norm/forward/float16/3x127", "y[0, 0]: got nan, want 0.2499"),
        ("infinite", "MASK-1/rms_norm/forward/float16/3x127", "y[0, 0]: got inf, want 0.2499"),
        (
            "stride",
            "STRIDE-1/fused_add_rms_norm/forward/float16/3x1024/layout.x=row-gap",
            "residual_out[1, 0]: got nan, want 5.5",
        ),
        (
            "stride",
            "MASK-2/fused_add_rms_norm/forward/float16/3x769/gap=huge/layout.residual=row-gap",
            "residual_out[1, 0]: got 1.70",
        ),
    ],
)
def test_a_correct_kernel_is_not_accused(
    tmp_path: Path, subjects: Path, attribute: str, case: str, said: str
) -> None:
    """The faulty kernel exits with 3, for NaN, infinity and a read outside too; the mended one with 0."""
    path = written(tmp_path, f"{subjects / 'strides.py'}:{attribute}", case)
    code, output = alone(path, subjects)
    assert code == 3, output
    assert said in output
    library = (subjects / "strides_library.py").read_text()
    (tmp_path / "strides_library.py").write_text(library.replace("FAULTY = True", "FAULTY = False"))
    code, output = alone(path, tmp_path)
    assert code == 0, output


@pytest.mark.parametrize(
    ("got", "want", "allowed", "right"),
    [
        (1.0, 1.25, 0.25, True),
        (1.0, 1.25, 0.125, False),
        (float("nan"), 1.0, 0.5, False),
        (float("nan"), float("nan"), 0.5, True),
        (float("inf"), 1e5, 1.0, True),
        (float("inf"), 65500.0, 30.0, True),
        (float("inf"), 65000.0, 30.0, False),
        (float("-inf"), 1e5, 1.0, False),
        (65504.0, float("inf"), 1.0, False),
    ],
)
def test_a_script_judges_as_the_judge_does(got: float, want: float, allowed: float, right: bool) -> None:
    """NaN belongs where the definition has it, an infinity where the dtype overflows within the bound."""
    names: dict[str, Any] = {"torch": torch}
    exec(reproduction._DIFFERS.split("\nwrong = 0")[0], names)
    assert names["is_right"](got, want, allowed, torch.float16) is right


def test_what_passes_alone_is_no_script(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, subjects: Path
) -> None:
    """A script that would find nothing wrong is refused, in one sentence."""
    spec, case = f"{subjects / 'strides.py'}:here", "MASK-1/rms_norm/forward/float32/1x1"
    with pytest.raises(SystemExit) as caught:
        main(["repro", case, "--subject", spec, "--backend", "interpreter", "-o", str(tmp_path / "s.py")])
    assert caught.value.code == 2
    assert "no script was made: run alone, it finds nothing wrong" in capsys.readouterr().err
    assert not (tmp_path / "s.py").exists()


def test_a_script_that_cannot_run_is_not_shown() -> None:
    """Neither one that breaks, nor one that finds nothing; one that exits with 3 is."""
    assert why_not_shown("raise SystemExit(3)") == ""
    assert why_not_shown("import nosuch") == (
        "run alone, it ended with code 1: ModuleNotFoundError: No module named 'nosuch'"
    )
    assert "finds nothing wrong" in why_not_shown("")


def test_what_only_the_emulator_sees_is_no_script(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, subjects: Path
) -> None:
    """A script would not see the store outside either, and say that all is well."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    spec, case = f"{subjects / 'emulated_faults.py'}:no_store_mask", "MASK-1/rms_norm/forward/float16/3x127"
    with pytest.raises(SystemExit) as caught:
        main(["repro", case, "--subject", spec, "--backend", "rocm-emulated", "-o", str(tmp_path / "s.py")])
    assert caught.value.code == 2
    assert "what checks every access says this" in capsys.readouterr().err
    assert not (tmp_path / "s.py").exists()


def test_a_function_within_another_is_told_where_to_define_it() -> None:
    """No script can import it."""

    def nested() -> None: ...

    with pytest.raises(NoSource, match=r"nested cannot be named in a script: define it at module level"):
        source_of(nested)


@pytest.mark.parametrize(
    ("spec", "case", "said"),
    [
        ("builtin", NOISE, "there is nothing to reproduce: pass"),
        ("builtin", "MASK-1/rms_norm", "is not a case"),
        ("nosuch", NOISE, "no subject is called 'nosuch'"),
    ],
)
def test_nothing_to_reproduce(capsys: pytest.CaptureFixture[str], spec: str, case: str, said: str) -> None:
    """One sentence and the code for wrong usage."""
    with pytest.raises(SystemExit) as caught:
        main(["repro", case, "--subject", spec, "--backend", "interpreter"])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
