"""Import of `jsonschema` without its slow parsers, with the same results."""

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
QUICK = "from jp_nb.jsonschema_import import delay_parsers\nwith delay_parsers(): "
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
    """Run `script` without the search path of the tests, which delays the parsers, too."""
    script = f"import sys; sys.path.insert(0, {str(folder)!r})\n{script}"
    command = [sys.executable, "-E", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@pytest.fixture
def parsers(tmp_path: Path) -> Path:
    """Return a folder with parsers that print when they are built, and accept one address."""
    (tmp_path / "rfc3987_syntax.py").write_text(PARSERS)
    return tmp_path


def test_parsers_are_built_when_an_address_is_checked(parsers: Path) -> None:
    assert printed(parsers, CHECK) == ["parsers built", "loaded", "True False"]
    quick = printed(parsers, f"{QUICK}import jsonschema\n{CHECK}")
    assert quick == ["loaded", "parsers built", "True False"]


def test_parsers_can_be_imported_by_others(parsers: Path) -> None:
    script = f"{QUICK}import jsonschema\nimport rfc3987_syntax as parsers; print(parsers.__file__)"
    assert printed(parsers, script) == ["parsers built", str(parsers / "rfc3987_syntax.py")]
    script = f"import rfc3987_syntax\n{QUICK}import rfc3987_syntax as again\nprint(again.__file__)"
    assert printed(parsers, script) == ["parsers built", str(parsers / "rfc3987_syntax.py")]


def test_addresses_are_not_checked_without_the_parsers(tmp_path: Path) -> None:
    assert printed(tmp_path, f"{NOT_INSTALLED}{QUICK}import jsonschema\n{CHECK}") == [
        "loaded",
        "True True",
    ]


def test_commands_do_not_build_the_parsers(parsers: Path) -> None:
    script = "from jp_nb import cli; cli.main(['show', 'no-such.ipynb']); import nbformat"
    assert printed(parsers, script) == []
