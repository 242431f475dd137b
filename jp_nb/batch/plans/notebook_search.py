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
    listed = list(arguments)
    if len(listed) != 1:
        return True
    [name] = listed
    return os.path.isdir(name) or (glob.has_magic(name) and not os.path.lexists(name))


def find_notebooks(arguments: Iterable[str], *, folder: Path, out: Path) -> list[Path]:
    """Return the absolute paths of the notebooks.

    Args:
        arguments: Files, folders, and patterns, relative to `folder`.
        folder: The current folder of the user.
        out: The output folder, whose notebooks are results and no inputs.

    Raises:
        UsageError: An argument names no notebook.
    """
    found: dict[Path, None] = {}
    for argument in arguments:
        before = len(found)
        named = list(_list_notebooks(folder / argument, argument, out.resolve()))
        found.update(dict.fromkeys(named))
        if not named and len(found) == before:
            raise UsageError(f"there is no notebook {plain(argument)}")
    return list(found)


def _list_notebooks(path: Path, argument: str, out: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from _search_folder(path, out)
    elif path.is_file():
        yield Path(os.path.abspath(path))
    elif glob.has_magic(argument):
        for name in sorted(glob.glob(str(path), recursive=True)):
            each = Path(name)
            if each.is_dir():
                yield from _search_folder(each, out)
            elif each.suffix == ".ipynb" and not _is_result(each, out):
                yield Path(os.path.abspath(each))


def _search_folder(path: Path, out: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(os.path.abspath(place))
        if _is_result(here / "x", out):
            folders.clear()
            continue
        for name in sorted(files):
            if name.endswith(".ipynb") and not name.startswith("."):
                yield here / name


def _is_result(path: Path, out: Path) -> bool:
    return path.parent.resolve().is_relative_to(out)


def find_common_folder(notebooks: Iterable[Path]) -> Path:
    """Return the folder that contains all `notebooks`, to which their names are relative."""
    return Path(os.path.commonpath([str(each.parent) for each in notebooks]))
