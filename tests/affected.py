"""Print the tests to run for a change: `python -m tests.affected [FILE …]`.

Without files, the change is what differs from the branch `main`, committed or not. The tests of a
changed module of `jp_nb` are the test modules that import it or one of the modules that import it,
also through helpers of the tests, those that have its name, and those that every change needs. If
no test imports these modules, the next ones that import them count as well. The name of a page in
`docs/` leads to the tests of the documentation.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ("tests/test_imports.py", "tests/test_messages.py", "tests/test_docs.py")
"""Tests of the whole package: imports, sentences for users, and names in the documentation."""
FUNCTION_BY_NAME = re.compile(r"([a-z_.]+):[a-z_]+")
TIERS = ("kernel", "browser", "runners", "deep")


def main(arguments: Iterable[str]) -> int:
    """Print the commands for the files in `arguments`, or for the change since `main`."""
    changed = [*arguments] or [*changed_files()]
    if not changed:
        print("nothing has changed since main")
        return 0

    unknown = [each for each in changed if not (ROOT / each).exists()]
    for each in unknown:
        print(f"# {each} does not exist (any more)")
    tests = sorted(find_tests(changed))
    print(f"pytest {' '.join(tests)}")
    for tier in TIERS:
        of_tier = [each for each in tests if f"mark.{tier}" in _read(each)]
        if of_tier:
            print(f"pytest -m {tier} {' '.join(of_tier)}")
    return 0


def changed_files() -> Iterator[str]:
    """Yield the files that differ from `main`, relative to the checkout."""
    for command in (
        ["git", "diff", "--name-only", "--merge-base", "main"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    ):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        yield from done.stdout.splitlines()


def find_tests(changed: Iterable[str]) -> set[str]:
    """Return the test modules for the `changed` files, relative to the checkout."""
    found = {*ALWAYS}
    for name in changed:
        path = Path(name)
        if path.suffix != ".py":
            continue
        by_name = find_by_name(path)
        found |= by_name
        found |= find_users(module_name(path), follows_tables=not by_name)
        if path.name.startswith("test_") and (ROOT / path).exists():
            found.add(name)
    return found


def find_users(module: str, *, follows_tables: bool = False) -> set[str]:
    """Return the test modules that import `module` or one of the modules that import it.

    If no test imports those, the modules that import these count as well, and so on. With
    `follows_tables`, a module without an importer is followed to the tables that name it.
    """
    users = {module}
    while True:
        added = find_importers(users, imports)
        if not added and follows_tables:
            added = find_importers(users, named_modules)

        users |= added
        found = find_importing(users) - {*ALWAYS}
        if found or not added:
            return found


def find_importers(
    modules: Collection[str], find_names: Callable[[Path], frozenset[str]]
) -> set[str]:
    """Return the other modules of `jp_nb` in which `find_names` finds one of `modules`."""
    return {
        name
        for name, path in package().items()
        if name not in modules and not find_names(path).isdisjoint(modules)
    }


def find_by_name(path: Path) -> set[str]:
    """Return the test modules that have the name of the module at `path`."""
    if path.parts[0] != "jp_nb" or path.stem == "__init__":
        return set()
    names = ROOT.glob(f"tests/**/test_{path.stem}*.py")
    return {each.relative_to(ROOT).as_posix() for each in names}


def find_importing(modules: Collection[str]) -> set[str]:
    """Return the test modules that import one of `modules`, perhaps through other test modules."""
    found: set[str] = set()
    wanted = {*modules}
    while True:
        more = {
            module
            for module, path in modules_of_tests().items()
            if module not in wanted and not wanted.isdisjoint(imports(path))
        }
        if not more:
            return found
        wanted |= more
        for module in more:
            path = modules_of_tests()[module]
            if path.name.startswith("test_"):
                found.add(path.relative_to(ROOT).as_posix())


def module_name(path: Path) -> str:
    """Return the dotted name of the module at `path`, relative to the checkout."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def package() -> dict[str, Path]:
    """Return the modules of `jp_nb`, by name."""
    return {module_name(each.relative_to(ROOT)): each for each in ROOT.glob("jp_nb/**/*.py")}


@cache
def modules_of_tests() -> dict[str, Path]:
    """Return the modules of the tests, by name."""
    return {module_name(each.relative_to(ROOT)): each for each in ROOT.glob("tests/**/*.py")}


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the names of the modules that the module at `path` imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return frozenset(found)


@cache
def named_modules(path: Path) -> frozenset[str]:
    """Return the modules that a table in the module at `path` names, to import them later.

    A table names them with a function: `commands.rules:show_rules`.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            function = FUNCTION_BY_NAME.fullmatch(node.value)
            if function is not None:
                end = f".{function[1]}"
                found |= {name for name in package() if name.endswith(end)}
    return frozenset(found)


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
