"""The order of keys in the entries of JP's files.

JP is a command-line assistant. A notebook sorts the keys of an entry; an export writes them in this
order, so that an imported entry is written back byte for byte.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.interop.json_comparison import sort_keys
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS

_Order = dict[str, "_Order | list[_Order]"]
"""Keys in JP's order, with the order inside of each; a list for the items of a list."""


def _make_order(*names: str, **nested: _Order | list[_Order]) -> _Order:
    """Return the order of the keys `names`. `nested` has the order inside of some of them."""
    return {name: nested.get(name, {}) for name in names}


_ANSWER_TYPE = _make_order(
    "type", "options", options=[_make_order("value", "label", "description")]
)
_QUESTION = _make_order(
    "text",
    "answer_type",
    "default",
    "context",
    "exclusive",
    "header",
    "required",
    "persistence",
    answer_type=_ANSWER_TYPE,
)
_TOOL_CALLS = _make_order("policy", "request", "response")
_ORDER: dict[str, _Order] = {
    "chat_request": _make_order("content", "schema", "author"),
    "chat_response": _make_order("message", "reasoning", "data"),
    "tool_call_request": _make_order("id", "name", "arguments"),
    "tool_call_response": _make_order("id", "content", "is_error"),
    "inquiry_request": _make_order(
        "id", "source", "question", source=_make_order("source", "name"), question=_QUESTION
    ),
    "inquiry_response": _make_order("outcome", "id", "answer", "reason"),
    "config_delta": _make_order("op", "delta", "unsets", "claims"),
    "compaction": _make_order(
        "from_turn", "to_turn", "summary", "reasoning", "tool_calls", tool_calls=_TOOL_CALLS
    ),
}


def sort_usual_keys(raw: Mapping[str, JsonValue]) -> JsonObject:
    """Return a copy of an entry with its keys in JP's order, other keys sorted.

    JP writes the type of an entry of a turn (`CONVERSATION_KINDS`), such as a request, after its
    time. It writes that of a change of the configuration or a compaction before its time. An entry
    of a type that JP does not know has all keys sorted.
    """
    entry = sort_keys(dict(raw))
    assert isinstance(entry, dict)
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in (*CONVERSATION_KINDS, *_ORDER):
        return entry

    stamp = ("timestamp", "type") if kind in CONVERSATION_KINDS else ("type", "timestamp")
    first_keys = _make_order("event_id", "request_id", *stamp) | _ORDER.get(kind, {})

    if "metadata" in entry:  # make it the last key
        entry["metadata"] = entry.pop("metadata")
    return as_object(_arrange(entry, first_keys))


def _arrange(value: JsonValue, order: _Order | list[_Order]) -> JsonValue:
    """Return a copy of `value` with the keys of `order` first. Other keys keep their order."""
    if isinstance(order, list):
        if not isinstance(value, list):
            return value
        return [_arrange(item, order[0]) for item in value]

    if not isinstance(value, dict):
        return value

    first_keys = [key for key in order if key in value]
    other_keys = [key for key in value if key not in order]
    keys = first_keys + other_keys
    return {key: _arrange(value[key], order.get(key, {})) for key in keys}
