"""Convert the files of JP's conversation directories from and to `jp` objects. No I/O.

JP (https://github.com/dcdpr/jp) is a command-line assistant. A `jp` object
(`jp_nb.record.document`) stores its conversation in plain text. Further details are stored on the
entries (`jp_nb.interop.jp_entries`) and in `conversation.origin`, so that unchanged parts are
written back byte for byte.

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

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.jp_dialect import convert_to_jp_dialect
from jp_nb.interop.jp_entries import (
    ENTRY_GAP,
    FIRST_ENTRY_GAP,
    decode_jp_entry,
    encode_jp_entry,
    format_jp_entry,
    read_jp_entry,
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
from jp_nb.record.clock import Clock, format_timestamp, make_conversation_id, parse_timestamp
from jp_nb.record.document import RECORD_VERSION

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
_USUAL_END = "\n]\n"
_EMPTY_FILE = "[]\n"
_FIRST_GAP_FORM = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*")
_GAP_FORM = re.compile("[ \t\r\n]*,[ \t\r\n]*")
_EMPTY_FILE_FORM = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*\\][ \t\r\n]*")
_END_FORM = re.compile("[ \t\r\n]*\\][ \t\r\n]*")


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
        config, origin["leading"] = _split_leading_entry(events.pop(0))
    else:
        raise StorageError(
            f"{BASE_CONFIG_FILE} is missing, and {EVENTS_FILE} does not begin with a "
            "configuration, as older versions of JP wrote it. "
            f"Create {BASE_CONFIG_FILE} with the content {{}}",
            place=name,
        )

    usual_end = _USUAL_END if sources else _EMPTY_FILE
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

    usual = sort_keys(_make_base_value(config, init, kept))
    kept |= find_spelling(source, usual)

    after = text[len(source.text) :]
    if "text" in kept or not text.startswith(source.text):
        kept["text"] = text
    elif after != "\n":
        kept["after"] = after

    return config, init, kept


def _make_base_value(
    config: JsonObject, init: Sequence[JsonObject], kept: Mapping[str, JsonValue]
) -> JsonObject:
    if "init" not in kept and "base" not in config:
        return config

    extra = as_object(kept.get("extra"))
    value: JsonObject = {k: v for k, v in extra.items() if k != "init"} | {"base": config}

    if kept.get("init") is not None:
        value["init"] = [encode_jp_entry(entry) for entry in init]
    return value


def _split_leading_entry(entry: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Split the first entry of the older layout into its configuration and `origin.leading`."""
    delta = entry.get("delta")
    if not isinstance(delta, dict):
        return {}, {"entry": entry}
    return delta, {"entry": {k: v for k, v in entry.items() if k != "delta"}, "delta": True}


def _make_leading_entry(leading: JsonObject, config: JsonObject) -> JsonObject | None:
    """Return the first entry of the older layout; None if it cannot express `config` exactly."""
    entry = as_object(leading.get("entry"))
    if leading.get("delta") or config:
        entry = {**entry, "delta": config}

    read = decode_jp_entry(encode_jp_entry(entry))
    expressed, _ = _split_leading_entry(read)
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
    origin = _get_origin(head)

    texts: dict[str, str] = {}
    dropped: list[str] = []
    if (metadata := _format_metadata(head, origin, entries, existing)) is not None:
        texts[METADATA_FILE] = metadata

    kept = as_object(origin.get("base_config"))
    leading = as_object(origin.get("leading"))

    if dialect == "jp-head":
        base, entries, dropped = convert_to_jp_dialect(config, entries)
        is_unchanged = "init" not in kept and base == config
        spelling = kept if is_unchanged else {}
        texts[BASE_CONFIG_FILE] = _format_base(base, [], spelling)
    elif leading and (first := _make_leading_entry(leading, config)) is not None:
        entries = [first, *entries]
    else:
        count = _count_init_entries(kept, entries)
        texts[BASE_CONFIG_FILE] = _format_base(config, entries[:count], kept)
        entries = entries[count:]

    texts[EVENTS_FILE] = _format_events(entries, origin.get("after"))
    files = origin.get("files")
    if isinstance(files, dict):
        names = sorted(name for name in files if is_other_name(name))
        for name in names:
            if isinstance(text := files[name], str):
                texts[name] = text

    contents = {name: replace_surrogates(text).encode() for name, text in texts.items()}
    return Directory(contents, dropped)


def _count_init_entries(kept: Mapping[str, JsonValue], entries: Sequence[JsonObject]) -> int:
    imported = kept.get("init")
    limit = imported if isinstance(imported, int) else 0
    changes = takewhile(lambda entry: entry.get("type") == "config_delta", entries[: max(limit, 0)])
    return len(list(changes))


def _get_origin(head: Mapping[str, JsonValue]) -> JsonObject:
    # A fork copies `origin`, but is a new conversation.
    origin = head.get("origin")
    if not isinstance(origin, dict) or head.get("parent") is not None:
        return {}
    return origin


def _format_metadata(
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
        new["last_activated_at"] = format_timestamp(moment or _read_creation_time(head))

    return render_json(new) + "\n"


def _parse_metadata(text: str) -> JsonObject:
    return _require_object(read_value(text, METADATA_FILE).value, METADATA_FILE)


def _read_creation_time(head: Mapping[str, JsonValue]) -> datetime:
    # The id is `jp-c` and the time in tenths of a second.
    digits = str(head.get("id", "")).removeprefix("jp-c")
    try:
        return datetime.fromtimestamp(int(digits) / 10, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _format_base(
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
    return apply_spelling(sort_keys(_make_base_value(config, init, kept)), dict(kept)) + end


def _format_events(entries: Sequence[JsonObject], after: JsonValue) -> str:

    parts: list[str] = []
    for index, entry in enumerate(entries):
        gap = as_object(entry.get("spelling")).get("gap")
        form = _GAP_FORM if index else _FIRST_GAP_FORM
        usual = ENTRY_GAP if index else FIRST_ENTRY_GAP
        if not isinstance(gap, str) or not form.fullmatch(gap):
            gap = usual
        parts.append(gap)
        parts.append(format_jp_entry(entry, index))

    form_of_end = _END_FORM if entries else _EMPTY_FILE_FORM
    if not isinstance(after, str) or not form_of_end.fullmatch(after):
        after = _USUAL_END if entries else _EMPTY_FILE

    return "".join(parts) + after
