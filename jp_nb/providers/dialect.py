"""Base class of the providers that send requests over HTTP. Each dialect is a subclass.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from jp_nb.agent.provider import Attachment, ModelRequest, ProviderEvent, SentRequest
from jp_nb.errors import ProviderError
from jp_nb.providers.endpoint import Endpoint, OmissionList, OmissionLog
from jp_nb.providers.http import HttpClient
from jp_nb.providers.messages import (
    AttachmentCache,
    FormattedAttachments,
    Rendering,
    RenderingCache,
)
from jp_nb.providers.schemas import AnswerSchema
from jp_nb.providers.streaming import Decoder, StreamDecoder, stream_events

R = TypeVar("R", bound=Rendering)


class HttpProvider(ABC, Generic[R]):
    """Provider over HTTP; see `Provider` for the public methods.

    A dialect adds the form of requests and responses, `models`, and `check_schema`.

    Args:
        endpoint: The server.
        make_rendering: Returns an empty rendering of a conversation.
        format_attachments: Formats the attachments of a request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        make_rendering: Callable[[], R],
        format_attachments: Callable[[tuple[Attachment, ...]], FormattedAttachments],
    ) -> None:
        self._http = HttpClient(endpoint)
        self._renderings = RenderingCache(make_rendering)
        self._attached = AttachmentCache(format_attachments)
        self._omissions = OmissionLog(endpoint.provider)

    @abstractmethod
    def _answer_schema(self, request: ModelRequest) -> AnswerSchema | None:
        """Return the schema of a structured answer as it is sent; None for text."""

    @abstractmethod
    def _encode_body(
        self,
        request: ModelRequest,
        rendering: R,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omissions: OmissionLog,
    ) -> bytes:
        """Return the body of a request. `rendering` has the messages of its conversation."""

    @abstractmethod
    def _make_decoder(self, answer: AnswerSchema | None, body: bytes) -> Decoder:
        """Return the decoder of the response to the request with this `body`."""

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: R
    ) -> ProviderEvent | None:
        """Return a `Retry` if another form of the request can succeed after `error`."""
        return None

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response."""
        rendering = self._renderings.get(request.thread)
        answer = self._answer_schema(request)
        body = self._build_body(request, rendering, answer, self._omissions)
        provider = self._http.endpoint.provider
        return stream_events(
            self._http.post(body),
            StreamDecoder(
                self._make_decoder(answer, body),
                provider=provider,
                max_response_bytes=request.max_response_bytes,
                redaction=self._http.redaction(),
            ),
            provider=provider,
            idle_timeout=request.idle_timeout,
            sanitize_error=self._http.sanitize_error,
            recover=lambda error: self._recover(error, request, rendering),
        )

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that `stream` would send."""
        rendering = self._renderings.make_temporary(request.thread)
        omitted = OmissionList(self._http.endpoint.provider)
        body = self._build_body(request, rendering, self._answer_schema(request), omitted)
        return self._http.preview(body, omitted=omitted.lines)

    def _build_body(
        self,
        request: ModelRequest,
        rendering: R,
        answer: AnswerSchema | None,
        omissions: OmissionLog,
    ) -> bytes:
        attached = self._attached.get(request.attachments)
        attached.warn(omissions, conversation_id=request.conversation_id)
        return self._encode_body(request, rendering, attached, answer, omissions)

    @property
    def address(self) -> str:
        """Return the address of the server."""
        return self._http.endpoint.url

    def check_ready(self, model: str, text: str) -> None:
        """Raise if the key is missing."""
        self._http.check_ready()

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()
