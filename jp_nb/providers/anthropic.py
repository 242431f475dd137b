"""Anthropic Messages.

Source: `docs/providers.md`; https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_events import (
    ModelRequest,
    ProviderEvent,
    Retry,
    SentRequest,
)
from jp_nb.agent.model_info import ModelList
from jp_nb.errors import ProviderError
from jp_nb.providers import answer_schema as schemas
from jp_nb.providers.anthropic_decoder import AnthropicDecoder
from jp_nb.providers.anthropic_request import (
    NAME,
    SIGNATURE,
    AnthropicRendering,
    attach,
    build_head,
)
from jp_nb.providers.attachment_parts import (
    AttachedOnce,
)
from jp_nb.providers.endpoint import Endpoint, ProviderSettings
from jp_nb.providers.http import HttpClient
from jp_nb.providers.messages import (
    Renderings,
    encode_body,
)
from jp_nb.providers.model_queries import list_anthropic
from jp_nb.providers.parameters import LeftOut, Warnings
from jp_nb.providers.streaming import StreamDecoder, events

PATH: Final = "/v1/messages"
VERSION: Final = "2023-06-01"


class AnthropicProvider:
    """A server that speaks Anthropic Messages. Keeps its rendering of the threads it is sent."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._http = HttpClient(endpoint)
        self._renderings: Renderings[AnthropicRendering] = Renderings(AnthropicRendering)
        self._attached = AttachedOnce(attach)
        self._warnings = Warnings(endpoint.provider)
        self._always_thinking: set[str] = set()

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response; see `Provider`."""
        rendering = self._renderings.of(request.thread)
        answer = answer_schema(request)
        body = self._body(request, rendering, answer, self._warnings)

        def recover(error: ProviderError) -> ProviderEvent | None:
            # What it signed once and takes back no longer is sent as text.
            if rendering.signed and is_stale_signature(error):
                self._renderings.replace(
                    request.thread, AnthropicRendering(unsigned_items=len(request.thread))
                )
                return Retry(error.without_address, drop_metadata=SIGNATURE)
            if is_always_thinking(error) and request.model not in self._always_thinking:
                self._always_thinking.add(request.model)
                return Retry(error.without_address)
            return None

        return events(
            self._http.post(body),
            StreamDecoder(
                AnthropicDecoder(answer),
                provider=NAME,
                max_response_bytes=request.max_response_bytes,
                redaction=self._http.redaction(),
            ),
            provider=NAME,
            idle_timeout=request.idle_timeout,
            told=self._http.told,
            recover=recover,
        )

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return what `stream` would send; see `Provider`."""
        rendering, left_out = self._renderings.beside(request.thread), LeftOut(NAME)
        body = self._body(request, rendering, answer_schema(request), left_out)
        return self._http.preview(body, left_out=left_out.lines)

    def _body(
        self,
        request: ModelRequest,
        rendering: AnthropicRendering,
        answer: schemas.AnswerSchema | None,
        warnings: Warnings,
    ) -> bytes:
        attached = self._attached.of(request.attachments)
        attached.warn(warnings, conversation_id=request.conversation_id)
        head = build_head(
            request,
            answer=answer,
            betas=self._http.endpoint.headers.get("anthropic-beta", ""),
            always_thinking=request.model in self._always_thinking,
            warnings=warnings,
        )
        return encode_body(head, rendering.encode(request.thread, front=attached.front))

    @property
    def address(self) -> str:
        """Return the address of the server; see `Provider`."""
        return self._http.endpoint.url

    def check_ready(self, model: str, text: str) -> None:
        """Refuse a request without its key; see `Provider`."""
        self._http.check_ready()

    async def models(self, *, seconds: float) -> ModelList:
        """Ask what there is; see `Provider`."""
        return await list_anthropic(self._http, seconds)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Refuse what cannot be enforced; see `Provider`."""
        schemas.check_anthropic(schema)

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()


def create(settings: ProviderSettings) -> AnthropicProvider:
    """Return the provider that `settings` describe.

    Raises:
        ConfigError: If a setting cannot be.
    """
    headers = {"anthropic-version": VERSION}
    if betas := settings.texts("beta_headers"):
        headers["anthropic-beta"] = ",".join(betas)
    return AnthropicProvider(settings.endpoint(PATH, headers=headers, key_header="x-api-key"))


def answer_schema(request: ModelRequest) -> schemas.AnswerSchema | None:
    """Return the schema of a structured answer as this API takes it; None for text."""
    return None if request.schema is None else schemas.for_anthropic(request.schema)


def is_stale_signature(error: ProviderError) -> bool:
    """Return True if the API rejects a thinking block that it once signed."""
    text = str(error).lower()
    return (
        error.status == 400
        and "thinking" in text
        and ("signature" in text or "cannot be modified" in text)
    )


def is_always_thinking(error: ProviderError) -> bool:
    """Return True if the API says that the model cannot be kept from thinking."""
    text = str(error).lower()
    return error.status == 400 and "thinking" in text and "disabled" in text
