"""`ConversationStream`: append-only list of the entries of a conversation, with derived turns.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.images import Image
from jp_nb.record.change_marks import belongs_to_turn_end
from jp_nb.record.clock import (
    Clock,
    IdFactory,
    ReproducibleClock,
    format_timestamp,
    make_conversation_id,
    make_id_factory,
    read_stored_id,
)
from jp_nb.record.entry_images import RecordedImages, make_image_entry, make_images_metadata
from jp_nb.record.events import (
    CONVERSATION_KINDS,
    LINKABLE,
    ChatRequest,
    ConfigDelta,
    Damaged,
    Entry,
    ImageEntry,
    RawEntry,
    ToolCallRequest,
    TurnStart,
    decode_event,
)
from jp_nb.record.integrity import Item, Pairs, find_half, match_pairs, repair_items


@dataclass(frozen=True, slots=True)
class TurnEntries:
    """The entries of one turn, with its configuration changes. `number` is counted from 0."""

    number: int
    entries: tuple[Entry, ...]

    @property
    def schema(self) -> Mapping[str, JsonValue] | None:
        """JSON schema of the answer, if the request has one."""
        request = next((e for e in self.entries if isinstance(e, ChatRequest)), None)
        return request.response_schema if request is not None else None


def _split_turns(entries: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
    current: list[Entry] = []
    between: list[Entry] = []

    for entry in entries:
        if isinstance(entry, ConfigDelta):
            belongs_before = current and not between and belongs_to_turn_end(entry)
            group = current if belongs_before else between
            group.append(entry)
        elif isinstance(entry, TurnStart):
            if current:
                yield tuple(current)
            current = [*between, entry]
            between = []
        elif entry.type in CONVERSATION_KINDS:  # the turn continues after these changes
            current += between
            current.append(entry)
            between = []

    if current:
        yield tuple(current)


class TurnEvent(NamedTuple):
    """An event, the number of its turn counted from 0, and its index among all entries."""

    turn: int
    position: int
    entry: Entry


Made = Literal["live", "headless", "imported"]


@dataclass(frozen=True, slots=True)
class Damage:
    """A malformed entry: its index, the path in it, and the error."""

    index: int
    place: str
    message: str


class ConversationStream:
    """One conversation: its base configuration and its entries, oldest first.

    `raw` has the stored JSON objects, which are shared and never changed. `entries` are typed views
    of them, with the same indexes. Entries that belong to a turn are events. Only `append`,
    `start_turn`, and `extend_stored` add entries. Only `rewrite` removes them.

    With `tolerant`, malformed entries are kept and listed in `damage`, and the conversation is
    read-only.

    Attributes:
        turn_count: Number of turns. Events before the first `turn_start` are a turn too.
        deltas: The configuration changes in `entries`. Their indexes do not change in a repair.
        on_change: Called after entries were appended.

    Raises:
        StorageError: An entry is malformed. The message has its path.
    """

    def __init__(
        self,
        properties: Mapping[str, JsonValue],
        *,
        clock: Clock,
        base_config: Mapping[str, JsonValue] | None = None,
        raw: Iterable[JsonValue] = (),
        new_id: IdFactory | None = None,
        tolerant: bool = False,
    ) -> None:
        self.properties: dict[str, JsonValue] = dict(properties)
        self.base_config: dict[str, JsonValue] = dict(base_config or {})
        self.damage: list[Damage] = []
        self.on_change: Callable[[], None] | None = None
        self._clock = clock
        self._new_id = new_id or make_id_factory(clock, self.id)
        self._ids: list[str | None] = []  # None until the id is first used
        self._made_here: set[str] = set()  # ids of entries that this process appended
        self._places: dict[str, int] = {}
        self._ambiguous: set[str] = set()  # the first of several loaded entries kept such an id

        self._begin()
        for index, value in enumerate(raw):
            try:
                entry = decode_event(value, index)
            except StorageError as exc:
                if not tolerant:
                    raise
                message = str(exc).removeprefix(f"{exc.place}: ")
                self.damage.append(Damage(index, exc.place, message))
                entry = Damaged(reason=str(exc))
            self._add_id(read_stored_id(value))
            self._keep(value, entry)  # type: ignore[arg-type]  # damaged entries are only kept

    def _begin(self) -> None:
        self.entries: list[Entry] = []
        self.raw: list[RawEntry] = []
        self.turn_count = 0
        self.requests: list[ChatRequest] = []
        self.deltas: list[ConfigDelta] = []
        self.__dict__.pop("images", None)

        self._pairs = Pairs()
        self._checked = 0
        self._request: str | None = None  # stored id of the current request

    @classmethod
    def new(
        cls,
        *,
        clock: Clock,
        made: Made,
        base_config: Mapping[str, JsonValue] | None = None,
        parent: Mapping[str, JsonValue] | None = None,
        taken_ids: Iterable[str] = (),
        new_id: IdFactory | None = None,
    ) -> ConversationStream:
        """Return an empty conversation. Its id depends on the time, and is not in `taken_ids`."""
        properties: dict[str, JsonValue] = {
            "id": make_conversation_id(clock(), taken_ids),
            "made": made,
        }
        if parent:
            properties["parent"] = dict(parent)
        return cls(properties, clock=clock, base_config=base_config, new_id=new_id)

    @property
    def id(self) -> str:
        """Id of the conversation, such as `jp-c17738399468`."""
        return str(self.properties.get("id", ""))

    @property
    def is_reproducible(self) -> bool:
        """True if new entries depend neither on the time nor on chance (D59)."""
        return isinstance(self._clock, ReproducibleClock)

    @property
    def title(self) -> str | None:
        """The title, or None."""
        title = self.properties.get("title")
        return title if isinstance(title, str) else None

    def __len__(self) -> int:
        return len(self.raw)

    def _keep(self, raw: RawEntry, entry: Entry) -> None:
        self.raw.append(raw)
        self.entries.append(entry)

        kind = entry.type
        if kind == "turn_start":
            if not self._pairs.are_balanced():
                self._checked = 0  # the next repair checks this turn
            self._pairs = Pairs()
            self.turn_count += 1
            self._request = None
        elif isinstance(entry, ConfigDelta):
            self.deltas.append(entry)
        elif isinstance(entry, ImageEntry):
            if "images" in self.__dict__:
                self.images.add(entry)
        elif kind in CONVERSATION_KINDS:
            if isinstance(entry, ChatRequest):
                self._request = read_stored_id(raw)
                self.requests.append(entry)
            elif half := find_half(entry):
                self._pairs.add(half)
            self.turn_count = self.turn_count or 1

    # --- turns -------------------------------------------------------------------------------

    def events(self) -> Iterator[TurnEvent]:
        """Yield the events, oldest first."""
        turn = -1
        for index, entry in enumerate(self.entries):
            if entry.type in CONVERSATION_KINDS:
                turn = max(turn, 0) if not isinstance(entry, TurnStart) else turn + 1
                yield TurnEvent(turn, index, entry)

    def turns(self) -> Iterator[TurnEntries]:
        """Yield the turns, oldest first.

        A configuration change between two turns belongs to the later one, unless tools of the
        earlier one made it or it marks the end of the earlier one.
        """
        for number, entries in enumerate(_split_turns(self.entries)):
            yield TurnEntries(number, entries)

    def last_turn(self) -> TurnEntries | None:
        """Return the last turn as in `turns`, without reading earlier turns."""
        if not self.turn_count:
            return None

        # From the last event before it on: changes after that event may belong to the last turn.
        start = max(len(self.entries) - len(self.current_turn()) - 1, 0)
        while start and self.entries[start].type not in CONVERSATION_KINDS:
            start -= 1

        *_, last = _split_turns(self.entries[start:])
        return TurnEntries(self.turn_count - 1, last)

    def request_index(self, turn: int) -> int | None:
        """Return the index of the first request of `turn`. Earlier entries are not read."""
        number = self.turn_count - 1
        found = None

        for index in reversed(range(len(self.entries))):
            if number < turn:
                break
            entry = self.entries[index]
            if number == turn and isinstance(entry, ChatRequest):
                found = index  # the first one: later requests continue the turn
            number -= isinstance(entry, TurnStart)

        return found

    def last_event(self) -> Entry | None:
        """Return the last event, or None."""
        return next((e for e in reversed(self.entries) if e.type in CONVERSATION_KINDS), None)

    def current_turn(self) -> list[Entry]:
        """Return the entries from the last `turn_start` on, or all entries."""
        start = len(self.entries)
        while start and not isinstance(self.entries[start - 1], TurnStart):
            start -= 1
        return self.entries[max(start - 1, 0) :]

    # --- appending ---------------------------------------------------------------------------

    @cached_property
    def images(self) -> RecordedImages:
        """The images in the entries. They are read on first use."""
        found = RecordedImages()
        for entry in self.entries:
            if isinstance(entry, ImageEntry):
                found.add(entry)
        return found

    def start_turn(self, request: ChatRequest, images: Iterable[Image] = ()) -> None:
        """Append the start of a turn, its `images`, and the request: all entries or none."""
        images = tuple(images)
        if images:
            request = request.with_metadata(**make_images_metadata(images))
        self._append([TurnStart(), *self.new_images(images), request])

    def new_images(self, images: Iterable[Image]) -> list[ImageEntry]:
        """Return entries for the `images` that the record does not contain."""
        new = {image.digest: image for image in images}
        return [
            make_image_entry(image) for key, image in new.items() if self.images.find(key) is None
        ]

    def append(self, *entries: Entry) -> None:
        """Append all `entries` to the current turn, or none.

        A `turn_start` is omitted with a warning, because only `start_turn` begins a turn.

        Raises:
            StorageError: A response has no open request in this turn, or the record is damaged.
        """
        if any(isinstance(entry, TurnStart) for entry in entries):
            warnings.warn("only start_turn can begin a turn", stacklevel=2)
            entries = tuple(entry for entry in entries if not isinstance(entry, TurnStart))
        if not self.turn_count and any(entry.type in CONVERSATION_KINDS for entry in entries):
            entries = (TurnStart(), *entries)
        if entries:
            self._append(entries)

    def extend_stored(self, raw: Iterable[RawEntry]) -> None:
        """Append all stored entries of this conversation, or none. `on_change` is not called.

        Raises:
            StorageError: An entry is malformed, or the record is damaged.
        """
        self._check_not_damaged()
        start = len(self.raw)
        found = [(value, decode_event(value, start + index)) for index, value in enumerate(raw)]
        for value, entry in found:
            self._add_id(read_stored_id(value))
            self._keep(value, entry)

    def _append(self, entries: Sequence[Entry]) -> None:
        self._check_not_damaged()
        self._pairs.check(entries)  # before the first entry is written

        now = "" if self.is_reproducible else self.now()

        for entry in entries:
            stamped = entry if entry.timestamp else entry.stamped(now or self.now())
            self._add_id(None)
            self._keep(self._add_links(stamped, len(self.raw)), stamped)
            self._made_here.add(self.event_id(len(self.raw) - 1))

        if self.on_change is not None:
            self.on_change()

    def now(self) -> str:
        """Return the timestamp of an entry that is made now."""
        moment = self._clock()
        if isinstance(self._clock, ReproducibleClock):
            last = self.entries[-1].timestamp if self.entries else ""
            moment = self._clock.at(len(self.raw), last)
        return format_timestamp(moment)

    def _add_links(self, entry: Entry, index: int) -> RawEntry:
        raw: RawEntry = {"event_id": self.event_id(index)}
        # A request without a unique stored id cannot be referenced.
        if entry.type in LINKABLE and self._request and self._index_of(self._request) is not None:
            raw["request_id"] = self._request
        raw.update(entry.to_raw())
        return raw

    def _check_not_damaged(self) -> None:
        if self.damage:
            first = self.damage[0]
            raise StorageError(
                f"this record is damaged ({first.message}): it can be read but not changed",
                place=first.place,
            )

    # --- ids and links -----------------------------------------------------------------------

    def event_id(self, index: int) -> str:
        """Return the id of entry `index`, which is unique and constant in this stream.

        An entry without a stored id of its own gets one here. The stored object is unchanged.
        """
        found = self._ids[index]
        while found is None:
            drawn = self._new_id()  # may be taken
            if drawn not in self._places:
                found = self._ids[index] = drawn
                self._places[drawn] = index if index >= 0 else index + len(self._ids)
        return found

    def _add_id(self, stored: str | None) -> None:
        if stored in self._places:
            self._ambiguous.add(stored)
            stored = None
        elif stored is not None:
            self._places[stored] = len(self._ids)
        self._ids.append(stored)

    def _index_of(self, identifier: str) -> int | None:
        return None if identifier in self._ambiguous else self._places.get(identifier)

    def unresolved(self) -> list[int]:
        """Return the indexes of entries with an unknown `request_id`.

        The id is not in the record, is not that of a `chat_request`, or several entries have it.
        """
        found = []

        for index, (entry, raw) in enumerate(zip(self.entries, self.raw, strict=True)):
            target = read_stored_id(raw, "request_id") if entry.type in LINKABLE else None
            if target is not None:
                place = self._index_of(target)
                if place is None or not isinstance(self.entries[place], ChatRequest):
                    found.append(index)

        return found

    def open_tool_calls(self) -> list[ToolCallRequest]:
        """Return the tool calls of the current turn without a response, in call order."""
        found = map(self.entries.__getitem__, self.open_tool_call_indexes())
        return [entry for entry in found if isinstance(entry, ToolCallRequest)]

    def open_tool_call_indexes(self) -> list[int]:
        """Return the indexes of `open_tool_calls`."""
        if self._pairs.are_balanced("tool"):
            return []
        turn = self.current_turn()
        _, unanswered, _ = match_pairs(enumerate(turn, len(self.entries) - len(turn)))
        return [i for i in sorted(unanswered) if isinstance(self.entries[i], ToolCallRequest)]

    # --- repair ------------------------------------------------------------------------------

    def repair(self, *, resumes: bool = False) -> bool:
        """Make the record valid for a request. Return True if it was changed.

        Every tool call gets a response, unless the last turn `resumes`. Do not call it while tools
        run. Entries before the current turn are checked once, so the cost does not grow with
        the conversation.

        Raises:
            StorageError: The record is damaged.
        """
        self._check_not_damaged()
        ends_open = isinstance(self.last_event(), TurnStart)

        changed = False
        if not self._checked or not self._pairs.are_balanced() or ends_open:
            items = self.items()
            repaired = repair_items(items, resumes=resumes)
            changed = [*map(id, repaired)] != [*map(id, items)]
            if changed:
                self.rewrite(repaired)

        self._checked = len(self.entries)
        return changed

    def items(self) -> list[Item]:
        """Return the entries in the form for `rewrite`."""
        return [
            Item(entry, raw, known)
            for entry, raw, known in zip(self.entries, self.raw, self._ids, strict=True)
        ]

    def until(self, count: int) -> ConversationStream:
        """Return the conversation with its first `count` entries, which are shared."""
        made = ConversationStream(self.properties, clock=self._clock, base_config=self.base_config)
        made.rewrite(self.items()[:count])
        made._made_here = self._made_here
        return made

    def is_made_here(self, index: int) -> bool:
        """Return True if this process appended entry `index`."""
        return self._ids[index] in self._made_here

    def rewrite(self, items: Sequence[Item]) -> None:
        """Replace all entries by `items`. New items are stored.

        Unchanged entries keep their ids. `on_change` is not called: a copy of the record has to be
        replaced as a whole.

        Raises:
            StorageError: The record is damaged.
        """
        self._check_not_damaged()
        self._begin()
        self._ids = [item.event_id for item in items]
        self._places = {known: i for i, known in enumerate(self._ids) if known is not None}
        for index, (entry, raw, _) in enumerate(items):
            stored = self._add_links(entry, index) if raw is None else raw
            self._keep(stored, entry)
