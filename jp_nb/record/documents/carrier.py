"""The carrier of a headless run: a widget state that brings the record into the notebook.

Headless executors answer no comm, but nbclient (also in nbconvert, papermill and `jupyter execute`)
stores the state of every widget in the metadata of the notebook. So the kernel opens a widget, and
the next reader of the notebook moves the record from there into `metadata.jp`: `read_carrier`
reads, `lift_carrier` moves. The state of the widget is:

    {"jp": {the record without `events`}, "events.0": [entries], "events.1": [entries], …,
     "length": 40, "seen": {"jp-c1": 12}}

`length` is the number of all entries. `seen` is the number of entries of each conversation that the
kernel read when it started.

Source: `docs/record.md`, `docs/decisions.md` D18 and D33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import count
from typing import Any

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.record.documents.merge import merge_records
from jp_nb.record.documents.record_shape import RECORD_KEY, find_shape
from jp_nb.record.documents.segments import copy_plain_record, read_segments, store_segments

CARRIER_MODULE = "jp-nb"
CARRIER_MODEL = "RecordModel"
"""The name of the widget model, for `carrier_store.py`, which makes carriers."""
WIDGETS = "widgets"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
DAMAGED = "the copy of the record from a headless run is damaged"
"""The message of commands that find a damaged carrier."""


def read_carrier(metadata: Mapping[str, Any]) -> JsonValue:
    """Return the notebook's record merged with its carriers, or None if it has neither.

    A record of a newer version is returned unchanged. A damaged record is returned unchanged if
    there is no carrier, and is added to `others` of the carrier's record otherwise. `Document.load`
    reports both.
    """
    merged = read_segments(metadata) if RECORD_KEY in metadata else None
    for _, state in _iter_carriers(metadata):
        document = _read_document(state)
        if document is not None:
            # The carrier replaces what the kernel had seen, and keeps what came later.
            seen = state.get("seen")
            seen_counts = seen if isinstance(seen, dict) else None
            merged = merge_records(merged, document, seen_counts)
    return merged


def find_unreadable_carriers(metadata: Mapping[str, Any]) -> list[JsonValue]:
    """Return the states of damaged carriers, which `lift_carrier` does not move."""
    return [state for _, state in _iter_carriers(metadata) if _read_document(state) is None]


def find_readable_carriers(metadata: Mapping[str, Any]) -> list[str]:
    """Return the ids of the widgets that are carriers, and not damaged."""
    return [key for key, state in _iter_carriers(metadata) if _read_document(state) is not None]


def lift_carrier(metadata: MutableMapping[str, Any]) -> bool:
    """Move the record from the carriers to `metadata["jp"]`. Return True if there were any.

    Other widgets and damaged carriers are kept. If `metadata["jp"]` is from a newer release, all
    carriers are kept.
    """
    if RECORD_KEY in metadata and find_shape(read_segments(metadata)) == "newer":
        return False

    carriers = find_readable_carriers(metadata)
    if not carriers:
        return False

    store_segments(metadata, read_carrier(metadata))
    states = metadata[WIDGETS][WIDGET_STATE]["state"]
    for key in carriers:
        del states[key]

    if not states:
        del metadata[WIDGETS][WIDGET_STATE]
        if not metadata[WIDGETS]:
            del metadata[WIDGETS]

    return True


def _iter_carriers(metadata: Mapping[str, Any]) -> Iterator[tuple[str, JsonObject]]:
    """Yield the widget id and the state of each carrier. A state may be damaged."""
    value: Any = metadata
    for key in (WIDGETS, WIDGET_STATE, "state"):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping):
        return

    for key, model in value.items():
        if isinstance(model, Mapping) and model.get("model_module") == CARRIER_MODULE:
            state = copy_plain_record(model.get("state"))
            if not isinstance(state, dict):
                state = {"state": state}
            yield str(key), state


def _read_document(state: JsonObject) -> JsonObject | None:
    """Return the record in a widget state; None if a part of it is missing."""
    rest = state.get("jp")  # of the record, without its entries
    if not isinstance(rest, dict):
        return None

    events: list[JsonValue] = []
    for number in count():
        name = f"events.{number}"
        if name not in state:
            break
        chunk = state[name]
        if not isinstance(chunk, list):
            return None
        events += chunk

    if sum(key.startswith("events.") for key in state) > number:
        return None  # a chunk is missing
    if state.get("length", len(events)) != len(events):
        return None  # the end of a chunk is missing

    document: JsonObject = {**rest, "events": events}
    return document if find_shape(document) == "readable" else None
