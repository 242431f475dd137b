"""`jsonschema` is imported without its slow parsers, and checks the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PARSERS = """
print("parsers built")
def is_valid_syntax(term, value):
    return (term, value) == ("iri", "right")
"""
QUICK = "from jp_nb.jsonschema_import import without_parsers\nwith without_parsers(): "
CHECK = """
from jsonschema import Draft202012Validator as Validator
check = Validator({"format": "iri"}, format_checker=Validator.FORMAT_CHECKER)
print("loaded")
print(check.is_valid("right"), check.is_valid("wrong"))
"""

NOT_INSTALLED = """
from importlib.machinery import PathFinder
class Others(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "rfc3987_syntax" else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Others
"""


def printed(folder: Path, script: str) -> list[str]:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@pytest.fixture
def parsers(tmp_path: Path) -> Path:
    """A folder with parsers that say when they are built, and know one right address."""
    (tmp_path / "rfc3987_syntax.py").write_text(PARSERS)
    return tmp_path


def test_parsers_are_built_when_an_address_is_checked_and_find_the_same(parsers: Path) -> None:
    assert printed(parsers, CHECK) == ["parsers built", "loaded", "True False"]
    quick = printed(parsers, f"{QUICK}import jsonschema\n{CHECK}")
    assert quick == ["loaded", "parsers built", "True False"]


def test_the_parsers_themselves_are_there_for_others(parsers: Path) -> None:
    script = f"{QUICK}import jsonschema\nimport rfc3987_syntax as parsers; print(parsers.__file__)"
    assert printed(parsers, script) == ["parsers built", str(parsers / "rfc3987_syntax.py")]
    script = f"import rfc3987_syntax\n{QUICK}import rfc3987_syntax as again\nprint(again.__file__)"
    assert printed(parsers, script) == ["parsers built", str(parsers / "rfc3987_syntax.py")]


def test_where_there_are_no_parsers_no_address_is_checked(tmp_path: Path) -> None:
    assert printed(tmp_path, f"{NOT_INSTALLED}{QUICK}import jsonschema\n{CHECK}") == [
        "loaded",
        "True True",
    ]


def test_commands_read_notebooks_without_parsers(parsers: Path) -> None:
    script = "from jp_nb import cli; cli.main(['show', 'no-such.ipynb']); import nbformat"
    assert printed(parsers, script) == []
