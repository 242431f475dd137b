"""Tables of token usage: `%jp usage`, and the notes of its totals.

The numbers are those that providers reported, as the record has them (`token_usage.py`).

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.json_writing import compact_json
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_events
from jp_nb.record.entries.events import USAGE_KEY, ChatRequest, Compaction, read_words
from jp_nb.record.entries.token_usage import ModelUsage, Usage, read_usage, sum_usage
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.pictures.usage_picture import UsageBar, draw_usage
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_note,
    make_remark,
    make_table,
)
from jp_nb.rendering.table_cells import MAX_TABLE_ROWS, UNKNOWN_VALUE, format_count
from jp_nb.rendering.turn_counts import format_tokens
from jp_nb.text import one_line

ALL_MODELS_LABEL: Final = "all"
_REQUEST_CHARS: Final = 40
_BY_REQUEST: Final = (
    "turn", "request", "model", "in", "from cache", "into cache", "out", "reasoning",
)  # fmt: skip
_BY_MODEL: Final = (
    "model", "responses", "in", "from cache", "share", "into cache", "out", "reasoning",
)  # fmt: skip
_OUTSIDE: Final = ("model", "requests", "in", "from cache", "out", "reasoning")
NO_TOKENS_REPORTED: Final = "No provider has reported any tokens in this conversation yet."
COUNTED_ONCE: Final = "turns that a branch shares with its parent are counted once"


def render_usage(document: Document, last: int) -> Report:
    """Return the tokens of the active conversation: by request of the `last` turns, and by model.

    Without any, but with tokens of other conversations, only their total is returned.
    """
    stream = document.conversation
    metadata = (as_object(entry).get("metadata") for entry in stream.raw)
    models = _group_by_model(chain.from_iterable(map(read_usage, metadata)))
    notebook_total = _sum_all_conversations(document)
    if not models and notebook_total is None:
        return make_remark(NO_TOKENS_REPORTED)

    turns = list(stream.turns())
    parts = list[Report]()
    if models:
        rows = list(chain.from_iterable(map(_list_turn_rows, turns[-last:])))
        by_request = make_table(_BY_REQUEST, rows)
        by_model = make_table(_BY_MODEL, list(_list_model_rows(models)))
        bars = list(chain.from_iterable(map(_list_turn_bars, turns[-last:])))
        picture = draw_usage(bars)
        if picture:
            parts.append(Report(picture, ""))
        parts.append(join_reports([by_request, by_model], between="\n\n"))

    parts += map(make_note, _list_usage_notes(stream, len(turns), last, notebook_total))
    return join_reports(parts)


def render_other_usage(requests: Mapping[str, int], tokens: Mapping[str, Usage]) -> Report:
    """Return the tokens of requests outside of the conversation, by model."""
    rows: list[tuple[str, ...]] = []
    for model, count in list(requests.items())[:MAX_TABLE_ROWS]:
        used = tokens[model]
        counts = (
            count,
            used.input_tokens,
            used.cache_read_tokens,
            used.output_tokens,
            used.reasoning_tokens,
        )
        rows.append((model, *map(format_count, counts)))

    note = "These requests of `jp.complete` are outside of the conversation, in this kernel."
    return join_reports([make_table(_OUTSIDE, rows), make_note(note)])


def _group_by_model(usages: Iterable[ModelUsage]) -> dict[str, list[Usage]]:
    """Return the tokens of each response, by model."""
    groups: dict[str, list[Usage]] = {}
    for usage in usages:
        groups.setdefault(usage.model, []).append(usage.tokens)

    return groups


def format_turn_cells(turn: TurnEntries) -> tuple[str, str]:
    """Return the number and the request of the turn, for the first of its rows."""
    requests = (read_words(entry) for entry in turn.entries if isinstance(entry, ChatRequest))
    request = one_line(next(requests, ""), limit=_REQUEST_CHARS)
    return str(to_shown_turn(turn.number)), request


def _list_turn_rows(turn: TurnEntries) -> Iterator[tuple[str, ...]]:
    """Yield a row for each request of the turn to a model; an empty row without one."""
    turn_cells = format_turn_cells(turn)
    usages = list(chain.from_iterable(read_usage(entry.metadata) for entry in turn.entries))
    if not usages:
        usages = [ModelUsage("", Usage())]

    for usage in usages[:MAX_TABLE_ROWS]:
        tokens = usage.tokens
        counts = (
            tokens.input_tokens,
            tokens.cache_read_tokens,
            tokens.cache_write_tokens,
            tokens.output_tokens,
            tokens.reasoning_tokens,
        )
        yield *turn_cells, usage.model or UNKNOWN_VALUE, *map(format_count, counts)
        turn_cells = ("", "")  # only in the first row

    if len(usages) > MAX_TABLE_ROWS:
        yield "", f"{len(usages) - MAX_TABLE_ROWS} more", *[""] * (len(_BY_REQUEST) - 2)


def _list_turn_bars(turn: TurnEntries) -> Iterator[UsageBar]:
    """Yield the bars of the rows of `_list_turn_rows`, for the picture."""
    usages = chain.from_iterable(read_usage(entry.metadata) for entry in turn.entries)
    for number, usage in enumerate(usages, start=1):
        label = f"turn {to_shown_turn(turn.number)}"
        if number > 1:
            label = f"{label}, request {number}"
        yield UsageBar(label, usage.tokens)


def _list_model_rows(models: dict[str, list[Usage]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each model, the most used first, and one for all if there are several."""

    def count_input_tokens(model: str) -> int:
        return sum(models[model], Usage()).input_tokens or 0

    most_used = sorted(models, key=count_input_tokens, reverse=True)
    for model in most_used[:MAX_TABLE_ROWS]:
        yield _format_model_row(model or UNKNOWN_VALUE, models[model])

    if len(models) > MAX_TABLE_ROWS:
        yield (f"{len(models) - MAX_TABLE_ROWS} more", *[""] * (len(_BY_MODEL) - 1))

    if len(models) > 1:
        responses = list(chain.from_iterable(models.values()))
        yield _format_model_row(ALL_MODELS_LABEL, responses)


def _format_model_row(model: str, responses: list[Usage]) -> tuple[str, ...]:
    """Return the sums of the `responses` of a model, with the share of cached input tokens."""
    tokens = sum(responses, Usage())
    cache_share = UNKNOWN_VALUE
    if tokens.cache_read_tokens is not None and tokens.input_tokens:
        cache_share = f"{tokens.cache_read_tokens / tokens.input_tokens:.0%}"

    return (
        model,
        format_count(len(responses)),
        format_count(tokens.input_tokens),
        format_count(tokens.cache_read_tokens),
        cache_share,
        format_count(tokens.cache_write_tokens),
        format_count(tokens.output_tokens),
        format_count(tokens.reasoning_tokens),
    )


def _list_usage_notes(
    stream: ConversationStream, turns: int, last: int, notebook_total: Usage | None
) -> Iterator[str]:
    """Yield notes about tokens that the tables do not list, or count twice."""
    if turns > last:
        yield f"Only the last {last} of {turns} turns are listed; the totals include all turns."

    parent = as_object(stream.properties.get("parent"))
    turn = parent.get("turn")
    name = parent.get("id")
    if isinstance(turn, int) and isinstance(name, str):
        copied = "Turn 1 was" if turn == 0 else f"Turns 1 to {to_shown_turn(turn)} were"
        source = one_line(name, limit=40)
        yield f"{copied} copied from {source}: used once, and listed in both conversations."

    for_summaries = sum_usage(entry for entry in stream.entries if isinstance(entry, Compaction))
    if for_summaries != Usage():
        words = format_tokens(for_summaries.input_tokens, for_summaries.output_tokens)
        yield f"Summaries of earlier turns used {words} of this; they belong to no turn."

    if notebook_total is not None:
        words = format_tokens(notebook_total.input_tokens, notebook_total.output_tokens)
        yield f"All conversations of this notebook: {words}; {COUNTED_ONCE}."


def _sum_all_conversations(document: Document) -> Usage | None:
    """Return the tokens of all conversations; None if only the active one has any."""
    seen: set[str] = set()
    total = _sum_unseen(document.conversation.raw, seen)
    seen_in_active = len(seen)
    for other in document.others:
        total += _sum_unseen(get_events(other), seen)

    return total if len(seen) > seen_in_active else None


def _sum_unseen(raw: Sequence[JsonValue], seen: set[str]) -> Usage:
    """Return the tokens of entries that are not `seen`, and add these to `seen`.

    A branch copies entries unchanged, and they must not be counted twice.
    """
    total = Usage()
    for entry in map(as_object, raw):
        metadata = as_object(entry.get("metadata"))
        if USAGE_KEY not in metadata:
            continue

        identity = [entry.get("event_id"), entry.get("timestamp"), metadata.get(USAGE_KEY)]
        key = compact_json(identity)
        if key not in seen:
            seen.add(key)
            total += sum((usage.tokens for usage in read_usage(metadata)), Usage())

    return total
