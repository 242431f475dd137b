"""One entry of a conversation: as JP stores it, and in plain text as a notebook keeps it. Pure.

JP encodes tool arguments, tool results and metadata in base64. What does not survive decoding and
encoding is kept as found, and the entry says where: `verbatim`, a list of JSON pointers. How the
text of an entry differs from the usual one is its `spelling` (`jp_nb.interop.json_text`), with,
where that applies,

- `flat`: the configuration of the delta stood on the entry itself;
- `fields`: keys of the entry that are called like these two;
- `gap`: what stood in front of it;
- `element`: it is not an object at all, its `text` is all there is.

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
"""How far an entry is indented in its file."""
FIRST_GAP, GAP = f"[\n{PAD}", f",\n{PAD}"
"""What stands in front of the first entry, and of the others."""

_OURS = ("verbatim", "spelling")

# --- one entry -------------------------------------------------------------------------------


def read_entry(source: JsonText, *, first: bool) -> JsonObject:
    """Return the entry as a notebook keeps it."""
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
    """Return an entry of JP with everything that is encoded in it as plain text."""
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

    _convert(entry, decode)
    if verbatim:
        entry["verbatim"] = verbatim
    if how:
        entry["spelling"] = how
    return entry


def _is_flat(raw: Mapping[str, JsonValue]) -> bool:
    """Return True if the configuration stands on the delta itself, as in 2025."""
    if raw.get("type") != "config_delta" or "delta" in raw or raw.get("op") is not None:
        return False
    return not raw.keys() <= NON_CONFIG_KEYS


def encode_entry(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return the entry as JP stores it: `decode_entry` undone.

    Anybody may have written the hints. One that would make the entry say something else is passed
    over.
    """
    how = entry_spelling(entry)
    verbatim = entry.get("verbatim")
    kept = set(filter(_is_text, verbatim)) if isinstance(verbatim, list) else set()
    raw = {key: item for key, item in entry.items() if key not in _OURS}

    def encode(text: str, pointer: str) -> str:
        # A text that could be decoded would be read back as something else.
        return text if pointer in kept and from_base64(text) is None else to_base64(text)

    _convert(raw, encode)
    if how.get("flat") is True and isinstance(delta := raw.get("delta"), dict):
        rest = {key: item for key, item in raw.items() if key != "delta"}
        alone = rest.keys() <= NON_CONFIG_KEYS and not delta.keys() & (NON_CONFIG_KEYS | {"delta"})
        if alone and _is_flat(rest | delta):
            raw = rest | delta
    fields = how.get("fields")
    if isinstance(fields, dict):
        raw |= {key: item for key, item in fields.items() if key in _OURS}
    return raw


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


def entry_spelling(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return how the text of `entry` differs from the usual one."""
    return as_object(entry.get("spelling"))


def _convert(entry: JsonObject, change: Callable[[str, str], str]) -> None:
    """Put every text of `entry` that JP encodes through `change`, with its pointer."""
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in CONVERSATION_KINDS:
        return
    if "metadata" in entry:
        entry["metadata"] = _leaves(entry["metadata"], "/metadata", change)
    if kind == "tool_call_request" and "arguments" in entry:
        entry["arguments"] = _leaves(entry["arguments"], "/arguments", change)
    if kind == "tool_call_response" and isinstance(content := entry.get("content"), str):
        entry["content"] = change(content, "/content")


def _leaves(value: JsonValue, pointer: str, change: Callable[[str, str], str]) -> JsonValue:
    match value:
        case str():
            return change(value, pointer)
        case dict():
            return {k: _leaves(v, pointer_below(pointer, k), change) for k, v in value.items()}
        case list():
            return [_leaves(v, f"{pointer}/{i}", change) for i, v in enumerate(value)]
    return value


def from_base64(text: str) -> str | None:
    """Return what `text` encodes in base64; None if it is not the one encoding of some text."""
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
    """Return a copy of an entry with its keys as JP puts them, sorted where JP has no order."""
    entry = sort_keys(dict(raw))
    assert isinstance(entry, dict)
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in (*CONVERSATION_KINDS, *_ORDER):
        return entry
    stamp = ("timestamp", "type") if kind in CONVERSATION_KINDS else ("type", "timestamp")
    for key, order in _ORDER_BELOW.get(kind, {}).items():
        if isinstance(part := entry.get(key), dict):
            entry[key] = _arranged(part, order)
    if kind == "inquiry_request":  # objects within lists, which `_ORDER_BELOW` cannot name
        _arrange_options(entry.get("question"))
    before = ("event_id", "request_id", *stamp, *_ORDER.get(kind, ()))
    return _arranged(entry, before, last=("metadata",))


def _arrange_options(question: JsonValue) -> None:
    answer_type = question.get("answer_type") if isinstance(question, dict) else None
    if not isinstance(question, dict) or not isinstance(answer_type, dict):
        return
    options = answer_type.get("options")
    if isinstance(options, list):
        answer_type["options"] = [
            _arranged(o, ("value", "label", "description")) if isinstance(o, dict) else o
            for o in options
        ]
    question["answer_type"] = _arranged(answer_type, ("type", "options"))


def _arranged(
    value: JsonObject, first: Sequence[str], last: Collection[str] = ()
) -> dict[str, JsonValue]:
    head = [key for key in first if key in value]
    rest = [key for key in value if key not in first and key not in last]
    tail = [key for key in last if key in value]
    return {key: value[key] for key in (*head, *rest, *tail)}


# --- its text ---------------------------------------------------------------------------------


def entry_text(entry: JsonObject, index: int) -> str:
    """Return the text of entry number `index`: as read if it still says that, else as JP writes."""
    how = entry_spelling(entry)
    text = how.get("text")
    if isinstance(text, str) and _says(text, entry, index):
        return text
    return apply_spelling(usual_order(encode_entry(entry)), how, PAD)


def _says(text: str, entry: JsonObject, index: int) -> bool:
    """Return True if `text` is still what the entry should say."""
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
