"""Describe a proposed configuration change to the user, line by line, and tell if it has an effect.

Each line has a path, its value now, and the proposed value:

    assistant.model.id: "anthropic/claude-haiku" → "anthropic/claude-opus"

A path is either that of a setting, or, for an item of a list, that of the list and the item's name.
Parsed, it is a tuple of keys. The key of an item is an `Element`, whose `json` is the item itself
or its name (its *identity*). The *leaves* of a proposal are the smallest settings that it changes,
so those of a model are its provider and its name. Its `unsets` are the paths of settings that go
back to the value of a lower layer, such as a file, and of items that it removes.

The `basis` is the configuration with which the batch began (the tool calls of one answer). Its
`values` are those of all settings, its `partial` has only those that a layer sets. `after` is
`partial` with the proposal.

Source: `docs/turns.md`, `docs/decisions.md` D29, D38.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from jp_nb.agent.prompting.prompts import ProposedChange
from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.partials.partial import Partial, get_identity, get_path
from jp_nb.config.proposal import Proposal
from jp_nb.config.schema import SchemaNode, node_at
from jp_nb.config.setting_paths import Element, PathKeys, format_path, parse_path


def iter_proposed_changes(proposal: Proposal) -> Iterator[ProposedChange]:
    """Yield the changes of `proposal`, first the new values, then the unset ones.

    A model's provider and name are one change. Possible secrets are hidden.
    """
    shown: set[PathKeys] = set()
    for leaf, value in proposal.change.leaves.items():
        keys = _find_shown_path(leaf)
        if keys not in shown:
            shown.add(keys)
            yield _describe_new_value(proposal, keys, value)

    for path in proposal.change.unsets:
        keys = parse_path(path)
        if keys not in shown:  # a value that is unset and set again is shown once
            yield _describe_unset_value(proposal, path)


def _find_shown_path(leaf: PathKeys) -> PathKeys:
    """Return the path of the setting `leaf` for the user: that of the model for its parts."""
    parent = node_at(leaf[:-1])
    return leaf[:-1] if parent is not None and _is_model(parent) else leaf


def _describe_new_value(proposal: Proposal, keys: PathKeys, value: JsonValue) -> ProposedChange:
    """Return the line for a setting or a list item at `keys` that gets a new `value`."""
    now = proposal.basis.values
    if _is_item(keys):
        item = _format_json(mask_secrets(value, keys))
        count = _format_count(now, keys[:-1])
        return ProposedChange(format_path(keys[:-1]), count, item, added=True)

    proposed = _format_value(proposal.after, keys)
    if proposed is None:
        proposed = _format_json(mask_secrets(value, keys))
    return ProposedChange(format_path(keys), _format_value(now, keys), proposed)


def _describe_unset_value(proposal: Proposal, path: str) -> ProposedChange:
    """Return the line for a setting or a list item at `path` that is unset."""
    now = proposal.basis.values
    keys = parse_path(path)
    if _is_item(keys):
        return ProposedChange(path, _format_item(now, keys), None)

    then = _format_value(proposal.after, keys)  # of a lower layer
    return ProposedChange(path, _format_value(now, keys), None, then=then)


def has_no_effect(proposal: Proposal) -> bool:
    """Return True if `proposal` would not change the configuration with which the batch began.

    The user is not asked about such a proposal.
    """
    # To unset a value has an effect, even if a lower layer has the same value.
    set_values = proposal.basis.partial
    for keys in map(parse_path, proposal.change.unsets):
        value: JsonValue
        if _is_item(keys):
            value = _format_item(set_values, keys)
        else:
            value = get_path(set_values, format_path(keys))
        if value is not None:
            return False

    now = proposal.basis.values
    after = proposal.after
    paths = set(map(_format_setting_path, proposal.change.leaves))
    # Compared as JSON: to Python, 1 is true.
    return all(
        _format_json(get_path(now, path)) == _format_json(get_path(after, path)) for path in paths
    )


def _format_setting_path(keys: PathKeys) -> str:
    # An item changes its list.
    return format_path(keys[:-1]) if _is_item(keys) else format_path(keys)


def _is_model(node: SchemaNode) -> bool:
    """Return True for the id of a model, which has a provider and a name."""
    return node.required_fields == ["provider", "name"]


def _is_item(keys: PathKeys) -> bool:
    """Return True if `keys` is the path of a list item."""
    parent = node_at(keys[:-1])
    return isinstance(keys[-1], Element) and parent is not None and parent.kind == "list"


def _format_count(partial: Partial, keys: PathKeys) -> str | None:
    """Return the number of items of a list as text; None if it is empty."""
    items: JsonValue = get_path(partial, format_path(keys))
    if not isinstance(items, list) or not items:
        return None
    return "1 item" if len(items) == 1 else f"{len(items)} items"


def _format_item(partial: Partial, keys: PathKeys) -> str | None:
    """Return the list item with the identity `keys` as JSON; None if there is none."""
    items: JsonValue = get_path(partial, format_path(keys[:-1]))
    node = node_at(keys[:-1])
    name = keys[-1]
    assert isinstance(name, Element)
    assert node is not None

    if not isinstance(items, list):
        return None
    for item in items:
        # Plain items are their own names. Objects have a field with the name.
        if item == name.json or get_identity(node, item) == name:
            return _format_json(mask_secrets(item, keys))
    return None


def _format_value(partial: Partial, keys: PathKeys) -> str | None:
    """Return the value at `keys` as JSON, a model as `provider/name`; None if it is not set."""
    value: JsonValue = get_path(partial, format_path(keys))
    node = node_at(keys)
    if node is not None and _is_model(node) and isinstance(value, dict):
        value = f"{value.get('provider', '?')}/{value.get('name', '?')}"
    return None if value is None else _format_json(mask_secrets(value, keys))


def _format_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
