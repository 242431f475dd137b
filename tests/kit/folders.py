"""The configuration files around a notebook, and the consent to their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.config.directives import Directive
from jp_nb.config.layers import merge_layers
from jp_nb.config.partial_merge import strip_strategies
from jp_nb.storage.config_files import ConfigFiles
from jp_nb.storage.config_writer import ConfigFile
from jp_nb.storage.trust import FolderTrust


def config_files(folder: Path, *, asks_consent: bool = False) -> Any:
    """Return the configuration files of a notebook in `folder`.

    With `asks_consent`, dangerous settings wait for the user's consent, as in a live session.
    """
    trust = FolderTrust() if asks_consent else None
    return ConfigFiles(folder, trust)


def merge_files(files: Any, *names: str, load_paths: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the merged settings of `files`, or of those with these names in `load_paths`."""
    layers = list(files.layers())
    if names:
        layers = [layer for name in names for layer in files.named(name, list(load_paths))]
    return strip_strategies(merge_layers(layers))


def edit_config_file(path: Path, *changes: Any, save: bool = True) -> dict[str, Any]:
    """Change the file at `path` as `%jp config` does, and return its settings.

    A change is an assignment such as `user.name=Ada`, or a pair of an option and its text, such as
    `("no_cfg", "user.name")`.
    """
    file = ConfigFile(path, "user file")
    for change in changes:
        if isinstance(change, str):
            file.change(Directive("cfg", change))
        else:
            file.change(Directive(*change))

    settings = strip_strategies(file.layer().partial)
    if save:
        file.save()
    return settings
