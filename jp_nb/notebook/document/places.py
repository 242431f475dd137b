"""Name the program around a kernel, and say why no notebook keeps the record there.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jp_nb.notebook.document.refusals import NO_PAGE
from jp_nb.workspace import variables

VS_CODE_FILE: Final = "__vsc_ipynb_file__"
"""The variable by which VS Code tells a kernel the path of its notebook.

Source: https://github.com/microsoft/vscode-jupyter/pull/8531
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The program around a kernel.

    Attributes:
        name: Its name, for the user.
        why_not: Why no notebook keeps the record, unless a page of it answers.
        may_have_page: Whether a page with the jp-nb extension may answer.
    """

    name: str
    why_not: str
    may_have_page: bool = False


TERMINAL: Final = Place("IPython in a terminal", "IPython in a terminal has no notebook")
COLAB: Final = Place(
    "Google Colab",
    "Google Colab does not store conversations in notebooks, and it deletes this machine after "
    "the session (`%jp export DIR` saves a copy)",
)
VS_CODE: Final = Place("VS Code", "VS Code does not store conversations in notebooks")
PAGE: Final = Place("a page without the jp-nb extension", NO_PAGE, may_have_page=True)
CONSOLE: Final = Place("a console or program", "a console or program has no notebook")


def place_of(kernel: Any, user_ns: Mapping[str, Any]) -> Place:
    """Return the place of `kernel`, None: there is none; on the cell's thread."""
    if kernel is None:
        return TERMINAL
    if "google.colab" in type(kernel).__module__:
        return COLAB
    if variables.PAGE in os.environ:
        return PAGE
    if VS_CODE_FILE in user_ns or "VSCODE_PID" in os.environ:
        return VS_CODE if _names_cell(kernel) else CONSOLE
    return PAGE if _names_cell(kernel) else CONSOLE


def notebook_path(user_ns: Mapping[str, Any]) -> Path | None:
    """Return the notebook's file where no page tells it, if the front end does."""
    told = user_ns.get(VS_CODE_FILE) or os.environ.get(variables.PAGE)
    path = Path(told) if isinstance(told, str) else None
    return path if path and path.is_absolute() and path.is_file() else None


def _names_cell(kernel: Any) -> bool:
    """Return True if a cell of a notebook is running; a console names none."""
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    return isinstance(metadata, Mapping) and "cellId" in metadata
