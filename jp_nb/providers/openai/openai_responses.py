"""The provider of OpenAI Responses, without state on the server.

It sends requests, and after an error sends them again without the parts that the server refused.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_info import ModelList
from jp_nb.agent.model_requests.model_batches import ModelBatches
from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import ProviderEvent, Retry
from jp_nb.errors import ProviderError
from jp_nb.json_reading import read_json
from jp_nb.json_schema import Schema
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.local_server import Local
from jp_nb.providers.network.token_counts import CountQuery
from jp_nb.providers.openai.openai_batches import OpenAiBatches, wrap_response
from jp_nb.providers.openai.openai_model_list import list_chat_completions_models
from jp_nb.providers.openai.openai_responses_decoder import ResponsesDecoder
from jp_nb.providers.openai.openai_responses_fields import (
    NEXT_EFFORTS,
    adapt_responses_schema,
    build_request_fields,
    format_allowed_tools,
)
from jp_nb.providers.openai.openai_responses_metadata import ENCRYPTED_KEY
from jp_nb.providers.openai.openai_responses_parts import format_attachments, format_system_item
from jp_nb.providers.openai.openai_responses_rendering import (
    OPENAI_APPENDED,
    OTHERS_APPENDED,
    ResponsesRendering,
)
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments, advise_images
from jp_nb.providers.request_parts.omission_reports import Omitted
from jp_nb.providers.request_parts.request_body import RequestBody, encode_json
from jp_nb.providers.response_parts.cache_diagnostics import CacheDiagnostics, read_response_id
from jp_nb.providers.response_parts.stream_decoder import Decoder, WireObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.schema_loops import check_references

_LOGGER: Final = logging.getLogger(__name__)
KEEP_ALIVE_SECONDS: Final = 5.0
"""Pause between keep-alives while a response that is not streamed is awaited."""
_REFUSABLE: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "stream_options": r"stream_options|obfuscation",
        "summary": r"reasoning\.summary|reasoning\ssummar",
        "include": r"encrypted\scontent\sis\snot\ssupported|[':]\s?'?include\b",
        "truncation": "truncation",
        "prompt_cache_key": "prompt_cache_key",
        "stream": r"\bstream",
        "temperature": r"\btemperature\b",
        "top_p": r"\btop_p\b",
        "reasoning": r"'reasoning(\.effort)?' is not supported"
        r"|(parameter|argument)\b.{0,60}\breasoning",
    }.items()
}
"""Parts of a request that are omitted after an error with a text that fits, in lower case."""
_IMAGE_REFUSAL: Final = re.compile(
    r"input_(image|file)|\.output\b|\b(image|pdf|file).*(tool|function|output)"
)
"""Words of an error about images or PDFs in the results of tools."""
_COUNTED: Final = frozenset(
    {"model", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation"}
)
"""Members of a request for a token count, besides the items."""
_CACHE_OPTIONS: Final = re.compile(r"comparison_response_id|prompt_cache_options")
"""Words of an error about the request for diagnostics (`cache_diagnostics.py`)."""
_STALE: Final = re.compile(r"encrypted[_ ]content")
"""Words of an error about encrypted reasoning."""


class ResponsesProvider(HttpProvider[ResponsesRendering]):
    """Provider for servers with the Responses API.

    It fills in the methods of `HttpProvider` (`http_provider.py`).
    """

    counts_whole_prompt = True

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        media_types: frozenset[str],
        local: Local | None = None,
    ) -> None:
        # Chat templates of other servers may know only `system`.
        role = "developer" if endpoint.is_openai else "system"
        # A rendering is made at a request, so `_images_in_results` has its current value then.
        super().__init__(
            endpoint,
            lambda: ResponsesRendering(
                endpoint.provider,
                media_types=media_types,
                system_role=role,
                images_in_results=self._images_in_results,
            ),
            lambda attachments: format_attachments(attachments, media_types),
        )
        self._system_role = role
        self._local = local
        self._media_types = media_types
        # What the errors of the server have told so far: the parts of a request that it refuses for
        # a model (see `build_request_fields`), and whether it takes images in results of tools.
        self._refused: dict[str, frozenset[str]] = {}
        self._images_in_results = True
        self._diagnostics = CacheDiagnostics(_LOGGER, self._http.get_redactor)

    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        return adapt_responses_schema(schema, is_local=self._local is not None)

    def _advise_images(self) -> str:
        return advise_images(self._http.endpoint, self._media_types)

    def _select_appended(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        """Return the parts, such as `system`, whose changes the server accepts among the items."""
        accepted = OPENAI_APPENDED if self._http.endpoint.is_openai else OTHERS_APPENDED
        return super()._select_appended(model, parts & accepted)

    def _list_refused(self, model: str) -> frozenset[str]:
        """Return the parts of a request that the server has refused for `model`."""
        return self._refused.get(model, frozenset())

    def _encode_body(
        self,
        request: ModelRequest,
        rendering: ResponsesRendering,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        """Return the body without the parts that the server has refused for this model."""
        if "schema" in rendering.appended:
            answer = None  # an item among the messages has it

        fields = build_request_fields(
            request,
            answer=answer,
            refused=self._list_refused(request.model),
            local=self._local,
            omitted=omitted,
        )
        if rendering.last_response_id and self._diagnostics.are_wanted:
            options = fields.get("prompt_cache_options") or {}
            compared = {"comparison_response_id": rendering.last_response_id}
            fields["prompt_cache_options"] = {**options, **compared}

        allowed = rendering.allowed_tools
        choice = request.tool_choice
        if allowed is not None and choice in ("auto", "required"):
            fields["tool_choice"] = format_allowed_tools(allowed, choice)

        before = list(attached.messages)
        system = format_system_item(request.system, self._system_role)
        if system is not None:
            before.insert(0, encode_json(system))

        items = rendering.encode(request.context, before=before)
        return RequestBody(fields, items, "input", prefix=("tools",))

    def _make_decoder(
        self,
        request: ModelRequest,
        rendering: ResponsesRendering,
        answer: AnswerSchema | None,
        body: bytes,
    ) -> ResponsesDecoder:
        def on_response(response: WireObject) -> None:
            rendering.last_response_id = read_response_id(response.get("id"))
            self._diagnostics.log(response.get("prompt_cache_diagnostics"))

        name = self._http.endpoint.provider
        return ResponsesDecoder(name, answer, request=body, on_response=on_response)

    def _stream_body(
        self, request: ModelRequest, body: bytes, decoder: Decoder, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        if "stream" in self._list_refused(request.model):
            return self._fetch_as_stream(body)  # requests of this API have no `headers`
        return super()._stream_body(request, body, decoder, headers)

    async def _fetch_as_stream(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """Yield a response that is not streamed as a stream with its last event.

        Comments keep the stream alive until the response is there.
        """
        url = self._http.endpoint.url
        task = asyncio.ensure_future(self._http.fetch(url, read_json(body.decode())))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=KEEP_ALIVE_SECONDS)
                if not task.done():
                    yield b": waiting\n\n"
            message = {"type": "response.completed", "response": task.result()}
        finally:
            task.cancel()
            await asyncio.wait({task})  # it closes the connection
        yield b"data: " + encode_json(message) + b"\n\n"

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: ResponsesRendering
    ) -> ProviderEvent | None:
        """Return a `Retry` if one of these repairs fits the text of an error 400 or 422.

        - A known part of the request is refused: it is omitted for this model.
        - The diagnostics are refused: they are not requested again.
        - Encrypted reasoning is invalid: it is sent as text.
        - Images in results of tools are refused: they follow in a user message.
        """
        if error.status not in (400, 422) or error.kind != "other":
            return super()._recover(error, request, rendering)

        text = str(error).lower()
        part = self._find_refused_part(request, text)
        if part is not None:
            self._refuse(part, request.model)
            return Retry(error.without_address)

        is_compared = rendering.last_response_id and self._diagnostics.are_wanted
        if is_compared and _CACHE_OPTIONS.search(text):
            self._diagnostics.is_accepted = False
            return Retry(error.without_address)

        if rendering.encrypted_items and _STALE.search(text):
            self._drop_stale_items(request, rendering, text)
            return Retry(error.without_address, drop_metadata=ENCRYPTED_KEY)

        can_move_images = rendering.has_result_images and rendering.images_in_results
        if can_move_images and _IMAGE_REFUSAL.search(text):
            self._images_in_results = False
            self._renderings.render_and_keep(
                request.context, rendering.repair(images_in_results=False)
            )
            return Retry(error.without_address)

        return super()._recover(error, request, rendering)

    def _find_refused_part(self, request: ModelRequest, error: str) -> str | None:
        """Return the part of the request that the text `error` refuses, if it is a known one."""
        fields = build_request_fields(request, refused=self._list_refused(request.model))
        reasoning = fields.get("reasoning") or {}
        effort = reasoning.get("effort")
        if effort in NEXT_EFFORTS and f"'{effort}'" in error:
            return f"effort {effort}"

        for name, pattern in _REFUSABLE.items():
            if (name in fields or name in reasoning) and pattern.search(error):
                return name
        return None

    def _refuse(self, part: str, model: str) -> None:
        self._refused[model] = self._list_refused(model) | {part}

    def _drop_stale_items(
        self, request: ModelRequest, rendering: ResponsesRendering, error: str
    ) -> None:
        """Render the conversation again without encrypted items from the first that is invalid."""
        named = [
            position
            for item_id, position in rendering.encrypted_items.items()
            if item_id.lower() in error
        ]

        # Valid encrypted content covers all before it, so all that is later is invalid as well.
        first = min(named, default=0)
        stale = frozenset(range(first, len(request.context)))
        self._renderings.render_and_keep(request.context, rendering.repair(stale_items=stale))

    def open_batches(self) -> ModelBatches:
        """Return the Batch API."""
        answers = self._make_whole_answers(wrap_response)
        return OpenAiBatches(self._http, answers, "responses")

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        return CountQuery(f"{self._http.endpoint.url}/input_tokens", body.select(_COUNTED))

    async def models(self, *, seconds: float) -> ModelList:
        """List the models of the server."""
        return await list_chat_completions_models(self._http, seconds, self._local)

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Raise if a reference in `schema` refers only to itself; see `Provider`."""
        check_references(schema)
