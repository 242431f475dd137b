"""Convert one entry of a conversation between JP's encoding and plain text. No I/O.

JP encodes tool arguments, tool results, and metadata in base64. A text that base64 cannot restore
is stored unchanged, and `verbatim` lists its JSON pointer. The `spelling` of an entry
(`jp_nb.interop.json_text`) holds the differences from JP's usual text. It may also have:

- `flat`: true if the entry of a delta held the settings directly, not under `delta`;
- `fields`: keys of JP's entry named `verbatim` or `spelling`;
- `gap`: the text before the entry;
- `element`: true if the list item is not an object; the original `text` is then the whole item.

Source: `docs/record.md`, `docs/decisions.md` D7, D28.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.json_text import (
    JsonText,
    apply_spelling,
    find_spelling,
    pointer_below,
    read_value,
    same_json,
    sort_keys,
)
from jp_nb.json_values import JsonObject, as_object, replace_surrogates
from jp_nb.record.events import CONVERSATION_KINDS, NON_CONFIG_KEYS

PAD = "  "
"""Indentation of an entry in its file."""
FIRST_GAP, GAP = f"[\n{PAD}", f",\n{PAD}"
"""The text before the first entry, and before each other entry."""

_OURS = ("verbatim", "spelling")

# --- one entry -------------------------------------------------------------------------------


def read_entry(source: JsonText, *, first: bool) -> JsonObject:
    """Return the entry of JP in `source` in the form that is stored in a notebook."""
    how: JsonObject = {}
    entry: JsonObject = {}
    if isinstance(source.value, dict):
        entry = decode_entry(source.value)
        found = entry.pop("spelling", {})
        assert isinstance(found, dict)
        usual = usual_order(encode_entry({**entry, "spelling": found}))
        how = found | find_spelling(source, usual, PAD)
    else:
        how = {"element": True, "text": source.text}
    if source.gap != (FIRST_GAP if first else GAP):
        how["gap"] = source.gap
    if how:
        entry["spelling"] = how
    return entry


def decode_entry(raw: JsonObject) -> JsonObject:
    """Return an entry of JP with its base64 texts decoded."""
    how: JsonObject = {}
    entry = {key: item for key, item in raw.items() if key not in _OURS}
    if fields := {key: raw[key] for key in _OURS if key in raw}:
        how["fields"] = fields
    if _is_flat(raw):
        how["flat"] = True
        config = {key: item for key, item in entry.items() if key not in NON_CONFIG_KEYS}
        entry = {key: item for key, item in entry.items() if key in NON_CONFIG_KEYS}
        entry["delta"] = config
    verbatim: list[JsonValue] = []

    def decode(text: str, pointer: str) -> str:
        decoded = from_base64(text)
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


def encode_entry(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return the entry as JP stores it; the reverse of `decode_entry`.

    The hints `verbatim` and `spelling` may come from an untrusted notebook, so a hint that would
    change the content is ignored.
    """
    how = entry_spelling(entry)
    verbatim = entry.get("verbatim")
    kept = {x for x in verbatim if isinstance(x, str)} if isinstance(verbatim, list) else set()
    raw = {key: item for key, item in entry.items() if key not in _OURS}

    def encode(text: str, pointer: str) -> str:
        # JP would decode a text that is valid base64, so such a text is always encoded.
        return text if pointer in kept and from_base64(text) is None else to_base64(text)

    _map_encoded_texts(raw, encode)
    if how.get("flat") is True and isinstance(delta := raw.get("delta"), dict):
        rest = {key: item for key, item in raw.items() if key != "delta"}
        alone = rest.keys() <= NON_CONFIG_KEYS and not delta.keys() & (NON_CONFIG_KEYS | {"delta"})
        if alone and _is_flat(rest | delta):
            raw = rest | delta
    fields = how.get("fields")
    if isinstance(fields, dict):
        raw |= {key: item for key, item in fields.items() if key in _OURS}
    return raw


def entry_spelling(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return the spelling of `entry`, an empty object if it has none."""
    return as_object(entry.get("spelling"))


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
            return {k: _map_texts(v, pointer_below(pointer, k), change) for k, v in value.items()}
        case list():
            return [_map_texts(v, f"{pointer}/{i}", change) for i, v in enumerate(value)]
    return value


def from_base64(text: str) -> str | None:
    """Decode base64; return None unless `text` is the canonical encoding of UTF-8 text."""
    try:
        decoded = base64.b64decode(text, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == text else None
    except (binascii.Error, ValueError):
        return None


def to_base64(text: str) -> str:
    """Return `text` as JP encodes it."""
    return base64.b64encode(replace_surrogates(text).encode()).decode()


# --- the order of keys -----------------------------------------------------------------------

_ORDER: dict[str, tuple[str, ...]] = {
    "chat_request": ("content", "schema", "author"),
    "chat_response": ("message", "reasoning", "data"),
    "tool_call_request": ("id", "name", "arguments"),
    "tool_call_response": ("id", "content", "is_error"),
    "inquiry_request": ("id", "source", "question"),
    "inquiry_response": ("outcome", "id", "answer", "reason"),
    "config_delta": ("op", "delta", "unsets", "claims"),
    "compaction": ("from_turn", "to_turn", "summary", "reasoning", "tool_calls"),
}
_ORDER_BELOW: dict[str, dict[str, tuple[str, ...]]] = {
    "inquiry_request": {
        "source": ("source", "name"),
        "question": (
            "text",
            "answer_type",
            "default",
            "context",
            "exclusive",
            "header",
            "required",
            "persistence",
        ),
    },
    "compaction": {"tool_calls": ("policy", "request", "response")},
}


def usual_order(raw: Mapping[str, JsonValue]) -> JsonObject:
    """Return a copy of an entry with its keys in JP's order, other keys sorted."""
    entry = sort_keys(dict(raw))
    assert isinstance(entry, dict)
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in (*CONVERSATION_KINDS, *_ORDER):
        return entry
    stamp = ("timestamp", "type") if kind in CONVERSATION_KINDS else ("type", "timestamp")
    for key, order in _ORDER_BELOW.get(kind, {}).items():
        if isinstance(part := entry.get(key), dict):
            entry[key] = _with_key_order(part, order)
    if kind == "inquiry_request":  # objects within lists, which `_ORDER_BELOW` cannot name
        _arrange_options(entry.get("question"))
    before = ("event_id", "request_id", *stamp, *_ORDER.get(kind, ()))
    return _with_key_order(entry, before, last=("metadata",))


def _arrange_options(question: JsonValue) -> None:
    answer_type = question.get("answer_type") if isinstance(question, dict) else None
    if not isinstance(question, dict) or not isinstance(answer_type, dict):
        return
    options = answer_type.get("options")
    if isinstance(options, list):
        answer_type["options"] = [
            _with_key_order(o, ("value", "label", "description")) if isinstance(o, dict) else o
            for o in options
        ]
    question["answer_type"] = _with_key_order(answer_type, ("type", "options"))


def _with_key_order(
    value: JsonObject, first: Sequence[str], last: Collection[str] = ()
) -> dict[str, JsonValue]:
    head = [key for key in first if key in value]
    rest = [key for key in value if key not in first and key not in last]
    tail = [key for key in last if key in value]
    return {key: value[key] for key in (*head, *rest, *tail)}


# --- its text ---------------------------------------------------------------------------------


def entry_text(entry: JsonObject, index: int) -> str:
    """Return the text of entry `index` for JP's file.

    It is the original text if the entry has not changed since, else JP's usual text.
    """
    how = entry_spelling(entry)
    text = how.get("text")
    if isinstance(text, str) and _is_current_text(text, entry, index):
        return text
    return apply_spelling(usual_order(encode_entry(entry)), how, PAD)


def _is_current_text(text: str, entry: JsonObject, index: int) -> bool:
    try:
        source = read_value(text, f"events[{index}]")
    except StorageError:
        return False
    how = entry_spelling(entry)
    if source.text != text:
        return False
    if not isinstance(source.value, dict):
        return how.get("element") is True and entry.keys() == {"spelling"}
    read = decode_entry(source.value)
    flags: JsonObject = {key: how[key] for key in ("flat", "fields") if key in how}
    alike = same_json(entry_spelling(read), flags)
    return alike and same_json({**read, "spelling": None}, {**entry, "spelling": None})
