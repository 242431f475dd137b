"""Append the results of tool calls that finished while a kernel died, and name the others.

A journal keeps the *progress* of each tool call without a response: whether it was permitted, has
started, or has finished with a result. A finished call gets its response, so that it does not run
again. `%jp resume` asks the user about the others.

Source: `docs/record.md` (the journal), `docs/decisions.md` D124.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jp_nb.errors import StorageError
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_trust import Trust
from jp_nb.record.unfinished_calls import list_open_calls, make_finished_entries
from jp_nb.session.journals.journal_use import JournalUse


class RecoveredConversation(Protocol):
    """The part of the active conversation that is needed here."""

    document: Document
    notices: list[str]

    @property
    def journal_use(self) -> JournalUse:
        """The progress of tool calls that the journal has, and writes."""

    @property
    def trust(self) -> Trust:
        """The signature of the conversation."""


def append_finished_calls(active: RecoveredConversation) -> list[str]:
    """Append the results that only the journal has; return the names of the tools."""
    stream = active.document.conversation
    progress = active.journal_use.call_progress
    open_requests = stream.list_open_tool_calls()
    if not open_requests or not progress:
        return []

    try:
        entries = make_finished_entries(stream, progress)
        if entries:
            # Its first use checks the signature, which must be done before the record grows.
            _ = active.trust
            stream.append(*entries)
    except StorageError as exc:
        active.notices.append(f"the results of finished tool calls cannot be read: {exc}")
        return []

    still_open = list_open_calls(stream, progress)
    # A call has a stage if the journal knows its progress.
    remaining = {call.event_id: progress[call.event_id] for call in still_open if call.stage}
    if entries and remaining:
        # When the journal is read, a response ends the progress that was written before it, so the
        # progress of the other calls is written again.
        active.journal_use.keep_progress(remaining)

    # The stream returns the same objects each time. A model may give two calls the same id.
    still_open_ids = {id(call.request) for call in still_open}
    return [request.name for request in open_requests if id(request) not in still_open_ids]


def add_interrupted_notice(
    active: RecoveredConversation, finished_tools: Sequence[str] = ()
) -> None:
    """Add a notice if the last turn can be resumed, with the state of its tool calls.

    `finished_tools` are the names that `append_finished_calls` returned.
    """
    from jp_nb.record.interrupted_turn import find_interrupted_turn

    progress = active.journal_use.call_progress
    turn = find_interrupted_turn(active.document.conversation, progress=progress)
    if turn is not None:
        from jp_nb.rendering.prompt_texts.interrupted_turn_text import describe_interrupted_turn

        active.notices.append(describe_interrupted_turn(turn, finished_tools))
