"""Notices about the settings that a new conversation inherits from the previous one, or does not.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.setting_leaves import iter_leaves
from jp_nb.config.schema import node_at
from jp_nb.config.setting_paths import PathKeys, format_path, parse_path
from jp_nb.rendering.transcripts.setting_text import NO_TOOLSETS, Toolsets, split_change
from jp_nb.text import MAX_ITEMS_IN_LINE, one_line

FOR_ALL_HINT = "For every conversation: `%jp config --user PATH=VALUE`"


def list_inherited_notices(change: Change) -> list[str]:
    """Return a notice about the settings that a conversation inherited, or an empty list."""
    if not change:
        return []
    return [f"Kept from the previous conversation: {_join_settings(change, NO_TOOLSETS)}"]


def format_dropped_settings(change: Change, *, asks: bool, toolsets: Toolsets = NO_TOOLSETS) -> str:
    """Return a notice about settings that a new conversation does not inherit, with commands.

    With `asks`, the new conversation starts with a request, and not with `%jp new`.
    """
    advice = "Keep them: `%jp new --keep-config`"
    if asks:
        advice = "Set them again: `-t NAME` or `-c PATH=VALUE` together with `-n`, or `%jp config`"
    return (
        "these settings of the previous conversation do not apply to the new one: "
        f"{_join_settings(change, toolsets)}. {advice}. {FOR_ALL_HINT}"
    )


def _join_settings(change: Change, toolsets: Toolsets) -> str:
    """Return the settings of `change` in one line.

    The model, and tools that are on or off, are in words (`setting_text.py`), with a whole toolset
    of `toolsets` as one word. The others have their paths and values.
    """
    words, delta = split_change(change.delta, toolsets)
    settings = [*_format_settings(delta), *(f"{path} unset" for path in change.unsets)]

    omitted_count = len(settings) - MAX_ITEMS_IN_LINE
    if omitted_count > 0:
        settings[MAX_ITEMS_IN_LINE:] = [f"and {omitted_count} more"]
    if settings:
        words.append(", ".join(settings))

    return "; ".join(words)


def _format_settings(delta: Partial) -> Iterator[str]:
    """Yield each changed setting with its value, such as `style.theme=dark`."""
    listed: dict[PathKeys, None] = {}  # a set that keeps the order
    for keys, _ in iter_leaves(delta):
        # The provider and the name of a model are one setting for the user.
        above = node_at(keys[:-1])
        is_part_of_model = above is not None and above.required_fields == ["provider", "name"]
        setting = keys[:-1] if is_part_of_model else keys
        listed[setting] = None

    for keys in listed:
        path = format_path(keys)
        value = mask_secrets(get_path(delta, path), parse_path(path))
        if isinstance(value, dict) and {"provider", "name"} <= value.keys():
            value = f"{value['provider']}/{value['name']}"

        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"{one_line(path, limit=200)}={one_line(text, limit=60)}"
