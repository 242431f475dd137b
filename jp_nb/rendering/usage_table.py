"""The tokens that models took, in tables by turn and by model.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import as_object, compact_json
from jp_nb.record.document import Document
from jp_nb.record.events import USAGE, ChatRequest, Compaction
from jp_nb.record.jp_object import events_of
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_entries import TurnEntries
from jp_nb.record.usage import ModelUsage, TurnUsage, usage_in
from jp_nb.rendering.question_table import with_note
from jp_nb.rendering.report import Report, joined, table
from jp_nb.rendering.waiting import tokens_line
from jp_nb.safe_text import one_line

UNKNOWN: Final = "-"
ALL: Final = "all"
MAX_MODELS: Final = 50
"""So many have a row: whoever wrote the record may have named any number."""
_REQUEST_CHARS: Final = 40
_COUNTS: Final = ("in", "from cache", "out", "reasoning")
_BY_TURN: Final = ("turn", "request", "model", *_COUNTS)
_BY_MODEL: Final = (
    "model",
    "responses",
    "in",
    "from cache",
    "share",
    "into cache",
    "out",
    "reasoning",
)
NOTHING: Final = "No provider has reported any tokens in this conversation yet."
COUNTED_ONCE: Final = "turns that a branch shares with its parent are counted once"


@dataclass(slots=True)
class _Sum:
    """What one model took in several responses."""

    responses: int = 0
    tokens: TurnUsage = field(default_factory=TurnUsage)

    def add(self, tokens: TurnUsage) -> None:
        self.responses += 1
        self.tokens += tokens


def usage_report(document: Document, last: int) -> Report:
    """Return what the conversation of `document` took: its `last` turns, each model, and all."""
    stream = document.conversation
    sums = _by_model(_used_in(stream.raw))
    elsewhere = _elsewhere(document)
    if not sums and elsewhere is None:
        return Report(f"*{NOTHING}*", NOTHING)
    turns = list(stream.turns())
    parts = []
    if sums:
        rows = [row for turn in turns[-last:] for row in _turn_rows(turn)]
        parts = [table(_BY_TURN, rows), table(_BY_MODEL, list(_model_rows(sums)))]
    shown = joined(parts, between="\n\n")
    for note in _notes(stream, len(turns), last, elsewhere):
        shown = with_note(shown, note)
    return shown


def _used_in(raw: Iterable[JsonValue]) -> Iterator[ModelUsage]:
    for entry in raw:
        metadata = as_object(entry).get("metadata")
        if isinstance(metadata, dict) and USAGE in metadata:
            yield from usage_in(metadata)


def _by_model(used: Iterable[ModelUsage]) -> dict[str, _Sum]:
    sums: dict[str, _Sum] = {}
    for one in used:
        sums.setdefault(one.model, _Sum()).add(one.tokens)
    return sums


# --- rows --------------------------------------------------------------------------------------


def _turn_rows(turn: TurnEntries) -> list[tuple[str, ...]]:
    asked = next((e.content for e in turn.entries if isinstance(e, ChatRequest)), "")
    request = one_line(asked, limit=_REQUEST_CHARS)
    used = (one for entry in turn.entries for one in usage_in(entry.metadata))
    sums = _by_model(used) or {UNKNOWN: _Sum()}
    return [
        (str(turn.number), "" if row else request, model or UNKNOWN, *_counts(each.tokens))
        for row, (model, each) in enumerate(list(sums.items())[:MAX_MODELS])
    ]


def _counts(tokens: TurnUsage) -> tuple[str, ...]:
    counts = tokens.input_tokens, tokens.cache_read_tokens, tokens.output_tokens
    return tuple(map(_number, (*counts, tokens.reasoning_tokens)))


def _model_rows(sums: dict[str, _Sum]) -> Iterator[tuple[str, ...]]:
    everything = _Sum(sum(each.responses for each in sums.values()))
    for each in sums.values():
        everything.tokens += each.tokens
    most = sorted(sums.items(), key=lambda item: -(item[1].tokens.input_tokens or 0))
    for model, each in most[:MAX_MODELS]:
        yield _model_row(model or UNKNOWN, each)
    if len(sums) > MAX_MODELS:
        yield (f"{len(sums) - MAX_MODELS} more", *[""] * (len(_BY_MODEL) - 1))
    if len(sums) > 1:
        yield _model_row(ALL, everything)


def _model_row(model: str, each: _Sum) -> tuple[str, ...]:
    took = each.tokens
    return (
        model,
        f"{each.responses:,}",
        _number(took.input_tokens),
        _number(took.cache_read_tokens),
        _share(took),
        _number(took.cache_write_tokens),
        _number(took.output_tokens),
        _number(took.reasoning_tokens),
    )


def _share(took: TurnUsage) -> str:
    """Return how much of what was sent came from the provider's cache."""
    if took.cache_read_tokens is None or not took.input_tokens:
        return UNKNOWN
    return f"{took.cache_read_tokens / took.input_tokens:.0%}"


def _number(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


# --- what is below the tables ------------------------------------------------------------------


def _notes(
    stream: ConversationStream, turns: int, last: int, elsewhere: TurnUsage | None
) -> Iterator[str]:
    if turns > last:
        yield f"Only the last {last} of {turns} turns are listed; the totals include all turns."
    parent = as_object(stream.head.get("parent"))
    turn, name = parent.get("turn"), parent.get("id")
    if isinstance(turn, int) and isinstance(name, str):
        copied = "Turn 0 was" if turn == 0 else f"Turns 0 to {turn} were"
        source = one_line(name, limit=40)
        yield f"{copied} copied from {source}: used once, and listed in both conversations."
    took = _for_summaries(stream)
    if took != TurnUsage():
        told = tokens_line(took.input_tokens, took.output_tokens)
        yield f"Summaries of earlier turns used {told} of this; they belong to no turn."
    if elsewhere is not None:
        told = tokens_line(elsewhere.input_tokens, elsewhere.output_tokens)
        yield f"All conversations of this notebook: {told}; {COUNTED_ONCE}."


def _for_summaries(stream: ConversationStream) -> TurnUsage:
    """Return what it took to sum up turns, as far as that was not counted with a turn."""
    total = TurnUsage()
    for entry in stream.entries:
        if isinstance(entry, Compaction):
            for one in usage_in(entry.metadata):
                total += one.tokens
    return total


def _elsewhere(document: Document) -> TurnUsage | None:
    """Return what all conversations took together; None if the others took nothing more."""
    seen: set[str] = set()
    own = _once(document.conversation.raw, seen)
    here = len(seen)
    total = own
    for other in document.others:
        total += _once(events_of(other), seen)
    return total if len(seen) > here else None


def _once(raw: Sequence[JsonValue], seen: set[str]) -> TurnUsage:
    """Return what entries took that were not `seen`: a branch copies them as they are."""
    total = TurnUsage()
    for entry in map(as_object, raw):
        metadata = entry.get("metadata")
        if not (isinstance(metadata, dict) and USAGE in metadata):
            continue
        identity = [entry.get("event_id"), entry.get("timestamp"), metadata[USAGE]]
        if (key := compact_json(identity)) in seen:
            continue
        seen.add(key)
        for one in usage_in(metadata):
            total += one.tokens
    return total
