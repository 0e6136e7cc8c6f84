"""Who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import resolve_name
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent
FOLDERS = {
    "conformance": "conformance",
    "conformance.kernels": "kernels",
    "conformance.reference": "reference",
    "conformance.reports": "reports",
    "conformance.suites": "suites",
}


def modules() -> dict[str, Path]:
    """Every module of the package, by name."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(name: str, *, at_import: bool) -> set[str]:
    """Modules that a module names in its imports; `at_import`: only those that importing it runs."""
    found: set[str] = set()
    pending: list[ast.AST] = list(ast.parse(MODULES[name].read_text()).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = (
                resolve_name("." * node.level + (node.module or ""), name)
                if node.level
                else node.module or ""
            )
            inner = {f"{source}.{alias.name}" for alias in node.names} & set(MODULES)
            found |= inner or {source}
        elif (at_import and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))) or (
            at_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ):
            continue
        else:
            pending.extend(ast.iter_child_nodes(node))
    return found


def package_of(name: str) -> str:
    """The room that a module belongs to."""
    return max((package for package in FOLDERS if f"{name}.".startswith(f"{package}.")), key=len)


@pytest.mark.parametrize("package", ["conformance.reports", "conformance.reference", "conformance.kernels"])
def test_the_lower_rooms_know_nothing_of_the_rest(package: str) -> None:
    """reports, reference and kernels import nothing of the project but themselves."""
    for name in MODULES:
        if package_of(name) == package:
            ours = {each for each in imports(name, at_import=False) if each.split(".")[0] == "conformance"}
            assert {package_of(each) for each in ours} <= {package}, name


def test_kernels_need_only_torch_and_triton() -> None:
    """Beside the standard library."""
    for name in MODULES:
        if package_of(name) == "conformance.kernels":
            outside = {each.split(".")[0] for each in imports(name, at_import=False)} - set(
                sys.stdlib_module_names
            )
            assert outside <= {"torch", "triton", "conformance"}, name


def test_suites_state_cases_and_touch_no_device() -> None:
    """A suite knows cases, clauses and operations, and neither torch nor numpy."""
    allowed = {"conformance.case", "conformance.catalogue", "conformance.clause", "conformance.operation"}
    for name in MODULES:
        if package_of(name) == "conformance.suites":
            foreign = {
                each
                for each in imports(name, at_import=False)
                if package_of_or_none(each) != "conformance.suites"
            }
            assert {
                each for each in foreign if each.split(".")[0] not in sys.stdlib_module_names
            } <= allowed, name


def package_of_or_none(name: str) -> str:
    return package_of(name) if name.split(".")[0] == "conformance" else ""


def test_no_module_imports_itself_in_a_circle() -> None:
    """What importing a module runs never leads back to it."""
    graph = {name: imports(name, at_import=True) & set(MODULES) for name in MODULES}
    settled: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in settled:
            for other in sorted(graph[name]):
                follow(other, (*path, name))
            settled.add(name)

    for name in graph:
        follow(name, ())


def test_pytests_own_process_imports_no_torch() -> None:
    """Plugin, session, command line and catalogue list, store and report without torch, triton and numpy."""
    names = [
        "conformance",
        "conformance.plugin",
        "conformance.session",
        "conformance.cli",
        "conformance.recorder",
    ]
    code = (
        f"import sys, {', '.join(names)}\n"
        "from conformance.catalogue import all_cases\nall_cases()\n"
        "print(*{'torch', 'triton', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
