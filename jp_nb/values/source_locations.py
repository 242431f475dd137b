"""Recognize code of the user, and format its location as cell or file, with the line.

Source: `docs/values.md`.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from functools import cache
from typing import Final

_CELL: Final = re.compile(r"<ipython-input-.*>|<stdin>|.*[/\\]ipykernel_\d+[/\\]\d+\.py")
"""File names that IPython and ipykernel give to the code of cells."""


def is_cell_file(path: str) -> bool:
    """Return True if `path` is the file name of a cell's code."""
    return _CELL.fullmatch(path) is not None


def is_own_code(path: str) -> bool:
    """Return True for a cell, or a file outside of Python, installed packages, and `jp_nb`."""
    if is_cell_file(path):
        return True
    if path.startswith("<"):
        return False
    if not os.path.isabs(path) and not os.path.exists(path):
        return False  # for example the source of a compiled extension module
    return not os.path.abspath(path).startswith(_package_folders())


@cache
def _package_folders() -> tuple[str, ...]:
    """Return the folders of Python, of installed packages, and of `jp_nb`, each with a slash."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.join(folder, "") for folder in folders)


def format_location(path: str, line: int) -> str:
    """Return cell and line, or file and line. Paths in the working directory are relative."""
    if is_cell_file(path):
        return f"{_format_notebook_cell(path)}, line {line}"
    if path.startswith("<"):
        return f"line {line}"

    folder = os.path.join(os.getcwd(), "")
    full = os.path.abspath(path)
    name = full.removeprefix(folder) if full.startswith(folder) else os.path.basename(path)
    return f"{name}, line {line}"


def _format_notebook_cell(path: str) -> str:
    """Return `Cell In[N]`, as in IPython's tracebacks; `a cell` if the number is not known."""
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    # IPython keeps the numbers of cells in a private attribute of its compiler.
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    number = numbers.get(path) if isinstance(numbers, dict) else None
    return "a cell" if number is None else f"Cell In[{number}]"
