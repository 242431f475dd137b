"""Convert the files of JP's conversation directories from and to `jp` objects. No I/O.

JP (https://github.com/dcdpr/jp) is a command-line assistant. A `jp` object
(`jp_nb.record.document`) stores its conversation in plain text. Further details are stored on the
entries (`jp_nb.interop.entries`) and in `conversation.origin`, so that unchanged parts are written
back byte for byte. `origin` has these keys:

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

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.dialect import convert_for_head
from jp_nb.interop.entries import (
    FIRST_GAP,
    GAP,
    decode_entry,
    encode_entry,
    entry_spelling,
    entry_text,
    read_entry,
)
from jp_nb.interop.json_text import (
    apply_spelling,
    find_spelling,
    read_list,
    read_value,
    render_json,
    same_json,
    sort_keys,
)
from jp_nb.json_values import JsonObject, as_object, replace_surrogates
from jp_nb.record.clock import Clock, conversation_id, format_timestamp, parse_timestamp
from jp_nb.record.document import VERSION

METADATA = "metadata.json"
BASE_CONFIG = "base_config.json"
EVENTS = "events.json"
FILES = (METADATA, BASE_CONFIG, EVENTS)
"""In write order: an interrupted export leaves a readable directory."""

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_OTHER_BYTES = 64 * 1024
"""Limit for all other files together, because they are stored in the notebook."""

MAX_NAME_BYTES = 200
"""Longest name of another file; leaves room for the suffix of a temporary file."""

Dialect = Literal["native", "jp-head"]

_OTHER_NAME = re.compile(r"\w[\w .-]*")
_AFTER, _EMPTY = "\n]\n", "[]\n"
_BEFORE_ONE = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*")
_BETWEEN = re.compile("[ \t\r\n]*,[ \t\r\n]*")
_EMPTY_LIST = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*\\][ \t\r\n]*")
_BEHIND = re.compile("[ \t\r\n]*\\][ \t\r\n]*")


class Directory(NamedTuple):
    """Files of a conversation directory, and one line for each part that they cannot express."""

    files: dict[str, bytes]
    dropped: list[str]


# --- reading ---------------------------------------------------------------------------------


def read_directory(
    name: str, files: Mapping[str, bytes], *, clock: Clock, skipped: Iterable[str] = ()
) -> JsonObject:
    """Return the `jp` object of the conversation in JP's directory `name`.

    The id comes from the directory's name, else from the first timestamp, else from the clock.
    `skipped` are the names of files in the directory that were not read.

    Raises:
        StorageError: A file is missing, is not UTF-8, or is not the JSON of a conversation. The
            message names the file.
    """
    if EVENTS not in files:
        older = " (JP itself no longer reads messages.json)" if "messages.json" in files else ""
        raise StorageError(f"not a conversation of JP: {EVENTS} is missing{older}", place=name)
    sources, after = read_list(_decode_file(files, EVENTS), EVENTS)
    events = [read_entry(source, first=not i) for i, source in enumerate(sources)]
    origin: JsonObject = {"directory": name}
    title: JsonValue = None
    if METADATA in files:
        origin["metadata"] = text = _decode_file(files, METADATA)
        title = _parse_metadata(text).get("title")
    if BASE_CONFIG in files:
        config, init, kept = _read_base(_decode_file(files, BASE_CONFIG))
        events = [*init, *events]
        origin["base_config"] = kept
    elif events and events[0].get("type") == "config_delta":
        config, origin["leading"] = _without_delta(events.pop(0))
    else:
        raise StorageError(
            f"{BASE_CONFIG} is missing, and {EVENTS} does not begin with a configuration, as older "
            f"versions of JP wrote it. Create {BASE_CONFIG} with the content {{}}",
            place=name,
        )
    if after != (_AFTER if sources else _EMPTY):
        origin["after"] = after
    origin["entries"] = len(events)
    origin |= _other_files(files, skipped)
    head: JsonObject = {"id": _make_id(name, events, clock)}
    if isinstance(title, str) and title:
        head["title"] = title
    return {
        "version": VERSION,
        "conversation": {**head, "made": "imported", "origin": origin},
        "base_config": config,
        "events": events,  # type: ignore[dict-item]  # list is invariant
    }


def _decode_file(files: Mapping[str, bytes], file: str) -> str:
    content = files[file]
    if len(content) > MAX_FILE_BYTES:
        raise StorageError(f"more than {MAX_FILE_BYTES // 1024**2} MB", place=file)
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise StorageError(f"not UTF-8: {exc.reason} at byte {exc.start}", place=file) from exc


def _require_object(value: JsonValue, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise StorageError(f"expected an object, found {type(value).__name__}", place=place)
    return value


def _other_files(files: Mapping[str, bytes], unread: Iterable[str]) -> JsonObject:
    """Return `files` and `left_out` of the origin: the files that JP did not write."""
    kept: JsonObject = {}
    skipped: set[str] = {file for file in unread if not is_temporary(file)}
    room = MAX_OTHER_BYTES
    for file in sorted(files.keys() - set(FILES)):
        if is_temporary(file):
            continue
        content = files[file]
        try:
            if len(content) > room or not is_other_name(file):
                raise ValueError
            kept[file] = content.decode()
            room -= len(content)
        except ValueError:
            skipped.add(file)
    found: JsonObject = {}
    if kept:
        found["files"] = kept
    if skipped:
        found["left_out"] = list[JsonValue](sorted(skipped))
    return found


def is_other_name(file: str) -> bool:
    """Return True if `file` may be the name of a file that JP did not write."""
    is_plain = _OTHER_NAME.fullmatch(file) is not None and not file.endswith((".", " "))
    short = len(replace_surrogates(file).encode()) <= MAX_NAME_BYTES
    return is_plain and short and file.casefold() not in FILES and not is_temporary(file)


def is_temporary(file: str) -> bool:
    """Return True if `file` is a temporary file of JP, left by an interrupted write."""
    return file.casefold().endswith(".tmp")


def _make_id(name: str, events: Iterable[JsonObject], clock: Clock) -> str:
    digits = name.partition("-")[0]
    if digits.isascii() and digits.isdecimal():
        return f"jp-c{digits}"
    moments = (_parse_moment(entry.get("timestamp")) for entry in events)
    return conversation_id(next((m for m in moments if m is not None), None) or clock())


def _parse_moment(timestamp: JsonValue) -> datetime | None:
    """Parse a stored timestamp. Return None if it is invalid or before 1970."""
    found = parse_timestamp(timestamp) if isinstance(timestamp, str) else None
    return found if found is not None and found.year >= 1970 else None


def _read_base(text: str) -> tuple[JsonObject, list[JsonObject], JsonObject]:
    """Return the configuration, its `init` changes, and the spelling of the file."""
    source = read_value(text, BASE_CONFIG)
    value = _require_object(source.value, BASE_CONFIG)
    kept: JsonObject = {}
    config, init = value, list[JsonObject]()
    if "base" in value:
        config = _require_object(value["base"], f"{BASE_CONFIG} base")
        changes = value.get("init", [])
        if not isinstance(changes, list):
            raise StorageError("expected a list", place=f"{BASE_CONFIG} init")
        init = [_read_change(change, index) for index, change in enumerate(changes)]
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


def _read_change(value: JsonValue, index: int) -> JsonObject:
    place = f"{BASE_CONFIG} init[{index}]"
    if _require_object(value, place).get("type") != "config_delta":
        raise StorageError("expected a config_delta", place=place)
    return decode_entry(_require_object(value, place))


def _base_value(
    config: JsonObject, init: Sequence[JsonObject], kept: Mapping[str, JsonValue]
) -> JsonObject:
    """Return the JSON value of `base_config.json`."""
    if "init" not in kept and "base" not in config:
        return config
    extra = as_object(kept.get("extra"))
    value: JsonObject = {k: v for k, v in extra.items() if k != "init"} | {"base": config}
    if kept.get("init") is not None:
        value["init"] = [encode_entry(entry) for entry in init]
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
    read = decode_entry(encode_entry(entry))
    expressed, _ = _without_delta(read)
    return entry if read.get("type") == "config_delta" and same_json(expressed, config) else None


# --- writing ---------------------------------------------------------------------------------


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
        existing = None if metadata is None else _decode_file({METADATA: metadata}, METADATA)
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
        texts[METADATA] = metadata
    kept, leading = as_object(origin.get("base_config")), as_object(origin.get("leading"))
    if dialect == "jp-head":
        base, entries, dropped = convert_for_head(config, entries)
        unchanged = "init" not in kept and base == config
        texts[BASE_CONFIG] = _base_text(base, [], kept if unchanged else {})
    elif leading and (first := _leading_entry(leading, config)) is not None:
        entries = [first, *entries]
    else:
        count = _init_count(kept, entries)
        texts[BASE_CONFIG] = _base_text(config, entries[:count], kept)
        entries = entries[count:]
    texts[EVENTS] = _events_text(entries, origin.get("after"))
    files = origin.get("files")
    if isinstance(files, dict):
        names = sorted(name for name in files if is_other_name(name))
        texts |= {name: text for name in names if isinstance(text := files[name], str)}
    contents = {name: replace_surrogates(text).encode() for name, text in texts.items()}
    return Directory(contents, dropped)


def _init_count(kept: Mapping[str, JsonValue], entries: Sequence[JsonObject]) -> int:
    """Return the number of leading entries that belong in `base_config.json`."""
    imported = kept.get("init")
    count = 0
    while isinstance(imported, int) and count < min(imported, len(entries)):
        if entries[count].get("type") != "config_delta":
            break
        count += 1
    return count


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
    return _require_object(read_value(text, METADATA).value, METADATA)


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
    if isinstance(text, str) and _is_current_base_text(text, config, init):
        return text
    after = kept.get("after")
    end = after if isinstance(after, str) and not after.strip(" \t\r\n") else "\n"
    return apply_spelling(sort_keys(_base_value(config, init, kept)), dict(kept)) + end


def _is_current_base_text(text: str, config: JsonObject, init: Sequence[JsonObject]) -> bool:
    try:
        read_config, read_init, _ = _read_base(text)
    except StorageError:
        return False
    return same_json(read_config, config) and same_json(list(read_init), list(init))


def _events_text(entries: Sequence[JsonObject], after: JsonValue) -> str:
    parts: list[str] = []
    for index, entry in enumerate(entries):
        gap = entry_spelling(entry).get("gap")
        form = _BETWEEN if index else _BEFORE_ONE
        usual = GAP if index else FIRST_GAP
        parts.append(gap if isinstance(gap, str) and form.fullmatch(gap) else usual)
        parts.append(entry_text(entry, index))
    if not isinstance(after, str) or not (_BEHIND if entries else _EMPTY_LIST).fullmatch(after):
        after = _AFTER if entries else _EMPTY
    return "".join(parts) + after
