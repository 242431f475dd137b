"""Drop the settings of a folder's configuration files that may not apply.

A file of a folder may be from someone else. It cannot have the settings that only the user's own
files may have (`drop_own_settings`). Its settings *with authority*, which could run code or send
data (`config/authority.py`), wait for the user's consent (`drop_untrusted`).

Both functions take a *group*: a configuration file with its includes. The results are cached: the
same files give the same layers, so that nothing is merged again.

Source: `docs/configuration.md`, `docs/security.md`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from jp_nb.config.layers import Layer
from jp_nb.config.stripped_settings import strip_own_settings, strip_untrusted
from jp_nb.storage.configuration.config_reading import DigestedLayer
from jp_nb.storage.trust import PendingLeaf


class AllowedGroup(NamedTuple):
    """A group without the settings that only the user's own files may have.

    Attributes:
        group: The files that remain.
        dropped: Paths of the settings that were dropped.
    """

    group: tuple[DigestedLayer, ...]
    dropped: tuple[str, ...]


@lru_cache(maxsize=16)
def drop_own_settings(group: tuple[DigestedLayer, ...]) -> AllowedGroup:
    """Drop the settings that no folder may switch on, such as `trust_read_only_hint`."""
    kept: list[DigestedLayer] = []
    dropped: list[str] = []

    for file in group:
        partial, paths = strip_own_settings(file.layer.partial)
        dropped += paths
        if paths:
            file = file._replace(layer=Layer(file.layer.name, partial, file.layer.file))
        kept.append(file)

    return AllowedGroup(tuple(kept), tuple(dropped))


class TrustedGroup(NamedTuple):
    """A group without the settings that need the user's consent.

    Attributes:
        layers: The layers that apply without consent.
        pending: The settings that wait for it.
    """

    layers: tuple[Layer, ...]
    pending: tuple[PendingLeaf, ...]


@lru_cache(maxsize=16)
def drop_untrusted(group: tuple[DigestedLayer, ...]) -> TrustedGroup:
    """Drop the settings with authority, which apply only after the user has consented."""
    kept: list[Layer] = []
    pending: list[PendingLeaf] = []

    for layer, _ in group:
        partial, ignored = strip_untrusted(layer.partial, "folder")
        kept.append(Layer(layer.name, partial, layer.file))
        file = layer.file or ""
        pending += [PendingLeaf(path, value, file) for path, value in ignored.items()]

    return TrustedGroup(tuple(kept), tuple(pending))
