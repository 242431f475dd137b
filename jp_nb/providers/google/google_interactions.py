"""The provider of Gemini's Interactions API, and the choice between the dialects of Gemini.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, ClassVar

from jp_nb.agent.provider import ModelRequest, ProviderEvent, Retry
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import Google, ProviderConfig
from jp_nb.errors import ProviderError
from jp_nb.providers.google.google_base import GoogleProvider
from jp_nb.providers.google.google_interactions_decoder import InteractionsDecoder
from jp_nb.providers.google.google_interactions_fields import build_request_fields
from jp_nb.providers.google.google_interactions_rendering import (
    InteractionsRendering,
    format_attachments,
)
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.network.endpoint import Endpoint, make_endpoint
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.record.entries.events import ChatRequest


class InteractionsProvider(GoogleProvider[InteractionsRendering]):
    """Provider for servers with the Interactions API."""

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
        """Stream one response."""
        for name in ("temperature", "top_p"):
            if getattr(request.parameters, name) is not None:
                setting = f"assistant.model.parameters.{name}"
                self._reports.warn_once(request, setting, "is sent, but Google has deprecated it")
        return super().stream(request)

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask `generateContent` for the tokens, because this API cannot count; see `Provider`."""
        from jp_nb.providers.google.google_generate import GenerateProvider

        endpoint = self._http.endpoint
        path = endpoint.path.replace("/interactions", "/models")
        other = GenerateProvider(
            replace(endpoint, path=path), append_instructions=self._append_instructions
        )
        try:
            return await other.count_tokens(request, seconds=seconds)
        finally:
            await other.aclose()

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
        end = len(request.context)
        text_calls = rendering.text_calls
        unsigned_items = rendering.unsigned_items
        if "missing" in str(error).lower() and text_calls.stop < end:
            asked = (
                index
                for index, item in enumerate(request.context)
                if isinstance(item.entry, ChatRequest)
            )
            text_calls = range(max(asked, default=0), end)
        elif rendering.has_signatures:
            unsigned_items = end
        else:
            return None

        self._renderings.render_and_keep(
            request.context, InteractionsRendering(unsigned_items, text_calls)
        )
        return Retry(error.without_address)


def create_server(name: str, config: Server) -> HttpProvider[Any]:
    """Return the provider for the configured server `name`.

    Raises:
        ConfigError: The address is not valid.
    """
    return _create(name, config, config.dialect, append_instructions=True)


def create(name: str, config: Google) -> HttpProvider[Any]:
    """Return the provider that `config` describes.

    Raises:
        ConfigError: The address is not valid.
    """
    return _create(name, config, config.dialect, append_instructions=config.append_instructions)


def _create(
    name: str, config: ProviderConfig, dialect: str, *, append_instructions: bool
) -> HttpProvider[Any]:
    # An address can end in a version, as `https://generativelanguage.googleapis.com/v1beta`.
    version = re.search(r"/v\d\w*/?$", config.base_url or "")
    root = "" if version else "/v1"
    path = f"{root}/models"
    headers: dict[str, str] = {}
    if dialect == "interactions":
        path = f"{root}/interactions"
        # The revision of the API in its versions before 1. Later ones ignore it.
        headers = {"api-revision": "2026-05-20"}
    endpoint = make_endpoint(name, config, path, headers=headers, key_header="x-goog-api-key")

    if dialect == "generate":
        from jp_nb.providers.google.google_generate import GenerateProvider

        return GenerateProvider(endpoint, append_instructions=append_instructions)
    return InteractionsProvider(endpoint, append_instructions=append_instructions)
