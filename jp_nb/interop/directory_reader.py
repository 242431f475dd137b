"""Read the files of a JP directory into a `jp` object. No I/O.

JP is a command-line assistant. Each of its conversations is a directory with `metadata.json`,
`base_config.json`, and `events.json` (`directory_files.py`).

A `jp` object (`record_shape.py`) is the conversation as a notebook stores it. Details of the files
that it cannot express otherwise are stored on the entries (`jp_entries.py`) and in
`conversation.origin`, so that `directory_writer.py` writes unchanged parts back byte for byte.

`origin` has these keys:

- `directory`: its name, for information; `entries`: the number of imported entries;
- `metadata`: the text of `metadata.json`;
- `base_config`: the spelling of `base_config.json` (`base_config_file.py`);
- `leading`: the first entry of the older layout without `base_config.json`, as `entry`; `delta` is
  true if its delta was moved to `base_config`;
- `after`: the text after the last entry; `files`: other text files; `left_out`: names of files
  that were skipped.

Source: `docs/record.md`; `docs/decisions.md` D7, D28.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.base_config_file import read_base_config
from jp_nb.interop.directory_files import (
    BASE_CONFIG_FILE,
    DIRECTORY_FILES,
    EVENTS_FILE,
    METADATA_FILE,
    decode_file,
)
from jp_nb.interop.jp_entries import ENTRIES_END, NO_ENTRIES, read_jp_entry
from jp_nb.interop.json_text import read_list
from jp_nb.interop.metadata_file import parse_metadata, parse_moment
from jp_nb.json_values import JsonObject
from jp_nb.record.documents.record_shape import RECORD_VERSION
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.new_ids import make_conversation_id


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

    # The texts of the entries, each with the text before it, and the text after the last one.
    sources, after = read_list(decode_file(files[EVENTS_FILE], EVENTS_FILE), EVENTS_FILE)
    events: list[JsonObject] = []
    for index, source in enumerate(sources):
        # JP writes another text before the first entry than before the others.
        events.append(read_jp_entry(source, first=index == 0))

    origin: JsonObject = {"directory": name}
    title: JsonValue = None
    if METADATA_FILE in files:
        text = decode_file(files[METADATA_FILE], METADATA_FILE)
        origin["metadata"] = text
        title = parse_metadata(text).get("title")

    if BASE_CONFIG_FILE in files:
        base = read_base_config(decode_file(files[BASE_CONFIG_FILE], BASE_CONFIG_FILE))
        config = base.config
        events = [*base.init, *events]  # the first changes of the configuration, if it has any
        origin["base_config"] = base.spelling
    elif events and events[0].get("type") == "config_delta":  # the older layout
        config, origin["leading"] = split_leading_entry(events.pop(0))
    else:
        raise StorageError(
            f"{BASE_CONFIG_FILE} is missing, and {EVENTS_FILE} does not begin with a "
            "configuration, as older versions of JP wrote it. "
            f"Create {BASE_CONFIG_FILE} with the content {{}}",
            place=name,
        )

    usual_end = ENTRIES_END if sources else NO_ENTRIES
    if after != usual_end:
        origin["after"] = after
    origin["entries"] = len(events)

    other_names = sorted(files.keys() - set(DIRECTORY_FILES))
    if other_names:
        origin["files"] = {file: files[file].decode() for file in other_names}
    if skipped:
        origin["left_out"] = list[JsonValue](sorted(skipped))

    properties: JsonObject = {"id": _make_id(name, events, clock)}
    if isinstance(title, str) and title:
        properties["title"] = title
    properties |= {"made": "imported", "origin": origin}

    return {
        "version": RECORD_VERSION,
        "conversation": properties,
        "base_config": config,
        "events": events,  # type: ignore[dict-item]  # list is invariant
    }


def _make_id(name: str, events: Iterable[JsonObject], clock: Clock) -> str:
    """Return the id of the conversation; see `read_directory`."""
    digits = name.partition("-")[0]
    if digits.isascii() and digits.isdecimal():
        return f"jp-c{digits}"

    for entry in events:
        moment = parse_moment(entry.get("timestamp"))
        if moment is not None:
            return make_conversation_id(moment)
    return make_conversation_id(clock())


def split_leading_entry(entry: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Split the first entry of the older layout into its configuration and `origin.leading`."""
    delta = entry.get("delta")
    if not isinstance(delta, dict):
        return {}, {"entry": entry}
    without_delta: JsonObject = {key: item for key, item in entry.items() if key != "delta"}
    return delta, {"entry": without_delta, "delta": True}
