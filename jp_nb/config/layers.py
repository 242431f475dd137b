"""The layers of the configuration: read one from the text of a file, and merge them.

From low to high: defaults (in the schema), registrations of tools, MCP files (lists of servers),
the user's file, workspace files, environment variables (`environment_layer.py`), the conversation,
options of the running cell. A file that `-c NAME` names (`CONFIG_FILE_LAYER`) becomes a change of
the conversation. `jp_nb/storage/configuration/` finds and opens the files. Invalid settings are a
`ConfigError` with all problems and their source.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jp_nb.config.known_settings import remove_ignored
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.tree.app import Extend
from jp_nb.config.validation import validate_layer
from jp_nb.errors import ConfigError
from jp_nb.json_limits import MAX_CONFIG_LEVELS
from jp_nb.json_reading import read_json

REGISTRATIONS_LAYER = "registrations"
USER_FILE_LAYER = "user file"
WORKSPACE_FILE_LAYER = "workspace file"
CONFIG_FILE_LAYER = "config file"
MCP_FILE_LAYER = "MCP file"
ENVIRONMENT_LAYER = "environment"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A partial configuration and its source.

    An unchanged source keeps its layer: the same object, by which `merge_and_strip` finds an
    earlier result.
    """

    name: str
    """The kind of source, such as `workspace file`."""
    partial: Partial
    """Its settings: valid, and with short forms expanded."""
    file: str | None = None
    """The file; None for another kind of source."""


def parse_layer(text: str, name: str, file: str) -> Layer:
    """Return the layer of a file with content `text`: JSON for the suffix `.json`, else TOML.

    Settings that only JP has, another program that reads the same files, are removed.

    Raises:
        ConfigError: The text is not a table, or settings are invalid.
    """
    text = text.removeprefix("\ufeff")  # some editors begin a file with a byte order mark
    format_ = "JSON" if file.endswith(".json") else "TOML"
    try:
        is_json = format_ == "JSON"
        partial = read_json(text, max_levels=MAX_CONFIG_LEVELS) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        reason = "nested too deep" if isinstance(exc, RecursionError) else str(exc)
        raise ConfigError(
            f"not {format_}: {reason}", kind="malformed", layer=name, file=file
        ) from exc

    if not isinstance(partial, dict):
        raise ConfigError("expected an object", kind="malformed", layer=name, file=file)

    return Layer(name, validate_layer(remove_ignored(partial), layer=name, file=file), file)


def list_includes(layer: Layer) -> list[Extend]:
    """Return the entries of `extends` in `layer`: the files that it includes."""
    return [Extend.model_validate(x) for x in get_path(layer.partial, "extends") or []]


def select_inherited(groups: Sequence[Sequence[Layer]]) -> list[Layer]:
    """Return the layers of `groups`, each a file with its included files, weakest first.

    A group with `inherit = false` disables all weaker groups.
    """
    kept: list[Layer] = []

    for group in groups:
        values = [layer.partial.get("inherit") for layer in group]
        stated = [value for value in values if value is not None]
        if stated and stated[-1] is False:  # the strongest file of the group that says it
            kept = []

        kept += group
    return kept


def merge_layers(layers: Iterable[Layer]) -> Partial:
    """Merge `layers`, the lowest first. The result is shared: do not modify it."""
    return merge_and_strip(tuple(layers))[0]


@lru_cache(maxsize=16)
def merge_and_strip(layers: tuple[Layer, ...]) -> tuple[Partial, Partial]:
    """Return the merged `layers`, and the same without merge strategies."""
    result: Partial = {}
    for layer in layers:
        result = merge_partials(result, layer.partial)
    return result, strip_strategies(result)
