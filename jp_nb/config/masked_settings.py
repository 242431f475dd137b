"""Hide the secrets in settings and paths that are shown, by the names of the settings.

The settings of MCP servers have rules of their own (`server_secrets.py`): in their commands and
headers, a key may be a part of a text.

Source: `docs/configuration.md`, `docs/decisions.md` D49.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.config.schema import node_at
from jp_nb.config.secret_settings.server_secrets import hide_server_settings
from jp_nb.config.secrets.api_keys import hide_credentials
from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.config.secrets.secret_names import is_secret_name
from jp_nb.config.setting_paths import Element, format_path, parse_path
from jp_nb.config.tree.server_settings import MCP_PATH
from jp_nb.errors import ConfigError

_VALUE_KEYS = ("answer", "default", "value")
"""Keys whose value belongs to the key above, such as the answer of a question.

The value of a setting may be in a table with the strategy of its merge: `{value, strategy}`.
"""


def is_secret_path(keys: Sequence[str]) -> bool:
    """Return True if the last key of a path is usually the name of a secret (D49).

    The keys above do not count: settings of a tool with the name `token` are shown.
    """
    keys = tuple(keys)
    if keys and isinstance(keys[-1], Element):  # a key in brackets, of a list or a map
        above = node_at(keys[:-1])
        if above is not None and above.kind == "list":  # the text of an item is not a name
            keys = keys[:-1]

    if len(keys) > 1 and keys[-1] in _VALUE_KEYS:
        keys = keys[:-1]

    name = keys[-1] if keys else ""
    return is_secret_name(name)


def mask_secrets(value: JsonValue, keys: Sequence[str] = ()) -> JsonValue:
    """Return `value`, which is at `keys`, with `(set, not shown)` in place of secrets."""
    is_of_server = len(keys) > len(MCP_PATH) and tuple(keys[: len(MCP_PATH)]) == MCP_PATH
    if is_of_server:  # the keys are those of the table of servers, a name, and a setting
        return hide_server_settings(value, keys[len(MCP_PATH) + 1 :])
    if isinstance(value, dict):
        return {key: mask_secrets(item, (*keys, key)) for key, item in value.items()}
    if value is None or isinstance(value, bool):
        return value

    if is_secret_path(keys):
        return NOT_SHOWN
    return [mask_secrets(item, keys) for item in value] if isinstance(value, list) else value


def mask_path(path: str) -> str:
    """Return `path` without list items that may be secrets.

    The path of a list item ends with the item itself, as an `Element`: `arguments["--key=x"]`.
    """
    try:
        keys = parse_path(path)
    except ConfigError:
        return hide_credentials(path)

    shown: list[str] = []
    for index, key in enumerate(keys):
        if isinstance(key, Element) and is_secret_path(keys[:index]):
            shown.append(Element(NOT_SHOWN))
        else:
            shown.append(key)

    return hide_credentials(format_path(shown))


def format_masked(path: str, value: JsonValue) -> str:
    """Return `value`, which is at `path`, as `unset` or as JSON without secrets."""
    if value is None:
        return "unset"
    return json.dumps(mask_secrets(value, parse_path(path)), ensure_ascii=False)
