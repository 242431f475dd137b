"""Reconstruct a past request from the record before it, for `%jp request` and its comparisons.

Text, model, and messages are from that time. Keys, hosts, tools, and attached files are the current
ones, because the record does not have them. Remarks say so.

A request is given as a `RequestSpan`: its *position*, which is the number of entries before it, and
the *end* of its response, the index after its last entry. *Position* and *end* are equal without a
response.

The *head* of a request has its system texts, tools, and attachments. The record marks each new head
at the first entry of the response, so a request gets the head of its time. The mark has attachments
only as digests. The kernel keeps the `contents` that it has read, by these digests.

Source: `docs/guide.md`, `docs/record.md`, `docs/decisions.md` D103.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt
from jp_nb.agent.provider import ToolChoice
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import ConfigError
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.entries.events import ChatRequest
from jp_nb.record.entries.tool_choice_marks import read_tool_choice, to_tool_choice
from jp_nb.record.reading.request_spans import RequestSpan
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.request_context.head_marks import read_request_head
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.reports.traced_request import TracedRequest
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.resolution.turn_attachments import ATTACHMENTS_PATH
from jp_nb.session.turns.turn_runner import TurnRunner

RECONSTRUCTED_REMARKS: Final = (
    "reconstructed request",
    "text, model, and messages are from that time; tools, hosts, keys, and attached "
    "files are the current ones",
)
NO_ATTACHMENTS: Final = "without attachments, because they are not available now: {}"


def resolve_without_start(
    turns: TurnRunner,
    basis: ConfigSnapshot,
    conversation_id: str,
    *,
    tool_choice: ToolChoice | None = None,
) -> Resolved:
    """Resolve `basis` without a start of servers: the tools are those known now."""
    attempt = SourceAttempt(may_start=False)
    return turns.cell_resolver.resolve(
        basis, conversation_id, tool_choice=tool_choice, attempt=attempt
    )


class RequestReconstruction:
    """Reconstructs requests of the active conversation.

    `spans` are all its requests, oldest first. `number` of a span counts the requests of its turn
    from 1, and `is_new_cycle` is True unless it continues an answer.
    """

    def __init__(
        self, active: ActiveConversation, turns: TurnRunner, spans: Sequence[RequestSpan]
    ) -> None:
        self._active = active
        self._turns = turns
        self._spans = spans
        self._stream = active.document.conversation

    def make(self, span: RequestSpan) -> TracedRequest:
        """Return the request of `span` from the record before it, with the current tools."""
        stream_before = self._stream.until(span.position)
        remarks = [*RECONSTRUCTED_REMARKS]
        projection = self._project_until(stream_before)
        basis = self._active.settings.snapshot(projection)
        resolved = self._resolve_with_remarks(basis, remarks)

        turn = stream_before.last_turn()
        schema = turn.schema if turn is not None else None
        # `in_turn`, because the turn was running: without a response, it is not one that failed.
        context = build_context(stream_before, projection.providers(), in_turn=True)
        context.contents = dict(self._turns.contexts.contents)  # a copy, as this request adds some
        request = resolved.make_turn_request(
            context,
            choice=self._find_tool_choice(span, stream_before, basis.config),
            schema=schema,
            conversation_id=self._stream.id,
        )

        # So far, the request has the current head. That of its time is in the record: at the first
        # entry of the answer if it was new, else it is that of the request before (`context.head`).
        has_answer = span.end > span.position
        if has_answer:
            head = read_request_head(self._stream.entries[span.position], context.head)
            if head is not None:
                request = request.with_head(head, context.contents)

        preview = resolved.provider.preview(request)
        return TracedRequest(span.name, resolved.provider_name, request, preview, tuple(remarks))

    def _project_until(self, stream: ConversationStream) -> Projection:
        """Return the settings at the end of `stream`, an earlier state of the conversation."""
        projection = self._active.settings.projection
        projection.reload_layers()
        return projection.until(stream)

    def _resolve_with_remarks(self, basis: ConfigSnapshot, remarks: list[str]) -> Resolved:
        """Resolve `basis`. If its attachments are gone, omit them, and add to `remarks`.

        The choice of tools is not resolved: `_find_tool_choice` reads it from the record.
        """
        conversation_id = self._stream.id
        try:
            return resolve_without_start(self._turns, basis, conversation_id, tool_choice="auto")
        except ConfigError as exc:
            if not exc.path or not exc.path.startswith(ATTACHMENTS_PATH):
                raise
            remarks.append(NO_ATTACHMENTS.format(exc))

        conversation = basis.config.conversation.model_copy(update={"attachments": []})
        config = basis.config.model_copy(update={"conversation": conversation})
        without_attachments = replace(basis, config=config)
        return resolve_without_start(
            self._turns, without_attachments, conversation_id, tool_choice="auto"
        )

    def _find_tool_choice(
        self, span: RequestSpan, stream_before: ConversationStream, config: AppConfig
    ) -> ToolChoice:
        """Return the tool choice of a request, from the record before it (`stream_before`).

        A choice applies to the first cycle of a turn, and to the cycle after it was changed. A
        *cycle* is the first request of a turn, or one after tool calls, with all requests that
        continue its answer.
        """
        cycle_start = self._find_cycle_start(span)
        is_first_cycle = self._spans[cycle_start].number == 1
        if is_first_cycle:
            return _read_turn_choice(stream_before, config)

        previous = self._spans[cycle_start - 1]
        if self._is_tool_choice_changed(previous, stream_before, config):
            return to_tool_choice(config.assistant.tool_choice)
        return "auto"

    def _find_cycle_start(self, span: RequestSpan) -> int:
        """Return the index of the first request in the cycle of `span`."""
        index = self._spans.index(span)
        while not self._spans[index].is_new_cycle:
            index -= 1
        return index

    def _is_tool_choice_changed(
        self, previous: RequestSpan, stream: ConversationStream, config: AppConfig
    ) -> bool:
        """Return True if the tool choice in `config`, at the end of `stream`, is a new one.

        `previous` is the last request of the cycle before.
        """
        stream_before_previous = self._stream.until(previous.position)
        is_config_unchanged = len(stream_before_previous.deltas) == len(stream.deltas)
        if is_config_unchanged:
            return False

        previous_config = self._project_until(stream_before_previous).config()
        return previous_config.assistant.tool_choice != config.assistant.tool_choice


def _read_turn_choice(stream: ConversationStream, config: AppConfig) -> ToolChoice:
    """Return the tool choice of the last turn in `stream`, as its request has it."""
    turn = stream.last_turn()
    entries = turn.entries if turn is not None else ()
    request = next((entry for entry in entries if isinstance(entry, ChatRequest)), None)
    choice = None if request is None else read_tool_choice(request)
    if choice is not None:
        return choice

    # `auto` is not stored, and earlier versions did not store `none` either.
    return "none" if config.assistant.tool_choice == "none" else "auto"
