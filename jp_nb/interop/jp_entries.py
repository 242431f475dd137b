"""Convert the entries of JP's `events.json` from and to the entries of a record. No I/O.

JP is a command-line assistant. `events.json` of a conversation is the list of its entries.

JP encodes tool arguments, tool results, and metadata in base64. A text that base64 cannot restore
is stored unchanged, and `verbatim` of the entry lists its JSON pointer. The `spelling` of an entry
(`jp_nb.interop.json_spelling`) holds the differences from JP's usual text: the order of keys and
the notation of numbers, or, if these do not suffice, the whole original `text`. An entry may also
have:

- `flat`: true if the entry of a delta held the settings directly, not under `delta`;
- `fields`: the values of JP's entry at `verbatim` or `spelling`, if it has such keys itself;
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
from jp_nb.interop.jp_key_order import sort_usual_keys
from jp_nb.interop.json_comparison import same_json
from jp_nb.interop.json_spelling import apply_spelling, find_spelling
from jp_nb.interop.json_text import JsonText, join_pointer, read_value
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS, NON_CONFIG_KEYS
from jp_nb.storable_json import replace_surrogates

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
"""Keys of an entry of a record that only tell how its text in JP's file looked."""


def read_jp_entry(source: JsonText, *, first: bool) -> JsonObject:
    """Return the entry of JP in `source` in the form that is stored in a notebook.

    `first` is True for the first entry of the file, which follows another text than the others.
    """
    spelling: JsonObject = {}
    entry: JsonObject = {}

    if isinstance(source.value, dict):
        entry = decode_jp_entry(source.value)
        # What JP would write for the decoded entry: the spelling has the differences from it.
        usual = sort_usual_keys(encode_jp_entry(entry))
        spelling = as_object(entry.pop("spelling", {}))
        spelling |= find_spelling(source, usual, ENTRY_INDENT)
    else:
        spelling = {"element": True, "text": source.text}

    usual_gap = FIRST_ENTRY_GAP if first else ENTRY_GAP
    if source.gap != usual_gap:
        spelling["gap"] = source.gap

    if spelling:
        entry["spelling"] = spelling
    return entry


def decode_jp_entry(raw: JsonObject) -> JsonObject:
    """Return an entry of JP with its base64 texts decoded."""
    spelling: JsonObject = {}
    entry = {key: item for key, item in raw.items() if key not in _HINT_KEYS}

    # An entry of JP may have fields with the names of our hints.
    if fields := {key: raw[key] for key in _HINT_KEYS if key in raw}:
        spelling["fields"] = fields

    if _is_flat(raw):
        spelling["flat"] = True
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
    if spelling:
        entry["spelling"] = spelling
    return entry


def _is_flat(raw: Mapping[str, JsonValue]) -> bool:
    """Return True for a delta whose settings are directly in the entry, as JP wrote until 2025."""
    if raw.get("type") != "config_delta" or "delta" in raw or raw.get("op") is not None:
        return False
    return not raw.keys() <= NON_CONFIG_KEYS


def encode_jp_entry(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return the entry as JP stores it; the reverse of `decode_jp_entry`.

    The hints `verbatim` and `spelling` may come from an untrusted notebook, so a hint that would
    change the content is ignored.
    """
    spelling = as_object(entry.get("spelling"))
    verbatim = entry.get("verbatim")
    unencoded: set[str] = set()  # pointers of texts that were not in base64
    if isinstance(verbatim, list):
        unencoded.update(pointer for pointer in verbatim if isinstance(pointer, str))

    raw = {key: item for key, item in entry.items() if key not in _HINT_KEYS}

    def encode(text: str, pointer: str) -> str:
        # JP would decode a text that is valid base64, so such a text is always encoded.
        may_stay = pointer in unencoded and decode_base64(text) is None
        return text if may_stay else encode_base64(text)

    _map_encoded_texts(raw, encode)

    delta = raw.get("delta")
    if spelling.get("flat") is True and isinstance(delta, dict):
        fields_of_entry = {key: item for key, item in raw.items() if key != "delta"}
        flat = fields_of_entry | delta
        # No setting may be read back as a field of the entry, or a field as a setting.
        has_only_fields = fields_of_entry.keys() <= NON_CONFIG_KEYS
        has_only_settings = not delta.keys() & (NON_CONFIG_KEYS | {"delta"})
        if has_only_fields and has_only_settings and _is_flat(flat):
            raw = flat

    fields = spelling.get("fields")
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
    """Return a copy of `value`, which is at `pointer`, with each text changed."""
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


def format_jp_entry(entry: JsonObject, index: int) -> str:
    """Return the text of entry `index` for JP's file.

    It is the original text if the entry has not changed since, else JP's usual text.
    """
    spelling = as_object(entry.get("spelling"))
    text = spelling.get("text")
    if isinstance(text, str) and _is_current_text(text, entry, index):
        return text
    return apply_spelling(sort_usual_keys(encode_jp_entry(entry)), spelling, ENTRY_INDENT)


def _is_current_text(text: str, entry: JsonObject, index: int) -> bool:
    """Return True if `text` is the text of `entry` as it is now."""
    try:
        source = read_value(text, f"events[{index}]")
    except StorageError:
        return False

    if source.text != text:  # it has white space around the value
        return False

    spelling = as_object(entry.get("spelling"))
    if not isinstance(source.value, dict):
        return spelling.get("element") is True and entry.keys() == {"spelling"}

    decoded = decode_jp_entry(source.value)
    # `flat` and `fields` follow from the text of the entry. The rest of the spelling does not, such
    # as the text before the entry.
    of_text: JsonObject = {key: spelling[key] for key in ("flat", "fields") if key in spelling}
    has_same_form = same_json(as_object(decoded.get("spelling")), of_text)
    return has_same_form and same_json({**decoded, "spelling": None}, {**entry, "spelling": None})
