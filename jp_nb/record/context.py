"""Request context: the events that one request sends.

A request to the model leaves no entry of its own: its place is the beginning of its response. A
request without any kept response, such as an aborted one, has no place here.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from jp_nb.images import Image
from jp_nb.record.compaction import replacements
from jp_nb.record.events import (
    NO_IMAGES,
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    RecordedImages,
    ToolCallRequest,
    ToolCallResponse,
    omitted_images,
)
from jp_nb.record.integrity import match_pairs
from jp_nb.record.marks import is_continuation
from jp_nb.record.stream import ConversationStream, TurnEvent, is_unanswered

VISIBLE = (ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse)
ContextEntry = ChatRequest | ChatResponse | ToolCallRequest | ToolCallResponse

MAX_IMAGES = 100
"""Of one thread: as many as Anthropic takes in a request."""
MAX_IMAGE_BYTES = 20_000_000
"""Of one thread, all images together: with Base64 and text, Anthropic takes 32 MB in a request."""
IMAGE_LIMIT_REACHED = (
    f"a conversation can show {MAX_IMAGES} images, {MAX_IMAGE_BYTES // 1_000_000} MB in all; the "
    "user can start a new one with `%jp new`, or branch before the images with `%jp fork TURN`"
)


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A visible entry and the provider in force when it was made.

    `provider` tells whose signatures the entry carries; reasoning of another one is replayed as
    text. What of its `images` cannot be shown is said in the text of the entry.
    """

    entry: ContextEntry
    provider: str
    images: tuple[Image, ...] = ()


@dataclass(slots=True, eq=False)
class RequestContext:
    """The visible entries of one conversation, oldest first. Only ever appended to.

    A provider may keep what it rendered of the first `n` items and go on from there: the items
    never change. Whatever changes them (repair, fork) makes another `RequestContext`.
    """

    items: list[ContextItem] = field(default_factory=list)
    _shown: int = field(default=0, init=False)
    _shown_bytes: int = field(default=0, init=False)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ContextItem]:
        return iter(self.items)

    def since(self, index: int) -> Iterator[ContextItem]:
        """Yield the items from number `index` on."""
        return islice(self.items, index, None)

    def add(self, entry: Entry, provider: str, images: RecordedImages | None = None) -> None:
        """Append `entry` if a provider may see it; kinds are invisible unless listed.

        `images` are those of the conversation.
        """
        if isinstance(entry, ChatRequest | ToolCallResponse) and images is not None:
            self.items.append(self._with_images(entry, provider, images))
        elif isinstance(entry, VISIBLE):
            self.items.append(ContextItem(entry, provider))

    def _with_images(
        self, entry: ChatRequest | ToolCallResponse, provider: str, images: RecordedImages
    ) -> ContextItem:
        shown = images.images_of(entry)
        if shown is NO_IMAGES:
            return ContextItem(entry, provider)
        kept = tuple(image for image in shown.images if self._has_room(image))
        missing = len(shown.images) - len(kept)
        notes = [*shown.notes, *([omitted_images(missing, IMAGE_LIMIT_REACHED)] if missing else [])]
        if notes:
            content = "\n".join([entry.content, *notes])
            entry = entry.model_copy(update={"content": content})
        return ContextItem(entry, provider, kept)

    def _has_room(self, image: Image) -> bool:
        """Take room for `image`, if there is any. What was shown stays: it is never taken back."""
        size = len(image.content)
        if self._shown == MAX_IMAGES or self._shown_bytes + size > MAX_IMAGE_BYTES:
            return False
        self._shown += 1
        self._shown_bytes += size
        return True


def build_context(
    stream: ConversationStream, providers: Sequence[str] = ("",), *, in_turn: bool = False
) -> RequestContext:
    """Return the whole of `stream` as a provider sees it, each entry with the provider of its time.

    `providers` are those in force at the beginning and after each configuration change
    (`Projection.providers`); the last one goes on.

    An entry that names a request which cannot be told is left out, with the other half of its
    tool call; so are turns that got no answer, but for the last one if it is under way (`in_turn`).
    Turns that were compacted are as short as that says, but for one that is under way.
    """
    under_way = stream.turn_count - 1 if in_turn else -1
    hidden = _hidden(stream) | _unanswered(stream, but=under_way)
    return _seen(stream, providers, hidden, replacements(stream, hidden, whole=under_way))


def build_turns_context(
    stream: ConversationStream, providers: Sequence[str], turns: Container[int]
) -> RequestContext:
    """Return those `turns` of `stream` as a provider sees them if nothing is compacted."""
    elsewhere = {event.position for event in stream.events() if event.turn not in turns}
    hidden = _hidden(stream) | _unanswered(stream, but=-1) | elsewhere
    return _seen(stream, providers, hidden, {})


def _seen(
    stream: ConversationStream,
    providers: Sequence[str],
    hidden: Container[int],
    instead: Mapping[int, tuple[Entry, ...]],
) -> RequestContext:
    """Return all of `stream` but what is `hidden`, with what stands `instead` of entries."""
    thread = RequestContext()
    changes = 0
    for index, entry in enumerate(stream.entries):
        if isinstance(entry, ConfigDelta):
            changes += 1
        elif index not in hidden:
            for seen in instead.get(index, (entry,)):
                provider = providers[min(changes, len(providers) - 1)]
                thread.add(seen, provider, stream.images)
    return thread


def _unanswered(stream: ConversationStream, *, but: int) -> set[int]:
    """Return the events of turns that got no answer: sent again, they would be asked once more."""
    hidden: set[int] = set()
    for turn, grouped in groupby(stream.events(), key=lambda event: event.turn):
        events = list(grouped)
        if turn != but and is_unanswered(event.entry for event in events):
            hidden.update(event.position for event in events)
    return hidden


def _hidden(stream: ConversationStream) -> set[int]:
    hidden = set(stream.unresolved())
    if not hidden:
        return hidden
    # A provider refuses half a pair: where one half is hidden, the other is too.
    for _, events in groupby(stream.events(), key=lambda event: event.turn):
        for pair in match_pairs((event.position, event.entry) for event in events)[0].items():
            if not hidden.isdisjoint(pair):
                hidden.update(pair)
    return hidden


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """A request to a model.

    Attributes:
        turn: Its turn, from 0.
        number: Which of the requests of its turn it is, from 1.
        position: So many entries had been recorded when it was made.
        end: The index behind the last entry of its answer; `position` if it got none.
        is_new_cycle: True if tools ran before it, or it is the first of its turn.
    """

    turn: int
    number: int
    position: int
    end: int
    is_new_cycle: bool

    @property
    def name(self) -> str:
        """`3.1`: how a person names it."""
        return f"{self.turn}.{self.number}"


def find_requests(stream: ConversationStream) -> list[RequestSpan]:
    """Return where models were asked in `stream`, oldest first."""
    found: list[RequestSpan] = []
    for turn, events in groupby(stream.events(), key=lambda event: event.turn):
        found += _in_turn(turn, list(events))
    return found


def _in_turn(turn: int, events: Sequence[TurnEvent]) -> Iterator[RequestSpan]:
    number, is_new_cycle = 1, True
    answer: list[TurnEvent] = []
    asked: int | None = None
    for event in events:
        match event.entry:
            case ChatResponse() | ToolCallRequest():
                answer.append(event)
                continue
            case ChatRequest():
                asked = event.position
            case ToolCallResponse():
                pass
            case _:
                continue
        for part in _parts(answer):
            yield _place(turn, number, part, is_new_cycle=is_new_cycle)
            number, is_new_cycle = number + 1, False
        answer = []
        is_new_cycle = is_new_cycle or isinstance(event.entry, ToolCallResponse)
    for part in _parts(answer):
        yield _place(turn, number, part, is_new_cycle=is_new_cycle)
        number, is_new_cycle = number + 1, False
    if number == 1 and asked is not None:
        yield RequestSpan(turn, number, asked + 1, asked + 1, is_new_cycle)


def _place(
    turn: int, number: int, answer: Sequence[TurnEvent], *, is_new_cycle: bool
) -> RequestSpan:
    return RequestSpan(turn, number, answer[0].position, answer[-1].position + 1, is_new_cycle)


def _parts(answer: Sequence[TurnEvent]) -> Iterator[Sequence[TurnEvent]]:
    """Yield what each request added to `answer`: it may have been continued by further ones."""
    start = 0
    for index, event in enumerate(answer):
        if not (isinstance(event.entry, ChatResponse) and is_continuation(event.entry)):
            continue
        first = index
        while first > start and _is_reasoning(answer[first - 1]):
            first -= 1
        if first > start:
            yield answer[start:first]
            start = first
    if answer:
        yield answer[start:]


def _is_reasoning(event: TurnEvent) -> bool:
    return isinstance(event.entry, ChatResponse) and event.entry.kind == "reasoning"
