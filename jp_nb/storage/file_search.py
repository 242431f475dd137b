"""Search for files that match a pattern, within a limit of work.

A folder from someone else may contain links to itself, and folders with millions of files. So `**`
follows no links, and a search visits a limited number of entries.

Source: `docs/configuration.md`, `docs/security.md`.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from jp_nb.errors import JpNbError
from jp_nb.exact_form import escape_invisible
from jp_nb.file_reading import describe_os_error


class FileSearchError(JpNbError):
    """A folder cannot be read, or the pattern would visit too many entries."""


def find_matching_files(pattern: Path, *, max_entries: int) -> list[Path]:
    """Return the regular files that match the absolute path `pattern`, sorted.

    The pattern may contain `*`, `?`, `[…]`, and `**` for any number of folders. Hidden names need
    an explicit dot. The search visits at most `max_entries` entries of folders.

    Raises:
        FileSearchError: A folder cannot be read, or the search would visit too many entries.
    """
    matches = _Search(max_entries).walk(Path(pattern.anchor), pattern.parts[1:])

    # A pattern with `**` twice finds a file once for each way to divide its path between them.
    return sorted(set(matches))


class _Search:
    """One search, which counts the entries that it visits. Patterns are lists of path segments."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._visited = 0

    def walk(self, folder: Path, pattern: Sequence[str]) -> Iterator[Path]:
        """Yield the files below `folder` that match `pattern`."""
        first, *rest = pattern

        if first == "**":
            # `**` is for no folder, or for each folder with the same pattern below it. At the end
            # of a pattern, it is for files too.
            yield from self.walk(folder, rest or ("*",))
            for entry in self._iter_entries(folder):
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    yield from self.walk(folder / entry.name, pattern)
        elif not glob.has_magic(first):
            yield from self._match_rest(folder / first, rest)
        else:
            for entry in self._iter_entries(folder):
                is_hidden = entry.name.startswith(".") and not first.startswith(".")
                if not is_hidden and fnmatchcase(entry.name, first):
                    yield from self._match_rest(folder / entry.name, rest)

    def _match_rest(self, path: Path, rest: Sequence[str]) -> Iterator[Path]:
        """Yield the files below `path` that match the `rest` of a pattern; or `path` itself."""
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return  # also for a dangling link
        except (OSError, ValueError) as exc:
            raise FileSearchError(
                f"{escape_invisible(str(path))}: {describe_os_error(exc)}"
            ) from exc

        if rest and stat.S_ISDIR(mode):
            yield from self.walk(path, rest)
        elif not rest and stat.S_ISREG(mode):
            yield path

    def _iter_entries(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._visited += 1
                    if self._visited > self._max_entries:
                        raise FileSearchError(
                            f"the pattern would search more than {self._max_entries:,} "
                            "files: use a smaller folder"
                        )
                    yield entry
        except OSError as exc:
            raise FileSearchError(
                f"{escape_invisible(str(folder))}: {describe_os_error(exc)}"
            ) from exc
