"""Read the record that a headless run left in the state of a widget.

Headless executors answer no comm, but nbclient (so nbconvert, papermill, `jupyter execute`)
stores the state of every widget in the notebook's metadata. So the kernel opens one:

    metadata.widgets["application/vnd.jupyter.widget-state+json"].state[ID] =
        {"model_module": "jp-nb", "model_name": "RecordModel", "state":
            {"jp": {the `jp` object without events}, "events.0": […], "events.1": […], …,
             "length": number of entries in all chunks,
             "seen": {conversation id: number of entries read from the notebook}}}

Whoever opens the notebook next lifts it into `metadata.jp`: `read` looks, `lift` moves.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import count
from typing import Any

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.record import segments
from jp_nb.record.jp_object import KEY, shape_of
from jp_nb.record.merge import merge

MODULE = "jp-nb"
MODEL = "RecordModel"
WIDGETS = "widgets"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
DAMAGED = "the copy of the record from a headless run is damaged"


def read(metadata: Mapping[str, Any]) -> JsonValue:
    """Return the notebook's `jp` object with what its carriers add; None if it has neither.

    Damage and a newer version come back as they are: `Document.load` reports them.
    """
    merged = segments.read(metadata) if KEY in metadata else None
    for _, state in _carriers(metadata):
        if (document := _document(state)) is not None:
            seen = state.get("seen")
            merged = merge(merged, document, seen if isinstance(seen, dict) else None)
    return merged


def unreadable(metadata: Mapping[str, Any]) -> list[JsonValue]:
    """Return the states of carriers that are damaged: `lift` leaves them where they are."""
    return [state for _, state in _carriers(metadata) if _document(state) is None]


def lift(metadata: MutableMapping[str, Any]) -> bool:
    """Move the record from the carriers to `metadata["jp"]`; returns whether there were any.

    Other widgets stay. A carrier that cannot be read stays too, as does every one while
    `metadata["jp"]` was written by a newer release.
    """
    if KEY in metadata and shape_of(segments.read(metadata)) == "newer":
        return False
    found = [key for key, state in _carriers(metadata) if _document(state) is not None]
    if not found:
        return False
    segments.store(metadata, read(metadata))
    states = metadata[WIDGETS][WIDGET_STATE]["state"]
    for key in found:
        del states[key]
    if not states:
        del metadata[WIDGETS][WIDGET_STATE]
        if not metadata[WIDGETS]:
            del metadata[WIDGETS]
    return True


def _carriers(metadata: Mapping[str, Any]) -> Iterator[tuple[str, JsonObject]]:
    value: Any = metadata
    for key in (WIDGETS, WIDGET_STATE, "state"):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping):
        return
    for key, model in value.items():
        if isinstance(model, Mapping) and model.get("model_module") == MODULE:
            state = segments.plain(model.get("state"))
            yield str(key), state if isinstance(state, dict) else {"state": state}


def _document(state: JsonObject) -> JsonObject | None:
    """Return the `jp` object of a carrier; None if it is damaged."""
    head = state.get("jp")
    if not isinstance(head, dict):
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
        return None  # what a chunk ended with is missing
    document: JsonObject = {**head, "events": events}
    return document if shape_of(document) == "readable" else None
