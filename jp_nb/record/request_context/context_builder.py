"""Build the request context of a conversation from its record.

The context omits turns without a response, entries that a compaction replaces, and *unresolved*
entries: their `request_id` should be the id of the user's request, but no request has it. Each
other entry is an item of the context (`context.py`).

The *head* of a request is all that is not a message, such as instructions and tools. The metadata
of a response has the head, or its changes, since providers bind reasoning to all that was before it
(`request_head.py`). The signature of an item is valid (`is_bound`) only if later requests still
begin in the same way. Its `host` is the mark of the server that it is from (`host_marks.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import groupby

from jp_nb.record.compactions.compacted_turns import make_replacements
from jp_nb.record.entries.events import (
    ChatRequest,
    Compaction,
    ConfigDelta,
    Entry,
)
from jp_nb.record.entries.pairs import match_pairs
from jp_nb.record.entries.unanswered_turns import is_unanswered
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.head_marks import begins_head
from jp_nb.record.request_context.host_marks import HOST
from jp_nb.record.stream import ConversationStream


class UntrustedProviders(tuple[str, ...]):
    """The providers of a record that someone else may have written.

    `Projection.providers` returns them instead of a plain tuple. `build_context` then marks the
    metadata of the record as not vouched (`ContextItem`), and no provider gets it.
    """

    __slots__ = ()


def build_context(
    stream: ConversationStream, providers: Sequence[str] = ("",), *, in_turn: bool = False
) -> RequestContext:
    """Return the context of `stream`. Each item has the provider that its entry was recorded with.

    `providers` are the provider at the beginning, and the one after each configuration change
    (`Projection.providers`). The last one applies to all later entries.

    Of an untrusted record (`UntrustedProviders`), only the metadata of entries that this process
    has appended is sent.

    With `in_turn`, the last turn is running: it is kept without a response, and no compaction
    applies to it. If an unresolved entry is half of a tool call, the other half is omitted too.
    """
    current = stream.turn_count - 1 if in_turn else -1
    hidden = _find_unresolved(stream) | _find_unanswered(stream, except_turn=current)
    return _build(stream, providers, hidden, make_replacements(stream, hidden, whole=current))


def build_turns_context(
    stream: ConversationStream, providers: Sequence[str], turns: Container[int]
) -> RequestContext:
    """Return the context of some `turns` of `stream` without compactions."""
    other_turns = {event.position for event in stream.events() if event.turn not in turns}
    hidden = _find_unresolved(stream) | _find_unanswered(stream, except_turn=-1) | other_turns
    return _build(stream, providers, hidden, {})


def _build(
    stream: ConversationStream,
    providers: Sequence[str],
    hidden: Container[int],
    replacements: Mapping[int, tuple[Entry, ...]],
) -> RequestContext:
    """Return the context of all entries but the `hidden` ones, with `replacements` by index."""
    context = RequestContext()
    is_trusted = not isinstance(providers, UntrustedProviders)
    restart = _find_last_restart(stream.entries)
    change_count = 0
    host = ""  # of the current turn

    for index, entry in enumerate(stream.entries):
        if isinstance(entry, ConfigDelta):
            change_count += 1
            continue

        # A hidden entry is read too: later heads have only the changes, and its turn has a host.
        if index >= restart:
            context.note_head(entry)
        if isinstance(entry, ChatRequest):
            host = str(entry.metadata.get(HOST, ""))
        if index in hidden:
            continue

        provider = providers[min(change_count, len(providers) - 1)]
        for shown in replacements.get(index, (entry,)):
            context.add(
                shown,
                provider,
                stream.images,
                is_bound=index >= restart,
                host=host,
                is_vouched=is_trusted or stream.is_made_here(index),
            )

    return context


def _find_last_restart(entries: Sequence[Entry]) -> int:
    """Return the index from which on all requests begin in the same way.

    Requests began differently before the last compaction, and before a response whose request had a
    whole new head (`begins_head`). The first head is not new.
    """
    start = 0
    has_head = False  # since the last compaction

    for index, entry in enumerate(entries):
        if isinstance(entry, Compaction):
            start = index
            has_head = False
        elif begins_head(entry):
            if has_head:
                start = index
            has_head = True

    return start


def _find_unanswered(stream: ConversationStream, *, except_turn: int) -> set[int]:
    """Return the indexes of the entries in turns without an answer.

    The model would answer a failed request if a later request contained it.
    """
    hidden: set[int] = set()
    for turn, grouped in groupby(stream.events(), key=lambda event: event.turn):
        events = list(grouped)
        if turn != except_turn and is_unanswered(event.entry for event in events):
            hidden.update(event.position for event in events)
    return hidden


def _find_unresolved(stream: ConversationStream) -> set[int]:
    """Return the indexes of entries with an unknown `request_id`, and of their pairs.

    Providers reject half a pair, a call without its result, so both halves are hidden.
    """
    hidden = set(stream.find_unresolved())
    if not hidden:
        return hidden

    for _, events in groupby(stream.events(), key=lambda event: event.turn):
        pairs = match_pairs((event.position, event.entry) for event in events)
        for pair in pairs.responses.items():  # the indexes of a request and of its response
            if not hidden.isdisjoint(pair):
                hidden.update(pair)
    return hidden
