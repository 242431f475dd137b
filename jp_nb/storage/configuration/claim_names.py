"""The names under which the record notes a configuration file as the source of settings.

A *claim* notes in the record which source set a value, so that the user can revert all values of a
file (`jp_nb/record/changes/claims.py`). Another computer must recognize the file, but the record
must not tell where the file is. So the names are recorded as hashes, and the label is for the user.

Source: `docs/record.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the schema loads slowly
    from jp_nb.config.layers import Layer

OUTSIDE_LABEL = "<user-local>"
"""Label of a file outside of the workspace."""


def make_claim_names(layer: Layer, root: Path) -> tuple[list[str], str]:
    """Return the names of the file of `layer`, and its label.

    The names are its path, relative to the workspace `root` if it is inside, and its `id` if it has
    one: `["file:.jp/config.toml", "id:team"]`.
    """
    path = Path(layer.file or "").resolve()
    label = OUTSIDE_LABEL

    if path.is_relative_to(root):
        path = path.relative_to(root)
        label = path.as_posix()

    identity = layer.partial.get("id")
    id_names = [f"id:{identity}"] if isinstance(identity, str) else []
    return [f"file:{path.as_posix()}", *id_names], label
