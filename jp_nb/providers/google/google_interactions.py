"""The provider of Gemini's Interactions API.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import ClassVar

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import ProviderEvent, Retry
from jp_nb.errors import ProviderError
from jp_nb.providers.google.google_base import GoogleProvider
from jp_nb.providers.google.google_interactions_decoder import InteractionsDecoder
from jp_nb.providers.google.google_interactions_fields import build_request_fields
from jp_nb.providers.google.google_interactions_rendering import (
    InteractionsRendering,
    format_attachments,
)
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.record.entries.events import ChatRequest
from jp_nb.record.request_context.context import RequestContext


class InteractionsProvider(GoogleProvider[InteractionsRendering]):
    """Provider for servers with the Interactions API.

    It fills in the methods and attributes of `GoogleProvider` (`google_base.py`).
    """

    continuation_member: ClassVar[str] = "continuation_token"
    instructions_member: ClassVar[str] = "system_instruction"
    messages_member: ClassVar[str] = "input"
    build_request_fields = staticmethod(build_request_fields)

    def __init__(self, endpoint: Endpoint, *, append_instructions: bool) -> None:
        super().__init__(
            endpoint,
            InteractionsRendering,
            format_attachments,
            append_instructions=append_instructions,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response, and warn of deprecated parameters; see `Provider`."""
        for name in ("temperature", "top_p"):
            if getattr(request.parameters, name) is not None:
                setting = f"assistant.model.parameters.{name}"
                self._reports.warn_once(request, setting, "is sent, but Google has deprecated it")
        return super().stream(request)

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask `generateContent` for the tokens, because this API cannot count; see `Provider`."""
        from jp_nb.providers.google.google_generate import GenerateProvider

        # The same server with the other dialect, such as `/v1/models` for `/v1/interactions`.
        endpoint = self._http.endpoint
        path = endpoint.path.replace("/interactions", "/models")
        generate = GenerateProvider(
            replace(endpoint, path=path), append_instructions=self._append_instructions
        )

        try:
            return await generate.count_tokens(request, seconds=seconds)
        finally:
            await generate.aclose()

    def _make_decoder(
        self,
        request: ModelRequest,
        rendering: InteractionsRendering,
        answer: AnswerSchema | None,
        body: bytes,
    ) -> InteractionsDecoder:
        return InteractionsDecoder(answer, request=body)

    def _repair(
        self, error: ProviderError, request: ModelRequest, rendering: InteractionsRendering
    ) -> ProviderEvent | None:
        """Return a `Retry` after one of two repairs of the messages; None if both were made.

        - A thought before a call of the current turn is missing, such as one that another provider
          has not sent: the calls of this turn are sent as text.
        - Any other error about the signatures that were sent: none of them is sent again.
        """
        item_count = len(request.context)
        is_thought_missing = "missing" in str(error).lower()
        # `text_calls` are the positions in the context whose calls are sent as text.
        has_calls_as_text = rendering.text_calls.stop >= item_count

        if is_thought_missing and not has_calls_as_text:
            text_calls = range(_find_turn_start(request.context), item_count)
            repaired = InteractionsRendering(rendering.unsigned_items, text_calls)
        elif rendering.has_signatures:
            repaired = InteractionsRendering(item_count, rendering.text_calls)
        else:
            return None

        self._renderings.render_and_keep(request.context, repaired)
        return Retry(error.without_address)


def _find_turn_start(context: RequestContext) -> int:
    """Return the position of the last request of the user; 0 if there is none."""
    requests = (
        position for position, item in enumerate(context) if isinstance(item.entry, ChatRequest)
    )
    return max(requests, default=0)
