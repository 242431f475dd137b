"""Find the errors of the record in a notebook: entries, ids, times, pairs, and settings.

Nothing is repaired, and no cell runs. `notebook_check.py` searches the same file for secrets.

Source: `docs/record.md`, `docs/ci.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import ConfigError, StorageError
from jp_nb.headless.checks.key_search import Finding, KeySearch
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.entry_notices import list_notices
from jp_nb.record.documents.record_shape import (
    RECORD_KEY,
    RECORD_VERSION,
    as_other,
    get_events,
    get_others,
)
from jp_nb.record.entries.entry_ids import read_stored_id
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.record.entries.pairs import match_pairs
from jp_nb.record.entries.timestamps import parse_timestamp, utc_now
from jp_nb.record.entries.turn_entries import TurnEvent
from jp_nb.record.stream import ConversationStream

_RECORD_PLACE: Final = f"metadata.{RECORD_KEY}"


def check_record(metadata: Any, keys: KeySearch) -> Iterator[Finding]:
    """Check all conversations of a record.

    The record is in the notebook's metadata, or in the state of a widget, the *carrier*, if the
    notebook was executed by another runner. `keys` hides API keys in the texts of the findings.
    """
    if carrier.find_unreadable_carriers(metadata):
        yield Finding("metadata.widgets", carrier.DAMAGED)

    stored = carrier.read_carrier(metadata)
    if stored is None:
        return

    yield from _check_conversation(stored, "", keys)

    others = get_others(stored)
    is_empty = isinstance(stored, dict) and not get_events(stored) and not others
    if is_empty:
        yield Finding(_RECORD_PLACE, "the record is empty: remove it with `jp-nb strip --record`")

    for number, other in enumerate(others):
        yield from _check_conversation(_as_document(other), f"others[{number}].", keys)


def _as_document(other: JsonValue) -> JsonObject:
    """Return an inactive conversation as its own record, which has a version."""
    return {**as_other(as_object(other)), "version": RECORD_VERSION}


def _check_conversation(stored: JsonValue, prefix: str, keys: KeySearch) -> Iterator[Finding]:
    """Check one conversation. Messages begin with `prefix`, its place among the inactive ones."""
    # Entries that cannot be read are the `damage` of the stream. Only a value that is no record, or
    # a record of a newer version, is an error.
    try:
        stream = Document.load(stored, clock=utc_now, tolerant=True).conversation
    except StorageError as exc:
        yield Finding(_RECORD_PLACE, f"{prefix}{exc}")
        return

    for message in _check_entries(stream, keys):
        yield Finding(_RECORD_PLACE, f"{prefix}{message}")

    # Entries that cannot be read may contain changes of the configuration.
    if not stream.damage:
        for message in _check_configuration(stream):
            yield Finding(_RECORD_PLACE, f"{prefix}events: {message}")


def _check_entries(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    """Check the entries of a conversation: damaged ones, ids, times, and the pairs of each turn."""
    yield from list_notices(stream)
    yield from _check_ids(stream, keys)
    yield from _check_times(stream, keys)

    for _, turn in groupby(stream.events(), lambda event: event.turn):
        yield from _check_pairs(turn)


def _check_ids(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    identifiers = [read_stored_id(entry) for entry in stream.raw]
    counts = Counter(identifier for identifier in identifiers if identifier)

    for index, identifier in enumerate(identifiers):
        if identifier is not None and counts[identifier] > 1:
            quoted = f"{keys.hide(identifier)!r:.80}"
            yield f"events[{index}].event_id: {quoted} is the id of several entries"


def _check_times(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    for index, entry in enumerate(stream.entries):
        text = entry.timestamp
        if text and parse_timestamp(text) is None:
            yield f"events[{index}].timestamp: {keys.hide(text)!r:.80} is not a timestamp"


def _check_pairs(events: Iterable[TurnEvent]) -> Iterator[str]:
    """Check that each call and each question of a turn has a response, and the reverse."""
    turn = [(event.position, event.entry) for event in events]
    pairs = match_pairs(turn)  # `unanswered` and `loose` are positions

    for index, entry in turn:
        if index in pairs.unanswered:
            subject = "this tool call" if isinstance(entry, ToolCallRequest) else "this question"
            yield f"events[{index}]: {subject} has no response: the kernel ended first"
        elif index in pairs.loose:
            yield f"events[{index}]: this response has no request before it"


def _check_configuration(stream: ConversationStream) -> Iterator[str]:
    """Check the settings of a conversation alone, without the files of this computer."""
    # The configuration that results from the record alone: no settings are below its changes.
    try:
        projection = Projection(stream, below=lambda: ())
        projection.config()  # raises, or adds to `problems`
    except ConfigError as exc:
        yield f"the resulting configuration is not valid at {exc.path}"
        return

    for problem in projection.problems.values():
        yield f"the setting {problem.path} is unknown or not valid, and is ignored"
