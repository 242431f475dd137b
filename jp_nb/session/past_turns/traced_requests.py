"""The past requests of a conversation, and the next one, for `%jp request`.

A request is named by its turn and its number in it (`3.1`). Its *span* is the range of the record
with the entries of its answer (`RequestSpan`). Only the last request of this kernel is known
exactly. Earlier ones are reconstructed from the record before their span, and the settings there.
Keys, hosts, tools, and attached files are the current ones, and remarks say so.

The *head* of a request has its system texts, tools, and attachments. A request repeats the head of
the one before, and appends changes of it to the messages, so that the provider's cache can be used.

Source: `docs/guide.md`, `docs/record.md`, `docs/decisions.md` D103.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.model_requests.appended_changes import explain_new_head
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt
from jp_nb.agent.provider import ModelRequest, Provider, ToolChoice
from jp_nb.agent.turn_record import LastRequest
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import ConfigError, UsageError
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.entries.events import ChatRequest
from jp_nb.record.entries.tool_choice_marks import read_tool_choice, to_tool_choice
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.request_spans import RequestSpan, find_requests
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.request_context.request_head import read_request_head
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.reports.traced_request import TracedRequest
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.model_access.cassette_provider import CassetteProvider
from jp_nb.session.resolution.model_catalog import LIST_SECONDS
from jp_nb.session.resolution.turn_attachments import ATTACHMENTS_PATH
from jp_nb.session.turns.turn_runner import TurnRunner

NEXT: Final = "next"
RECONSTRUCTED_REMARKS: Final = (
    "reconstructed request",
    "text, model, and messages are from that time; tools, hosts, keys, and attached "
    "files are the current ones",
)
PREVIEW_REMARKS: Final = (
    "preview of the next request",
    "the last message is a placeholder for your next one",
)
PLACEHOLDER: Final = "(your next request)"
NO_ATTACHMENTS: Final = "without attachments, because they are not available now: {}"


class TracedRequests:
    """The requests of the active conversation: past ones, and a preview of the next one."""

    def __init__(self, active: ActiveConversation, turns: TurnRunner) -> None:
        active.refuse_while_running()
        self._active = active
        self._turns = turns
        self._stream = active.document.conversation
        self._spans = find_requests(self._stream)
        self._last_span = self._find_or_add_last(turns.contexts.last_request)

    def _find_or_add_last(self, last: LastRequest | None) -> RequestSpan | None:
        """Return the span of the `last` request of this kernel; None if the record lacks it.

        A request that failed has left no entries. Its empty span is added to `_spans`.
        """
        if last is None:
            return None

        # Its answer begins after `last.last_entry`.
        start: int | None = None
        for index, entry in enumerate(self._stream.entries):
            if entry is last.last_entry:
                start = index + 1
        if start is None:
            return None

        for span in self._spans:
            if span.position == start:
                return span

        turn = self._stream.turn_count - 1
        number = sum(span.turn == turn for span in self._spans) + 1
        failed_span = RequestSpan(turn, number, start, start, is_new_cycle=True)
        self._spans.append(failed_span)
        return failed_span

    def find(self, name: str | None) -> TracedRequest:
        """Return the request `name`: `3` (the last of turn 3), `3.1` or `next`; None: the last.

        None means `next` if the conversation has no requests.

        Raises:
            UsageError: There is no such request.
            ConfigError: The current configuration is not valid.
        """
        self._turns.require_ready()
        if name == NEXT or (name is None and not self._spans):
            return self._preview_next()[0]

        if name is None:
            return self._trace(self._spans[-1])
        return self._trace(self._find_span(name))

    def find_pair(self, names: tuple[str, ...]) -> tuple[TracedRequest, TracedRequest]:
        """Return two requests by name, or one and its predecessor; or raise `UsageError`."""
        if len(names) == 2:
            return self.find(names[0]), self.find(names[1])

        spans = self._spans
        index = len(spans) - 1
        if names:
            index = spans.index(self._find_span(names[0]))

        if index < 1:
            raise UsageError(
                "there is no earlier request to compare with. Compare two requests: "
                "`%jp request --diff N M`"
            )
        return self._trace(spans[index - 1]), self._trace(spans[index])

    def _find_span(self, name: str) -> RequestSpan:
        """Return the span of the request `N.M`, or of the last one of the turn `N`."""
        turn, dot, number = name.partition(".")
        spans = [span for span in self._spans if str(to_shown_turn(span.turn)) == turn]
        if dot:
            spans = [span for span in spans if str(span.number) == number]
        if spans:
            return spans[-1]

        existing = "no request was sent yet; `%jp request` shows the next one"
        if self._spans:
            last = self._spans[-1]
            turns = f"{to_shown_turn(self._spans[0].turn)} to {to_shown_turn(last.turn)}"
            existing = (
                f"its turns are {turns}, and its last request is {last.name}. `N` is the last "
                "request of turn N, `N.1` is its first request, and `next` is your next request"
            )
        raise UsageError(f"there is no request {name[:40]!r} in this conversation: {existing}")

    def count_next(self) -> tuple[TracedRequest, int]:
        """Return the next request, and the number of its tokens that the server counts.

        Raises:
            ConfigError: The current configuration is not valid.
            ProviderError: The provider does not count tokens, or the request fails.
        """
        self._turns.require_ready()
        traced, provider = self._preview_next()
        self._turns.host_notices.announce(provider, traced.provider)
        counting = provider.count_tokens(traced.request, seconds=LIST_SECONDS)
        count = self._turns.runner.agent.wait_for(counting)
        return traced, count

    def _preview_next(self) -> tuple[TracedRequest, Provider]:
        """Return the next request, with a placeholder for the user's text, and its provider."""
        basis = self._active.settings.snapshot()
        conversation_id = self._stream.id
        resolved = self._resolve(basis, conversation_id)
        context = self._turns.contexts.build(self._stream, resolved)
        context.contents = dict(context.contents)  # a copy, as the preview adds attachments
        context.add(ChatRequest(content=PLACEHOLDER), resolved.provider_name)
        request = resolved.make_turn_request(
            context, choice=resolved.tool_choice, schema=None, conversation_id=conversation_id
        )

        # The turn would then send a new head instead of appended changes.
        if explain_new_head(resolved.provider, request, resolved.context_tokens) is not None:
            request = replace(request, context=context.without_heads())

        traced = _make_traced(
            NEXT, resolved.provider_name, resolved.provider, request, PREVIEW_REMARKS
        )
        return traced, resolved.provider

    def _resolve(
        self,
        basis: ConfigSnapshot,
        conversation_id: str,
        *,
        tool_choice: ToolChoice | None = None,
    ) -> Resolved:
        """Resolve `basis` without a start of servers: the tools are those known now."""
        attempt = SourceAttempt(may_start=False)
        return self._turns.cell_resolver.resolve(
            basis, conversation_id, tool_choice=tool_choice, attempt=attempt
        )

    def _trace(self, span: RequestSpan) -> TracedRequest:
        """Return the request of `span`: as it was sent, if this kernel knows, or reconstructed."""
        last = self._turns.contexts.last_request
        if last is not None and span == self._last_span:
            remark = "exact request"
            provider = last.provider
            if isinstance(provider, CassetteProvider) and provider.answered_request is last.request:
                remark = "reconstructed request: a cassette answered"
            traced = _make_traced(
                span.name, last.provider_name, last.provider, last.as_sent, (remark,)
            )
        else:
            traced = self._reconstruct(span)

        answer = self._stream.entries[span.position : span.end]
        return replace(traced, answer=tuple(entry.metadata for entry in answer))

    def _reconstruct(self, span: RequestSpan) -> TracedRequest:
        """Return the request of `span` from the record before it, with the current tools."""
        stream_before = self._stream.until(span.position)
        remarks = [*RECONSTRUCTED_REMARKS]
        projection = self._project_until(stream_before)
        basis = self._active.settings.snapshot(projection)
        resolved = self._resolve_with_remarks(basis, remarks)

        turn = stream_before.last_turn()
        schema = turn.schema if turn is not None else None
        context = build_context(stream_before, projection.providers(), in_turn=True)
        context.contents = dict(self._turns.contexts.contents)  # a copy, as this request adds some
        request = resolved.make_turn_request(
            context,
            choice=self._find_tool_choice(span, stream_before, basis.config),
            schema=schema,
            conversation_id=self._stream.id,
        )

        # The first entry of the answer has the head of its request, if it was a new one.
        has_answer = span.end > span.position
        if has_answer:
            head = read_request_head(self._stream.entries[span.position], context.head)
            if head is not None:
                request = request.with_head(head, context.contents)

        return _make_traced(
            span.name, resolved.provider_name, resolved.provider, request, tuple(remarks)
        )

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
            return self._resolve(basis, conversation_id, tool_choice="auto")
        except ConfigError as exc:
            if not exc.path or not exc.path.startswith(ATTACHMENTS_PATH):
                raise
            remarks.append(NO_ATTACHMENTS.format(exc))

        conversation = basis.config.conversation.model_copy(update={"attachments": []})
        config = basis.config.model_copy(update={"conversation": conversation})
        without_attachments = replace(basis, config=config)
        return self._resolve(without_attachments, conversation_id, tool_choice="auto")

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

    # Earlier versions did not store `none`.
    return "none" if config.assistant.tool_choice == "none" else "auto"


def _make_traced(
    name: str,
    provider_name: str,
    provider: Provider,
    request: ModelRequest,
    remarks: tuple[str, ...],
) -> TracedRequest:
    return TracedRequest(name, provider_name, request, provider.preview(request), remarks)
