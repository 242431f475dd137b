"""Find the notebooks that the arguments of `jp-nb run` name: files, folders, and patterns.

A folder is searched for `*.ipynb`, without `.ipynb_checkpoints`, other hidden folders, the output
folder, and the output folders of earlier batches: their notebooks are results, not inputs. The
order is that of the arguments, and the names within a folder or pattern are sorted. A notebook that
is named twice runs once.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from jp_nb.batch.results.out_folder import is_output_folder
from jp_nb.errors import UsageError
from jp_nb.text import one_line, plain


@dataclass(frozen=True, slots=True)
class FoundNotebooks:
    """The absolute `paths` of notebooks, and `warnings` about folders that were not searched."""

    paths: list[Path]
    warnings: list[str] = field(default_factory=list)


def names_several(arguments: Iterable[str]) -> bool:
    """Return True if the arguments are more than the path of one file."""
    names = list(arguments)
    if len(names) != 1:
        return True

    [name] = names
    is_pattern = glob.has_magic(name) and not os.path.lexists(name)  # a file may be named `a[1]`
    return os.path.isdir(name) or is_pattern


def find_notebooks(arguments: Iterable[str], *, folder: Path, out: Path) -> FoundNotebooks:
    """Return the notebooks.

    Args:
        arguments: Files, folders, and patterns, relative to `folder`.
        folder: The current folder of the user.
        out: The output folder, whose notebooks are results and no inputs.

    Raises:
        UsageError: An argument names no notebook.
    """
    search = _NotebookSearch(folder, out.resolve())
    found: dict[Path, None] = {}  # in order, each once
    for argument in arguments:
        notebooks = list(search.list_notebooks(argument))
        if not notebooks:
            raise UsageError(_describe_missing(folder / argument, argument, search))
        found.update(dict.fromkeys(notebooks))

    warnings = [
        f"{one_line(str(path))} is the output folder of an earlier batch, and was not searched: "
        "name it to run its notebooks"
        for path in search.earlier_outputs
    ]
    return FoundNotebooks(list(found), warnings)


def _describe_missing(path: Path, argument: str, search: _NotebookSearch) -> str:
    text = f"there is no notebook {plain(argument)}"
    if path.is_dir() and _is_in_folder(path, search.out):
        return f"{text}: its notebooks are results of the batch, so choose another folder with `-o`"
    if search.earlier_outputs:
        [first, *_] = search.earlier_outputs
        return f"{text}: {one_line(str(first))} is the output folder of an earlier batch"
    return text


class _NotebookSearch:
    """Finds notebooks below `folder`, outside of the output folder `out`.

    Attributes:
        earlier_outputs: Output folders of earlier batches, which were not searched.
    """

    def __init__(self, folder: Path, out: Path) -> None:
        self.folder = folder
        self.out = out
        self.earlier_outputs: dict[Path, None] = {}  # in order, each once

    def list_notebooks(self, argument: str) -> Iterator[Path]:
        """Yield the absolute paths of the notebooks that `argument` names."""
        path = self.folder / argument
        if path.is_dir():
            yield from self._search_folder(path)
        elif path.is_file():
            yield Path(os.path.abspath(path))
        elif glob.has_magic(argument):
            yield from self._search_pattern(argument)

    def _search_pattern(self, argument: str) -> Iterator[Path]:
        """Yield the notebooks that match a pattern, and those in matching folders."""
        named = self._find_named_folder(argument)
        # The name of the user's folder may contain `[` or `*`, which are not of the pattern.
        pattern = Path(glob.escape(str(self.folder)), argument)

        for name in sorted(glob.glob(str(pattern), recursive=True)):
            match = Path(name)
            earlier_output = self._find_earlier_output(match, below=named)
            if earlier_output is not None:
                self.earlier_outputs[earlier_output] = None
                continue
            if match.is_dir():
                yield from self._search_folder(match)
            elif match.suffix == ".ipynb" and not _is_in_folder(match.parent, self.out):
                yield Path(os.path.abspath(match))

    def _search_folder(self, path: Path) -> Iterator[Path]:
        """Yield the notebooks in a folder and its visible subfolders."""
        # The user has named this folder, so it is searched even if it is an earlier output folder.
        top = Path(os.path.abspath(path))

        for name, subfolders, files in os.walk(path):
            folder = Path(os.path.abspath(name))
            if folder != top and self._is_earlier_output(folder):
                self.earlier_outputs[folder] = None
                subfolders.clear()  # `os.walk` does not enter them
                continue

            if _is_in_folder(folder, self.out):
                subfolders.clear()
                continue

            # `os.walk` enters the folders that are left in this list.
            subfolders[:] = sorted(each for each in subfolders if not each.startswith("."))
            for file in sorted(files):
                if file.endswith(".ipynb") and not file.startswith("."):
                    yield folder / file

    def _find_earlier_output(self, match: Path, *, below: Path) -> Path | None:
        """Return the earlier output folder below `below` that is `match` or contains it."""
        for folder in (match, *match.parents):
            if folder == below:
                return None
            if self._is_earlier_output(folder):
                return folder
        return None

    def _is_earlier_output(self, folder: Path) -> bool:
        """Return True for a folder with the log of a batch, other than this batch."""
        return not _is_in_folder(folder, self.out) and is_output_folder(folder)

    def _find_named_folder(self, argument: str) -> Path:
        """Return the folder that the user names before the first `*`: `a/b` of `a/b/*/c*.ipynb`."""
        parents = Path(argument).parts[:-1]
        literal_parts = takewhile(lambda part: not glob.has_magic(part), parents)
        return Path(self.folder, *literal_parts)


def _is_in_folder(path: Path, out: Path) -> bool:
    return path.resolve().is_relative_to(out)


def find_common_folder(notebooks: Iterable[Path]) -> Path:
    """Return the folder that contains all `notebooks`, to which their names are relative."""
    return Path(os.path.commonpath([str(notebook.parent) for notebook in notebooks]))
