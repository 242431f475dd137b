"""A proposed configuration change, as a person reads it.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from jp_nb.agent.prompts import ProposedChange
from jp_nb.config.masking import masked
from jp_nb.config.partial import (
    Partial,
    get_path,
    identity,
)
from jp_nb.config.paths import Element, Keys, format_path, parse_path
from jp_nb.config.proposal import Proposal
from jp_nb.config.schema import SchemaNode, node_at


def proposed_changes(proposal: Proposal) -> Iterator[ProposedChange]:
    """Everything that `proposal` changes, one line a change: what it sets, then what it unsets.

    A model's provider and name are one line; what may be a secret is not shown.
    """
    now, after = proposal.basis.values, proposal.after
    shown = dict[Keys, None]()
    for keys, value in proposal.change.leaves.items():
        line = _line_of(keys)
        if line in shown:
            continue
        shown[line] = None
        if _is_item(line):
            item = _json(masked(value, line))
            has = _count(now, line[:-1])
            yield ProposedChange(format_path(line[:-1]), has, item, added=True)
        else:
            text = _text_at(after, line)
            proposed = _json(masked(value, line)) if text is None else text
            yield ProposedChange(format_path(line), _text_at(now, line), proposed)
    for path in proposal.change.unsets:
        keys = parse_path(path)
        if keys in shown:
            continue
        if _is_item(keys):
            yield ProposedChange(path, _item_at(now, keys), None)
        else:
            yield ProposedChange(path, _text_at(now, keys), None, then=_text_at(after, keys))


def changes_nothing(proposal: Proposal) -> bool:
    """True if all that `proposal` sets was so when the batch began, and what it unsets unset."""
    unset = map(parse_path, proposal.change.unsets)
    if any(_is_set(proposal.basis.partial, keys) for keys in unset):
        return False  # also if a file says the same: it would be unset all the same
    now, after = proposal.basis.values, proposal.after
    # An item changes its list. Compared as JSON: to Python, 1 is true.
    paths = {format_path(keys[:-1] if _is_item(keys) else keys) for keys in proposal.change.leaves}
    return all(_json(get_path(now, path)) == _json(get_path(after, path)) for path in paths)


def _is_set(partial: Partial, keys: Keys) -> bool:
    if _is_item(keys):
        return _item_at(partial, keys) is not None
    return get_path(partial, format_path(keys)) is not None


def _line_of(keys: Keys) -> Keys:
    """The keys of the line that shows a leaf."""
    above = node_at(keys[:-1])
    return keys[:-1] if above is not None and _is_model(above) else keys


def _is_model(node: SchemaNode) -> bool:
    return node.requires == ["provider", "name"]


def _is_item(keys: Keys) -> bool:
    above = node_at(keys[:-1])
    return isinstance(keys[-1], Element) and above is not None and above.kind == "list"


def _count(partial: Partial, keys: Keys) -> str | None:
    """Return the number of items of the list there, in words; None without any."""
    items: JsonValue = get_path(partial, format_path(keys))
    count = len(items) if isinstance(items, list) else 0
    return f"{count} item{'' if count == 1 else 's'}" if count else None


def _item_at(partial: Partial, keys: Keys) -> str | None:
    """The item that `keys` name, as JSON; None if the list has no such item."""
    items: JsonValue = get_path(partial, format_path(keys[:-1]))
    node, name = node_at(keys[:-1]), keys[-1]
    assert isinstance(name, Element)
    assert node is not None
    for item in items if isinstance(items, list) else ():
        if item == name.json or identity(node, item) == name:
            return _json(masked(item, keys))
    return None


def _text_at(partial: Partial, keys: Keys) -> str | None:
    """Return what `partial` holds there as JSON, a model as `provider/name`; None if nothing."""
    value: JsonValue = get_path(partial, format_path(keys))
    node = node_at(keys)
    if node is not None and _is_model(node) and isinstance(value, dict):
        value = "/".join(str(value.get(part, "?")) for part in ("provider", "name"))
    return None if value is None else _json(masked(value, keys))


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
