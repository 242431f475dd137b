"""Whether a notebook may be shared: no key in it, its record intact, its cassette up to date.

Source: `docs/ci.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.secret_names import without_keys
from jp_nb.errors import ConfigError, StorageError
from jp_nb.headless.files import read_notebook
from jp_nb.headless.key_search import KeySearch
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record import carrier
from jp_nb.record.document import Document
from jp_nb.record.events import Entry, ToolCallRequest
from jp_nb.record.ids import stored_id
from jp_nb.record.jp_object import KEY, OF_A_CONVERSATION, VERSION, events_of, others_of
from jp_nb.record.notices import notices
from jp_nb.record.pairing import match_pairs
from jp_nb.record.projection import Projection
from jp_nb.record.stream import ConversationStream
from jp_nb.record.timestamps import parse_timestamp, utc_now
from jp_nb.safe_text import one_line

MAX_NAME: Final = 80
"""Characters of a key of an object, where it is part of a place."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        path: The file.
        place: Where in it, such as `cells[3].outputs[0].text`; "" if it is the file as a whole.
        message: What is wrong, without any secret.
    """

    path: Path
    place: str
    message: str

    def __str__(self) -> str:
        place = f"{one_line(self.place)}: " if self.place else ""
        return one_line(without_keys(f"{self.path}: {place}{self.message}"), limit=2000)


def check_notebook(path: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield what is wrong with the notebook at `path`; a cassette beside it is not looked at."""
    try:
        notebook = read_notebook(path)
    except StorageError as exc:
        yield Finding(path, "", str(exc).removeprefix(f"{path}: ").removeprefix(f"{path} "))
        return
    for place, text in all_texts(notebook, keys):
        for found in keys.found_in(text):
            yield Finding(path, place, f"contains {found}")
    for place, message in _of_record(notebook.metadata, keys):
        yield Finding(path, place, message)


def cells_of(notebook: Any) -> list[Mapping[str, Any]]:
    """Return the cells of a notebook that anybody may have written; [] in place of what is none."""
    cells = notebook.get("cells")
    found = cells if isinstance(cells, list) else []
    return [cell if isinstance(cell, Mapping) else {} for cell in found]


def all_texts(value: Any, keys: KeySearch) -> Iterator[tuple[str, str]]:
    """Yield each text in JSON `value`, names included, with its place, in which no key is told."""
    waiting = [("", value)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, Mapping):
            yield from ((place, str(name)) for name in value)
            below = [(_below(place, str(name), keys), item) for name, item in value.items()]
            waiting += reversed(below)
        elif isinstance(value, list):
            waiting += reversed([(f"{place}[{i}]", item) for i, item in enumerate(value)])


def _below(place: str, name: str, keys: KeySearch) -> str:
    name = one_line(keys.hide(name), limit=MAX_NAME)
    return f"{place}.{name}" if place else name


# --- the record ------------------------------------------------------------------------------


def _of_record(metadata: Any, keys: KeySearch) -> Iterator[tuple[str, str]]:
    """Yield place and message for what is wrong with the record in a notebook's `metadata`."""
    if carrier.unreadable(metadata):
        yield "metadata.widgets", carrier.DAMAGED
    stored = carrier.read(metadata)
    if stored is None:
        return
    yield from _of_conversation(stored, "", keys)
    others = others_of(stored)
    if not others and isinstance(stored, dict) and not events_of(stored):
        yield f"metadata.{KEY}", "the record is empty: remove it with `jp-nb strip --record`"
    for number, other in enumerate(others):
        shape = as_object(other)
        alone: JsonObject = {key: shape[key] for key in OF_A_CONVERSATION if key in shape}
        yield from _of_conversation({**alone, "version": VERSION}, f"others[{number}].", keys)


def _of_conversation(stored: JsonValue, prefix: str, keys: KeySearch) -> Iterator[tuple[str, str]]:
    place = f"metadata.{KEY}"
    try:
        stream = Document.load(stored, clock=utc_now, tolerant=True).conversation
    except StorageError as exc:
        yield place, f"{prefix}{exc}"
        return
    named = (*_ids(stream, keys), *_times(stream, keys))
    for notice in (*notices(stream), *named, *_loose_ends(stream)):
        yield place, f"{prefix}{notice}"
    if stream.damage:
        return
    try:
        projection = Projection(stream, lambda: ())
        projection.config()
    except ConfigError as exc:
        yield place, f"{prefix}events: the resulting configuration is not valid at {exc.path}"
        return
    for problem in projection.not_understood.values():
        yield (
            place,
            f"{prefix}events: the setting {problem.path} is unknown or not valid, and is ignored",
        )


def _ids(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    counts = Counter(filter(None, map(stored_id, stream.raw)))
    for index, raw in enumerate(stream.raw):
        identifier = stored_id(raw)
        if identifier is not None and counts[identifier] > 1:
            shown = f"{keys.hide(identifier)!r:.80}"
            yield f"events[{index}].event_id: {shown} is the id of several entries"


def _times(stream: ConversationStream, keys: KeySearch) -> Iterator[str]:
    for index, entry in enumerate(stream.entries):
        text = entry.timestamp
        if text and parse_timestamp(text) is None:
            yield f"events[{index}].timestamp: {keys.hide(text)!r:.80} is not a timestamp"


def _loose_ends(stream: ConversationStream) -> Iterator[str]:
    """Yield what a kernel left open that ended in the middle of a turn."""
    turn: list[tuple[int, Entry]] = []
    number = 0
    for event in stream.events():
        if event.turn != number:
            yield from _of_turn(turn)
            turn, number = [], event.turn
        turn.append((event.position, event.entry))
    yield from _of_turn(turn)


def _of_turn(turn: list[tuple[int, Entry]]) -> Iterator[str]:
    _, open_, loose = match_pairs(turn)
    for index, entry in turn:
        if index in open_:
            what = "this tool call" if isinstance(entry, ToolCallRequest) else "this question"
            yield f"events[{index}]: {what} has no response: the kernel ended first"
        elif index in loose:
            yield f"events[{index}]: this response has no request before it"
