"""Loading subjects: whatever is wrong is one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conformance.loading import load_subject
from conformance.loading import subject_entry_points
from conformance.subject import SubjectError


HEAD = "from conformance import Contract, Kernel, Subject\n"
GOOD = HEAD + "subject = Subject(name='s', version='1', kernels={'rms_norm': Kernel(call=print)})\n"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a file adds its folder to the path, which is this process's too."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def refusal(spec: str) -> str:
    with pytest.raises(SubjectError) as caught:
        load_subject(spec)
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    return message


def written(folder: Path, text: str) -> str:
    path = folder / "kernels_of_mine.py"
    path.write_text(text)
    return f"{path}:subject"


def test_a_subject_or_what_returns_one(tmp_path: Path) -> None:
    """The attribute may be the subject itself or a callable without arguments."""
    assert load_subject(written(tmp_path, GOOD)).name == "s"
    assert load_subject(written(tmp_path, GOOD.replace("subject = ", "subject = lambda: "))).name == "s"


def test_a_files_neighbours_are_importable(tmp_path: Path) -> None:
    """A subject in a file may import what lies beside it, as it may when it is run."""
    (tmp_path / "beside_me_7f3.py").write_text("NAME = 'neighbour'\n")
    text = "from beside_me_7f3 import NAME\n" + GOOD.replace("'s'", "NAME")
    assert load_subject(written(tmp_path, text)).name == "neighbour"


def test_what_a_neighbour_lacks_is_told_by_file_and_line(tmp_path: Path) -> None:
    """Where the import stands, not where the chain of imports begins."""
    (tmp_path / "deep_7f3.py").write_text("X = 1\nimport no_such_module_7f3\n")
    message = refusal(written(tmp_path, "import deep_7f3"))
    assert message.endswith("No module named 'no_such_module_7f3'; install it first (deep_7f3.py, line 2)")


def test_adapters_are_found_by_name() -> None:
    """The project's own kernels are an entry point like any other package's."""
    assert {"builtin", "liger"} <= set(subject_entry_points())
    assert load_subject("builtin").name == "builtin"


def test_an_unknown_name_tells_where_names_are_listed() -> None:
    """One sentence, which names the command that lists adapters, and how to name a file."""
    message = refusal("nosuch")
    assert "no subject is called 'nosuch': `conformance subjects` lists" in message
    assert "path/to/file.py:attribute" in message
    assert len(message) < 200


@pytest.mark.parametrize("spec", ["my_kernels.py", "my_kernels.py:", "a/my_kernels.py:not one"])
def test_a_file_without_an_attribute_is_told_what_it_lacks(spec: str) -> None:
    """The sentence gives the spec as it should have been written, and lists nothing."""
    file = spec.partition(":")[0]
    assert refusal(spec) == f"subject {spec} names no attribute: write it as {file}:attribute"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nowhere/file.py:subject", f"there is no file nowhere/file.py in {Path.cwd()}"),
        ("/nowhere/file.py:subject", "there is no file /nowhere/file.py"),
        (
            "no_such_module_7f3:subject",
            "no module is called 'no_such_module_7f3'; install it first, or name a",
        ),
        ("no_such_module_7f3:subject", "file as path/to/no_such_module_7f3.py:subject"),
        (":subject", "names no module: write it as module:subject or path/to/file.py:subject"),
        ("a_folder/:subject", "names no module"),
        ("math:subject", "math has no attribute 'subject'"),
        ("math:", "names no attribute"),
        ("math:pi", "is float; it must be, or return, a conformance.Subject"),
        ("builtins:dict", "is dict; it must be, or return, a conformance.Subject"),
    ],
)
def test_what_cannot_be_found_is_named(spec: str, said: str) -> None:
    """Missing files, modules and attributes, and attributes that are no subject."""
    assert said in refusal(spec)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise OSError('no licence\\nsecond line')", "OSError: no licence (kernels_of_mine.py, line 1)"),
        ("import sys\nsys.exit('bye')", "SystemExit: bye"),
        ("import sys\nsys.exit()", "SystemExit"),
        ("def subject(:\n", "SyntaxError: invalid syntax (kernels_of_mine.py, line 1)"),
        (
            "\nimport no_such_module_7f3",
            "No module named 'no_such_module_7f3'; install it first (kernels_of_mine.py, line 2)",
        ),
        ("def subject():\n    raise KeyError('gone')", "KeyError: 'gone' (kernels_of_mine.py, line 2)"),
        ("def subject(argument):\n    pass", "TypeError"),
        (
            HEAD + "subject = Subject(name='s', version='1', kernel={})",
            "unexpected keyword argument 'kernel'",
        ),
        (HEAD + "subject = Subject(name='', version='1', kernels={})", "Subject.name is ''"),
        (
            HEAD + "subject = Subject(name='a\\nb', version='1', kernels={})",
            "is 'a\\nb'; it must be one line",
        ),
        (
            HEAD + "subject = Subject(name='s', version='\\x1b[2J', kernels={})",
            "it must be one line of printable",
        ),
        (HEAD + "subject = Subject(name='s', version='1', kernels={})", "Subject.kernels must map"),
        (
            HEAD + "subject = Subject(name='s', version='1', kernels={'softmax': Kernel(call=print)})",
            "names 'softmax'; the operations are layer_norm, rms_norm, fused_add_rms_norm",
        ),
        (
            HEAD + "subject = Subject(name='s', version='1', kernels={'rms_norm': print})",
            "must be a conformance.Kernel",
        ),
        (HEAD + "subject = Kernel(call=3)", "Kernel.call is 3; it must be callable"),
        (HEAD + "subject = Kernel(call=print, contract={})", "Kernel.contract is {}"),
        (HEAD + "subject = Kernel(call=print, call_in_place=print)", "contract.in_place does not say"),
        (HEAD + "subject = Contract(epsilon=1)", "unexpected keyword argument 'epsilon'"),
        (
            HEAD + "subject = Contract(rounding='twice')",
            "Contract.rounding is 'twice'; it must be one of once, llama (kernels_of_mine.py, line 2)",
        ),
        (HEAD + "subject = Contract(dtypes='float16')", "Contract.dtypes is 'float16'"),
        (HEAD + "subject = Contract(dtypes=('float8',))", "Contract.dtypes is ('float8',)"),
        (HEAD + "subject = Contract(in_place={'y': 'weight'})", "says 'y' takes the place of 'weight'"),
        (HEAD + "subject = Contract(weight_offset=float('nan'))", "Contract.weight_offset is nan"),
        (HEAD + "subject = Contract(max_hidden_size=0)", "Contract.max_hidden_size is 0"),
        (HEAD + "subject = Contract()", "is Contract; it must be, or return, a conformance.Subject"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """A file that raises, exits, does not parse or declares what does not exist."""
    assert said in refusal(written(tmp_path, text))
