"""Record the responses of the model, complete or not, with their tokens and times.

An `Attempt` is one request with its response. It has the entries that are complete, and its
`builder` makes entries of the texts whose end the provider did not report.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from jp_nb.agent.model_requests.answer_attempt import Attempt
from jp_nb.agent.provider_events import InputChange
from jp_nb.agent.turn_state import TurnContext
from jp_nb.record.entries.events import ChatResponse, Entry
from jp_nb.record.reading.input_changes import with_input_changes
from jp_nb.record.request_context.head_marks import mark_head
from jp_nb.record.stream import ConversationStream

log = logging.getLogger(__name__)


class AnswerRecorder:
    """Appends the entries of attempts to the record of a turn."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn

    def record_response(self, attempt: Attempt) -> list[Entry]:
        """Record the entries of a complete response, and return them.

        The last one gets the tokens and times of its request. It also counts the *input changes*:
        reports of the server that reasoning in the request does not fit the conversation.
        """
        entries = attempt.combine_entries(attempt.builder.make_unflushed_entries())
        entries = self._turn.tokens.attach_usage_to_last(entries)

        changes = attempt.builder.input_changes
        if changes and log.isEnabledFor(logging.DEBUG):
            _log_input_changes(changes, self._turn.record.stream)

        if entries:
            change_counts = Counter((change.reason, change.is_dropped) for change in changes)
            entries[-1] = with_input_changes(entries[-1], change_counts)
            entries = self._turn.times.attach_to_last(entries)
        self._append(entries, attempt)
        return entries

    def record_texts(self, attempt: Attempt) -> list[ChatResponse]:
        """Record the texts of an incomplete response, and return them.

        Its tool calls are omitted, because they never ran.
        """
        entries = attempt.combine_entries(attempt.builder.make_partial_entries())
        texts = [entry for entry in entries if isinstance(entry, ChatResponse)]
        if texts:
            with_usage = self._turn.tokens.attach_usage_to_last(texts)
            self._append(self._turn.times.attach_to_last(with_usage), attempt)
        return texts

    def _append(self, entries: list[Entry], attempt: Attempt) -> None:
        """Append the `entries` of a response.

        The first one gets the head of its request (instructions and tools) in its metadata, or the
        changes since the last head, if there are any. `attempt.head` is None if the head is not
        recorded, as for a model without a network.
        """
        record = self._turn.record
        if entries and attempt.head is not None:
            entries[0] = mark_head(entries[0], attempt.head, record.context.head)
        record.add(*entries)


def _log_input_changes(changes: Sequence[InputChange], stream: ConversationStream) -> None:
    """Log which events have the reasoning that the server did not accept as it was.

    A change identifies the reasoning by its `mark`: a value in the metadata of the event.
    """
    marks = {change.mark for change in changes if change.mark}
    event_ids: dict[str, str] = {}  # by mark

    for index, entry in enumerate(stream.entries):
        if isinstance(entry, ChatResponse):
            values = {value for value in entry.metadata.values() if isinstance(value, str)}
            event_ids |= dict.fromkeys(values & marks, stream.event_id(index))

    for change in changes:
        effect = "was not sent to the model" if change.is_dropped else "was sent to the model"
        event_id = event_ids.get(change.mark, "unknown")
        log.debug("The reasoning of event %s %s: %s changed", event_id, effect, change.reason)
