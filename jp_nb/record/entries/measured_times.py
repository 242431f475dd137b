"""Measured times in the metadata of entries: requests, runs of tools, and waits for the user.

An entry is stored after what it describes has ended. So each time is stored as milliseconds before
the timestamp of its entry, by a clock that never goes back.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.events import Entry, EntryT

TIMES_KEY: Final = "times"
MAX_MEASURED_SPANS: Final = 100
"""Maximum number of requests, runs, or waits that one entry has."""
MAX_MEASURED_MS: Final = 10 * 366 * 24 * 3600 * 1000
"""Ten years. A longer time is damage."""
INTERRUPTED: Final = "interrupted"
"""The end of a request that an interrupt ended."""
REPAIRED: Final = "repair"
"""The end of a request that the provider asked to repeat with a repaired conversation."""
OTHER_FAILURE: Final = "other"
"""The end of a request with an error of another kind."""


@dataclass(frozen=True, slots=True)
class MeasuredSpan:
    """A request, a run of a tool, or a wait for the user.

    Attributes:
        before_ms: Time from its start to the timestamp of the entry, in milliseconds.
        ms: Its duration in milliseconds.
        first_ms: Time from its start to the first token of a response; None without one.
        failed: Kind of the error that ended a request, or `interrupted`; "" if it was complete.
    """

    before_ms: int
    ms: int
    first_ms: int | None = None
    failed: str = ""

    def to_json(self) -> JsonObject:
        """Return the object to store, without absent values."""
        stored: JsonObject = {"before_ms": self.before_ms, "ms": self.ms}
        if self.first_ms is not None:
            stored["first_ms"] = self.first_ms
        if self.failed:
            stored["failed"] = self.failed
        return stored


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """The measured times of one entry, each group in the order of time.

    Attributes:
        requests: The requests up to a response of the model, the failed ones included.
        runs: The runs of a tool, on the response to its call.
        waits: The waits for answers of the user.
    """

    requests: tuple[MeasuredSpan, ...] = ()
    runs: tuple[MeasuredSpan, ...] = ()
    waits: tuple[MeasuredSpan, ...] = ()


_GROUPS: Final = ("requests", "runs", "waits")
FAILURE_WORDS: Final[Mapping[str, str]] = {
    "connect": "no connection",
    "timeout": "no answer in time",
    "rate_limit": "rate limit",
    "transient": "server error",
    "refused": "refused",
    "quota": "quota used up",
    "output_limit": "output limit",
    "too_long": "too long",
    REPAIRED: "sent again",
    INTERRUPTED: "interrupted",
    OTHER_FAILURE: "failed",
}
"""Words for the ends of requests without a complete response, by the kind of the error."""


def with_times(entry: EntryT, times: MeasuredTimes) -> EntryT:
    """Return `entry` with measured times in its metadata, or `entry` itself if there are none."""
    stored: JsonObject = {}
    for name in _GROUPS:
        spans: Sequence[MeasuredSpan] = getattr(times, name)
        if spans:
            stored[name] = [span.to_json() for span in spans[-MAX_MEASURED_SPANS:]]

    return entry.with_metadata(**{TIMES_KEY: stored}) if stored else entry


def read_times(entry: Entry) -> MeasuredTimes:
    """Return the valid times in the metadata of `entry`."""
    if TIMES_KEY not in entry.metadata:
        return MeasuredTimes()

    stored = as_object(entry.metadata[TIMES_KEY])
    found = {name: _read_spans(stored.get(name)) for name in _GROUPS}
    return MeasuredTimes(**found)


def _read_spans(stored: JsonValue) -> tuple[MeasuredSpan, ...]:
    if not isinstance(stored, list):
        return ()

    spans = (_read_span(item) for item in stored[-MAX_MEASURED_SPANS:])
    return tuple(span for span in spans if span is not None)


def _read_span(stored: JsonValue) -> MeasuredSpan | None:
    """Return the stored span. A span without its two moments is none; other damage is omitted."""
    if not isinstance(stored, dict):
        return None

    before_ms = _read_ms(stored.get("before_ms"))
    ms = _read_ms(stored.get("ms"))
    if before_ms is None or ms is None or ms > before_ms:
        return None

    first_ms = _read_ms(stored.get("first_ms"))
    if first_ms is not None and first_ms > ms:
        first_ms = None

    failed = stored.get("failed")
    if not isinstance(failed, str):
        failed = ""
    elif failed and failed not in FAILURE_WORDS:
        failed = OTHER_FAILURE
    return MeasuredSpan(before_ms, ms, first_ms, failed)


def _read_ms(value: JsonValue) -> int | None:
    """Return a number of milliseconds; None if it is invalid. Some programs write 1 as 1.0."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and 0 <= value <= MAX_MEASURED_MS:
        return value
    return None
