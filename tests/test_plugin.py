"""The plugin in runs of its own: exit codes, journal, summary, and manners as a guest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.plugin_runs import MINE
from tests.plugin_runs import ON
from tests.plugin_runs import journal
from tests.plugin_runs import troubled
from tests.plugin_runs import write_catalogue


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--backend=rocm"], "rocm"),
        (
            ["--backend=gpu"],
            "unknown backend 'gpu'; the backends are auto, cuda, rocm, interpreter, rocm-emulated",
        ),
        ([ON, "--subject=nosuch"], "no subject is called 'nosuch'"),
        ([ON, "--subject=raises.py:subject"], "OSError: no licence (raises.py, line 1)"),
        ([ON, "--subject=wrong.py:subject"], "unexpected keyword argument 'kernel'"),
    ],
    ids=["no such GPU", "unknown backend", "not installed", "raises on import", "wrong field"],
)
def test_what_cannot_run_is_a_usage_error(pytester: pytest.Pytester, options: list[str], said: str) -> None:
    """One sentence, pytest's exit code for usage errors, and nothing green."""
    write_catalogue(pytester, 17)
    pytester.makepyfile(
        raises="raise OSError('no licence')",
        wrong="from conformance import Subject\nsubject = Subject(name='s', version='1', kernel={})",
    )
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = [line for line in result.errlines if line.strip()]
    assert len(errors) == 1
    assert errors[0].startswith("ERROR: ")
    assert said in errors[0]
    assert "passed" not in result.stdout.str()
    assert not list(pytester.path.glob("conformance-results"))


def test_a_refusal_while_collecting_is_a_usage_error_too(pytester: pytest.Pytester) -> None:
    """Without options of ours the session opens at the first case; the exit code is the same."""
    write_catalogue(pytester, 17)
    pytester.makeconftest(
        "from conformance.worker import Worker, WorkerRefused\n"
        "def refuse(self): raise WorkerRefused('no worker today')\n"
        "Worker.start = refuse\n"
    )
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "no worker today" in result.stdout.str() + result.stderr.str()
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_the_suites_run_from_anywhere(pytester: pytest.Pytester, subjects: Path) -> None:
    """Installed, the catalogue is found with --pyargs, selected with -m and -k, and reported."""
    result = pytester.runpytest_subprocess(
        *("--pyargs", "conformance.suites", ON, f"--subject={subjects / 'honest.py'}:subject"),
        *("-m", "conformance", "-k", "EPS-3 and rms_norm or MASK-1 and 3x17/ and float16"),
        *("--results", "mine"),
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "conformance: honest 1 on interpreter (CPU interpreter, cpu-*), evidence interpreter, torch *",
            "*= conformance =*",
            "journal: mine*.jsonl",
            "matrix:  mine*.md",
            "=* passed*refused* in *",
        ]
    )
    found = journal(pytester.path / "mine")
    assert found.complete
    assert {each.verdict for each in found.results} == {"pass", "refused"}
    assert {each.evidence for each in found.results} == {"interpreter"}
    assert found.run.subjects[0].contracts["rms_norm"]["layouts"] == "any"
    assert not (pytester.path / "conformance-results").exists()


@pytest.mark.parametrize("jobs", [[], ["-n2"]], ids=["alone", "in parallel"])
def test_the_folder_is_none_of_the_catalogue_s(
    pytester: pytest.Pytester, subjects: Path, jobs: list[str]
) -> None:
    """An option of ours and no file: neither the folder's modules nor its testpaths are imported."""
    if jobs:
        pytest.importorskip("xdist")
    pytester.makepyfile(test_broken="import no_such_module")
    pytester.makeini(
        "[pytest]\ntestpaths = test_broken.py\npython_files = check_*.py\npython_functions = it_*"
    )
    honest = f"--subject={subjects / 'honest.py'}:subject"
    options = [ON, honest, "-k", "EPS-3 and rms_norm", "--results=mine", *jobs]
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert {each.clause for each in journal(pytester.path / "mine").results} == {"EPS-3"}
    named = pytester.runpytest_subprocess(*options, "test_broken.py")
    assert "no_such_module" in named.stdout.str()


def test_a_crash_costs_one_case_alone_and_in_parallel(pytester: pytest.Pytester, subjects: Path) -> None:
    """One process or two, the verdicts are the same, in one journal; --lf selects what failed."""
    pytest.importorskip("xdist")
    write_catalogue(pytester, 3, 17, operations="['rms_norm', 'layer_norm']")
    alone = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=alone")
    assert alone.ret == pytest.ExitCode.TESTS_FAILED
    alone.stdout.fnmatch_lines(
        ["*crash: the process exited with code 3*", "*1 failed, 1 passed, 2 unsupported*"]
    )
    first = journal(pytester.path / "alone")
    rms_norm = {
        each.case.rpartition("/")[2]: each.verdict for each in first.results if each.operation == "rms_norm"
    }
    assert rms_norm == {"2x3": "crash", "2x17": "pass"}

    parallel = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=parallel", "-n2")
    assert parallel.ret == pytest.ExitCode.TESTS_FAILED
    second = journal(pytester.path / "parallel")
    assert second.complete
    assert {(each.case, each.verdict) for each in second.results} == {
        (each.case, each.verdict) for each in first.results
    }

    again = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--lf", "--collect-only", "-q")
    assert [line for line in again.outlines if "::" in line] == [
        "test_mine.py::test_widths[troubled:MASK-1/rms_norm/forward/float32/2x3]"
    ]


def test_workers_side_by_side_ask_nothing_twice(pytester: pytest.Pytester, subjects: Path) -> None:
    """The controller tries the backend and the subject; each worker starts one process, for its cases."""
    pytest.importorskip("xdist")
    write_catalogue(pytester, 17, 33, 65, 129)
    text = (subjects / "troubled.py").read_text()
    started = "import os\nopen('started', 'a').write(f'{os.getpid()}\\n')\n"
    future = "from __future__ import annotations\n"
    (pytester.path / "mine.py").write_text(text.replace(future, future + started))
    result = pytester.runpytest_subprocess(MINE, ON, "--subject=mine.py:subject", "-n2")
    assert result.ret == pytest.ExitCode.OK
    assert len(set((pytester.path / "started").read_text().split())) == 3


def test_a_run_that_proves_nothing_is_not_green(pytester: pytest.Pytester, subjects: Path) -> None:
    """Every case unsupported: pytest's exit code for no tests."""
    write_catalogue(pytester, 17, operations="'layer_norm'")
    result = pytester.runpytest_subprocess(MINE, ON, troubled(subjects))
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["*1 unsupported*"])


STRANGERS_CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--backend", default="theirs")
"""
STRANGERS_TEST = """
import sys

def test_theirs(request):
    assert request.config.getoption("--backend") == {expected!r}
    assert not {{"torch", "triton", "numpy"}} & set(sys.modules)
    ours = {{name for name in sys.modules if name.startswith("conformance.")}}
    light = ("plugin", "options", "subject", "operation", "progress", "variants")
    light += ("benchmarking", "controller", "run_state")
    assert ours <= {{f"conformance.{{name}}" for name in light}}
"""


@pytest.mark.parametrize(("options", "expected"), [([], "theirs"), (["--backend=jax"], "jax")])
def test_a_strangers_option_stays_the_strangers(
    pytester: pytest.Pytester, options: list[str], expected: str
) -> None:
    """A project with a --backend of its own runs as before, and imports no torch."""
    pytester.makeconftest(STRANGERS_CONFTEST)
    pytester.makepyfile(STRANGERS_TEST.format(expected=expected))
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1)
    assert "conformance:" not in result.stdout.str()


def test_a_taken_name_gets_our_prefix(pytester: pytest.Pytester) -> None:
    """Beside a stranger's --backend, ours is --conformance-backend."""
    pytester.makeconftest(STRANGERS_CONFTEST)
    write_catalogue(pytester, 17)
    result = pytester.runpytest_subprocess("--backend=jax", "--conformance-backend=gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: unknown backend 'gpu'*"])


def test_help_names_the_options(pytester: pytest.Pytester) -> None:
    """pytest --help has a section of ours."""
    result = pytester.runpytest_subprocess("--help")
    result.stdout.fnmatch_lines(
        ["conformance of normalization kernels:", "*--backend=NAME*", "*--subject=SUBJECT*"]
    )


def test_a_strangers_backend_is_not_taken_for_ours(pytester: pytest.Pytester) -> None:
    """Given to a conftest's own --backend, the name of a GPU must not end in a green run somewhere else."""
    pytester.makeconftest("def pytest_addoption(parser):\n    parser.addoption('--backend')\n")
    result = pytester.runpytest_subprocess("--pyargs", "conformance.suites", "--backend=cuda")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--backend is an option of this project's own here" in result.stderr.str() + result.stdout.str()


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_time_limit_is_a_positive_number(pytester: pytest.Pytester, seconds: str) -> None:
    """Anything else is refused before a worker starts."""
    result = pytester.runpytest_subprocess(ON, f"--case-seconds={seconds}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "it must be a positive number of seconds" in result.stderr.str()


def test_results_need_a_folder_to_write_to(pytester: pytest.Pytester) -> None:
    """Where none can be made, the run ends before its first case, in one sentence."""
    occupied = pytester.makefile(".txt", results="")
    result = pytester.runpytest_subprocess(ON, f"--results={occupied}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "results cannot be written to" in result.stderr.str()


HARMS = {
    "segfault": ("crash", "killed by SIGSEGV"),
    "hang": ("timeout", "no answer within 5 s"),
    "exits": ("crash", "exited with code 0"),
    "hoards": ("crash", "ran out of memory"),
}


def test_harm_stays_with_the_case_that_does_it(pytester: pytest.Pytester, subjects: Path) -> None:
    """Bad subjects beside a good one: the run ends by itself, and the other cases have their verdicts."""
    write_catalogue(pytester, 64, 65, 66)
    chosen = [f"--subject={subjects / 'harmful.py'}:{name}" for name in ("good", *HARMS)]
    result = pytester.runpytest_subprocess(MINE, ON, *chosen, "--case-seconds=5", "--results=mine")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = journal(pytester.path / "mine")
    assert found.complete
    harmed = {
        (each.subject, each.case.rpartition("/")[2]): (each.verdict, each.message)
        for each in found.results
        if each.verdict != "pass"
    }
    assert set(harmed) == {(name, "2x65") for name in HARMS}
    for name, (verdict, said) in HARMS.items():
        assert harmed[name, "2x65"][0] == verdict
        assert said in harmed[name, "2x65"][1]
    assert len(found.results) == 3 * (1 + len(HARMS))


def test_the_header_says_what_was_chosen(pytester: pytest.Pytester, subjects: Path) -> None:
    """The catalogue and the choice of cases; the commit is that of the folder that the run was started in."""
    write_catalogue(pytester, 9)
    for command in ("init -q", "add .", "-c user.name=n -c user.email=n@example.org commit -qm one"):
        subprocess.run(["git", *command.split()], cwd=pytester.path, check=True)
    honest = f"--subject={subjects / 'honest.py'}:subject"
    results = pytester.path.parent / "elsewhere"
    pytester.runpytest_subprocess(MINE, ON, honest, "-k", "2x9 and MASK", "--results", str(results))
    run = journal(results).run
    assert run.selection == "-k '2x9 and MASK'"
    assert len(run.catalogue) == 16
    assert len(run.commit) == 40
    assert "honest.py:" in run.subjects[0].calls["rms_norm"]["call"]


def test_a_command_that_pytest_refuses_is_not_to_be_run_again(
    pytester: pytest.Pytester, subjects: Path
) -> None:
    """An expression that ``-k`` cannot read stays one: pytest's own sentence stands alone."""
    write_catalogue(pytester, 17)
    result = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=mine", "-k", "a=b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Wrong expression passed to '-k'" in result.stderr.str()
    assert "run the same command again" not in result.stdout.str() + result.stderr.str()
