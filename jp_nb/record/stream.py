"""`ConversationStream`: append-only list of the entries of a conversation, with derived turns.

A *raw* entry is the JSON object of the notebook file, and an *entry* is its typed view
(`events.py`). An *event* is an entry that belongs to a turn: not a configuration change, a
compaction, or an image. Calls and their responses are pairs of events (`pairs.py`).

The id of an entry is the stored `event_id`. An entry without one, or with that of an earlier entry,
gets an id of this process when its id is first needed (`entry_ids.py`).

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.images import Image
from jp_nb.record.entries.clock import Clock, ReproducibleClock
from jp_nb.record.entries.entry_ids import EntryIds, read_stored_id
from jp_nb.record.entries.entry_images import RecordedImages, make_image_entry, make_images_metadata
from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS, LINKABLE
from jp_nb.record.entries.event_decoding import decode_event
from jp_nb.record.entries.events import (
    ChatRequest,
    ConfigDelta,
    Damaged,
    Entry,
    ImageEntry,
    RawEntry,
    ToolCallRequest,
    TurnStart,
)
from jp_nb.record.entries.new_ids import IdFactory, make_conversation_id, make_id_factory
from jp_nb.record.entries.pairs import PairCounts, find_half, match_pairs
from jp_nb.record.entries.repair import Item, repair_items
from jp_nb.record.entries.timestamps import format_timestamp
from jp_nb.record.entries.turn_entries import TurnEntries, TurnEvent, iter_events, split_turns

Made = Literal["live", "headless", "imported"]


@dataclass(frozen=True, slots=True)
class Damage:
    """A malformed entry: its index, the path in it, and the error."""

    index: int
    place: str
    message: str


class ConversationStream:
    """One conversation: its base configuration and its entries, oldest first.

    Only `append`, `start_turn`, and `extend_stored` add entries. Only `rewrite` removes them.

    Args:
        properties: As the attribute.
        clock: Gives new entries their timestamps.
        base_config: The settings that the conversation began with.
        raw: The stored entries.
        new_id: Makes the ids of entries; None for random ones, or those of a reproducible clock.
        tolerant: True to keep malformed entries, and list them in `damage`. The conversation is
            read-only then.

    Attributes:
        properties: The object `conversation` of the record: id, title, and origin.
        raw: The stored JSON objects, which are shared and never changed.
        entries: Typed views of them, with the same indexes.
        turn_count: Number of turns. Events before the first `turn_start` are a turn too.
        requests: The requests in `entries`.
        deltas: The configuration changes in `entries`. A repair removes and moves none of them, so
            an index in this list stays valid.
        on_change: Called after entries were appended, to sign and store them.

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
        self.entries: list[Entry] = []
        self.raw: list[RawEntry] = []
        self.damage: list[Damage] = []
        self.on_change: Callable[[], None] | None = None

        # Derived from the entries: `_keep` updates it, and `_forget_entries` resets it.
        self.turn_count = 0
        self.requests: list[ChatRequest] = []
        self.deltas: list[ConfigDelta] = []
        self._images: RecordedImages | None = None  # None until the first use
        self._open_pairs = PairCounts()  # calls and questions of the current turn
        self._request_id: str | None = None  # of the current request, for links; None if not stored
        # True if `repair` has checked all turns, and no turn has ended with an open pair since.
        self._are_earlier_turns_repaired = False

        self._clock = clock
        self._ids = EntryIds(new_id or make_id_factory(clock, self.id))
        self._own_ids: set[str] = set()  # ids of the entries that this process appended

        self._load(raw, tolerant=tolerant)

    def _load(self, raw: Iterable[JsonValue], *, tolerant: bool) -> None:
        """Read the entries of a stored conversation.

        If `tolerant`, an invalid entry is kept as it is, and noted in `damage`.
        """
        for index, value in enumerate(raw):
            try:
                entry = decode_event(value, index)
            except StorageError as exc:
                if not tolerant:
                    raise
                message = str(exc).removeprefix(f"{exc.place}: ")
                self.damage.append(Damage(index, exc.place, message))
                entry = Damaged(reason=str(exc))

            self._ids.add(read_stored_id(value))
            self._keep(value, entry)  # type: ignore[arg-type]  # damaged entries are only kept

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
        """Return an empty conversation. Its id depends on the time, and is not in `taken_ids`.

        `made` says where it was made, and `parent` from which entry of which conversation it was
        forked.
        """
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

    # --- turns -------------------------------------------------------------------------------

    def events(self) -> Iterator[TurnEvent]:
        """Yield the events, oldest first."""
        return iter_events(self.entries)

    def turns(self) -> Iterator[TurnEntries]:
        """Yield the turns, oldest first, with their configuration changes (`turn_entries.py`)."""
        for number, entries in enumerate(split_turns(self.entries)):
            yield TurnEntries(number, entries)

    def last_turn(self) -> TurnEntries | None:
        """Return the last turn as in `turns`, without reading earlier turns."""
        if not self.turn_count:
            return None

        # Configuration changes before its `turn_start` may belong to the last turn. `split_turns`
        # needs the event before these changes to decide it.
        turn_start = len(self.entries) - len(self.current_turn())
        start = max(turn_start - 1, 0)
        while start and self.entries[start].type not in CONVERSATION_KINDS:
            start -= 1

        *_, last = split_turns(self.entries[start:])
        return TurnEntries(self.turn_count - 1, last)

    def find_request_index(self, turn: int) -> int | None:
        """Return the index of the first request of `turn`, or None. Earlier turns are not read."""
        turn_of_entry = self.turn_count - 1
        first_request = None  # the last one found, since the entries are read backwards

        for index in reversed(range(len(self.entries))):
            if turn_of_entry < turn:
                break

            entry = self.entries[index]
            if turn_of_entry == turn and isinstance(entry, ChatRequest):
                first_request = index
            if isinstance(entry, TurnStart):
                turn_of_entry -= 1

        return first_request

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

    @property
    def images(self) -> RecordedImages:
        """The images in the entries. They are read on first use."""
        if self._images is None:
            self._images = RecordedImages()
            for entry in self.entries:
                if isinstance(entry, ImageEntry):
                    self._images.add(entry)
        return self._images

    def start_turn(self, request: ChatRequest, images: Iterable[Image] = ()) -> None:
        """Append the start of a turn, its `images`, and the `request`: all entries or none."""
        images = tuple(images)
        if images:
            request = request.with_metadata(**make_images_metadata(images))
        self._append([TurnStart(), *self.make_image_entries(images), request])

    def make_image_entries(self, images: Iterable[Image]) -> list[ImageEntry]:
        """Return entries for the `images` that the record does not contain."""
        by_digest = {image.digest: image for image in images}
        return [
            make_image_entry(image)
            for digest, image in by_digest.items()
            if self.images.find(digest) is None
        ]

    def append(self, *entries: Entry) -> None:
        """Append all `entries` to the current turn, or none.

        The first event of a conversation begins its first turn. Apart from that, only `start_turn`
        begins a turn: a `turn_start` in `entries` is omitted with a warning.

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
        """Append all `raw` entries, which the journal has stored, or none.

        They are stored already, so `on_change` is not called.

        Raises:
            StorageError: An entry is malformed, or the record is damaged.
        """
        self._check_not_damaged()
        start = len(self.raw)
        decoded = [(value, decode_event(value, start + index)) for index, value in enumerate(raw)]
        for value, entry in decoded:
            self._ids.add(read_stored_id(value))
            self._keep(value, entry)

    def _append(self, entries: Sequence[Entry]) -> None:
        """Append new entries of this kernel. Those without a timestamp get the current one."""
        self._check_not_damaged()
        self._open_pairs.check(entries)  # raises for an invalid response, before any is added

        # Real entries have the time of the append. Reproducible times depend on the position.
        now = "" if self.is_reproducible else self.now()

        for entry in entries:
            stamped = entry if entry.timestamp else entry.stamped(now or self.now())
            index = len(self.raw)
            self._ids.add(None)  # no stored id: `_add_links` makes one
            self._keep(self._add_links(stamped, index), stamped)
            self._own_ids.add(self.event_id(index))

        if self.on_change is not None:
            self.on_change()

    def _keep(self, raw: RawEntry, entry: Entry) -> None:
        """Add a stored object and its typed view, and update what is derived from the entries."""
        self.raw.append(raw)
        self.entries.append(entry)

        if isinstance(entry, TurnStart):
            if not self._open_pairs.are_balanced():
                self._are_earlier_turns_repaired = False
            self._open_pairs = PairCounts()
            self._request_id = None
            self.turn_count += 1
        elif isinstance(entry, ConfigDelta):
            self.deltas.append(entry)
        elif isinstance(entry, ImageEntry):
            if self._images is not None:
                self._images.add(entry)
        elif entry.type in CONVERSATION_KINDS:
            if isinstance(entry, ChatRequest):
                self._request_id = read_stored_id(raw)
                self.requests.append(entry)
            elif half := find_half(entry):  # a call, a question, or the response to one
                self._open_pairs.add(half)
            self.turn_count = max(self.turn_count, 1)

    def now(self) -> str:
        """Return the timestamp of an entry that is made now."""
        moment = self._clock()
        if isinstance(self._clock, ReproducibleClock):
            last = self.entries[-1].timestamp if self.entries else ""
            moment = self._clock.at(len(self.raw), last)
        return format_timestamp(moment)

    def _add_links(self, entry: Entry, index: int) -> RawEntry:
        """Return the object to store for `entry`: with its id, and the id of its request."""
        raw: RawEntry = {"event_id": self.event_id(index)}
        # A request without a unique stored id cannot be referenced.
        request_id = self._request_id
        if entry.type in LINKABLE and request_id and self._ids.find(request_id) is not None:
            raw["request_id"] = request_id
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

        An entry without a stored id gets an id here. The stored object is unchanged.
        """
        return self._ids.get(index)

    def find_unresolved(self) -> list[int]:
        """Return the indexes of entries with an unknown `request_id`.

        The id is not in the record, is not that of a `chat_request`, or several entries have it.
        """
        unresolved = []

        for index, (entry, raw) in enumerate(zip(self.entries, self.raw, strict=True)):
            request_id = read_stored_id(raw, "request_id")
            if request_id is None or entry.type not in LINKABLE:
                continue

            target = self._ids.find(request_id)
            if target is None or not isinstance(self.entries[target], ChatRequest):
                unresolved.append(index)

        return unresolved

    def list_open_tool_calls(self) -> list[ToolCallRequest]:
        """Return the tool calls of the current turn without a response, in call order."""
        entries = [self.entries[index] for index in self.list_open_tool_call_indexes()]
        return [entry for entry in entries if isinstance(entry, ToolCallRequest)]

    def list_open_tool_call_indexes(self) -> list[int]:
        """Return the indexes of `list_open_tool_calls`."""
        if self._open_pairs.are_balanced("tool"):
            return []
        turn = self.current_turn()
        start = len(self.entries) - len(turn)
        unanswered = match_pairs(enumerate(turn, start)).unanswered
        return [i for i in sorted(unanswered) if isinstance(self.entries[i], ToolCallRequest)]

    # --- repair ------------------------------------------------------------------------------

    def repair(self, *, resumes: bool = False) -> bool:
        """Make the record valid for a request. Return True if it was changed.

        Every tool call gets a response, unless the last turn `resumes`. Do not call it while tools
        run. Entries before the current turn are checked once, so that the cost does not grow with
        the conversation.

        Raises:
            StorageError: The record is damaged.
        """
        self._check_not_damaged()

        has_open_pair = not self._open_pairs.are_balanced()
        has_empty_turn = isinstance(self.last_event(), TurnStart)
        needs_repair = not self._are_earlier_turns_repaired or has_open_pair or has_empty_turn

        changed = False
        if needs_repair:
            items = self.list_items()
            repaired = repair_items(items, resumes=resumes)
            # `repair_items` returns an item that stays as the same object.
            changed = list(map(id, repaired)) != list(map(id, items))
            if changed:
                self.rewrite(repaired)

        # Stored entries may still be added to an empty conversation, and nothing has checked them.
        self._are_earlier_turns_repaired = bool(self.entries)
        return changed

    def list_items(self) -> list[Item]:
        """Return the entries with their ids, stored or made, as `rewrite` takes them."""
        known_ids = self._ids.list_known()
        return [
            Item(entry, raw, known)
            for entry, raw, known in zip(self.entries, self.raw, known_ids, strict=True)
        ]

    def until(self, count: int) -> ConversationStream:
        """Return the conversation with its first `count` entries, which are shared.

        The entries keep their ids, and an id of several entries stays ambiguous.
        """
        earlier = ConversationStream(
            self.properties, clock=self._clock, base_config=self.base_config
        )
        earlier._ids.mark_repeated(self._ids)
        earlier.rewrite(self.list_items()[:count])
        earlier._own_ids = self._own_ids
        return earlier

    def is_made_here(self, index: int) -> bool:
        """Return True if this process appended entry `index`: then it needs no signature."""
        return self._ids.get_known(index) in self._own_ids

    def rewrite(self, items: Sequence[Item]) -> None:
        """Replace all entries by `items`. An item without a stored object gets one.

        Unchanged entries keep their ids. `on_change` is not called, because it means that entries
        were appended: a caller that keeps a copy of the record replaces all of the copy.

        Raises:
            StorageError: The record is damaged.
        """
        self._check_not_damaged()
        self._forget_entries()
        self._ids.replace([item.event_id for item in items])

        for index, item in enumerate(items):
            stored = item.raw
            if stored is None:
                stored = self._add_links(item.entry, index)
            self._keep(stored, item.entry)

    def _forget_entries(self) -> None:
        self.entries = []
        self.raw = []
        self.turn_count = 0
        self.requests = []
        self.deltas = []
        self._images = None
        self._open_pairs = PairCounts()
        self._request_id = None
        self._are_earlier_turns_repaired = False
