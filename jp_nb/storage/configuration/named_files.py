"""Find the configuration files of `-c NAME`, and name them for the record.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jp_nb.errors import ConfigError
from jp_nb.storage.user_folders import get_config_folder

if TYPE_CHECKING:  # the schema loads slowly
    from jp_nb.config.layers import Layer

CONFIG_SUFFIXES = ("", ".toml", ".json")


def find_named_files(
    name: str, *, notebook_folder: Path, root: Path, load_paths: Sequence[str]
) -> list[Path]:
    """Return the configuration files for `-c NAME`, weakest first. There is at least one.

    `name` may be a path. Otherwise, it is searched with and without a suffix in `load_paths`,
    below the user's configuration folder and below the workspace `root`. Of each, the first is
    used.

    Raises:
        ConfigError: No file was found. The message lists the searched places.
    """
    try:
        path = (notebook_folder / Path(name.removeprefix("@")).expanduser()).resolve()
        is_path = path.is_file()
    except (OSError, RuntimeError, ValueError) as exc:  # unknown home, or an impossible name
        raise ConfigError(f"{name[:80]!r} is not the name of a configuration file: {exc}") from exc
    if is_path:
        return [path]

    roots = (get_config_folder() / "config", root)
    files: list[Path] = []
    for search_root in roots:
        if (file := _find_below(search_root, name, load_paths)) is not None:
            files.append(file)

    must_be_path = name.startswith("@")
    if files and not must_be_path:
        return files

    places = [str(path)]
    for search_root in roots:
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


def make_claim_names(layer: Layer, root: Path) -> tuple[list[str], str]:
    """Return the names of the file of `layer` for claims (`config_changes.py`), and its label.

    The label does not contain a path outside of the workspace `root`.
    """
    path = Path(layer.file or "").resolve()
    label = "<user-local>"

    if path.is_relative_to(root):
        path = path.relative_to(root)
        label = path.as_posix()

    identity = layer.partial.get("id")
    id_names = [f"id:{identity}"] if isinstance(identity, str) else []
    return [f"file:{path.as_posix()}", *id_names], label
