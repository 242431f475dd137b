"""`ConversationStream`: append-only list of events with derived turns.

The `config_delta` that results from the calls of a cycle has the proposals in its `metadata`:

    {"proposed_by": [{"tool": "change_model", "call_id": "call_1", "paths": ["assistant.name"],
                      "applied_by": "person", "channel": "form"}]}

`channel` is absent if no user was asked, and `by` if the notebook has one user.

A turn without a response of the model that failed or was interrupted ends with a configuration
change that changes nothing, with this `metadata`:

    {"no_answer": {"ended": "failed", "takes_back": 1}}

`ended` is `failed` or `interrupted`. The `takes_back` changes before it were made for that turn
alone and do not apply.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import as_object
from jp_nb.record.clock import (
    Clock,
    EventIds,
    IdFactory,
    ReproducibleClock,
    format_timestamp,
    id_factory,
    new_conversation_id,
    stored_id,
)
from jp_nb.record.events import (
    BY,
    CONVERSATION_KINDS,
    LINKABLE,
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Damaged,
    Entry,
    ImageEntry,
    RawEntry,
    ToolCallRequest,
    TurnStart,
    decode,
    is_usage_mark,
    recorded_by,
)
from jp_nb.record.integrity import Item, Pairs, check_pairs, half_of, match_pairs, repair_items

if TYPE_CHECKING:
    from jp_nb.images import Image
    from jp_nb.record.events import RecordedImages

NO_ANSWER = "no_answer"
"""The key in the metadata of a delta."""

Ended = Literal["failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The end of a turn without an answer, and how many changes before its mark do not count."""

    ended: Ended
    takes_back: int = 0


def make_no_answer(found: NoAnswer) -> ConfigDelta:
    """Return the entry that says how a turn without an answer ended."""
    said = {"ended": found.ended, "takes_back": found.takes_back}
    return ConfigDelta(metadata={NO_ANSWER: said})


def read_no_answer(entry: Entry) -> NoAnswer | None:
    """Return what `entry` says about the turn it ends; None if it is not such a mark."""
    match entry.metadata.get(NO_ANSWER) if isinstance(entry, ConfigDelta) else None:
        case {"ended": ("failed" | "interrupted") as ended, "takes_back": int(count)}:
            return NoAnswer(ended, max(int(count), 0))
    return None


def is_unanswered(turn: Iterable[Entry]) -> bool:
    """True if something was asked in `turn` and the model neither answered nor called a tool.

    Reasoning alone is not an answer: nobody can go on from it.
    """
    asked = False
    for entry in turn:
        if isinstance(entry, ToolCallRequest):
            return False
        if isinstance(entry, ChatResponse) and entry.kind != "reasoning":
            return False
        asked = asked or isinstance(entry, ChatRequest)
    return asked


class RevertedChanges:
    """The numbers of the changes that a mark takes back, found as the record grows."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self._seen = 0
        self._after_mark = 0

    def follow(self, deltas: Sequence[ConfigDelta]) -> set[int]:
        """Look at what was appended to `deltas`; the numbers that are new."""
        found: set[int] = set()
        for number in range(self._seen, len(deltas)):
            mark = read_no_answer(deltas[number])
            if mark is not None:  # none reaches behind the mark before it: the work stays linear
                found.update(range(max(self._after_mark, number - mark.takes_back), number))
                self._after_mark = number + 1
        self._seen = len(deltas)
        self.numbers |= found
        return found


def effective_deltas(deltas: Sequence[ConfigDelta]) -> list[tuple[int, ConfigDelta]]:
    """Return the `deltas` that count, numbered: no marks, and none that a mark takes back."""
    gone = RevertedChanges().follow(deltas)
    return [
        (number, delta)
        for number, delta in enumerate(deltas)
        if number not in gone and read_no_answer(delta) is None and not is_usage_mark(delta)
    ]


PROPOSED_BY = "proposed_by"
"""The key in the metadata of a delta."""


MAX_READ = 1_000
"""Calls of one change, and paths of one call: a stranger may have written more."""


@dataclass(frozen=True, slots=True)
class ProposedBy:
    """One call of a tool that had a part in a change.

    Attributes:
        tool: Its name.
        call_id: The provider's id of the call.
        paths: What it set and unset.
        applied_by: Who let it count: a person, or a grant in the configuration.
        channel: Where the person was asked: `form`, `stdin`, `terminal`, or `answers` if a file of
            theirs said so beforehand; None for a grant.
        by: Who that person is, where several share the notebook.
    """

    tool: str
    call_id: str
    paths: tuple[str, ...]
    applied_by: Literal["person", "grant"]
    channel: str | None = None
    by: str | None = None


def proposal_metadata(proposed: Sequence[ProposedBy]) -> dict[str, JsonValue]:
    """Return the metadata of a delta that `proposed` led to; empty if there is none."""
    return {PROPOSED_BY: [_written(one) for one in proposed]} if proposed else {}


def _written(one: ProposedBy) -> dict[str, JsonValue]:
    written: dict[str, JsonValue] = {
        "tool": one.tool,
        "call_id": one.call_id,
        "paths": list(one.paths),
        "applied_by": one.applied_by,
    }
    known = {"channel": one.channel, BY: one.by}
    return written | {key: said for key, said in known.items() if said is not None}


def proposed_by(entry: ConfigDelta) -> tuple[ProposedBy, ...]:
    """Return the calls that led to `entry`, in call order; what is malformed is passed over."""
    found = entry.metadata.get(PROPOSED_BY)
    read = map(_read, found[:MAX_READ]) if isinstance(found, list) else ()
    return tuple(one for one in read if one is not None)


def _read(item: JsonValue) -> ProposedBy | None:
    match item:
        case {
            "tool": str(tool),
            "call_id": str(call_id),
            "paths": list(paths),
            "applied_by": ("person" | "grant") as applied_by,
            **rest,
        }:
            named = tuple(path for path in paths[:MAX_READ] if isinstance(path, str))
            channel = rest.get("channel")
            asked_in = channel if isinstance(channel, str) else None
            return ProposedBy(
                tool, call_id, named, applied_by, asked_in, recorded_by(as_object(item))
            )
    return None


def end_of_turn(entries: Sequence[Entry], end: int) -> int:
    """Return `end`, behind a turn's last event, moved behind the changes that belong to its end."""
    while end < len(entries) and belongs_to_turn_end(entries[end]):
        end += 1
    return end


def belongs_to_turn_end(entry: Entry) -> bool:
    """True of a change that belongs to the turn before it: its tools', or a mark of its end."""
    return is_tool_change(entry) or read_no_answer(entry) is not None or is_usage_mark(entry)


def is_tool_change(entry: Entry) -> bool:
    """Return whether tools changed the configuration there, in a turn or at its end."""
    return isinstance(entry, ConfigDelta) and bool(proposed_by(entry))


@dataclass(frozen=True, slots=True)
class TurnEntries:
    """The entries of one turn, configuration changes included; `number` is 0-based."""

    number: int
    entries: tuple[Entry, ...]

    @property
    def schema(self) -> Mapping[str, JsonValue] | None:
        """The JSON schema of the answer, if the request that opened the turn has one."""
        request = next((e for e in self.entries if isinstance(e, ChatRequest)), None)
        return request.response_schema if request is not None else None


class TurnEvent(NamedTuple):
    """An event, the 0-based number of its turn, and its index among all entries."""

    turn: int
    position: int
    entry: Entry


class EntriesByTurn:
    """Entries, oldest first. An event is one that belongs to a turn.

    Attributes:
        entries: All of them; those of other kinds apply to the conversation as a whole.
        turn_count: How many turns they make. Events before the first `turn_start` are one too.
        requests: What the person said, of `entries`.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.turn_count = 0
        self.requests: list[ChatRequest] = []

    def events(self) -> Iterator[TurnEvent]:
        """Yield the events, oldest first."""
        turn = -1
        for index, entry in enumerate(self.entries):
            if entry.type in CONVERSATION_KINDS:
                turn = max(turn, 0) if not isinstance(entry, TurnStart) else turn + 1
                yield TurnEvent(turn, index, entry)

    def turns(self) -> Iterator[TurnEntries]:
        """Yield the turns, oldest first.

        Changes of the configuration belong to the turn they lie in; those that lie between two
        turns were made for the later one, but for what the earlier one's tools changed at its end,
        and for the mark of one that got no answer.
        """
        number, current = 0, list[Entry]()
        between: list[Entry] = []
        for entry in self.entries:
            if isinstance(entry, ConfigDelta):
                belongs_before = current and not between and belongs_to_turn_end(entry)
                (current if belongs_before else between).append(entry)
            elif isinstance(entry, TurnStart):
                if current:
                    yield TurnEntries(number, tuple(current))
                    number += 1
                current, between = [*between, entry], []
            elif entry.type in CONVERSATION_KINDS:  # the turn goes on: they lie in it
                current += between
                current.append(entry)
                between = []
        if current:
            yield TurnEntries(number, tuple(current))

    def last_turn(self) -> TurnEntries | None:
        """Return the last turn as `turns` gives it, without walking through the others."""
        if not self.turn_count:
            return None
        start = len(self.entries) - len(self.current_turn())
        while start and self.entries[start - 1].type not in CONVERSATION_KINDS:
            start -= 1
        if start:
            start = end_of_turn(self.entries, start)
        tail = [
            entry
            for entry in self.entries[start:]
            if entry.type in CONVERSATION_KINDS or isinstance(entry, ConfigDelta)
        ]
        end = len(tail)
        while end and isinstance(tail[end - 1], ConfigDelta):
            end -= 1
        del tail[end_of_turn(tail, end) :]  # made for the turn to come
        return TurnEntries(self.turn_count - 1, tuple(tail))

    def request_index(self, turn: int) -> int | None:
        """Return the index of the request that opened `turn`; looks no further back than that."""
        number, found = self.turn_count - 1, None
        for index in reversed(range(len(self.entries))):
            entry = self.entries[index]
            if number == turn and isinstance(entry, ChatRequest):
                found = index  # the first of it counts: the others were said in its course
            if isinstance(entry, TurnStart):
                number -= 1
                if number < turn:
                    break
        return found

    def last_event(self) -> Entry | None:
        """Return the last event; None if there is none."""
        return next((e for e in reversed(self.entries) if e.type in CONVERSATION_KINDS), None)

    def current_turn(self) -> list[Entry]:
        """Return all entries from the last `turn_start` on; all there are if there is none."""
        start = len(self.entries)
        while start and not isinstance(self.entries[start - 1], TurnStart):
            start -= 1
        return self.entries[max(start - 1, 0) :]


Made = Literal["live", "headless", "imported"]


@dataclass(frozen=True, slots=True)
class Damage:
    """An entry that cannot be read: its index, where in it, and what is wrong there."""

    index: int
    place: str
    message: str


class ConversationStream(EntriesByTurn):
    """One conversation: its base configuration and its entries, oldest first.

    `raw` holds the JSON objects as they are stored and is the truth; `entries` are typed views
    of them, index by index. Only `append` and `start_turn` add; `repair` and what goes through
    `rewrite` are all that takes away.

    Args:
        head: What is stored about the conversation itself.
        clock: Tells when an entry is made.
        base_config: The configuration it began with.
        raw: The entries as they are stored; shared, and never changed.
        draw: Draws the ids of entries; those that go with the clock if None.
        tolerant: Keep an entry that cannot be read instead of raising. A conversation with such
            an entry is there to be looked at: nothing can be added to it or taken away.

    Attributes:
        deltas: The configuration changes among `entries`. Unlike an index into `entries`, a
            place in it means the same before and after a repair.
        damage: The entries that cannot be read.
        on_change: Called after entries were appended.

    Raises:
        StorageError: From the constructor, if an entry is malformed; the message names it.
    """

    def __init__(
        self,
        head: Mapping[str, JsonValue],
        *,
        clock: Clock,
        base_config: Mapping[str, JsonValue] | None = None,
        raw: Iterable[JsonValue] = (),
        new_id: IdFactory | None = None,
        tolerant: bool = False,
    ) -> None:
        self.head: dict[str, JsonValue] = dict(head)
        self.base_config: dict[str, JsonValue] = dict(base_config or {})
        self.damage: list[Damage] = []
        self.on_change: Callable[[], None] | None = None
        self._clock = clock
        self._ids = EventIds(new_id or id_factory(clock, self.id))
        self._begin()
        for index, value in enumerate(raw):
            entry = self._tolerated(value, index) if tolerant else decode(value, index)
            self._ids.add(stored_id(value))
            self._keep(value, entry)  # type: ignore[arg-type]  # nothing is done with damage

    def _begin(self) -> None:
        super().__init__()
        self.raw: list[RawEntry] = []
        self.deltas: list[ConfigDelta] = []
        self.__dict__.pop("images", None)
        self._pairs = Pairs()
        self._checked = 0
        self._request: str | None = None  # the stored id of the request that is being answered

    def _tolerated(self, value: JsonValue, index: int) -> Entry:
        try:
            return decode(value, index)
        except StorageError as exc:
            message = str(exc).removeprefix(f"{exc.place}: ")
            self.damage.append(Damage(index, exc.place, message))
            return Damaged(reason=str(exc))

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
        """Return an empty conversation, named after this moment; `taken_ids` are taken."""
        head: dict[str, JsonValue] = {"id": new_conversation_id(clock(), taken_ids), "made": made}
        if parent:
            head["parent"] = dict(parent)
        return cls(head, clock=clock, base_config=base_config, new_id=new_id)

    @property
    def id(self) -> str:
        """Such as `jp-c17738399468`."""
        return str(self.head.get("id", ""))

    @property
    def is_reproducible(self) -> bool:
        """True if nothing that is added depends on the day or on chance (D59)."""
        return isinstance(self._clock, ReproducibleClock)

    @property
    def title(self) -> str | None:
        """Its title, if somebody gave it one."""
        title = self.head.get("title")
        return title if isinstance(title, str) else None

    def __len__(self) -> int:
        return len(self.raw)

    def _keep(self, raw: RawEntry, entry: Entry) -> None:
        self.raw.append(raw)
        self.entries.append(entry)
        kind = entry.type
        if kind == "turn_start":
            if not self._pairs.balanced:
                self._checked = 0  # the turn that ends here is left for the next repair
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
                self._request = stored_id(raw)
                self.requests.append(entry)
            elif half := half_of(entry):
                self._pairs.add(half)
            self.turn_count = self.turn_count or 1

    # --- appending ---------------------------------------------------------------------------

    @cached_property
    def images(self) -> RecordedImages:
        """The images among the entries; few conversations have any."""
        from jp_nb.record.events import RecordedImages

        found = RecordedImages()
        for entry in self.entries:
            if isinstance(entry, ImageEntry):
                found.add(entry)
        return found

    def start_turn(self, request: ChatRequest, images: Iterable[Image] = ()) -> None:
        """Open a turn with what the user asked, and the `images` with it: all entries or none."""
        images = tuple(images)
        if images:
            from jp_nb.record.events import images_metadata

            metadata = request.metadata | images_metadata(images)
            request = request.model_copy(update={"metadata": metadata})
        self._append([TurnStart(), *self.new_images(images), request])

    def new_images(self, images: Iterable[Image]) -> list[ImageEntry]:
        """Return the entries of those `images` that the record does not hold yet."""
        new = {image.digest: image for image in images}
        if not new:
            return []
        from jp_nb.record.events import image_entry

        return [image_entry(image) for key, image in new.items() if self.images.find(key) is None]

    def append(self, *entries: Entry) -> None:
        """Add `entries` to the current turn: all of them or none.

        A `turn_start` among them is left out, with a warning: `start_turn` alone adds one.

        Raises:
            StorageError: If a response has no open request in this turn, or the record is
                damaged.
        """
        if any(isinstance(entry, TurnStart) for entry in entries):
            warnings.warn("only start_turn can begin a turn", stacklevel=2)
            entries = tuple(entry for entry in entries if not isinstance(entry, TurnStart))
        if not self.turn_count and any(entry.type in CONVERSATION_KINDS for entry in entries):
            entries = (TurnStart(), *entries)
        if entries:
            self._append(entries)

    def extend_stored(self, raw: Iterable[RawEntry]) -> None:
        """Add entries as they were stored, of this conversation: all of them or none.

        `on_change` is not called.

        Raises:
            StorageError: If one is malformed, or the record is damaged.
        """
        self._refuse_damage()
        start = len(self.raw)
        found = [(value, decode(value, start + index)) for index, value in enumerate(raw)]
        for value, entry in found:
            self._ids.add(stored_id(value))
            self._keep(value, entry)

    def _append(self, entries: Sequence[Entry]) -> None:
        self._refuse_damage()
        check_pairs(entries, self._pairs)  # before the first is written: all of them or none
        moment = self._clock()
        for entry in entries:
            self._write(entry if entry.timestamp else entry.stamped(self._timestamp(moment)))
        if self.on_change is not None:
            self.on_change()

    def now(self) -> str:
        """Return the timestamp of an entry that is made now."""
        return self._timestamp(self._clock())

    def _timestamp(self, moment: datetime) -> str:
        """Return the time of the next entry, which is made at `moment`."""
        if isinstance(self._clock, ReproducibleClock):
            last = self.entries[-1].timestamp if self.entries else ""
            moment = self._clock.at(len(self.raw), last)
        return format_timestamp(moment)

    def _write(self, entry: Entry) -> None:
        """Store a new entry, with an id and with what it answers."""
        self._ids.add(None)
        self._keep(self._linked(entry, len(self.raw)), entry)

    def _linked(self, entry: Entry, index: int) -> RawEntry:
        raw: RawEntry = {"event_id": self._ids.of(index)}
        # A request that is stored without an id, or shares it, cannot be named.
        if entry.type in LINKABLE and self._request and self._ids.place(self._request) is not None:
            raw["request_id"] = self._request
        raw.update(entry.to_raw())
        return raw

    def _refuse_damage(self) -> None:
        if self.damage:
            first = self.damage[0]
            raise StorageError(
                f"this record is damaged ({first.message}): it can be read but not changed",
                place=first.place,
            )

    # --- ids and links -----------------------------------------------------------------------

    def event_id(self, index: int) -> str:
        """Return the id of entry number `index`: unique, and the same while the stream lives.

        An entry that is stored without one, or with one that an earlier entry has, gets its id
        here alone: what is stored stays as it is.
        """
        return self._ids.of(index)

    def unresolved(self) -> list[int]:
        """Return the indexes of entries that name a request which cannot be identified.

        It is not in the record, is not a `chat_request`, or several entries have its id.
        """
        known: dict[str, bool] = {}
        found = []
        for index, (entry, raw) in enumerate(zip(self.entries, self.raw, strict=True)):
            target = stored_id(raw, "request_id") if entry.type in LINKABLE else None
            if target is None:
                continue
            if target not in known:
                place = self._ids.place(target)
                known[target] = place is not None and isinstance(self.entries[place], ChatRequest)
            if not known[target]:
                found.append(index)
        return found

    def open_tool_calls(self) -> list[ToolCallRequest]:
        """Return the tool calls of the current turn that have no response, in call order."""
        found = (self.entries[index] for index in self.open_tool_call_indexes())
        return [entry for entry in found if isinstance(entry, ToolCallRequest)]

    def open_tool_call_indexes(self) -> list[int]:
        """Return the indexes of the tool calls that `open_tool_calls` returns."""
        if not self._pairs.uneven("tool"):
            return []
        turn = self.current_turn()
        start = len(self.entries) - len(turn)
        _, open_tool_calls, _ = match_pairs(enumerate(turn, start))
        calls = (index for index in sorted(open_tool_calls))
        return [i for i in calls if isinstance(self.entries[i], ToolCallRequest)]

    # --- repair ------------------------------------------------------------------------------

    def repair(self, *, resumes: bool = False) -> bool:
        """Make the record fit to be sent: every tool call answered, no loose end.

        Those of the last turn stay open if it `resumes`. Never called on load, nor while tools
        run. Returns whether anything changed. Only what
        was not checked before is looked at again when the turn in progress is well formed, so
        that a long conversation costs nothing here.

        Raises:
            StorageError: If the record is damaged.
        """
        self._refuse_damage()
        ends_open = isinstance(self.last_event(), TurnStart)
        changed = False
        if not self._checked or not self._pairs.balanced or ends_open:
            items = self.items()
            mended = repair_items(items, resumes=resumes)
            changed = len(mended) != len(items) or any(
                a is not b for a, b in zip(mended, items, strict=True)
            )
            if changed:
                self.rewrite(mended)
        self._checked = len(self.entries)
        return changed

    def items(self) -> list[Item]:
        """Return the entries as `rewrite` takes them."""
        return [
            Item(entry, raw, known)
            for entry, raw, known in zip(self.entries, self.raw, self._ids.assigned(), strict=True)
        ]

    def until(self, count: int) -> ConversationStream:
        """Return the conversation as it was with its first `count` entries; they are shared."""
        made = ConversationStream(self.head, clock=self._clock, base_config=self.base_config)
        made.rewrite(self.items()[:count])
        return made

    def rewrite(self, items: Sequence[Item]) -> None:
        """Replace all entries by `items`; those among them that are new are written here.

        Entries that stay keep their ids. `on_change` is not called: whoever keeps a copy of the
        record needs the whole of it.

        Raises:
            StorageError: If the record is damaged.
        """
        self._refuse_damage()
        self._begin()
        self._ids.replace_all(item.event_id for item in items)
        for index, (entry, raw, _) in enumerate(items):
            self._keep(self._linked(entry, index) if raw is None else raw, entry)
