"""Find the notebooks that the arguments of `jp-nb run` name: files, folders, and patterns.

A folder is searched for `*.ipynb`, without `.ipynb_checkpoints`, other hidden folders, and the
output folder. The order is that of the arguments, and the names within a folder or pattern are
sorted. A notebook that is named twice runs once.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from jp_nb.errors import UsageError
from jp_nb.text import plain


def names_several(arguments: Iterable[str]) -> bool:
    """Return True if the arguments are more than the path of one file."""
    names = list(arguments)
    if len(names) != 1:
        return True

    [name] = names
    is_pattern = glob.has_magic(name) and not os.path.lexists(name)  # a file may be named `a[1]`
    return os.path.isdir(name) or is_pattern


def find_notebooks(arguments: Iterable[str], *, folder: Path, out: Path) -> list[Path]:
    """Return the absolute paths of the notebooks.

    Args:
        arguments: Files, folders, and patterns, relative to `folder`.
        folder: The current folder of the user.
        out: The output folder, whose notebooks are results and no inputs.

    Raises:
        UsageError: An argument names no notebook.
    """
    found: dict[Path, None] = {}  # in order, each once
    for argument in arguments:
        notebooks = list(_list_notebooks(folder / argument, argument, out.resolve()))
        if not notebooks:
            raise UsageError(f"there is no notebook {plain(argument)}")
        found.update(dict.fromkeys(notebooks))
    return list(found)


def _list_notebooks(path: Path, argument: str, out: Path) -> Iterator[Path]:
    """Yield the notebooks that `argument` names, whose `path` is absolute, outside of `out`."""
    if path.is_dir():
        yield from _search_folder(path, out)
    elif path.is_file():
        yield Path(os.path.abspath(path))
    elif glob.has_magic(argument):
        for name in sorted(glob.glob(str(path), recursive=True)):
            match = Path(name)
            if match.is_dir():
                yield from _search_folder(match, out)
            elif match.suffix == ".ipynb" and not _is_in_folder(match.parent, out):
                yield Path(os.path.abspath(match))


def _search_folder(path: Path, out: Path) -> Iterator[Path]:
    """Yield the notebooks in a folder and its visible subfolders, outside of `out`."""
    for name, subfolders, files in os.walk(path):
        folder = Path(os.path.abspath(name))
        if _is_in_folder(folder, out):
            subfolders.clear()  # `os.walk` does not enter them
            continue

        # `os.walk` enters the folders that are left in this list.
        subfolders[:] = sorted(each for each in subfolders if not each.startswith("."))
        for file in sorted(files):
            if file.endswith(".ipynb") and not file.startswith("."):
                yield folder / file


def _is_in_folder(path: Path, out: Path) -> bool:
    return path.resolve().is_relative_to(out)


def find_common_folder(notebooks: Iterable[Path]) -> Path:
    """Return the folder that contains all `notebooks`, to which their names are relative."""
    return Path(os.path.commonpath([str(notebook.parent) for notebook in notebooks]))
