"""Find the files of scripts: in the folders of the configuration, and in the package.

A script `NAME` is the file `NAME.toml`. The places are, in this order: each folder, its subfolder
`scripts/`, and the package. A file that cannot be used does not end the search.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Final

from jp_nb.errors import ConfigError
from jp_nb.file_reading import open_regular, read_regular
from jp_nb.providers.scripts.script_format import Script

MAX_SCRIPT_BYTES: Final = 10_000_000
MAX_SCRIPTS: Final = 1_000
"""Limit of the TOML files in a folder that are searched for scripts."""

ReadScript = Callable[[Path], bytes]
"""Returns the content of a script file in a folder. It raises a `ConfigError` if the file must not
be used, and an `OSError` if it cannot be read."""


def read_script(path: Path) -> bytes:
    """Return the content of the script file at `path`, of any owner.

    Raises:
        OSError: It cannot be read, is not a regular file, or has more than `MAX_SCRIPT_BYTES`.
    """
    return read_regular(path, max_bytes=MAX_SCRIPT_BYTES)


def load_script(name: str, folders: Sequence[Path], *, read: ReadScript = read_script) -> Script:
    """Return the script `name`, of the first file of that name that may be used.

    The places are `folders`, the `scripts/` folder of each, and the package. `read` reads the files
    of the folders.

    Raises:
        ConfigError: `name` is a path, there is no such script, or it is malformed. If no file of
            that name can be used, it is the problem of the first one.
    """
    problem: ConfigError | None = None
    for file in _find_scripts(name, folders):
        try:
            content = _read_file(file, read)
        except ConfigError as exc:
            problem = problem or exc
        else:
            return Script.decode(content, file)

    assert problem is not None
    raise problem


def _read_file(file: Path | Traversable, read: ReadScript) -> bytes:
    """Return the content of a script file; one of a folder is read by `read`."""
    try:
        if not isinstance(file, Path):
            return file.read_bytes()
        if file.parent == _get_packaged_scripts():
            # `read` may require consent, which a file of the package does not need.
            return read_script(file)
        return read(file)
    except OSError as exc:
        raise ConfigError(f"cannot read the script: {exc}", layer=str(file)) from exc


def list_scripts(folders: Sequence[Path]) -> list[str]:
    """Return the names of the scripts in all places, in alphabetical order."""
    return _list_names(_list_places(folders))


def _find_scripts(name: str, folders: Sequence[Path]) -> Iterator[Path | Traversable]:
    """Yield the files of a script, in the order of the places. There is at least one."""
    setting = "assistant.model.id.name"
    if not name or "/" in name or "\\" in name or name.startswith("."):
        raise ConfigError(f"{name!r} is not a script name", path=setting)

    places = _list_places(folders)
    is_found = False
    for place in places:
        file = place.joinpath(f"{name}.toml")
        if _may_exist(file):
            is_found = True
            yield file

    if is_found:
        return
    raise ConfigError(
        f"script {name}.toml not found in "
        f"{', '.join(str(place) for place in places[:-1])} or in the package; "
        f"available: {', '.join(_list_names(places)) or 'none'}",
        path=setting,
    )


def _may_exist(file: Path | Traversable) -> bool:
    try:
        return file.is_file()
    except OSError:
        return True  # such as a folder without permission: the reader has the reason


def _list_places(folders: Sequence[Path]) -> list[Path | Traversable]:
    places: list[Path | Traversable] = []
    for folder in folders:
        places += [folder, folder / "scripts"]
    return [*places, _get_packaged_scripts()]


def _get_packaged_scripts() -> Traversable:
    return resources.files("jp_nb").joinpath("scripts")


def _list_names(places: Sequence[Path | Traversable]) -> list[str]:
    names: set[str] = set()
    for place in places:
        try:
            files = list(_list_files(place))
        except OSError:
            continue  # no folder, or one without permission: list the other places
        names.update(file.name.removesuffix(".toml") for file in files)
    return sorted(names)


def _list_files(place: Path | Traversable) -> Iterator[Path | Traversable]:
    """Yield the scripts in `place`. The folder of a notebook contains other TOML files."""
    files = (file for file in place.iterdir() if file.name.endswith(".toml"))
    for file in islice(files, MAX_SCRIPTS):
        if not isinstance(file, Path) or _is_script(file, any_content=place.name == "scripts"):
            yield file


def _is_script(file: Path, *, any_content: bool) -> bool:
    """Return True for a readable file that has replies; with `any_content`, for each one."""
    try:
        with os.fdopen(open_regular(file), "rb") as content:
            begin = content.read(64 * 1024)  # enough to recognize the file
    except OSError:
        return False
    return any_content or b"[[replies]]" in begin
