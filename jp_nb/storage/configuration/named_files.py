"""Find the configuration files of `-c NAME`.

A user names them by a path or a short name: `-c team` is `config/team.toml` in a folder of
`config_load_paths`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from jp_nb.errors import ConfigError
from jp_nb.storage.user_folders import get_config_folder

CONFIG_SUFFIXES = ("", ".toml", ".json")
PATH_PREFIX = "@"
"""Prefix of a name that is always a path, as in `-c @team.toml`."""


def find_named_files(
    name: str, *, notebook_folder: Path, root: Path, load_paths: Sequence[str]
) -> list[Path]:
    """Return the configuration files for `-c NAME`, weakest first. There is at least one.

    `name` is a path, relative to the folder of the notebook, if there is such a file. Otherwise, it
    is searched with and without a suffix in `load_paths`, below the user's configuration folder and
    below the workspace `root`. Of each, the first file is used. `@NAME` is always a path.

    Raises:
        ConfigError: No file was found. The message lists the searched places.
    """
    try:
        expanded = Path(name.removeprefix(PATH_PREFIX)).expanduser()
        path = (notebook_folder / expanded).resolve()
        is_path = path.is_file()
    except (OSError, RuntimeError, ValueError) as exc:  # unknown home, or an impossible name
        raise ConfigError(f"{name[:80]!r} is not the name of a configuration file: {exc}") from exc
    if is_path:
        return [path]

    search_roots = (get_config_folder() / "config", root)
    files: list[Path] = []
    if not name.startswith(PATH_PREFIX):
        found = (_find_below(search_root, name, load_paths) for search_root in search_roots)
        files = [file for file in found if file is not None]
    if files:
        return files

    places = [str(path)]
    for search_root in search_roots:
        places += [str(search_root / load_path / name) for load_path in load_paths]
    searched = ", ".join(places)
    suffixes = " and ".join(CONFIG_SUFFIXES[1:])
    raise ConfigError(
        f"configuration file {name!r} not found; searched: {searched} "
        f"(also with {suffixes}; config_load_paths lists the folders)",
        kind="value",
    )


def _find_below(root: Path, name: str, load_paths: Iterable[str]) -> Path | None:
    """Return the first file of this name in a folder of `load_paths` below `root`."""
    for folder in load_paths:
        for suffix in CONFIG_SUFFIXES:
            candidate = root / folder / f"{name}{suffix}"
            if candidate.is_file():
                return candidate

    return None
