"""The kind of front end of a kernel: a page, VS Code, Colab, a console, a terminal, or a runner.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jp_nb.notebook.kernel_requests import get_cell_request
from jp_nb.notebook.page.record_location import NO_PAGE
from jp_nb.storage import environment

VS_CODE_FILE: Final = "__vsc_ipynb_file__"
"""Variable in which VS Code passes the notebook's path to the kernel.

Source: https://github.com/microsoft/vscode-jupyter/pull/8531
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The kind of front end of a kernel, without a page that has the jp-nb extension.

    Attributes:
        name: The front end in words.
        unsaved_reason: Why the notebook does not keep the record.
        may_have_page: True if there may be a page with the extension. If it answers, it keeps the
            record, and these words are not shown.
    """

    name: str
    unsaved_reason: str
    may_have_page: bool = False


TERMINAL: Final = Surroundings("IPython in a terminal", "IPython in a terminal has no notebook")

COLAB: Final = Surroundings(
    "Google Colab",
    "Google Colab does not store conversations in notebooks, and it deletes this machine after "
    "the session (`%jp export DIR` saves a copy)",
)

VS_CODE: Final = Surroundings("VS Code", "VS Code does not store conversations in notebooks")

PLAIN_PAGE: Final = Surroundings("a page without the jp-nb extension", NO_PAGE, may_have_page=True)

CONSOLE: Final = Surroundings("a console or program", "a console or program has no notebook")


def find_surroundings(kernel: Any, user_ns: Mapping[str, Any]) -> Surroundings:
    """Return the kind of front end of `kernel`, which is None in a terminal.

    Call it on the cell's thread, which has the request of the running cell. A page with the
    extension also counts as one without it, until it answers.
    """
    if kernel is None:
        return TERMINAL
    if "google.colab" in type(kernel).__module__:
        return COLAB
    if environment.PAGE_VARIABLE in os.environ:  # Jupyter Server has started the kernel
        return PLAIN_PAGE
    if VS_CODE_FILE in user_ns or "VSCODE_PID" in os.environ:
        return VS_CODE if _has_cell_id(kernel) else CONSOLE

    return PLAIN_PAGE if _has_cell_id(kernel) else CONSOLE


def _has_cell_id(kernel: Any) -> bool:
    """Return True if the running cell has an id: notebooks send one, and consoles do not."""
    metadata = get_cell_request(kernel).get("metadata")
    return isinstance(metadata, Mapping) and "cellId" in metadata


def is_headless(kernel: Any) -> bool:
    """Return True if the running cell cannot prompt a user: its `allow_stdin` is false."""
    return not getattr(kernel, "_allow_stdin", False)
