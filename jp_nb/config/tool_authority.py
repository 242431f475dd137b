"""Decide if the user has to approve a change of the configuration that a tool proposes.

The rules of the user limit the settings that a tool may change, and may apply its changes
unattended (`access_rules.py`). A change that could run code, contact a host, read a file outside of
the workspace, or extend access needs the user in any case.

`ALLOWANCE_TABLE` (`authority.py`) lists patterns of settings, each with an allowance. Its `tool` is
True for *harmless* settings: no value can do any of that. Settings without a row need the user.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.config.authority import ALLOWANCE_TABLE, find_allowance
from jp_nb.config.schema import SchemaNode, node_at
from jp_nb.config.setting_paths import PathKeys
from jp_nb.config.tree.ignored_settings import overlaps_keys

IsInWorkspace = Callable[[str], bool]
"""Returns True if the URL of an attachment is in the workspace."""

_RUN_MODES: Final = ("run", "format", "result")
_BY_VALUE: Final[Sequence[PathKeys]] = (
    ("conversation", "attachments"),
    *(("conversation", "tools", "*", name) for name in _RUN_MODES),
    ("conversation", "tools", "*", "style", "parameters"),
)
"""Settings for which it depends on the value whether a tool's change needs the user."""


def needs_user(keys: Sequence[str], value: JsonValue, is_in_workspace: IsInWorkspace) -> bool:
    """Return True if the user has to approve a tool's change at `keys`, whatever the rules are.

    A `value` that is a table counts as a replacement of the whole table. A `value` of None unsets
    the setting.
    """
    always = always_needs_user(keys)
    if always is not None:
        return always
    return isinstance(value, dict) or not _is_harmless(keys, value, is_in_workspace)


def always_needs_user(keys: Sequence[str]) -> bool | None:
    """Return True if every change at `keys` or below needs the user, and False if none does.

    Return None if it depends on the value, or if `keys` are above settings of both kinds. A change
    needs the user if it runs code, contacts a host, reads a file outside of the workspace, or
    extends access.
    """
    if _is_always_harmless(node_at(keys), keys):
        return False

    # There may be a harmless setting at, above, or below `keys`.
    harmless = [pattern for pattern, allowance in ALLOWANCE_TABLE if allowance.tool]
    depends_on_value = any(overlaps_keys(other, keys) for other in (*harmless, *_BY_VALUE))
    return None if depends_on_value else True


def _is_always_harmless(node: SchemaNode | None, keys: Sequence[str]) -> bool:
    """Return True if no value at `keys`, or at any field of the table there, needs the user."""
    if find_allowance(keys).tool:
        return True
    if node is None or node.kind != "table" or node.table is None:
        return False
    names = [field.alias or name for name, field in node.table.model_fields.items()]
    return all(_is_always_harmless(node.child(name), (*keys, name)) for name in names)


def _is_harmless(keys: Sequence[str], value: JsonValue, is_in_workspace: IsInWorkspace) -> bool:
    """Return True if this `value` at `keys`, which is not a table, does not need the user.

    It depends on the value for the settings in `_BY_VALUE`: a file of the workspace may be
    attached, and a mode may be set that asks the user before a tool runs.
    """
    if find_allowance(keys).tool:
        return True

    match tuple(map(str, keys)):
        case ("conversation", "attachments", *_):
            urls = value if isinstance(value, list) else [value]  # the list, or an item of it
            return all(is_in_workspace(str(url)) for url in urls if url is not None)
        case ("conversation", "tools", _, name) if name in _RUN_MODES:
            return value is not None and value != "unattended"
        case ("conversation", "tools", _, "style", "parameters"):
            return value in ("json", "function_call", "off")
    return False
