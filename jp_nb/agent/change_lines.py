"""A proposed configuration change, as a person reads it.

Source: `spec/tools-and-turn-loop.md` 8.5.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from jp_nb.agent.ports import ProposedChange
from jp_nb.config.models import resolve_partial
from jp_nb.config.partial import apply, at, settled, touched
from jp_nb.config.paths import Element, Node, format_path, node_at, parse_path
from jp_nb.config.proposal import Basis, Proposal
from jp_nb.config.secrets import masked

Keys = tuple[str, ...]


def proposed_changes(proposal: Proposal, basis: Basis) -> Iterator[ProposedChange]:
    """Everything that `proposal` changes, one line a change: what it sets, then what it unsets.

    A model's provider and name are one line; what may be a secret is not shown.
    """
    now = basis.config.model_dump(mode="json", exclude_none=True, by_alias=True)
    now = resolve_partial(now, basis.config.providers.llm.aliases)
    after = settled(apply(basis.partial, proposal.change, basis.below))
    shown = dict[Keys, None]()
    for keys, value in touched(proposal.change.delta):
        line = _line_of(keys)
        if line in shown:
            continue
        shown[line] = None
        if _is_item(line):
            item, field = _json(masked(value, line)), line[:-1]
            yield ProposedChange(format_path(field), _text_at(now, field), item, added=True)
        else:
            text = _text_at(after, line)
            proposed = _json(masked(value, line)) if text is None else text
            yield ProposedChange(format_path(line), _text_at(now, line), proposed)
    for path in proposal.change.unsets:
        keys = parse_path(path)
        if keys in shown:
            continue
        if _is_item(keys):  # of the items there are, this one goes
            yield ProposedChange(path, _text_at(now, keys[:-1]), None)
        else:
            yield ProposedChange(path, _text_at(now, keys), None, then=_text_at(after, keys))


def _line_of(keys: Keys) -> Keys:
    """The keys of the line that shows a leaf."""
    above = node_at(keys[:-1])
    return keys[:-1] if above is not None and _is_model(above) else keys


def _is_model(node: Node) -> bool:
    return node.requires == ["provider", "name"]


def _is_item(keys: Keys) -> bool:
    above = node_at(keys[:-1])
    return isinstance(keys[-1], Element) and above is not None and above.kind == "list"


def _text_at(partial: dict[str, JsonValue], keys: Keys) -> str | None:
    """What `partial` holds there, as JSON, a model as `provider/name`; None if nothing."""
    value: JsonValue = at(partial, format_path(keys))
    node = node_at(keys)
    if node is not None and _is_model(node) and isinstance(value, dict):
        value = "/".join(str(value.get(part, "?")) for part in ("provider", "name"))
    return None if value is None else _json(masked(value, keys))


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
