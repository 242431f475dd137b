"""The provider of Gemini's `generateContent` API.

The dialect `generate`, for proxies and models that do not have the Interactions API.

Source: `docs/providers.md`, https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import ProviderEvent, Retry
from jp_nb.errors import ProviderError
from jp_nb.providers.google.google_base import GoogleProvider
from jp_nb.providers.google.google_generate_decoder import GenerateDecoder
from jp_nb.providers.google.google_generate_fields import build_request_fields
from jp_nb.providers.google.google_generate_rendering import (
    GenerateRendering,
    format_attachments,
)
from jp_nb.providers.google.google_model_list import name_model
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.token_counts import CountQuery
from jp_nb.providers.request_parts.request_body import RequestBody, WireMessage
from jp_nb.providers.schemas.answer_schemas import AnswerSchema


class GenerateProvider(GoogleProvider[GenerateRendering]):
    """Provider for servers with the `generateContent` API.

    It fills in the methods and attributes of `GoogleProvider` (`google_base.py`).
    """

    continuation_member: ClassVar[str] = "continuationToken"
    instructions_member: ClassVar[str] = "systemInstruction"
    messages_member: ClassVar[str] = "contents"
    build_request_fields = staticmethod(build_request_fields)

    def __init__(self, endpoint: Endpoint, *, append_instructions: bool) -> None:
        super().__init__(
            endpoint, GenerateRendering, format_attachments, append_instructions=append_instructions
        )

    def _get_url(self, request: ModelRequest) -> str:
        name = quote(name_model(request), safe="")
        return f"{self._http.endpoint.url}/{name}:streamGenerateContent?alt=sse"

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery:
        name = name_model(request)
        counted: WireMessage = {"model": f"models/{name}", **body.to_dict()}
        url = f"{self._http.endpoint.url}/{quote(name, safe='')}:countTokens"
        return CountQuery(url, {"generateContentRequest": counted}, "totalTokens")

    def _make_decoder(
        self,
        request: ModelRequest,
        rendering: GenerateRendering,
        answer: AnswerSchema | None,
        body: bytes,
    ) -> GenerateDecoder:
        return GenerateDecoder(answer, request=body)

    def _repair(
        self, error: ProviderError, request: ModelRequest, rendering: GenerateRendering
    ) -> ProviderEvent | None:
        """Return a `Retry` after rendering the conversation again without any signature.

        Return None if the request had no signatures: then the repair was made before, in vain.
        """
        if not rendering.has_signatures:
            return None

        unsigned = GenerateRendering(unsigned_items=len(request.context))
        self._renderings.render_and_keep(request.context, unsigned)
        return Retry(error.without_address)
