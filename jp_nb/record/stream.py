"""The append-only entries of one conversation: append, pair, repair, iterate.

Source: `spec/conversation-stream.md` section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.record.events import (
    CONVERSATION_KINDS,
    ChatRequest,
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    RawEntry,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
    decode,
)
from jp_nb.record.timestamps import Clock, conversation_id, format_timestamp

INTERRUPTED = "Tool call was interrupted."
EPOCH = "1970-01-01 00:00:00.0"

Made = Literal["live", "headless", "imported"]


@dataclass(frozen=True, slots=True)
class TurnEntries:
    """The entries of one turn, configuration changes included; `number` is 0-based."""

    number: int
    entries: tuple[Entry, ...]


class _Pairing:
    """Counts of requests and responses by id inside one turn."""

    __slots__ = ("asked", "asked_inquiries", "closed_inquiries", "done")

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.asked_inquiries: Counter[str] = Counter()
        self.closed_inquiries: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        match entry:
            case ToolCallRequest(id=key):
                self.asked[key] += 1
            case ToolCallResponse(id=key):
                self.done[key] += 1
            case InquiryRequest(id=key):
                self.asked_inquiries[key] += 1
            case InquiryResponse(id=key):
                self.closed_inquiries[key] += 1

    def check(self, entry: Entry, before: _Pairing) -> None:
        """Whether `entry` may follow what is counted here and in `before`."""
        match entry:
            case ToolCallResponse(id=key):
                asked = before.asked[key] + self.asked[key]
                self._check("ToolCallResponse", key, asked, before.done[key] + self.done[key])
            case InquiryResponse(id=key):
                asked = before.asked_inquiries[key] + self.asked_inquiries[key]
                closed = before.closed_inquiries[key] + self.closed_inquiries[key]
                self._check("InquiryResponse", key, asked, closed)

    @staticmethod
    def _check(kind: str, key: str, requests: int, responses: int) -> None:
        if requests == 0:
            raise StorageError(f"{kind} references unknown request ID `{key}`")
        if responses >= requests:
            raise StorageError(f"Duplicate {kind} for ID `{key}`")

    @property
    def balanced(self) -> bool:
        return self.asked == self.done and self.asked_inquiries == self.closed_inquiries


class ConversationStream:
    """One conversation: its base configuration and its entries, oldest first.

    `raw` holds the JSON objects as they are stored and is the truth; `entries` are typed views
    of them, index by index. Only `append` and `start_turn` add, only `repair` rewrites.

    Attributes:
        deltas: The configuration changes among `entries`. Unlike an index into `entries`, a
            place in it means the same before and after a repair.

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
    ) -> None:
        self.head: dict[str, JsonValue] = dict(head)
        self.base_config: dict[str, JsonValue] = dict(base_config or {})
        self.raw: list[RawEntry] = []
        self.entries: list[Entry] = []
        self.deltas: list[ConfigDelta] = []
        self.on_change: Callable[[], None] | None = None
        self._clock = clock
        self._pairing = _Pairing()
        self._checked = 0
        self._turn_count = 0
        for index, value in enumerate(raw):
            entry = decode(value, index)
            self.raw.append(value)  # type: ignore[arg-type]  # decode accepts objects alone
            self._keep(entry)

    @classmethod
    def new(
        cls,
        *,
        clock: Clock,
        made: Made,
        base_config: Mapping[str, JsonValue] | None = None,
        parent: Mapping[str, JsonValue] | None = None,
        not_ids: Iterable[str] = (),
    ) -> ConversationStream:
        """An empty conversation, named after this moment; `not_ids` are taken."""
        taken = set(not_ids)
        identifier = conversation_id(clock())
        while identifier in taken:
            identifier = f"jp-c{int(identifier.removeprefix('jp-c')) + 1}"
        head: dict[str, JsonValue] = {"id": identifier, "made": made}
        if parent:
            head["parent"] = dict(parent)
        return cls(head, clock=clock, base_config=base_config)

    @property
    def id(self) -> str:
        """Such as `jp-c17738399468`."""
        return str(self.head.get("id", ""))

    @property
    def title(self) -> str | None:
        """Its title, if somebody gave it one."""
        title = self.head.get("title")
        return title if isinstance(title, str) else None

    def __len__(self) -> int:
        return len(self.raw)

    def _keep(self, entry: Entry) -> None:
        self.entries.append(entry)
        if isinstance(entry, TurnStart):
            if not self._pairing.balanced:
                self._checked = 0  # the turn that ends here is left for the next repair
            self._pairing = _Pairing()
            self._turn_count += 1
        else:
            if isinstance(entry, ConfigDelta):
                self.deltas.append(entry)
            self._pairing.add(entry)
            if not self._turn_count and entry.type in CONVERSATION_KINDS:
                self._turn_count = 1

    # --- appending ---------------------------------------------------------------------------

    def start_turn(self, request: ChatRequest) -> None:
        """Open a turn with what the user asked: both entries or none."""
        self._append([TurnStart(), request])

    def append(self, *entries: Entry) -> None:
        """Add `entries` to the current turn: all of them or none.

        Raises:
            StorageError: If a response has no open request in this turn, or one is a
                `turn_start`, which only `start_turn` may add.
        """
        if any(isinstance(entry, TurnStart) for entry in entries):
            raise StorageError("a turn is opened by start_turn alone")
        if not self._turn_count and any(entry.type in CONVERSATION_KINDS for entry in entries):
            entries = (TurnStart(), *entries)
        if entries:
            self._append(entries)

    def _append(self, entries: Iterable[Entry]) -> None:
        moment = format_timestamp(self._clock())
        stamped = [e if e.timestamp else e.stamped(moment) for e in entries]
        self._check(stamped)
        for entry in stamped:
            self.raw.append(entry.to_raw())
            self._keep(entry)
        if self.on_change is not None:
            self.on_change()

    def _check(self, entries: list[Entry]) -> None:
        before, batch = self._pairing, _Pairing()
        for entry in entries:
            if isinstance(entry, TurnStart):
                before, batch = _Pairing(), _Pairing()
            batch.check(entry, before)
            batch.add(entry)

    # --- reading -----------------------------------------------------------------------------

    def turns(self) -> Iterator[TurnEntries]:
        """The turns, oldest first; entries before the first `turn_start` are a turn too.

        Changes of the configuration belong to the turn they lie in; those that lie between two
        turns were made for the later one.
        """
        number, current = 0, list[Entry]()
        between: list[Entry] = []
        for entry in self.entries:
            if isinstance(entry, ConfigDelta):
                between.append(entry)
            elif isinstance(entry, TurnStart):
                if current:
                    yield TurnEntries(number, tuple(current))
                    number += 1
                current, between = [*between, entry], []
            elif entry.type in CONVERSATION_KINDS:
                current += between
                current.append(entry)
                between = []
        if current:
            yield TurnEntries(number, tuple(current))

    @property
    def turn_count(self) -> int:
        """How many turns there are."""
        return self._turn_count

    def last_turn(self) -> TurnEntries | None:
        """The last turn as `turns` gives it, without walking through the others."""
        if not self._turn_count:
            return None
        start = len(self.entries) - len(self.current_turn())
        while start and self.entries[start - 1].type not in CONVERSATION_KINDS:
            start -= 1
        tail = [
            entry
            for entry in self.entries[start:]
            if entry.type in CONVERSATION_KINDS or isinstance(entry, ConfigDelta)
        ]
        while tail and isinstance(tail[-1], ConfigDelta):
            tail.pop()  # made for the turn to come
        return TurnEntries(self._turn_count - 1, tuple(tail))

    def current_turn(self) -> list[Entry]:
        """The entries of the last turn, its `turn_start` first; global entries included."""
        start = len(self.entries)
        while start and not isinstance(self.entries[start - 1], TurnStart):
            start -= 1
        return self.entries[max(start - 1, 0) :]

    def unanswered(self) -> list[ToolCallRequest]:
        """Tool calls of the current turn without a response, in call order."""
        if self._pairing.asked == self._pairing.done:
            return []
        answered = Counter(self._pairing.done)
        calls = []
        for entry in self.current_turn():
            if isinstance(entry, ToolCallRequest):
                if answered[entry.id]:
                    answered[entry.id] -= 1
                else:
                    calls.append(entry)
        return calls

    def open_inquiries(self) -> list[InquiryRequest]:
        """Inquiries of the current turn that are not closed."""
        if self._pairing.asked_inquiries == self._pairing.closed_inquiries:
            return []
        closed = Counter(self._pairing.closed_inquiries)
        found = []
        for entry in self.current_turn():
            if isinstance(entry, InquiryRequest):
                if closed[entry.id]:
                    closed[entry.id] -= 1
                else:
                    found.append(entry)
        return found

    # --- repair ------------------------------------------------------------------------------

    def repair(self) -> bool:
        """Make the record fit to be sent: every tool call answered, no loose end.

        Never called on load, nor while tools run. Returns whether anything changed. Only what
        was not checked before is looked at again when the turn in progress is well formed, so
        that a long conversation costs nothing here.
        """
        if self._checked and self._pairing.balanced and not self._ends_open():
            self._checked = len(self.entries)
            return False
        repaired = list(_repaired(list(zip(self.raw, self.entries, strict=True))))
        changed = [raw for raw, _ in repaired] != self.raw
        if changed:
            self.raw = [raw for raw, _ in repaired]
            self.entries, entries = [], [entry for _, entry in repaired]
            self.deltas = []
            self._pairing, self._turn_count = _Pairing(), 0
            for entry in entries:
                self._keep(entry)
        self._checked = len(self.entries)
        return changed

    def _ends_open(self) -> bool:
        last = next((e for e in reversed(self.entries) if e.type in CONVERSATION_KINDS), None)
        return isinstance(last, TurnStart)


class _Item(NamedTuple):
    raw: RawEntry
    entry: Entry


def _item(entry: Entry) -> _Item:
    return _Item(entry.to_raw(), entry)


def _repaired(pairs: list[tuple[RawEntry, Entry]]) -> list[_Item]:
    """The seven steps of `spec/conversation-stream.md` 3.6, in order. Idempotent."""
    items = [_Item(raw, entry) for raw, entry in pairs]
    items = _drop_before_first_request(items)
    items = _pair(items)
    items = _drop_trailing_turn_start(items)
    return _one_turn_start_first(items)


def _is_conversation(entry: Entry) -> bool:
    return entry.type in CONVERSATION_KINDS


def _drop_before_first_request(items: list[_Item]) -> list[_Item]:
    first = next((i for i, x in enumerate(items) if isinstance(x.entry, ChatRequest)), None)
    if first is None:
        return items
    return [
        item
        for i, item in enumerate(items)
        if i >= first or isinstance(item.entry, TurnStart) or not _is_conversation(item.entry)
    ]


def _pair(items: list[_Item]) -> list[_Item]:
    """Answer open tool calls, drop loose responses and half inquiries; turn by turn."""
    kept: list[_Item] = []
    turn: list[_Item] = []
    for item in items:
        if isinstance(item.entry, TurnStart):
            kept += _pair_turn(turn)
            turn = []
        turn.append(item)
    return kept + _pair_turn(turn)


def _pair_turn(turn: list[_Item]) -> list[_Item]:
    unanswered, loose = _match(turn, ToolCallRequest, ToolCallResponse)
    open_inquiries, loose_closings = _match(turn, InquiryRequest, InquiryResponse)
    dropped = loose | loose_closings | open_inquiries
    result: list[_Item] = []
    for index, item in enumerate(turn):
        if index in dropped:
            continue
        result.append(item)
        if index in unanswered and isinstance(item.entry, ToolCallRequest):
            answer = ToolCallResponse(
                timestamp=item.entry.timestamp,
                id=item.entry.id,
                content=INTERRUPTED,
                is_error=True,
            )
            result.append(_item(answer))
    return result


def _match(
    turn: list[_Item],
    request: type[ToolCallRequest | InquiryRequest],
    response: type[ToolCallResponse | InquiryResponse],
) -> tuple[set[int], set[int]]:
    """Indexes of requests without response, and of responses without request before them.

    The n-th response of an id belongs to its n-th request.
    """
    waiting: dict[str, list[int]] = {}
    loose: set[int] = set()
    for index, (_, entry) in enumerate(turn):
        if isinstance(entry, request):
            waiting.setdefault(entry.id, []).append(index)
        elif isinstance(entry, response):
            if waiting.get(entry.id):
                waiting[entry.id].pop(0)
            else:
                loose.add(index)
    return {index for indexes in waiting.values() for index in indexes}, loose


def _drop_trailing_turn_start(items: list[_Item]) -> list[_Item]:
    end = len(items)  # behind the last entry of a conversation that is no bare start
    while end and (
        isinstance(items[end - 1].entry, TurnStart) or not _is_conversation(items[end - 1].entry)
    ):
        end -= 1
    return items[:end] + [item for item in items[end:] if not isinstance(item.entry, TurnStart)]


def _one_turn_start_first(items: list[_Item]) -> list[_Item]:
    if not any(_is_conversation(x.entry) and not isinstance(x.entry, TurnStart) for x in items):
        return items
    request = next((i for i, x in enumerate(items) if isinstance(x.entry, ChatRequest)), None)
    before = range(len(items) if request is None else request)
    starts = [i for i in before if isinstance(items[i].entry, TurnStart)]
    if request is None and starts:
        return items
    if starts:
        extra = set(starts[:-1])
        return [item for i, item in enumerate(items) if i not in extra]
    place = 0 if request is None else request
    moment = items[place].entry.timestamp if request is not None else EPOCH
    return [*items[:place], _item(TurnStart(timestamp=moment)), *items[place:]]
