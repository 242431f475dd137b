"""The past requests of a conversation, and the next one, for `%jp request`.

A request is named by its turn and its number in it (`3.1`). Its *span* is the range of the record
with the entries of its answer (`RequestSpan`). Only the last request of this kernel is known
exactly. Earlier ones are reconstructed from the record (`request_reconstruction.py`).

Source: `docs/guide.md`, `docs/record.md`, `docs/decisions.md` D103.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jp_nb.agent.model_requests.appended_changes import explain_new_head
from jp_nb.agent.provider import ModelRequest, Provider
from jp_nb.agent.turn_record import LastRequest
from jp_nb.errors import UsageError
from jp_nb.record.entries.events import ChatRequest
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.request_spans import RequestSpan, find_requests
from jp_nb.rendering.reports.traced_request import TracedRequest
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.model_access.cassette_provider import CassetteProvider
from jp_nb.session.past_turns.request_reconstruction import (
    RequestReconstruction,
    resolve_without_start,
)
from jp_nb.session.resolution.model_catalog import LIST_SECONDS
from jp_nb.session.turns.turn_runner import TurnRunner

NEXT: Final = "next"
PREVIEW_REMARKS: Final = (
    "preview of the next request",
    "the last message is a placeholder for your next one",
)
PLACEHOLDER: Final = "(your next request)"


class TracedRequests:
    """The requests of the active conversation: past ones, and a preview of the next one."""

    def __init__(self, active: ActiveConversation, turns: TurnRunner) -> None:
        active.refuse_while_running()
        self._active = active
        self._turns = turns
        self._stream = active.document.conversation
        self._spans = find_requests(self._stream)
        self._last_span = self._find_or_add_last(turns.contexts.last_request)
        self._reconstruction = RequestReconstruction(active, turns, self._spans)

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
        # A preview starts no MCP servers.
        resolved = resolve_without_start(self._turns, basis, conversation_id)
        context = self._turns.contexts.build(self._stream, resolved)
        context.contents = dict(context.contents)  # a copy, as the preview adds attachments
        context.add(ChatRequest(content=PLACEHOLDER), resolved.provider_name)
        request = resolved.make_turn_request(
            context, choice=resolved.tool_choice, schema=None, conversation_id=conversation_id
        )

        # A request repeats the *head* of the one before, its system texts and tools, and appends
        # changes of it to the messages, so that the provider's cache can be used. If the provider
        # does not allow that, the turn would send a new head.
        if explain_new_head(resolved.provider, request, resolved.context_tokens) is not None:
            request = replace(request, context=context.without_heads())

        traced = _make_traced(
            NEXT, resolved.provider_name, resolved.provider, request, PREVIEW_REMARKS
        )
        return traced, resolved.provider

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
            traced = self._reconstruction.make(span)

        answer = self._stream.entries[span.position : span.end]
        return replace(traced, answer=tuple(entry.metadata for entry in answer))


def _make_traced(
    name: str,
    provider_name: str,
    provider: Provider,
    request: ModelRequest,
    remarks: tuple[str, ...],
) -> TracedRequest:
    return TracedRequest(name, provider_name, request, provider.preview(request), remarks)
