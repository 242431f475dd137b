"""Base class of all providers over HTTP: it builds, sends, previews, and repairs requests.

A *dialect* is the protocol of an API, such as Anthropic Messages, and a subclass. `stream` goes
these steps:

1. Choose the rendering, which has the messages of this conversation (`messages.py`).
2. Build the body, and report the files and settings that it omits.
3. Send it (`http.py`), and decode the response (`stream_decoder.py`).
4. After an error, ask the dialect whether another form of the request can succeed (`_recover`). A
   `Retry` event then makes the caller send the request again.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

import json
import logging
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final, Generic, TypeVar
from urllib.parse import urlsplit

from jp_nb.agent.model_requests.model_batches import ModelBatches
from jp_nb.agent.provider import (
    Attachment,
    ModelRequest,
    OmittedFiles,
    ProviderEvent,
    Retry,
    SentRequest,
)
from jp_nb.errors import ProviderError, UsageError
from jp_nb.json_schema import Schema
from jp_nb.json_values import MAX_SCHEMA_LEVELS, encode_utf8, is_deeper
from jp_nb.providers.batch_api import WholeAnswers
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.network.token_counts import NO_COUNT, CountQuery, fetch_token_count
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments
from jp_nb.providers.request_parts.first_head import is_refused_change, keep_first_head
from jp_nb.providers.request_parts.media_rules import MediaRules, name_medium
from jp_nb.providers.request_parts.messages import Rendering
from jp_nb.providers.request_parts.prefix_watch import PrefixWatch
from jp_nb.providers.request_parts.refused_media import (
    RefusedMedia,
    format_refusal,
    is_media_refusal,
)
from jp_nb.providers.request_parts.request_body import Omitted, RequestBody
from jp_nb.providers.response_parts.prompt_cuts import (
    MIN_SENT_TOKENS,
    advise_context,
    count_least_tokens,
    is_local,
    watch_prompt,
)
from jp_nb.providers.response_parts.stream_decoder import Decoder, StreamDecoder, WireObject
from jp_nb.providers.response_parts.streaming import stream_events
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.host_marks import LastHost

MAX_RENDERINGS: Final = 4  # of the conversation, and of inquiries that run meanwhile
MAX_ATTACHMENT_LISTS: Final = 2  # of the conversation, and of another one

_STREAM_FIELDS: Final = frozenset({"stream", "stream_options"})
_PROMPT: Final = "prompt"  # a cut of it is reported once
_LOGGER: Final = logging.getLogger(__name__)
_NAMED_MESSAGE: Final = re.compile(r"\b(?:messages|input|contents)\W{1,4}([0-9]{1,7})\b")
"""Index of a message in an error of a server, such as `messages[3].content`."""

RenderingT = TypeVar("RenderingT", bound=Rendering)


@dataclass(frozen=True, slots=True)
class _BuiltRequest:
    """The body of a request, and the parts that it omits, each with the reason."""

    body: RequestBody
    omitted_files: Omitted
    omitted_settings: Omitted

    @property
    def omitted(self) -> Omitted:
        """All omitted parts."""
        return {**self.omitted_files, **self.omitted_settings}


class HttpProvider(ABC, Generic[RenderingT]):
    """Provider over HTTP; see `Provider` for the public methods.

    A dialect adds the form of requests and responses, `models`, and `check_schema`.
    `make_rendering` returns an empty rendering of a conversation. `counts_whole_prompt` is True if
    local servers with this API report the tokens of the prompt that the model read.
    """

    counts_whole_prompt: ClassVar[bool] = False

    def __init__(
        self,
        endpoint: Endpoint,
        make_rendering: Callable[[], RenderingT],
        format_attachments: Callable[[tuple[Attachment, ...]], FormattedAttachments],
    ) -> None:
        self._http = HttpClient(endpoint)
        self._make_rendering = make_rendering
        self._renderings: dict[RequestContext, RenderingT] = {}  # the last one was used last
        self._format_attachments = lru_cache(MAX_ATTACHMENT_LISTS)(format_attachments)
        self._reported: set[tuple[str, str]] = set()  # conversation and omitted part
        self._prefix_watch = PrefixWatch()
        self._replaces_head: set[str] = set()  # models that rejected appended changes
        self._refused_media = RefusedMedia()

    @abstractmethod
    def _adapt_schema(self, schema: Schema) -> AnswerSchema:
        """Return the `schema` of a structured answer as it is sent."""

    @abstractmethod
    def _encode_body(
        self,
        request: ModelRequest,
        rendering: RenderingT,
        attached: FormattedAttachments,
        answer: AnswerSchema | None,
        omitted: Omitted,
    ) -> RequestBody:
        """Return the body of a request, and add the settings that it omits to `omitted`."""

    @abstractmethod
    def _make_decoder(
        self,
        request: ModelRequest,
        rendering: RenderingT,
        answer: AnswerSchema | None,
        body: bytes,
    ) -> Decoder:
        """Return the decoder of the response to `request`, which is sent as `body`."""

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: RenderingT
    ) -> ProviderEvent | None:
        """Return a `Retry` if another form of the request can succeed after `error`."""
        is_first = rendering.has_changes and request.model not in self._replaces_head
        if is_first and is_refused_change(error):
            self._replaces_head.add(request.model)
            return Retry(error.without_address)
        return None

    def _appended_parts(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        """Return those of the appended `parts` of a rendering that `model` supports."""
        return frozenset() if model in self._replaces_head else parts

    def _max_pdf_pages(self, model: str) -> int | None:
        """Return the maximum number of pages of all PDFs of a request; None: unknown, or none."""
        return None

    def _prepare_rendering(self, rendering: RenderingT, model: str) -> None:
        """Set what requests to `model` append and omit, before the rendering has messages."""
        rendering.appended = self._appended_parts(model, type(rendering).appended)
        refused = self._refused_media.of(model)
        rendering.media.rules = MediaRules(refused, self._max_pdf_pages(model))

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response."""
        rendering = self._choose_rendering(request)
        answer = self._make_answer_schema(request)
        built = self._build_body(request, rendering, answer)
        body = built.body.encode()
        notices = self._report_omissions(request, built)
        if request.is_turn:
            loss = self._prefix_watch.compare(request, built.body)
            notices += [] if loss is None else [loss]

        decoder = self._make_decoder(request, rendering, answer, body)
        chunks = self._stream_body(request, body, decoder, built.body.headers)
        stream_decoder = StreamDecoder(
            decoder,
            provider=self._http.endpoint.provider,
            max_response_bytes=request.max_response_bytes,
            redactor=self._http.redactor(),
        )

        events = stream_events(
            chunks,
            stream_decoder,
            idle_timeout=request.idle_timeout,
            sanitize_error=self._http.sanitize_error,
            recover=lambda error: self._recover_or_locate(error, request, rendering),
            first=notices,
        )
        return self._watch_prompt(request, built.body, events)

    def _report_omissions(self, request: ModelRequest, built: _BuiltRequest) -> list[ProviderEvent]:
        """Tell the user once in a conversation about each part that a request omits.

        Omitted files of a turn become events, for a notice in the cell. The log has all others.
        """
        logged = built.omitted_settings if request.is_turn else built.omitted
        for setting, reason in logged.items():
            self._warn_once(request, setting, f"is not sent: {reason}")

        if not request.is_turn:
            return []

        names_by_reason: dict[str, list[str]] = {}
        for name, reason in built.omitted_files.items():
            if self._is_first_report(request, name):
                names_by_reason.setdefault(reason, []).append(name)

        advice = self._advise_images()
        return [
            OmittedFiles(tuple(names), reason, advice) for reason, names in names_by_reason.items()
        ]

    def _warn_once(self, request: ModelRequest, setting: str, fact: str) -> None:
        if self._is_first_report(request, setting):
            _LOGGER.warning("%s: %s %s", self._http.endpoint.provider, setting, fact)

    def _is_first_report(self, request: ModelRequest, omitted: str) -> bool:
        key = (request.conversation_id, omitted)
        is_first = key not in self._reported
        self._reported.add(key)
        return is_first

    def _advise_images(self) -> str:
        """Return the advice for a user whose model may accept images; "" if they are sent."""
        return ""

    def _choose_rendering(self, request: ModelRequest) -> RenderingT:
        """Return the kept rendering of the conversation, or an empty one if it no longer fits."""
        rendering = self._renderings.get(request.context)
        fresh = self._make_rendering() if rendering is None else rendering.make_empty()
        self._prepare_rendering(fresh, request.model)

        if (
            rendering is None
            or rendering.items > len(request.context)
            or rendering.appended != fresh.appended
            or rendering.media.rules != fresh.media.rules
            or rendering.host != self._host_mark
        ):
            rendering = fresh

        self._keep_rendering(request.context, rendering)
        return rendering

    def _watch_prompt(
        self,
        request: ModelRequest,
        body: RequestBody,
        events: AsyncGenerator[ProviderEvent, None],
    ) -> AsyncGenerator[ProviderEvent, None]:
        """Add a notice to `events` if the server cut the prompt, once in a conversation."""
        software = self._http.endpoint.local

        may_cut = self.counts_whole_prompt and (software or is_local(self._http.endpoint.url))
        key = (request.conversation_id, _PROMPT)
        if not (may_cut and request.is_turn) or key in self._reported:
            return events

        sent = count_least_tokens(body.messages)
        if sent < MIN_SENT_TOKENS:
            return events

        advice = advise_context(software)
        return watch_prompt(
            events, sent=sent, advice=advice, on_cut=lambda: self._reported.add(key)
        )

    def _recover_or_locate(
        self, error: ProviderError, request: ModelRequest, rendering: RenderingT
    ) -> ProviderEvent | None:
        event = self._recover(error, request, rendering)
        if event is None and is_media_refusal(error):
            event = self._omit_media(error, request, rendering)
        named = _NAMED_MESSAGE.search(str(error))
        if event is None and named is not None and error.status in (400, 422):
            error.item = self._find_item(int(named[1]), request)
        return event

    def _omit_media(
        self, error: ProviderError, request: ModelRequest, rendering: RenderingT
    ) -> ProviderEvent | None:
        """Return a `Retry` without images or PDFs that the server may have refused."""
        built = self._build_body(request, rendering, self._make_answer_schema(request))
        omitted = self._refused_media.omit(error, request, built.body.messages)
        if not omitted:
            return None

        names = [name_medium(image) for image in omitted]
        if request.is_turn:  # the notice replaces the warning
            self._reported.update((request.conversation_id, name) for name in names)

        listed = ", ".join(names)
        notice = f"⚠ {format_refusal(error)}. The request is sent again without {listed}."
        return Retry(error.without_address, notice=notice)

    def _find_item(self, message: int, request: ModelRequest) -> int | None:
        """Return the item of the context that is in the message number `message` of a request."""
        context = request.context
        whole = self._render_once(request)
        built = self._build_body(request, whole, self._make_answer_schema(request))
        messages_before = len(built.body.messages) - len(whole.encode(context))
        place = message - messages_before

        def count_messages(items: int) -> int:
            return len(self._render_once(replace(request, context=context.until(items))).messages)

        item = bisect_right(range(1, len(context) + 1), place, key=count_messages)
        return item if place >= 0 and item < len(context) else None

    def _stream_body(
        self, request: ModelRequest, body: bytes, decoder: Decoder, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        # Yield the bytes of the response, which go to `decoder`.
        return self._http.post(body, url=self._get_url(request), headers=headers)

    def _get_url(self, request: ModelRequest) -> str:
        return self._http.endpoint.url

    def _keep_rendering(self, context: RequestContext, rendering: RenderingT) -> None:
        rendering.provider = self._http.endpoint.provider
        self._renderings.pop(context, None)
        self._renderings[context] = rendering
        if len(self._renderings) > MAX_RENDERINGS:
            del self._renderings[next(iter(self._renderings))]
        rendering.host = self._host_mark
        rendering.update(context)

    @property
    def _host_mark(self) -> str:
        return LastHost.of(urlsplit(self._http.endpoint.url).netloc).mark

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that `stream` would send."""
        rendering = self._render_once(request)
        built = self._build_body(request, rendering, self._make_answer_schema(request))
        body = built.body

        lines = [f"{setting}: {reason}" for setting, reason in built.omitted.items()]
        sent = self._http.preview(
            body.encode(), url=self._get_url(request), headers=body.headers, omitted=lines
        )

        hidden = ((name, encode_utf8(sent.hide(part.decode()))) for name, part in body.parts())

        front = keep_first_head(request, rendering.appended)
        return replace(
            sent,
            parts=tuple(hidden),
            front=front,
            changes=tuple(rendering.list_changes()),
            members=body.content_members,
        )

    def _render_once(self, request: ModelRequest) -> RenderingT:
        """Return a rendering of the request that is not kept, for a preview, a count, or a batch.

        It is made from the kept one of the conversation, which has the parts that the API refused.
        """
        known = (
            rendering
            for context, rendering in self._renderings.items()
            if _is_prefix(request.context, of=context)
        )
        cached = next(known, None)
        rendering = self._make_rendering() if cached is None else cached.make_empty()

        self._prepare_rendering(rendering, request.model)
        rendering.provider = self._http.endpoint.provider
        rendering.host = self._host_mark
        rendering.update(request.context)
        return rendering

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask the server for the number of input tokens of `request`; see `Provider`."""
        rendering = self._render_once(request)
        body = self._build_body(request, rendering, self._make_answer_schema(request)).body
        query = self._make_count_query(request, body)
        if query is None:
            raise ProviderError(f"{self._http.endpoint.provider} {NO_COUNT}.")
        query = replace(query, headers=body.headers)
        return await fetch_token_count(self._http, query, model=request.model, seconds=seconds)

    def open_batches(self) -> ModelBatches | None:
        """Return the batch API of the server; None if it has none that jp_nb knows."""
        return None

    def _write_whole_answers(
        self, split: Callable[[WireObject], Sequence[WireObject]]
    ) -> WholeAnswers:
        """Return the functions with which batches write requests, and read whole answers.

        `split` returns the messages that a stream would have sent for a whole answer.
        """

        def make_decoder(request: ModelRequest) -> Decoder:
            rendering = self._render_once(request)
            return self._make_decoder(request, rendering, self._make_answer_schema(request), b"")

        return WholeAnswers(self._encode_whole, make_decoder, split)

    def _encode_whole(self, request: ModelRequest) -> WireObject:
        """Return the body of a request whose answer is not streamed."""
        rendering = self._render_once(request)
        built = self._build_body(request, rendering, self._make_answer_schema(request))
        fields: WireObject = json.loads(built.body.encode())
        return {name: value for name, value in fields.items() if name not in _STREAM_FIELDS}

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        """Return the query for the tokens of `request`; None if the API has none."""
        return None

    def _make_answer_schema(self, request: ModelRequest) -> AnswerSchema | None:
        """Return the schema of a structured answer as it is sent; None for text.

        Raises:
            UsageError: The schema is nested too deeply, or the API cannot enforce it.
        """
        if request.schema is None:
            return None

        if is_deeper(dict(request.schema), MAX_SCHEMA_LEVELS):
            raise UsageError(
                "the schema of the answer cannot be sent to the model: more than "
                f"{MAX_SCHEMA_LEVELS} objects and lists are nested in it. Define parts of it "
                "under `$defs`, and refer to them with `$ref`."
            )
        return self._adapt_schema(request.schema)

    def _build_body(
        self, request: ModelRequest, rendering: RenderingT, answer: AnswerSchema | None
    ) -> _BuiltRequest:
        settled = rendering.settle(request)
        attached = self._format_attachments(settled.attachments)
        omitted: Omitted = {}
        body = self._encode_body(settled, rendering, attached, answer, omitted)
        return _BuiltRequest(body, {**attached.omitted, **rendering.media.omitted}, omitted)

    @property
    def address(self) -> str:
        """Return the address of the server."""
        return self._http.endpoint.url

    def check_ready(self, model: str, text: str) -> None:
        """Check the key and the address.

        Raises:
            ProviderError: The key is missing.
            ConfigError: The address is not valid.
        """
        self._http.check_ready()

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()


def _is_prefix(context: RequestContext, *, of: RequestContext) -> bool:
    last = len(context) - 1
    return 0 <= last < len(of) and of.items[last].entry is context.items[last].entry
