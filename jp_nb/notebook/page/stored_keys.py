"""The part of a notebook in which a page keeps the record: keys of the metadata, and carriers.

The record is in the metadata key `jp`. In a document that several pages share, earlier entries are
in *segments* (`jp.1`, `jp.2`, …), to which the *seals* in `jp` refer. A headless run keeps the
record in *carriers*: states of widgets. The next write of a page moves it from there into `jp`.

    {"jp": {"conversation": {…}, "events": […], "sealed": [{"segment": 1, "length": 3, …}]},
     "jp.1": {"conversation": "jp-c1", "from": 0, "events": [3 entries]}}

Source: `docs/protocol.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.documents.carrier import (
    WIDGET_STATE,
    WIDGETS,
    find_readable_carriers,
    read_carrier,
)
from jp_nb.record.documents.record_shape import RECORD_KEY, find_shape, get_events
from jp_nb.record.documents.segments import (
    Seals,
    is_segment,
    list_segment_keys,
    read_seals,
    read_segments,
    refers_to_segments,
)


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The keys and carriers of a page, without their entries: all that a write needs of them.

    Attributes:
        jp_length: Number of entries in the value of `jp`, without those in segments. New entries
            are appended there. None if nothing can be appended, because there is no such value, or
            it is damaged.
        seals: The places of the entries in segments.
        segments: The keys `jp.N`.
        carriers: The ids of the carriers that the next write moves into `jp`.
    """

    jp_length: int | None = None
    seals: Seals = field(default_factory=dict)
    segments: frozenset[str] = frozenset()
    carriers: tuple[str, ...] = ()

    @classmethod
    def read(cls, keys: Mapping[str, JsonValue], carriers: JsonObject) -> StoredKeys:
        """Read the keys and carriers of a page, which are in its message `hello`.

        Damaged carriers are not moved into `jp`, so they stay in the notebook.
        """
        segments = frozenset(filter(is_segment, keys))
        carrier_ids = tuple(find_readable_carriers(_as_metadata({}, carriers)))

        # The record with the entries of the segments: a missing segment makes it damaged.
        document = read_segments(keys) if RECORD_KEY in keys else None
        length = None
        events = as_object(keys.get(RECORD_KEY)).get("events")
        if find_shape(document) == "readable" and isinstance(events, list):
            length = len(events)

        return cls(length, read_seals(keys, document), segments, carrier_ids)

    @classmethod
    def of_written(cls, rest: JsonObject, seals: Seals) -> StoredKeys:
        """Return the keys after a write of all of them, which has moved the carriers.

        `rest` is the new value of `jp`: the record without the entries in the segments of `seals`.
        """
        segments = frozenset(list_segment_keys(seals))
        return cls(len(get_events(rest)), seals, segments)

    @property
    def are_plain(self) -> bool:
        """True if the value of `jp` is the whole record."""
        return not self.segments and not self.carriers


def read_stored_record(keys: Mapping[str, JsonValue], carriers: JsonObject) -> JsonValue:
    """Return the record of a page, merged with its segments and carriers; None without one."""
    # `jp` can refer to segments that are missing: `read_carrier` then makes the record damaged.
    has_segments = any(map(is_segment, keys)) or refers_to_segments(keys)
    if not carriers and not has_segments:
        return keys.get(RECORD_KEY)  # there is nothing to merge: a long record is not copied

    return read_carrier(_as_metadata(keys, carriers))  # merges the segments too


def _as_metadata(keys: Mapping[str, JsonValue], carriers: JsonObject) -> JsonObject:
    """Return keys and carriers of a page as the metadata of a notebook without anything else."""
    owned = {key: keys[key] for key in keys if key == RECORD_KEY or is_segment(key)}
    return {**owned, WIDGETS: {WIDGET_STATE: {"state": carriers}}}
