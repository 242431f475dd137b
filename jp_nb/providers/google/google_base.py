"""The base class of the providers of Gemini.

It repairs and repeats a request that the server rejects. A response that is not complete has a
token, with which the next request continues it.

Its two dialects are the Interactions API (`google_interactions.py`) and `generateContent`
(`google_generate.py`), for proxies and older models.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import ClassVar, Protocol, TypeVar

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelList
from jp_nb.agent.provider import Attachment, ModelRequest
from jp_nb.agent.provider_events import Finished, ProviderEvent, Retry
from jp_nb.errors import ProviderError
from jp_nb.json_schema import Schema
from jp_nb.providers.google.google_continued_decoder import ContinuedDecoder
from jp_nb.providers.google.google_errors import GOOGLE_REFUSAL
from jp_nb.providers.google.google_model_list import list_google_models
from jp_nb.providers.google.google_rendering import GoogleRendering
from jp_nb.providers.google.google_schemas import adapt_for_google
from jp_nb.providers.google.google_thinking import RejectedLevels, Thinking
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments
from jp_nb.providers.request_parts.omission_reports import Omitted
from jp_nb.providers.request_parts.request_body import RequestBody, WireMessage, encode_json
from jp_nb.providers.response_parts.stream_decoder import Decoder
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.schema_loops import check_references

GoogleRenderingT = TypeVar("GoogleRenderingT", bound=GoogleRendering)


class GoogleFieldsBuilder(Protocol):
    """Function of a dialect that returns the members of a request body, except the messages."""

    def __call__(
        self,
        request: ModelRequest,
        *,
        answer: AnswerSchema | None,
        thinking: Thinking | None,
        allowed_tools: Sequence[str] | None,
        omitted: Omitted,
    ) -> WireMessage:
        """Return the members of the body of `request`.

        Args:
            request: The request.
            answer: The schema of a structured answer; None for a text.
            thinking: The thinking, at a level that the model has not rejected; None if the request
                has no settings of reasoning.
            allowed_tools: The names of the tools that the model may call; None for all.
            omitted: Receives the parameters that are not sent, each with the reason.
        """


class GoogleProvider(HttpProvider[GoogleRenderingT]):
    """Provider for Gemini, without its dialect; see `HttpProvider` for the steps of a request.

    A dialect is a subclass with its decoder, its address, its repair of signatures (`_repair`),
    and the attributes below. Without `append_instructions`, changed instructions replace the
    earlier ones in front.

    Attributes:
        continuation_member: Name of the member of the body with the token of a continuation.
        instructions_member: Name of the member with the instructions.
        messages_member: Name of the member with the messages.
        build_request_fields: Returns the members of the body, except the messages.
    """

    continuation_member: ClassVar[str]
    instructions_member: ClassVar[str]
    messages_member: ClassVar[str]
    build_request_fields: ClassVar[GoogleFieldsBuilder]

    def __init__(
        self,
        endpoint: Endpoint,
        make_rendering: Callable[[], GoogleRenderingT],
        format_attachments: Callable[[tuple[Attachment, ...]], FormattedAttachments],
        *,
        append_instructions: bool,
    ) -> None:
        super().__init__(endpoint, make_rendering, format_attachments)
        self._append_instructions = append_instructions
        self._rejected_levels = RejectedLevels()

    def _select_appended(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        """Return those of the `parts` whose changes are appended; "system" is the instructions."""
        appended = super()._select_appended(model, parts)
        return appended if self._append_instructions else appended - {"system"}

    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        return adapt_for_google(schema)

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: GoogleRenderingT
    ) -> ProviderEvent | None:
        """Return a `Retry`, or the end of a refused response, by the text of an error 400.

        - About a signature or a `thought` of the messages: the dialect repairs the messages.
        - About the thinking level (`thinking level`): the request is sent with another level, or
          the error remains (None) if it had no level.
        - About the safety of the content: the response is refused.
        """
        if error.status != 400:
            return super()._recover(error, request, rendering)

        text = str(error).lower()
        if "signature" in text or "thought" in text:
            return self._repair(error, request, rendering)

        if "level" in text and "think" in text:
            had_level = self._rejected_levels.reject(request)
            return Retry(error.without_address) if had_level else None

        if GOOGLE_REFUSAL.search(text):
            return Finished("refused", error.without_address)
        return super()._recover(error, request, rendering)

    async def _stream_body(
        self, request: ModelRequest, body: bytes, decoder: Decoder, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the response, and of those that continue it; see `ContinuedDecoder`.

        The stream decoder reads each chunk before the next one, so `decoder` has the token of a
        response that is not complete as soon as its stream has ended.
        """
        assert isinstance(decoder, ContinuedDecoder)
        url = self._get_url(request)
        sent = body

        while True:
            async with aclosing(self._http.post(sent, url=url, headers=headers)) as chunks:
                async for chunk in chunks:
                    yield chunk

            token = decoder.begin_continuation()
            if not token:
                return

            # The same JSON object with one more member.
            sent = body[:-1] + b"," + encode_json({self.continuation_member: token})[1:]

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: GoogleRenderingT,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        fields = type(self).build_request_fields(
            request,
            answer=answer,
            thinking=self._rejected_levels.choose_thinking(request),
            allowed_tools=rendering.allowed_tools,
            omitted=omitted,
        )
        messages = rendering.encode(request.context, before=attached.messages)
        prefix = ("tools", self.instructions_member)
        return RequestBody(fields, messages, self.messages_member, prefix=prefix)

    @abstractmethod
    def _repair(
        self, error: ProviderError, request: ModelRequest, rendering: GoogleRenderingT
    ) -> ProviderEvent | None:
        """Return a `Retry` without the rejected thoughts or signatures; None if none were sent.

        The error is about the signature of a thought, or about a thought that is missing. The
        dialect renders the conversation again without the rejected parts, and keeps this rendering
        (`RenderingCache.render_and_keep`): the request that follows the `Retry` uses it.
        """

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server."""
        return await list_google_models(self._http, seconds)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise `UsageError` if a reference in `schema` refers only to itself."""
        check_references(schema)
