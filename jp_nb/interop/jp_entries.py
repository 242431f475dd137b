"""Convert the entries of JP's `events.json` from and to the entries of a record. No I/O.

JP encodes tool arguments, tool results, and metadata in base64. A text that base64 cannot restore
is stored unchanged, and `verbatim` of the entry lists its JSON pointer. The `spelling` of an entry
(`jp_nb.interop.json_text`) holds the differences from JP's usual text. It may also have:

- `flat`: true if the entry of a delta held the settings directly, not under `delta`;
- `fields`: keys of JP's entry named `verbatim` or `spelling`;
- `gap`: the text before the entry;
- `element`: true if the list item is not an object; the original `text` is then the whole item.

Source: `docs/record.md`; `docs/decisions.md` D7, D28.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.json_text import (
    JsonText,
    apply_spelling,
    find_spelling,
    join_pointer,
    read_value,
    same_json,
    sort_keys,
)
from jp_nb.json_values import JsonObject, as_object, replace_surrogates
from jp_nb.record.entries.events import CONVERSATION_KINDS, NON_CONFIG_KEYS

ENTRY_INDENT = "  "
"""Indentation of an entry in its file."""
FIRST_ENTRY_GAP = f"[\n{ENTRY_INDENT}"
ENTRY_GAP = f",\n{ENTRY_INDENT}"
"""The text before the first entry, and before each other entry."""
ENTRIES_END = "\n]\n"
"""The text after the last entry."""
NO_ENTRIES = "[]\n"
"""The whole text if there are no entries."""

_HINT_KEYS = ("verbatim", "spelling")


def read_jp_entry(source: JsonText, *, first: bool) -> JsonObject:
    """Return the entry of JP in `source` in the form that is stored in a notebook."""
    how: JsonObject = {}
    entry: JsonObject = {}

    if isinstance(source.value, dict):
        entry = decode_jp_entry(source.value)
        found = entry.pop("spelling", {})
        assert isinstance(found, dict)
        usual = sort_usual_keys(encode_jp_entry({**entry, "spelling": found}))
        how = found | find_spelling(source, usual, ENTRY_INDENT)
    else:
        how = {"element": True, "text": source.text}

    usual_gap = FIRST_ENTRY_GAP if first else ENTRY_GAP
    if source.gap != usual_gap:
        how["gap"] = source.gap

    if how:
        entry["spelling"] = how
    return entry


def decode_jp_entry(raw: JsonObject) -> JsonObject:
    """Return an entry of JP with its base64 texts decoded."""
    how: JsonObject = {}
    entry = {key: item for key, item in raw.items() if key not in _HINT_KEYS}

    if fields := {key: raw[key] for key in _HINT_KEYS if key in raw}:
        how["fields"] = fields

    if _is_flat(raw):
        how["flat"] = True
        config = {key: item for key, item in entry.items() if key not in NON_CONFIG_KEYS}
        entry = {key: item for key, item in entry.items() if key in NON_CONFIG_KEYS}
        entry["delta"] = config

    verbatim: list[JsonValue] = []

    def decode(text: str, pointer: str) -> str:
        decoded = decode_base64(text)
        if decoded is None:
            verbatim.append(pointer)
        return text if decoded is None else decoded

    _map_encoded_texts(entry, decode)

    if verbatim:
        entry["verbatim"] = verbatim

    if how:
        entry["spelling"] = how
    return entry


def _is_flat(raw: Mapping[str, JsonValue]) -> bool:
    # JP wrote deltas without a key `delta` until 2025.
    if raw.get("type") != "config_delta" or "delta" in raw or raw.get("op") is not None:
        return False
    return not raw.keys() <= NON_CONFIG_KEYS


def encode_jp_entry(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return the entry as JP stores it; the reverse of `decode_jp_entry`.

    The hints `verbatim` and `spelling` may come from an untrusted notebook, so a hint that would
    change the content is ignored.
    """
    how = as_object(entry.get("spelling"))
    verbatim = entry.get("verbatim")
    kept = {x for x in verbatim if isinstance(x, str)} if isinstance(verbatim, list) else set()
    raw = {key: item for key, item in entry.items() if key not in _HINT_KEYS}

    def encode(text: str, pointer: str) -> str:
        # JP would decode a text that is valid base64, so such a text is always encoded.
        return text if pointer in kept and decode_base64(text) is None else encode_base64(text)

    _map_encoded_texts(raw, encode)

    if how.get("flat") is True and isinstance(delta := raw.get("delta"), dict):
        rest = {key: item for key, item in raw.items() if key != "delta"}
        alone = rest.keys() <= NON_CONFIG_KEYS and not delta.keys() & (NON_CONFIG_KEYS | {"delta"})
        if alone and _is_flat(rest | delta):
            raw = rest | delta

    fields = how.get("fields")
    if isinstance(fields, dict):
        raw |= {key: item for key, item in fields.items() if key in _HINT_KEYS}

    return raw


def _map_encoded_texts(entry: JsonObject, change: Callable[[str, str], str]) -> None:
    """Apply `change(text, pointer)` in place to each text of `entry` that JP encodes."""
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in CONVERSATION_KINDS:
        return

    if "metadata" in entry:
        entry["metadata"] = _map_texts(entry["metadata"], "/metadata", change)
    if kind == "tool_call_request" and "arguments" in entry:
        entry["arguments"] = _map_texts(entry["arguments"], "/arguments", change)
    if kind == "tool_call_response" and isinstance(content := entry.get("content"), str):
        entry["content"] = change(content, "/content")


def _map_texts(value: JsonValue, pointer: str, change: Callable[[str, str], str]) -> JsonValue:
    match value:
        case str():
            return change(value, pointer)
        case dict():
            return {k: _map_texts(v, join_pointer(pointer, k), change) for k, v in value.items()}
        case list():
            return [_map_texts(v, f"{pointer}/{i}", change) for i, v in enumerate(value)]
    return value


def decode_base64(text: str) -> str | None:
    """Decode base64; return None unless `text` is the canonical encoding of UTF-8 text."""
    try:
        decoded = base64.b64decode(text, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == text else None
    except (binascii.Error, ValueError):
        return None


def encode_base64(text: str) -> str:
    """Return `text` as JP encodes it."""
    return base64.b64encode(replace_surrogates(text).encode()).decode()


# --- the order of keys -----------------------------------------------------------------------

_Order = dict[str, "_Order | list[_Order]"]
"""Keys in JP's order, with the order inside of each; a list for the items of a list."""


def _make_order(*names: str, **nested: _Order | list[_Order]) -> _Order:
    return {name: nested.get(name, {}) for name in names}


_ANSWER_TYPE = _make_order(
    "type", "options", options=[_make_order("value", "label", "description")]
)
_QUESTION = _make_order(
    *("text", "answer_type", "default", "context", "exclusive", "header", "required"),
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
        *("from_turn", "to_turn", "summary", "reasoning", "tool_calls"), tool_calls=_TOOL_CALLS
    ),
}


def sort_usual_keys(raw: Mapping[str, JsonValue]) -> JsonObject:
    """Return a copy of an entry with its keys in JP's order, other keys sorted."""
    entry = sort_keys(dict(raw))
    assert isinstance(entry, dict)
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in (*CONVERSATION_KINDS, *_ORDER):
        return entry

    stamp = ("timestamp", "type") if kind in CONVERSATION_KINDS else ("type", "timestamp")
    first = _make_order("event_id", "request_id", *stamp) | _ORDER.get(kind, {})

    if "metadata" in entry:
        entry["metadata"] = entry.pop("metadata")  # the last key
    return as_object(_arrange(entry, first))


def _arrange(value: JsonValue, order: _Order | list[_Order]) -> JsonValue:
    if isinstance(order, list):
        return [_arrange(item, order[0]) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value

    keys = [*(key for key in order if key in value), *(key for key in value if key not in order)]
    return {key: _arrange(value[key], order.get(key, {})) for key in keys}


# --- its text ---------------------------------------------------------------------------------


def format_jp_entry(entry: JsonObject, index: int) -> str:
    """Return the text of entry `index` for JP's file.

    It is the original text if the entry has not changed since, else JP's usual text.
    """
    how = as_object(entry.get("spelling"))
    text = how.get("text")
    if isinstance(text, str) and _is_current_text(text, entry, index):
        return text
    return apply_spelling(sort_usual_keys(encode_jp_entry(entry)), how, ENTRY_INDENT)


def _is_current_text(text: str, entry: JsonObject, index: int) -> bool:
    try:
        source = read_value(text, f"events[{index}]")
    except StorageError:
        return False

    how = as_object(entry.get("spelling"))
    if source.text != text:
        return False
    if not isinstance(source.value, dict):
        return how.get("element") is True and entry.keys() == {"spelling"}

    read = decode_jp_entry(source.value)
    flags: JsonObject = {key: how[key] for key in ("flat", "fields") if key in how}
    alike = same_json(as_object(read.get("spelling")), flags)
    return alike and same_json({**read, "spelling": None}, {**entry, "spelling": None})
