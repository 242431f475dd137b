"""`metadata.json` of a JP directory: the title, and the time of the last activity.

JP is a command-line assistant. Each of its conversations is a directory with `metadata.json`,
`base_config.json`, and `events.json` (`directory_files.py`). The record of an imported conversation
has its `origin`: the text of `metadata.json` (`metadata`), and the number of imported `entries`.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic import JsonValue

from jp_nb.interop.directory_files import METADATA_FILE, require_object
from jp_nb.interop.jp_json import render_json
from jp_nb.interop.json_comparison import same_json
from jp_nb.interop.json_text import read_value
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.timestamps import format_timestamp, parse_timestamp


def parse_metadata(text: str) -> JsonObject:
    """Return the object in the `text` of `metadata.json`.

    Raises:
        StorageError: The text is not a JSON object.
    """
    return require_object(read_value(text, METADATA_FILE).value, METADATA_FILE)


def format_metadata(
    properties: Mapping[str, JsonValue],
    origin: Mapping[str, JsonValue],
    entries: Sequence[JsonObject],
    existing: str | None,
) -> str | None:
    """Return the text of `metadata.json`; None if there is none to write.

    It is the `existing` text, or else the imported one in `origin`, with two changes:

    - A title that was changed in the notebook (`properties`) replaces the old one.
    - If entries were added, the time of the last one replaces `last_activated_at`. This never moves
      back, because JP may have used the conversation since.

    Without a text, a conversation that was imported without the file gets one only for a change.
    """
    imported = origin.get("metadata")
    text = existing if existing is not None else imported
    old = parse_metadata(text) if isinstance(text, str) else {}
    at_import = parse_metadata(imported) if isinstance(imported, str) else {}

    title = _find_new_title(properties, at_import, old)

    imported_count = origin.get("entries")
    has_grown = not isinstance(imported_count, int) or len(entries) > imported_count
    last_entry = _find_last_moment(entries)
    last_activity = parse_moment(old.get("last_activated_at"))
    is_later = last_activity is None or (last_entry is not None and last_entry > last_activity)
    is_activated = has_grown and is_later

    has_changed = title is not None or is_activated
    if not has_changed:
        return text if isinstance(text, str) else None

    new = dict(old)
    if title is not None:
        if "title" in new:
            new["title"] = title
        else:
            new = {"title": title, **new}  # JP writes it first
    if is_activated or last_activity is None:  # JP needs a time in each file
        moment = last_entry or _read_creation_time(properties)
        new["last_activated_at"] = format_timestamp(moment)

    return render_json(new) + "\n"


def _find_new_title(
    properties: Mapping[str, JsonValue], at_import: JsonObject, old: JsonObject
) -> str | None:
    """Return the title that was set since the import and is not in the `old` metadata, or None.

    A title that is the imported one was not set here: JP may have changed it in `old` since.
    """
    title = properties.get("title")
    if not isinstance(title, str) or not title:
        return None

    if same_json(title, at_import.get("title")) or same_json(title, old.get("title")):
        return None
    return title


def _find_last_moment(entries: Sequence[JsonObject]) -> datetime | None:
    """Return the time of the last entry with a valid one."""
    moments = (parse_moment(entry.get("timestamp")) for entry in reversed(entries))
    return next((moment for moment in moments if moment is not None), None)


def parse_moment(timestamp: JsonValue) -> datetime | None:
    """Return the time of a stored timestamp. Return None if it is invalid or before 1970."""
    moment = parse_timestamp(timestamp) if isinstance(timestamp, str) else None
    return moment if moment is not None and moment.year >= 1970 else None


def _read_creation_time(properties: Mapping[str, JsonValue]) -> datetime:
    # The id is `jp-c` and the time in tenths of a second.
    digits = str(properties.get("id", "")).removeprefix("jp-c")
    try:
        return datetime.fromtimestamp(int(digits) / 10, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
