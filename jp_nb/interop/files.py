"""Convert the files of JP's conversation directories from and to `jp` objects. No I/O.

JP (https://github.com/dcdpr/jp) is a command-line assistant. A `jp` object
(`jp_nb.record.document`) stores its conversation in plain text. Further details are stored on the
entries and in `conversation.origin`, so that unchanged parts are written back byte for byte.

JP encodes tool arguments, tool results, and metadata in base64. A text that base64 cannot restore
is stored unchanged, and `verbatim` of the entry lists its JSON pointer. The `spelling` of an entry
(`jp_nb.interop.json_text`) holds the differences from JP's usual text. It may also have:

- `flat`: true if the entry of a delta held the settings directly, not under `delta`;
- `fields`: keys of JP's entry named `verbatim` or `spelling`;
- `gap`: the text before the entry;
- `element`: true if the list item is not an object; the original `text` is then the whole item.

`origin` has these keys:

- `directory`: its name, for information; `entries`: the number of imported entries;
- `metadata`: the text of `metadata.json`;
- `base_config`: the spelling of `base_config.json`; if the file has the form `{base, init}`, also
  `init`, the number of leading `events` that it contains (null: no key `init`), and `extra` keys;
- `leading`: the first entry of the older layout without `base_config.json`, as `entry`; `delta` is
  true if its delta was moved to `base_config`;
- `after`: the text after the last entry; `files`: other text files; `left_out`: names of files
  that were skipped.

Source: `docs/record.md`; `docs/decisions.md` D7, D28.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.jp_head import convert_for_head
from jp_nb.interop.json_text import (
    JsonText,
    apply_spelling,
    find_spelling,
    join_pointer,
    read_list,
    read_value,
    render_json,
    same_json,
    sort_keys,
)
from jp_nb.json_values import JsonObject, as_object, replace_surrogates
from jp_nb.record.clock import Clock, format_timestamp, make_conversation_id, parse_timestamp
from jp_nb.record.document import RECORD_VERSION
from jp_nb.record.events import CONVERSATION_KINDS, NON_CONFIG_KEYS

METADATA_FILE = "metadata.json"
BASE_CONFIG_FILE = "base_config.json"
EVENTS_FILE = "events.json"
DIRECTORY_FILES = (METADATA_FILE, BASE_CONFIG_FILE, EVENTS_FILE)
"""In write order: an interrupted export leaves a readable directory."""

MAX_DIRECTORY_FILE_BYTES = 64 * 1024 * 1024
MAX_OTHER_BYTES = 64 * 1024
"""Limit for all other files together, because they are stored in the notebook."""

MAX_NAME_BYTES = 200
"""Longest name of another file; leaves room for the suffix of a temporary file."""

Dialect = Literal["native", "jp-head"]

_OTHER_NAME = re.compile(r"\w[\w .-]*")
_AFTER = "\n]\n"
_EMPTY = "[]\n"
_BEFORE_ONE = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*")
_BETWEEN = re.compile("[ \t\r\n]*,[ \t\r\n]*")
_EMPTY_LIST = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*\\][ \t\r\n]*")
_BEHIND = re.compile("[ \t\r\n]*\\][ \t\r\n]*")


ENTRY_INDENT = "  "
"""Indentation of an entry in its file."""
FIRST_ENTRY_GAP = f"[\n{ENTRY_INDENT}"
ENTRY_GAP = f",\n{ENTRY_INDENT}"
"""The text before the first entry, and before each other entry."""

_OURS = ("verbatim", "spelling")

# --- entries -------------------------------------------------------------------------------


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
    raw = {key: item for key, item in entry.items() if key not in _OURS}

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
        raw |= {key: item for key, item in fields.items() if key in _OURS}

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


def _keys(*names: str, **nested: _Order | list[_Order]) -> _Order:
    return {name: nested.get(name, {}) for name in names}


_ANSWER_TYPE = _keys("type", "options", options=[_keys("value", "label", "description")])
_QUESTION = _keys(
    *("text", "answer_type", "default", "context", "exclusive", "header", "required"),
    "persistence",
    answer_type=_ANSWER_TYPE,
)
_TOOL_CALLS = _keys("policy", "request", "response")
_ORDER: dict[str, _Order] = {
    "chat_request": _keys("content", "schema", "author"),
    "chat_response": _keys("message", "reasoning", "data"),
    "tool_call_request": _keys("id", "name", "arguments"),
    "tool_call_response": _keys("id", "content", "is_error"),
    "inquiry_request": _keys(
        "id", "source", "question", source=_keys("source", "name"), question=_QUESTION
    ),
    "inquiry_response": _keys("outcome", "id", "answer", "reason"),
    "config_delta": _keys("op", "delta", "unsets", "claims"),
    "compaction": _keys(
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
    first = _keys("event_id", "request_id", *stamp) | _ORDER.get(kind, {})

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


# --- directories ------------------------------------------------------------------------------


class Directory(NamedTuple):
    """Files of a conversation directory, and one line for each part that they cannot express."""

    files: dict[str, bytes]
    dropped: list[str]


def read_directory(
    name: str, files: Mapping[str, bytes], *, clock: Clock, skipped: Sequence[str] = ()
) -> JsonObject:
    """Return the `jp` object of the conversation in JP's directory `name`.

    The id comes from the directory's name, else from the first timestamp, else from the clock.
    Other files are UTF-8 text. `skipped` are the names of files that were not read.

    Raises:
        StorageError: A file is missing, is not UTF-8, or is not the JSON of a conversation. The
            message names the file.
    """
    if EVENTS_FILE not in files:
        older = " (JP itself no longer reads messages.json)" if "messages.json" in files else ""
        raise StorageError(f"not a conversation of JP: {EVENTS_FILE} is missing{older}", place=name)

    sources, after = read_list(_decode_file(files, EVENTS_FILE), EVENTS_FILE)
    events = [read_jp_entry(source, first=not i) for i, source in enumerate(sources)]
    origin: JsonObject = {"directory": name}

    title: JsonValue = None
    if METADATA_FILE in files:
        origin["metadata"] = text = _decode_file(files, METADATA_FILE)
        title = _parse_metadata(text).get("title")

    if BASE_CONFIG_FILE in files:
        config, init, kept = _read_base(_decode_file(files, BASE_CONFIG_FILE))
        events = [*init, *events]
        origin["base_config"] = kept
    elif events and events[0].get("type") == "config_delta":
        config, origin["leading"] = _without_delta(events.pop(0))
    else:
        raise StorageError(
            f"{BASE_CONFIG_FILE} is missing, and {EVENTS_FILE} does not begin with a "
            "configuration, as older versions of JP wrote it. "
            f"Create {BASE_CONFIG_FILE} with the content {{}}",
            place=name,
        )

    usual_end = _AFTER if sources else _EMPTY
    if after != usual_end:
        origin["after"] = after
    origin["entries"] = len(events)

    if others := {
        file: files[file].decode() for file in sorted(files.keys() - set(DIRECTORY_FILES))
    }:
        origin["files"] = dict[str, JsonValue](others)

    if skipped:
        origin["left_out"] = list[JsonValue](sorted(skipped))

    head: JsonObject = {"id": _make_id(name, events, clock)}
    if isinstance(title, str) and title:
        head["title"] = title

    return {
        "version": RECORD_VERSION,
        "conversation": {**head, "made": "imported", "origin": origin},
        "base_config": config,
        "events": events,  # type: ignore[dict-item]  # list is invariant
    }


def _decode_file(files: Mapping[str, bytes], file: str) -> str:
    content = files[file]
    if len(content) > MAX_DIRECTORY_FILE_BYTES:
        raise StorageError(f"more than {MAX_DIRECTORY_FILE_BYTES // 1024**2} MB", place=file)

    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise StorageError(f"not UTF-8: {exc.reason} at byte {exc.start}", place=file) from exc


def _require_object(value: JsonValue, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise StorageError(f"expected an object, found {type(value).__name__}", place=place)
    return value


def is_other_name(file: str) -> bool:
    """Return True if `file` may be the name of a file that JP did not write."""
    is_plain = _OTHER_NAME.fullmatch(file) is not None and not file.endswith((".", " "))
    short = len(replace_surrogates(file).encode()) <= MAX_NAME_BYTES
    return is_plain and short and file.casefold() not in DIRECTORY_FILES and not is_temporary(file)


def is_temporary(file: str) -> bool:
    """Return True if `file` is a temporary file of JP, left by an interrupted write."""
    return file.casefold().endswith(".tmp")


def _make_id(name: str, events: Iterable[JsonObject], clock: Clock) -> str:
    digits = name.partition("-")[0]
    if digits.isascii() and digits.isdecimal():
        return f"jp-c{digits}"
    moments = (_parse_moment(entry.get("timestamp")) for entry in events)
    return make_conversation_id(next((m for m in moments if m is not None), None) or clock())


def _parse_moment(timestamp: JsonValue) -> datetime | None:
    """Parse a stored timestamp. Return None if it is invalid or before 1970."""
    found = parse_timestamp(timestamp) if isinstance(timestamp, str) else None
    return found if found is not None and found.year >= 1970 else None


def _read_base(text: str) -> tuple[JsonObject, list[JsonObject], JsonObject]:
    """Return the configuration, its `init` changes, and the spelling of the file."""
    source = read_value(text, BASE_CONFIG_FILE)
    value = _require_object(source.value, BASE_CONFIG_FILE)
    kept: JsonObject = {}
    config = value
    init = list[JsonObject]()

    if "base" in value:
        config = _require_object(value["base"], f"{BASE_CONFIG_FILE} base")
        changes = value.get("init", [])
        if not isinstance(changes, list):
            raise StorageError("expected a list", place=f"{BASE_CONFIG_FILE} init")
        for index, change in enumerate(changes):
            place = f"{BASE_CONFIG_FILE} init[{index}]"
            if _require_object(change, place).get("type") != "config_delta":
                raise StorageError("expected a config_delta", place=place)
            init.append(decode_jp_entry(_require_object(change, place)))
        kept["init"] = len(init) if "init" in value else None
        if extra := {key: item for key, item in value.items() if key not in ("base", "init")}:
            kept["extra"] = extra

    usual = sort_keys(_base_value(config, init, kept))
    kept |= find_spelling(source, usual)

    after = text[len(source.text) :]
    if "text" in kept or not text.startswith(source.text):
        kept["text"] = text
    elif after != "\n":
        kept["after"] = after

    return config, init, kept


def _base_value(
    config: JsonObject, init: Sequence[JsonObject], kept: Mapping[str, JsonValue]
) -> JsonObject:
    if "init" not in kept and "base" not in config:
        return config

    extra = as_object(kept.get("extra"))
    value: JsonObject = {k: v for k, v in extra.items() if k != "init"} | {"base": config}

    if kept.get("init") is not None:
        value["init"] = [encode_jp_entry(entry) for entry in init]
    return value


def _without_delta(entry: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Split the first entry of the older layout into its configuration and `origin.leading`."""
    delta = entry.get("delta")
    if not isinstance(delta, dict):
        return {}, {"entry": entry}
    return delta, {"entry": {k: v for k, v in entry.items() if k != "delta"}, "delta": True}


def _leading_entry(leading: JsonObject, config: JsonObject) -> JsonObject | None:
    """Return the first entry of the older layout; None if it cannot express `config` exactly."""
    entry = as_object(leading.get("entry"))
    if leading.get("delta") or config:
        entry = {**entry, "delta": config}

    read = decode_jp_entry(encode_jp_entry(entry))
    expressed, _ = _without_delta(read)
    return entry if read.get("type") == "config_delta" and same_json(expressed, config) else None


def write_directory(
    jp: Mapping[str, JsonValue], *, dialect: Dialect = "native", metadata: bytes | None = None
) -> Directory:
    """Return the directory of the active conversation of `jp`.

    `native` reproduces imported entries byte for byte, and writes new ones in JP's form. `jp-head`
    omits or converts the parts that the current JP does not read, and lists them. `metadata` is the
    existing `metadata.json`, whose other keys are kept.

    Raises:
        StorageError: `jp` contains no conversation, `metadata` cannot be read, or, for `jp-head`,
            JP could not load the conversation even without the unsupported parts.
    """
    try:
        existing = (
            None if metadata is None else _decode_file({METADATA_FILE: metadata}, METADATA_FILE)
        )
        return _write(jp, dialect, existing)
    except RecursionError as exc:
        raise StorageError("nested too deeply") from exc


def _write(jp: Mapping[str, JsonValue], dialect: Dialect, existing: str | None) -> Directory:

    head = _require_object(jp.get("conversation"), "conversation")
    config = _require_object(jp.get("base_config", {}), "base_config")
    events = jp.get("events", [])

    if not isinstance(events, list):
        raise StorageError(f"expected a list, found {type(events).__name__}", place="events")
    entries = [_require_object(entry, f"events[{index}]") for index, entry in enumerate(events)]
    origin = _origin(head)

    texts: dict[str, str] = {}
    dropped: list[str] = []
    if (metadata := _metadata_text(head, origin, entries, existing)) is not None:
        texts[METADATA_FILE] = metadata

    kept = as_object(origin.get("base_config"))
    leading = as_object(origin.get("leading"))

    if dialect == "jp-head":
        base, entries, dropped = convert_for_head(config, entries)
        is_unchanged = "init" not in kept and base == config
        spelling = kept if is_unchanged else {}
        texts[BASE_CONFIG_FILE] = _base_text(base, [], spelling)
    elif leading and (first := _leading_entry(leading, config)) is not None:
        entries = [first, *entries]
    else:
        count = _init_count(kept, entries)
        texts[BASE_CONFIG_FILE] = _base_text(config, entries[:count], kept)
        entries = entries[count:]

    texts[EVENTS_FILE] = _events_text(entries, origin.get("after"))
    files = origin.get("files")
    if isinstance(files, dict):
        names = sorted(name for name in files if is_other_name(name))
        for name in names:
            if isinstance(text := files[name], str):
                texts[name] = text

    contents = {name: replace_surrogates(text).encode() for name, text in texts.items()}
    return Directory(contents, dropped)


def _init_count(kept: Mapping[str, JsonValue], entries: Sequence[JsonObject]) -> int:
    imported = kept.get("init")
    limit = imported if isinstance(imported, int) else 0
    changes = takewhile(lambda entry: entry.get("type") == "config_delta", entries[: max(limit, 0)])
    return len(list(changes))


def _origin(head: Mapping[str, JsonValue]) -> JsonObject:
    # A fork copies `origin`, but is a new conversation.
    origin = head.get("origin")
    if not isinstance(origin, dict) or head.get("parent") is not None:
        return {}
    return origin


def _metadata_text(
    head: Mapping[str, JsonValue],
    origin: Mapping[str, JsonValue],
    entries: Sequence[JsonObject],
    existing: str | None,
) -> str | None:
    """Return the text of `metadata.json`; None if there is none to write.

    It is the `existing` text, or else the imported one, with two changes. A title that was changed
    in the notebook replaces the old one. `last_activated_at` is replaced only by a later time.
    """
    kept = origin.get("metadata")
    read = _parse_metadata(kept) if isinstance(kept, str) else {}
    text = existing if existing is not None else kept
    old = _parse_metadata(text) if isinstance(text, str) else {}

    known = origin.get("entries")
    grown = not isinstance(known, int) or len(entries) > known

    title = head.get("title")
    if not isinstance(title, str) or not title or same_json(title, read.get("title")):
        title = None  # not changed in this notebook
    if same_json(title, old.get("title")):
        title = None

    moments = (_parse_moment(entry.get("timestamp")) for entry in reversed(entries))
    moment = next((found for found in moments if found is not None), None)
    before = _parse_moment(old.get("last_activated_at"))
    # JP may have used the conversation since, so this time never moves back.
    later = grown and (before is None or (moment is not None and moment > before))

    if title is None and not later and isinstance(text, str):
        return text
    if title is None and not grown:
        return None

    new = dict(old)
    if title is not None:
        new = {**new, "title": title} if "title" in new else {"title": title, **new}

    if later or before is None:
        new["last_activated_at"] = format_timestamp(moment or _creation_time(head))

    return render_json(new) + "\n"


def _parse_metadata(text: str) -> JsonObject:
    return _require_object(read_value(text, METADATA_FILE).value, METADATA_FILE)


def _creation_time(head: Mapping[str, JsonValue]) -> datetime:
    # The id is `jp-c` and the time in tenths of a second.
    digits = str(head.get("id", "")).removeprefix("jp-c")
    try:
        return datetime.fromtimestamp(int(digits) / 10, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _base_text(
    config: JsonObject, init: Sequence[JsonObject], kept: Mapping[str, JsonValue]
) -> str:
    text = kept.get("text")
    if isinstance(text, str):
        with suppress(StorageError):
            read_config, read_init, _ = _read_base(text)
            if same_json([read_config, *read_init], [config, *init]):
                return text

    after = kept.get("after")
    end = after if isinstance(after, str) and not after.strip(" \t\r\n") else "\n"
    return apply_spelling(sort_keys(_base_value(config, init, kept)), dict(kept)) + end


def _events_text(entries: Sequence[JsonObject], after: JsonValue) -> str:

    parts: list[str] = []
    for index, entry in enumerate(entries):
        gap = as_object(entry.get("spelling")).get("gap")
        form = _BETWEEN if index else _BEFORE_ONE
        usual = ENTRY_GAP if index else FIRST_ENTRY_GAP
        if not isinstance(gap, str) or not form.fullmatch(gap):
            gap = usual
        parts.append(gap)
        parts.append(format_jp_entry(entry, index))

    form_of_end = _BEHIND if entries else _EMPTY_LIST
    if not isinstance(after, str) or not form_of_end.fullmatch(after):
        after = _AFTER if entries else _EMPTY

    return "".join(parts) + after
