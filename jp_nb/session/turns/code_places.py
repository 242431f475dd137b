"""Places of code in a traceback: whose code a file has, and a short name of it for the model.

*Own* code is that of cells, and of files outside of the installed libraries. These are in folders
of Python itself, of the user (`pip install --user`), and of the system (`dist-packages` of Debian).

Source: `docs/decisions.md` D85.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PACKAGE_FOLDERS: Final = ("site-packages", "dist-packages")
"""Names of folders with installed packages."""


class CodePlaces:
    """Finds the places of code for one error.

    `label_of` returns the label of the cell whose code has this file name; None for other files.
    """

    def __init__(self, label_of: Callable[[str], str | None]) -> None:
        self._label_of = label_of
        paths = sysconfig.get_paths()
        # The folders of packages first, because they are inside that of the standard library.
        self._libraries = [Path(path) for path in sys.path if Path(path).name in _PACKAGE_FOLDERS]
        kinds = ("purelib", "platlib", "platstdlib", "stdlib")
        self._libraries += [Path(paths[kind]) for kind in kinds]
        # This package, which may be installed from a folder of its source.
        self._libraries.append(Path(__file__).parents[2])

    def is_own(self, filename: str) -> bool:
        """Return True for a file with own code: a cell, or a file outside of the libraries."""
        if self._label_of(filename) is not None:
            return True
        return not filename.startswith("<frozen ") and self._find_library(filename) is None

    def _find_library(self, filename: str) -> Path | None:
        """Return the first folder of installed libraries that has the file; None if none has."""
        path = Path(filename)
        return next((base for base in self._libraries if path.is_relative_to(base)), None)

    def shorten_path(self, filename: str) -> str:
        """Return the label of a cell, or a path relative to a library or to a known folder."""
        label = self._label_of(filename)
        if label is not None:
            return label

        path = Path(filename)
        library = self._find_library(filename)
        bases = [(library, ""), (Path.cwd(), "")]
        with suppress(RuntimeError):  # the user has no home
            bases.append((Path.home(), "~/"))

        for base, prefix in bases:
            if base is not None and path.is_relative_to(base):
                return f"{prefix}{path.relative_to(base).as_posix()}"
        return filename

    def format_location(self, summary: traceback.FrameSummary) -> str:
        """Return the place of a call, such as `cell 3, line 2, in load`."""
        inside = "" if summary.name == "<module>" else f", in {summary.name}"
        return f"{self.shorten_path(summary.filename)}, line {summary.lineno}{inside}"
