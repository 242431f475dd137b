"""Says where code stands: in a cell, or in a file, but not where on this machine that lies.

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


def is_cell_file(path: str) -> bool:
    """Return True if `path` is what a cell's code is compiled under."""
    return _CELL.fullmatch(path) is not None


def is_own_code(path: str) -> bool:
    """Return True for code of the user: not of Python, an installed package or this one."""
    if is_cell_file(path):
        return True
    if path.startswith("<"):
        return False
    if not os.path.isabs(path) and not os.path.exists(path):
        return False  # as what compiled modules were made of
    return not os.path.abspath(path).startswith(_foreign_folders())


@cache
def _foreign_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.join(folder, "") for folder in folders)


def place_of(path: str, line: int) -> str:
    """Return a line of code by its cell, or its file: its path from here, else its name."""
    if is_cell_file(path):
        return f"{_cell_name(path)}, line {line}"
    if path.startswith("<"):
        return f"line {line}"
    folder = os.path.join(os.getcwd(), "")
    full = os.path.abspath(path)
    name = full.removeprefix(folder) if full.startswith(folder) else os.path.basename(path)
    return f"{name}, line {line}"


def _cell_name(path: str) -> str:
    """Return `Cell In[N]`, as tracebacks do, if IPython knows that number, else `a cell`."""
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    number = numbers.get(path) if isinstance(numbers, dict) else None
    return "a cell" if number is None else f"Cell In[{number}]"
