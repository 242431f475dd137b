"""Write a `jp` object as the files of a JP directory, in one of two dialects. No I/O.

JP is a command-line assistant. Each of its conversations is a directory with `metadata.json`,
`base_config.json`, and `events.json` (`directory_files.py`).

`native` reproduces imported entries byte for byte, and writes new ones in JP's form. `jp-head` is
the dialect that the newest JP loads (`jp_dialect.py`).

An imported conversation has details of JP's files in its `origin` (`directory_reader.py`): the
*spelling* of the base configuration, which holds the differences of its text from JP's usual form,
and `leading` for an older layout without `base_config.json`, in which the first entry has the
configuration as its `delta`. Of `leading`, `entry` is this entry without its `delta`, and `delta`
is true if it had one. An entry has its own `spelling`, with the *gap*: the text before it.

`base_config.json` may contain changes under `init`, which the record has as its first entries.

Source: `docs/record.md`; `docs/decisions.md` D7, D28.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.base_config_file import count_init_entries, format_base_config
from jp_nb.interop.directory_files import (
    BASE_CONFIG_FILE,
    EVENTS_FILE,
    METADATA_FILE,
    Directory,
    decode_file,
    is_other_name,
    require_object,
)
from jp_nb.interop.directory_reader import split_leading_entry
from jp_nb.interop.jp_dialect import convert_to_jp_dialect
from jp_nb.interop.jp_entries import (
    ENTRIES_END,
    ENTRY_GAP,
    FIRST_ENTRY_GAP,
    NO_ENTRIES,
    decode_jp_entry,
    encode_jp_entry,
    format_jp_entry,
)
from jp_nb.interop.json_comparison import same_json
from jp_nb.interop.metadata_file import format_metadata
from jp_nb.json_values import JsonObject, as_object
from jp_nb.storable_json import replace_surrogates

Dialect = Literal["native", "jp-head"]

# Texts between entries are from a notebook, so only brackets, commas, and white space are written.
_FIRST_GAP_FORM = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*")
_GAP_FORM = re.compile("[ \t\r\n]*,[ \t\r\n]*")
_END_FORM = re.compile("[ \t\r\n]*\\][ \t\r\n]*")
_NO_ENTRIES_FORM = re.compile("\ufeff?[ \t\r\n]*\\[[ \t\r\n]*\\][ \t\r\n]*")


def build_directory(
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
    existing_metadata = None
    if metadata is not None:
        existing_metadata = decode_file(metadata, METADATA_FILE)

    try:
        return _write(jp, dialect, existing_metadata)
    except RecursionError as exc:
        raise StorageError("nested too deeply") from exc


def _write(
    jp: Mapping[str, JsonValue], dialect: Dialect, existing_metadata: str | None
) -> Directory:
    """Return the directory; see `build_directory`. It raises `RecursionError` for deep values."""
    properties = require_object(jp.get("conversation"), "conversation")
    config = require_object(jp.get("base_config", {}), "base_config")
    events = jp.get("events", [])
    if not isinstance(events, list):
        raise StorageError(f"expected a list, found {type(events).__name__}", place="events")
    entries = [require_object(entry, f"events[{index}]") for index, entry in enumerate(events)]

    origin = _get_origin(properties)
    texts: dict[str, str] = {}
    dropped: list[str] = []

    metadata = format_metadata(properties, origin, entries, existing_metadata)
    if metadata is not None:
        texts[METADATA_FILE] = metadata

    spelling = as_object(origin.get("base_config"))
    leading = as_object(origin.get("leading"))

    if dialect == "jp-head":
        base, entries, dropped = convert_to_jp_dialect(config, entries)
        # The spelling fits only the imported text. A file with `init` had another text, because
        # changes of `init` are entries here.
        if "init" in spelling or base != config:
            spelling = {}
        texts[BASE_CONFIG_FILE] = format_base_config(base, [], spelling)
    elif leading and (first := _make_leading_entry(leading, config)) is not None:
        # The older layout, as it was imported: the configuration is the first entry.
        entries = [first, *entries]
    else:
        init_count = count_init_entries(spelling, entries)
        texts[BASE_CONFIG_FILE] = format_base_config(config, entries[:init_count], spelling)
        entries = entries[init_count:]

    texts[EVENTS_FILE] = _format_events(entries, origin.get("after"))
    texts |= _select_other_files(origin.get("files"))

    contents = {name: replace_surrogates(text).encode() for name, text in texts.items()}
    return Directory(contents, dropped)


def _get_origin(properties: Mapping[str, JsonValue]) -> JsonObject:
    """Return the details of the import; none for a fork, which copies them but is new."""
    origin = properties.get("origin")
    if not isinstance(origin, dict) or properties.get("parent") is not None:
        return {}
    return origin


def _make_leading_entry(leading: JsonObject, config: JsonObject) -> JsonObject | None:
    """Return the first entry of the older layout; None if it cannot express `config` exactly."""
    entry = as_object(leading.get("entry"))
    if leading.get("delta") or config:
        entry = {**entry, "delta": config}

    # The entry may come from someone else, so it is used only if it is read back as `config`.
    read = decode_jp_entry(encode_jp_entry(entry))
    expressed, _ = split_leading_entry(read)
    if read.get("type") == "config_delta" and same_json(expressed, config):
        return entry
    return None


def _select_other_files(files: JsonValue) -> dict[str, str]:
    """Return the texts of the imported `files` that are not JP's and have a safe name."""
    if not isinstance(files, dict):
        return {}

    selected: dict[str, str] = {}
    for name in sorted(files):
        text = files[name]
        if isinstance(text, str) and is_other_name(name):
            selected[name] = text
    return selected


def _format_events(entries: Sequence[JsonObject], after: JsonValue) -> str:
    """Return the text of `events.json`. `after` is the imported text after the last entry."""
    parts: list[str] = []
    for index, entry in enumerate(entries):
        gap = as_object(entry.get("spelling")).get("gap")
        if index == 0:
            parts.append(_select_text(gap, _FIRST_GAP_FORM, FIRST_ENTRY_GAP))
        else:
            parts.append(_select_text(gap, _GAP_FORM, ENTRY_GAP))
        parts.append(format_jp_entry(entry, index))

    if entries:
        parts.append(_select_text(after, _END_FORM, ENTRIES_END))
    else:
        parts.append(_select_text(after, _NO_ENTRIES_FORM, NO_ENTRIES))

    return "".join(parts)


def _select_text(stored: JsonValue, form: re.Pattern[str], usual: str) -> str:
    """Return the stored text if it has the form that is safe to write, else the usual one."""
    if isinstance(stored, str) and form.fullmatch(stored):
        return stored
    return usual
