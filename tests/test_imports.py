"""Imports of the packages: allowed packages and libraries, and loaded modules."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import jp_nb

PACKAGE = Path(jp_nb.__file__).parent
JUPYTER = {"IPython", "ipykernel", "ipywidgets", "anywidget", "comm", "zmq"}
HTTP = {"httpx", "httpx2"}
MCP = {"mcp", "mcp_types", "anyio"}
GROUND = {
    "errors",
    "json_values",
    "json_limits",
    "json_reading",
    "json_writing",
    "storable_json",
    "json_schema",
    "schema_loops",
    "packages",
    "jsonschema_import",
    "image_headers",
    "exact_form",
    "daemon_threads",
    "object_text",
    "type_schemas",
    "finite_schemas",
    "text",
    "images",
    "pdf_pages",
    "file_reading",
    "file_writing",
}
BELOW = {
    **dict.fromkeys(GROUND, GROUND),
    "config": GROUND,
    "record": GROUND | {"config"},
    "interop": GROUND | {"config", "record"},
    "values": GROUND,
    "toolkit": GROUND | {"config", "record", "values"},
    "mcp": GROUND | {"config", "record", "values", "toolkit"},
    "agent": GROUND | {"config", "record", "values", "toolkit"},
    "providers": GROUND | {"config", "record", "toolkit", "agent"},
    "storage": GROUND | {"config", "record", "values", "toolkit", "agent"},
    "rendering": GROUND | {"config", "record", "values", "toolkit", "agent", "storage"},
}
"""The packages of `jp_nb`, from low to high, and the packages that each may import."""
BELOW["session"] = set(BELOW) - {"interop"}
MCP_SERVER = {
    "headless/tool_server/mcp_server.py",
    "headless/tool_server/question_exchange.py",
    "headless/tool_server/served_results.py",
    "headless/tool_server/stdio_service.py",
    "headless/tool_server/http_service.py",
}
"""The modules that offer tools to other programs: the server, and how it reaches its clients."""
BELOW["notebook"] = set(BELOW)
BELOW["headless"] = set(BELOW) - {"notebook"}
BELOW["batch"] = set(BELOW)
CORE = GROUND | {"config", "record", "interop", "values", "toolkit", "agent"}
"""Packages that need only the standard library and pydantic."""
LIBRARIES = {
    "toolkit/command_tools/templates.py": {"jinja2", "markupsafe"},
    "jsonschema_import.py": {"rfc3987_syntax"},
    "toolkit/arguments/misfits.py": {"jsonschema", "referencing"},
    "toolkit/question_types/bounded_validator.py": {"attrs", "jsonschema", "referencing"},
    "toolkit/question_types/server_schema_checks.py": {"jsonschema"},
}
"""Additional libraries of modules of the core."""


@dataclass(frozen=True)
class Module:
    """A module of the package, with its imports, also those inside functions."""

    name: str
    path: str
    imports: frozenset[str]

    @property
    def room(self) -> str:
        """The folder below `jp_nb/`, or the name of a module directly in it."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def libraries(self) -> set[str]:
        tops = {name.split(".")[0] for name in self.imports}
        return tops - set(sys.stdlib_module_names) - {"jp_nb", "__future__"}

    @property
    def internal(self) -> set[str]:
        return {name for name in self.imports if name.startswith("jp_nb.")}


@cache
def modules() -> list[Module]:
    """Return all modules of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    names = {path: _name(path) for path in paths}
    known = set(names.values())
    return [
        Module(name, path.relative_to(PACKAGE).as_posix(), frozenset(_imports(path, known)))
        for path, name in names.items()
    ]


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def syntax(path: Path) -> ast.Module:
    """Return the syntax tree of the file at `path`."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(path: Path, known: set[str]) -> Iterator[str]:
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module or ""


def test_rooms_import_only_lower_rooms() -> None:
    assert not [
        f"{module.path} imports {name}"
        for module in modules()
        if module.room in BELOW
        for name in sorted(module.internal)
        if name.split(".")[1] not in BELOW[module.room] | {module.room}
    ]


def test_libraries_are_imported_only_in_their_rooms() -> None:
    assert not [
        f"{module.path} imports {name}"
        for module in modules()
        for name in sorted(module.libraries)
        if not _may_import(module, name)
    ]


def _may_import(module: Module, library: str) -> bool:
    if module.room in CORE:
        return library in {"pydantic", "pydantic_core", *LIBRARIES.get(module.path, ())}
    if library in MCP:
        return module.room == "mcp" or module.path in MCP_SERVER
    if library in HTTP:
        return module.path == "providers/network/http.py" or (library, module.room) == (
            "httpx2",
            "mcp",
        )
    return library not in JUPYTER or module.room == "notebook"


def test_modules_have_no_circular_imports() -> None:
    names = {module.name for module in modules()}
    graph = {module.name: module.internal & names for module in modules()}
    graph = {name: targets - {name} for name, targets in graph.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as exc:
        pytest.fail(" -> ".join(reversed(exc.args[1])))


def test_folders_of_a_room_have_no_circular_imports() -> None:
    graph: dict[str, set[str]] = {}
    for module in modules():
        folder = _folder(module.name)
        graph.setdefault(folder, set()).update(map(_folder, module.internal))

    # A module beside the folders of its room is used by these, and uses them.
    inner = {folder: {each for each in graph[folder] if "." in each} for folder in graph}
    try:
        TopologicalSorter({name: inner[name] - {name} for name in inner if "." in name}).prepare()
    except CycleError as exc:
        pytest.fail(" -> ".join(reversed(exc.args[1])))


def _folder(module: str) -> str:
    """Return the room of a module and the folder in it: `agent.calls`, or `agent`."""
    parts = module.split(".")[1:]
    names = parts[:2] if (PACKAGE / "/".join(parts[:2])).is_dir() else parts[:1]
    return ".".join(names)


def test_file_names_are_unique() -> None:
    # These say what they hold in each package.
    shared = {"__init__.py", "base.py", "errors.py", "files.py", "host.py"}
    names = Counter(path.name for path in PACKAGE.rglob("*.py"))
    assert {name for name, times in names.items() if times > 1} <= shared


def test_class_names_are_unique() -> None:
    classes = [
        node.name
        for module in modules()
        for node in ast.walk(syntax(PACKAGE / module.path))
        if isinstance(node, ast.ClassDef)
    ]
    assert not [name for name, times in Counter(classes).items() if times > 1]


def test_test_modules_do_not_import_each_other() -> None:
    tests = Path(__file__).parent
    for path in tests.rglob("*.py"):
        found = re.findall(r"^from (tests\S*\.test_\w+) import", path.read_text("utf-8"), re.M)
        assert not found, path


def loaded(code: str) -> set[str]:
    """Return the top-level modules that are loaded after `code` ran in a new process."""
    script = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.req("R-MCP-1")
def test_import_of_the_package_is_light() -> None:
    found = loaded("import jp_nb; assert jp_nb.last is None; dir(jp_nb)")
    assert not found & {*JUPYTER, *HTTP, *MCP, "pydantic", "nbformat", "nbclient"}


def test_tools_can_be_defined_without_jupyter() -> None:
    code = """
import jp_nb as jp
@jp.tool
def f(a: int) -> str: return ''
assert [tool.name for tool in jp.tools()] == ['f']
from jp_nb.toolkit.question import Question
assert jp.tools() == (f,)
"""
    assert not loaded(code) & {*JUPYTER, *HTTP}


@pytest.mark.req("RCP-95")
def test_rooms_below_the_notebook_import_no_jupyter() -> None:
    names = [m.name for m in modules() if m.room in {*CORE, "storage", "rendering", "session"}]
    code = "\n".join(f"import {name}" for name in names)
    assert not loaded(code) & {*JUPYTER, *HTTP}


@pytest.mark.req("R-MCP-1")
def test_load_ext_imports_neither_httpx_nor_widgets() -> None:
    found = loaded("import jp_nb.notebook.extension")
    assert not found & {*HTTP, *MCP, "ipywidgets", "anywidget"}


def test_load_ext_with_configuration_imports_no_settings_of_turns(tmp_path: Path) -> None:
    (tmp_path / ".jp").mkdir()
    (tmp_path / ".jp" / "config.toml").write_text('[assistant.model]\nid = "scripted/welcome"\n')
    code = f"""
import os
os.chdir({str(tmp_path)!r})
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().run_line_magic("load_ext", "jp_nb")
print(*sys.modules)
"""
    found = loaded(code)
    assert "jp_nb.session.configuration.base_config" in found
    assert not found & {
        "jp_nb.session.configuration.settings",
        "jp_nb.agent",
        "jp_nb.values",
        "tomlkit",
    }


def test_every_public_name_exists() -> None:
    assert not [name for name in jp_nb.__all__ if not hasattr(jp_nb, name)]


MAX_INTERNAL_NAMES = 150
"""The most internal names that tests outside the kit import. Lower it, and do not raise it."""


def test_tests_import_few_internal_names() -> None:
    names: set[str] = set()
    folder = Path(__file__).parent
    for path in folder.rglob("*.py"):
        if folder / "kit" not in path.parents:
            names.update(_list_internal_names(path))
    assert len(names) <= MAX_INTERNAL_NAMES, "use the public API or `tests/kit`: CONTRIBUTING.md"


def _list_internal_names(path: Path) -> Iterator[str]:
    for node in ast.walk(syntax(path)):
        match node:
            case ast.ImportFrom(module="jp_nb", names=names):
                modules = (alias.name for alias in names if alias.name not in jp_nb.__all__)
                yield from (f"jp_nb.{name}" for name in modules)
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("jp_nb."):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.startswith("jp_nb."))


def test_code_in_texts_of_tests_names_what_exists() -> None:
    """Kernels of tests execute texts, in tiers that the plain run does not have."""
    missing: list[str] = []
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                missing += (f"{path.name}: {name}" for name in _find_missing_names(node.value))
    assert not missing


def _find_missing_names(text: str) -> Iterator[str]:
    """Yield the names of `jp_nb` that the code in `text` uses and that do not exist."""
    if "jp_nb." not in text or "import" not in text:
        return
    try:
        code = ast.parse(textwrap.dedent(text))
    except SyntaxError:  # no code, or the text of a cell with magics
        return

    modules: dict[str, ModuleType] = {}
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("jp_nb."):
            yield from _import_names(node, modules)

    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None and not hasattr(module, node.attr):
                yield f"{module.__name__}.{node.attr}"


def _import_names(node: ast.ImportFrom, modules: dict[str, ModuleType]) -> Iterator[str]:
    """Yield the names that `node` cannot import, and add imported modules to `modules`."""
    for alias in node.names:
        value = _import_name(str(node.module), alias.name)
        if value is None:
            yield f"{node.module}.{alias.name}"
        elif isinstance(value, ModuleType):
            modules[alias.asname or alias.name] = value


def _import_name(module: str, name: str) -> object:
    """Return the attribute or module `name` of `module`; None if there is none."""
    try:
        found = import_module(module)
        return getattr(found, name) if hasattr(found, name) else import_module(f"{module}.{name}")
    except ImportError:
        return None


MAX_KIT_NAMES = 60
"""The most public names of the kit, which an engineer learns. Prefer a method of a kit object."""


def test_kit_has_few_names_and_lists_them() -> None:
    names: dict[str, str | None] = {}
    kit = Path(__file__).parent / "kit"
    for path in kit.glob("[!_]*.py"):
        # Notebooks in kernels run these as their first cell; tests do not import them.
        if not path.stem.endswith("_in_cell"):
            names.update(_find_public_names(path))

    assert len(names) <= MAX_KIT_NAMES, "add a method to an object of the kit: CONTRIBUTING.md"
    assert not [name for name, docstring in names.items() if not docstring]

    text = ast.get_docstring(syntax(kit / "__init__.py")) or ""
    lines = re.findall(r"^    (`.+?`): ", text, re.MULTILINE)
    assert sorted(names) == sorted(re.findall(r"`(.+?)`", " ".join(lines)))


def _find_public_names(path: Path) -> Iterator[tuple[str, str | None]]:
    for node in syntax(path).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not node.name.startswith("_"):
            yield f"{path.stem}.{node.name}", ast.get_docstring(node)


def test_preloaded_modules_exist() -> None:
    template = import_module("jp_nb.headless.kernels.fork_server")
    assert set(template.TURN_MODULES) <= {module.name for module in modules()}
