"""The borders of the rooms, and what importing loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jp_nb

PACKAGE = Path(jp_nb.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
JUPYTER = {"IPython", "ipykernel", "ipywidgets", "anywidget", "comm", "zmq"}
CORE = {
    "errors": {"errors"},
    "config": {"errors", "config"},
    "record": {"errors", "config", "record"},  # config for the projection and the read-only view
    "tools": {"errors", "config", "record", "tools"},
    "agent": {"errors", "config", "record", "tools", "agent"},
}
LIBRARIES = {"tools/templates.py": {"jinja2", "markupsafe"}}
"""What one module of the core needs besides."""
EDGES = {"providers", "notebook", "headless"}
SHARED = {
    "jp_nb.workspace.variables",
    "jp_nb.notebook.document.carrier_store",
    "jp_nb.interop.jp_directories",
}
"""What a kernel and a runner agree on: names of variables, forms of the carrier, JP's folders."""
COMPOSITION = {
    "notebook/session.py",
    "notebook/turns.py",
    "notebook/resolving.py",
    "notebook/magics.py",
    "cli.py",
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Every module that `path` imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in names if _is_module(name)]
            yield from modules if len(modules) == len(names) else [node.module or "", *modules]


def _is_module(name: str) -> bool:
    place = PACKAGE.parent.joinpath(*name.split("."))
    return name.startswith("jp_nb.") and (place.is_dir() or place.with_suffix(".py").is_file())


def rooms_used(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("jp_nb.")}


def libraries(path: Path) -> set[str]:
    tops = {name.split(".")[0] for name in imports(path)}
    return tops - set(sys.stdlib_module_names) - {"jp_nb", "__future__"}


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) in CORE], ids=name_of)
def test_the_core_imports_the_standard_library_pydantic_and_rooms_below(path: Path) -> None:
    allowed = {"pydantic", "pydantic_core"} | LIBRARIES.get(name_of(path), set())
    assert libraries(path) <= allowed
    assert rooms_used(path) <= CORE[room_of(path)]


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) in EDGES], ids=name_of)
def test_an_edge_imports_no_other_edge(path: Path) -> None:
    if name_of(path) in COMPOSITION:
        return
    others = EDGES - {room_of(path)}
    found = {
        name for name in imports(path) if name.split(".")[1:2] and name.split(".")[1] in others
    }
    assert not {name for name in found if name.startswith("jp_nb.")} - SHARED


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_httpx_and_jupyter_each_stay_in_their_room(path: Path) -> None:
    found = libraries(path)
    if name_of(path) != "providers/http.py":
        assert "httpx" not in found
    if room_of(path) != "notebook":
        assert not found & JUPYTER


def loaded(code: str) -> set[str]:
    """Top-level modules that are loaded after `code` ran in a process of its own."""
    script = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    found = loaded("import jp_nb; assert jp_nb.last is None; dir(jp_nb)")
    assert not found & {*JUPYTER, "httpx", "pydantic", "nbformat", "nbclient"}


def test_a_tool_needs_no_jupyter() -> None:
    code = """
import jp_nb as jp
@jp.tool
def f(a: int) -> str: return ''
assert [tool.name for tool in jp.tools()] == ['f']
from jp_nb.tooling.question import Question
assert jp.tools() == (f,)
"""
    assert not loaded(code) & {*JUPYTER, "httpx"}


def test_what_runners_share_with_kernels_needs_no_jupyter() -> None:
    code = "\n".join(f"import {name}" for name in sorted(SHARED))
    assert not loaded(code) & {*JUPYTER, "httpx"}


def test_the_magics_load_neither_the_network_nor_widgets() -> None:
    found = loaded("import jp_nb.notebook.magics")
    assert not found & {"httpx", "ipywidgets", "anywidget"}


@pytest.mark.parametrize("name", jp_nb.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert hasattr(jp_nb, name)
