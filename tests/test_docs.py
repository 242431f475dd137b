"""Pages in `docs/`: names in them exist, and links resolve."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import jp_nb
from jp_nb import _MODULES
from jp_nb.notebook.ask_options import ASK_OPTIONS
from jp_nb.notebook.subcommands import SUBCOMMANDS
from tests.kit.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCES = sorted(
    path
    for folder in ("jp_nb", "tests", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".js") and path != Path(__file__)
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
FILE = re.compile(r"`((?:jp_nb|js|tests|docs|notebooks|binder|\.ci)/[\w./*-]*)`")
BOUND = re.compile(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| `(jp_nb/[\w/]+\.py)` \|$", re.M)
DECISION = re.compile(r"\bD(\d{1,3})\b")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def without_code(page: str) -> str:
    return re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as code hosts create them."""
    titles = re.findall(r"^#+ (.*)$", without_code(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def decided() -> set[str]:
    return set(re.findall(r"^\| D(\d+) \|", text_of(ROOT / "docs/decisions.md"), re.M))


def broken_links(page: Path) -> Iterator[str]:
    for match in LINK.finditer(without_code(text_of(page))):
        target, _, anchor = (match[1] or match[2]).partition("#")
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        found = (page.parent / target).resolve() if target else page
        if not found.is_file() or (anchor and anchor not in anchors(text_of(found))):
            yield f"{name(page)} links to {match[1] or match[2]}"


def test_links_between_pages_resolve() -> None:
    assert not [broken for page in PAGES for broken in broken_links(page)]


def test_pages_name_only_tests_that_exist() -> None:
    assert not [
        f"{name(page)} names {path}::{test}"
        for page in PAGES
        for path, test in TEST.findall(text_of(page))
        if not (ROOT / path).exists() or f"def {test}(" not in text_of(ROOT / path)
    ]


def test_pages_name_only_files_that_exist() -> None:
    assert not [
        f"{name(page)} names {match[1]}"
        for page in PAGES
        for match in FILE.finditer(text_of(page))
        if not list(ROOT.glob(match[1].rstrip("/")))
    ]


def test_pages_name_only_recorded_decisions() -> None:
    assert not [
        f"{name(page)} names D{number}"
        for page in PAGES
        for number in sorted(set(DECISION.findall(text_of(page))) - decided())
    ]


def broken_references(source: Path) -> Iterator[str]:
    text = text_of(source)
    for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text):
        if not (ROOT / page).exists():
            yield f"{name(source)} names {page}"
    if source.is_relative_to(ROOT / "jp_nb"):
        for number in sorted(set(DECISION.findall(text)) - decided()):
            yield f"{name(source)} names D{number}"
        for tests in re.findall(r"\btests/[\w/-]+\.\w+", text):
            if not (ROOT / tests).exists():
                yield f"{name(source)} names {tests}"
    for found in re.findall(r"\(sections? \d[^)]*\)|\bsection \d+\.\d+|\bA1\d\b", text):
        yield f"{name(source)} names a section of no page: {found}"
    for found in re.findall(r"^\s*Source:\s*(\S+)", text, re.M):
        if not re.match(r"`?docs/|https?://|RFC|RFD|`jp_nb/|`tests/", found):
            yield f"{name(source)} has a source that a reader cannot open: {found}"


def test_code_refers_only_to_pages_decisions_and_files_that_exist() -> None:
    assert not [broken for source in SOURCES for broken in broken_references(source)]


def test_docstring_examples_of_public_names_pass(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each example sets it, and IPython then leaves `_` alone, in the whole process.
    monkeypatch.setattr(builtins, "_", None, raising=False)
    for module in sorted({*_MODULES.values(), "jp_nb", "jp_nb.errors"}):
        with subtests.test(module=module):
            assert doctest.testmod(importlib.import_module(module)).failed == 0


def bounds_of(file: Path) -> list[str]:
    targets = [
        each.target if isinstance(each, ast.AnnAssign) else each.targets[0]
        for each in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(each, ast.Assign | ast.AnnAssign)
    ]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if name.startswith(("MAX_", "_MAX_"))]


def format_bound(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "by name"


def test_page_lists_each_bound_with_its_value() -> None:
    expected = set()
    for file in (ROOT / "jp_nb").rglob("*.py"):
        path = file.relative_to(ROOT).as_posix()
        for name in bounds_of(file):
            module = importlib.import_module(
                path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            )
            expected.add((name, format_bound(getattr(module, name)), path))
    rows = BOUND.findall((ROOT / "docs" / "bounds.md").read_text(encoding="utf-8"))
    assert len(rows) == len(set(rows))
    assert set(rows) == expected, "add, remove, or change these rows of docs/bounds.md"


# --- the reference ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """The module that generates parts of the reference; it is not in a package."""
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs/generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parts(page: str) -> Iterator[str]:
    return (match[1] for match in re.finditer(r"^<!-- generated: (\w+) -->$", page, re.M))


def test_each_generated_part_is_on_one_page(generated: ModuleType) -> None:
    assert sorted(part for page in PAGES for part in parts(text_of(page))) == sorted(
        generated.PARTS
    )


def test_reference_pages_are_current(generated: ModuleType) -> None:
    names = [path.name for path, _ in generated.outdated()]
    assert not names, f"not current: {', '.join(names)}. Run `python docs/generated.py`."


def test_reference_lists_each_public_name(generated: ModuleType) -> None:
    listed = generated.python()
    for name in set(jp_nb.__all__) - {"last", "Outcome"}:
        assert f"## `jp.{name}`\n" in listed


def test_reference_lists_each_setting(generated: ModuleType) -> None:
    listed = generated.settings()
    paths = generated.setting_paths()
    assert len(paths) > 150
    for path in Settings.list_paths():
        name = path.removesuffix(".*")  # of a map only its own name is listed
        assert f"`{name}`" in listed, name


def test_reference_lists_each_magic(generated: ModuleType) -> None:
    listed = generated.magics()
    for option in ASK_OPTIONS:
        assert all(f"`{flag}" in listed or f", {flag}" in listed for flag in option.flags)
    for subcommand in SUBCOMMANDS.values():
        assert f"`{subcommand.name}" in listed
        assert all(option.flags[0] in listed for option in subcommand.options)


def test_reference_lists_the_command_line(generated: ModuleType) -> None:
    listed = generated.command_line()
    for command in ("demo", "run", "check", "show", "import", "export", "trust", "doctor"):
        assert f"## `jp-nb {command}`" in listed
    for option in ("--strict", "--continue", "--dialect", "--revoke", "-c, --cfg"):
        assert f"`{option}`" in listed
