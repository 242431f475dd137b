"""The base class of the providers of Gemini: thinking levels, repairs, continued responses.

Its two dialects are the Interactions API (`google_interactions.py`) and `generateContent`
(`google_generate.py`), for proxies and older models.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import ClassVar, Final, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import Attachment, Finished, ModelList, ModelRequest, ProviderEvent, Retry
from jp_nb.errors import ProviderError
from jp_nb.json_schema import Schema, check_references
from jp_nb.providers.google.google_continued_decoder import ContinuedDecoder
from jp_nb.providers.google.google_errors import GOOGLE_REFUSAL
from jp_nb.providers.google.google_rendering import GoogleRendering
from jp_nb.providers.google.google_schemas import adapt_for_google
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.model_lists import list_google_models
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments
from jp_nb.providers.request_parts.reasoning_effort import Level, parse_reasoning
from jp_nb.providers.request_parts.request_body import (
    Omitted,
    RequestBody,
    WireMessage,
    encode_json,
)
from jp_nb.providers.response_parts.stream_decoder import Decoder
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

_ASSUMED_MAX_TOKENS: Final = 32_000

_LEVELS: Final[Mapping[Level, str]] = {"none": "minimal", "xlow": "minimal", "max": "xhigh"}
_NEAREST_LEVEL: Final[Mapping[str, str]] = {"xhigh": "high", "minimal": "low", "medium": "high"}
"""Level that is sent instead of one that the model does not have."""
GoogleRenderingT = TypeVar("GoogleRenderingT", bound=GoogleRendering)


class GoogleProvider(HttpProvider[GoogleRenderingT]):
    """Provider for Gemini, without its dialect.

    Without `append_instructions`, changed instructions replace the earlier ones in front.
    """

    continuation_member: ClassVar[str]
    instructions_member: ClassVar[str]
    messages_member: ClassVar[str]
    build_request_fields: ClassVar[Callable[..., WireMessage]]
    """Return the members of the body, except the messages."""

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
        self._rejected_levels: set[tuple[str, str]] = set()  # models and levels they do not have

    def _select_appended(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        appended = super()._select_appended(model, parts)
        return appended if self._append_instructions else appended - {"system"}

    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        return adapt_for_google(schema)

    def _find_thinking(self, request: ModelRequest) -> tuple[str | None, bool] | None:
        """Return the thinking level, and True if no summaries of thoughts are wanted.

        None: the request has no settings of reasoning. A level that is None is the model's own.
        """
        reasoning = parse_reasoning(request.parameters.reasoning)
        if reasoning is None:
            return None
        effort = reasoning.to_level(request.parameters.max_tokens or _ASSUMED_MAX_TOKENS)

        level = None if effort == "auto" else _LEVELS.get(effort, effort)
        while level is not None and (request.model, level) in self._rejected_levels:
            level = _NEAREST_LEVEL.get(level)
        return level, reasoning.exclude

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: GoogleRenderingT
    ) -> ProviderEvent | None:
        if error.status != 400:
            return super()._recover(error, request, rendering)

        text = str(error).lower()
        if "signature" in text or "thought" in text:
            return self._repair(error, request, rendering)

        if "level" in text and "think" in text:
            level, _ = self._find_thinking(request) or (None, False)
            if level is None:
                return None
            self._rejected_levels.add((request.model, level))
            return Retry(error.without_address)

        if GOOGLE_REFUSAL.search(text):
            return Finished("refused", error.without_address)
        return super()._recover(error, request, rendering)

    async def _stream_body(
        self, request: ModelRequest, body: bytes, decoder: Decoder, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        assert isinstance(decoder, ContinuedDecoder)
        url = self._get_url(request)
        sent = body
        while True:
            async with aclosing(self._http.post(sent, url=url)) as chunks:
                async for chunk in chunks:
                    yield chunk

            token = decoder.begin_continuation()
            if not token:
                return

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
            thinking=self._find_thinking(request),
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
        """Return a `Retry` if the request can be sent without what the API has rejected.

        The error is about the signature of a thought, or about a thought that is missing.
        """

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server."""
        return await list_google_models(self._http, seconds)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise `UsageError` if a reference in `schema` refers only to itself."""
        check_references(schema)
