"""Base class of all providers over HTTP: it builds, sends, previews, and repairs requests.

A *dialect* is the protocol of an API, such as Anthropic Messages. Each dialect is a subclass. A
*rendering* has the messages of one conversation in the form of the API, and grows with it
(`messages.py`). The *head* is all that is in front of these messages: instructions, tools, and
attachments. If a later request has another head, an API may let the change be *appended* to the
messages, so that its cache of the beginning stays valid (`first_head.py`).

`stream` goes these steps:

1. Choose the rendering, which has the messages of this conversation (`rendering_cache.py`).
2. Build the body, and report the files and settings that it omits (`omission_reports.py`).
3. Send it (`http.py`), and decode the response (`stream_decoder.py`).
4. After an error, ask the dialect whether another form of the request can succeed (`_recover`). A
   `Retry` event then makes the caller send the request again.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final, Generic

from jp_nb.agent.model_requests.model_batches import ModelBatches
from jp_nb.agent.provider import Attachment, ModelRequest, SentRequest
from jp_nb.agent.provider_events import ProviderEvent, Retry
from jp_nb.errors import ProviderError, UsageError
from jp_nb.json_limits import MAX_SCHEMA_LEVELS, is_deeper
from jp_nb.json_schema import Schema
from jp_nb.providers.batch_api import WholeAnswers
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.network.server_urls import is_local
from jp_nb.providers.network.token_counts import NO_COUNT, CountQuery, fetch_token_count
from jp_nb.providers.request_parts.attachment_parts import FormattedAttachments
from jp_nb.providers.request_parts.first_head import keep_first_head
from jp_nb.providers.request_parts.media_filter import name_medium
from jp_nb.providers.request_parts.media_rules import MediaRules
from jp_nb.providers.request_parts.omission_reports import OmissionReports, Omitted
from jp_nb.providers.request_parts.prefix_watch import PrefixWatch
from jp_nb.providers.request_parts.refused_changes import is_refused_change
from jp_nb.providers.request_parts.refused_media import (
    RefusedMedia,
    format_refusal,
    is_media_refusal,
)
from jp_nb.providers.request_parts.rejected_items import find_rejected_item, read_rejected_index
from jp_nb.providers.request_parts.rendering_cache import RenderingCache, RenderingT
from jp_nb.providers.request_parts.request_body import RequestBody
from jp_nb.providers.response_parts.prompt_cuts import (
    MIN_SENT_TOKENS,
    advise_context,
    count_least_tokens,
    watch_prompt,
)
from jp_nb.providers.response_parts.stream_decoder import Decoder, StreamDecoder, WireObject
from jp_nb.providers.response_parts.streaming import stream_events
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.record.request_context.context import RequestContext
from jp_nb.storable_json import encode_utf8

MAX_ATTACHMENT_LISTS: Final = 2
"""Number of formatted lists of attachments that are kept: of a conversation, and of another."""

_STREAM_FIELDS: Final = frozenset({"stream", "stream_options"})
"""Members of a body that ask for a stream, and that a request of a batch must not have."""
_CUT_PROMPT: Final = "cut prompt"
"""Subject of the report that a server cut the prompt."""


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
    """Provider over HTTP; see `Provider` (`agent/provider.py`) for the public methods.

    A dialect fills in the abstract methods, and `models` and `check_schema` of `Provider`. It may
    extend `_recover`, and override the methods that have a default below, such as `_get_url`.

    Attributes:
        counts_whole_prompt: True if local servers with this API report the number of tokens of the
            prompt that the model read. A smaller number than was sent shows that the prompt was
            cut.
    """

    counts_whole_prompt: ClassVar[bool] = False

    def __init__(
        self,
        endpoint: Endpoint,
        make_rendering: Callable[[], RenderingT],
        format_attachments: Callable[[tuple[Attachment, ...]], FormattedAttachments],
    ) -> None:
        """Make a provider for the server at `endpoint`, without a connection.

        `make_rendering` returns an empty rendering of a conversation, and `format_attachments` the
        attachments of a conversation in the form of the API.
        """
        self._http = HttpClient(endpoint)
        self._renderings = RenderingCache(endpoint, make_rendering, self._prepare_rendering)
        self._format_attachments = lru_cache(MAX_ATTACHMENT_LISTS)(format_attachments)
        self._reports = OmissionReports(endpoint.provider)
        self._prefix_watch = PrefixWatch()
        # Models that have rejected appended changes of the head (`first_head.py`):
        self._models_without_changes: set[str] = set()
        self._refused_media = RefusedMedia()

    # --- methods that a dialect fills in ---------------------------------------------------------

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
        """Return the body of a request.

        Args:
            request: The request, whose head is the one in front of the conversation.
            rendering: Has rendered the context of the request.
            attached: The attachments in the form of the API.
            answer: The schema of a structured answer.
            omitted: Receives the settings that the body omits, each with the reason.
        """

    @abstractmethod
    def _make_decoder(
        self,
        request: ModelRequest,
        rendering: RenderingT,
        answer: AnswerSchema | None,
        body: bytes,
    ) -> Decoder:
        """Return the decoder of the response to `request`, which is sent as `body`.

        `body` is empty for an answer of a batch, whose request was sent earlier.
        """

    # --- methods that a dialect may override -----------------------------------------------------

    def _recover(
        self, error: ProviderError, request: ModelRequest, rendering: RenderingT
    ) -> ProviderEvent | None:
        """Return a `Retry` if another form of the request can succeed after `error`; else None.

        Here, the other form has all changes of the head in front. Dialects know further forms. Each
        form is tried once, so that a server cannot cause endless repairs.
        """
        may_be_refused = rendering.has_changes and request.model not in self._models_without_changes
        if may_be_refused and is_refused_change(error):
            self._models_without_changes.add(request.model)
            return Retry(error.without_address)
        return None

    def _select_appended(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        """Return those of the `parts` of the head that `model` lets a request append.

        `parts` are those that the API can append, by the class of the rendering.
        """
        return frozenset() if model in self._models_without_changes else parts

    def _find_page_limit(self, model: str) -> int | None:
        """Return the maximum number of pages of all PDFs of a request; None if none is known."""
        return None

    def _advise_images(self) -> str:
        """Return the advice for a user whose model may accept images; "" if they are sent.

        A dialect whose servers differ in this overrides it.
        """
        return ""

    def _get_url(self, request: ModelRequest) -> str:
        """Return the address of `request`, which may contain the name of its model."""
        return self._http.endpoint.url

    def _stream_body(
        self, request: ModelRequest, body: bytes, decoder: Decoder, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """Send `body`, and yield the bytes of the response, which go to `decoder`."""
        return self._http.post(body, url=self._get_url(request), headers=headers)

    def _make_count_query(self, request: ModelRequest, body: RequestBody) -> CountQuery | None:
        """Return the query for the tokens of `request`; None if the API has none."""
        return None

    def open_batches(self) -> ModelBatches | None:
        """Return the batch API of the server; None if it has none that jp_nb knows."""
        return None

    # --- requests --------------------------------------------------------------------------------

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream one response."""
        rendering = self._renderings.choose(request)
        answer = self._make_answer_schema(request)
        built = self._build_body(request, rendering, answer)
        body = built.body.encode()
        notices = self._make_notices(request, built)

        decoder = self._make_decoder(request, rendering, answer, body)
        chunks = self._stream_body(request, body, decoder, built.body.headers)
        stream_decoder = StreamDecoder(
            decoder,
            provider=self._http.endpoint.provider,
            max_response_bytes=request.max_response_bytes,
            redactor=self._http.get_redactor(),
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

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the request that `stream` would send."""
        rendering = self._renderings.render_once(request)
        built = self._build_body(request, rendering, self._make_answer_schema(request))
        body = built.body

        lines = [f"{setting}: {reason}" for setting, reason in built.omitted.items()]
        sent = self._http.preview(
            body.encode(), url=self._get_url(request), headers=body.headers, omitted=lines
        )
        parts = [(name, encode_utf8(sent.hide(part.decode()))) for name, part in body.list_parts()]

        # What a display of the request compares: see `SentRequest`.
        return replace(
            sent,
            parts=tuple(parts),
            front=keep_first_head(request, rendering.appended),
            changes=tuple(rendering.list_changes()),
            members=body.content_members,
        )

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Ask the server for the number of input tokens of `request`; see `Provider`."""
        rendering = self._renderings.render_once(request)
        body = self._build_body(request, rendering, self._make_answer_schema(request)).body

        query = self._make_count_query(request, body)
        if query is None:
            raise ProviderError(f"{self._http.endpoint.provider} {NO_COUNT}.")

        query = replace(query, headers=body.headers)
        return await fetch_token_count(self._http, query, model=request.model, seconds=seconds)

    def _build_body(
        self, request: ModelRequest, rendering: RenderingT, answer: AnswerSchema | None
    ) -> _BuiltRequest:
        """Return the body of `request`, whose context `rendering` has rendered."""
        # The same request with the head of the conversation's first one, as far as it is kept.
        settled = rendering.settle(request)
        attached = self._format_attachments(settled.attachments)
        omitted: Omitted = {}
        body = self._encode_body(settled, rendering, attached, answer, omitted)
        return _BuiltRequest(body, {**attached.omitted, **rendering.media.omitted}, omitted)

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

    def _prepare_rendering(self, rendering: RenderingT, model: str) -> None:
        """Set what requests to `model` append and omit. The cache calls it for a new rendering."""
        rendering.appended = self._select_appended(model, type(rendering).appended)
        refused = self._refused_media.of(model)
        rendering.media.rules = MediaRules(refused, self._find_page_limit(model))

    def _make_notices(self, request: ModelRequest, built: _BuiltRequest) -> list[ProviderEvent]:
        """Return the notices for the user about this request, for its cell.

        A request outside of a turn, such as one for a title, has no cell: it writes to the log.
        """
        if not request.is_turn:
            self._reports.log_omissions(request, built.omitted)
            return []

        self._reports.log_omissions(request, built.omitted_settings)
        advice = self._advise_images()
        notices: list[ProviderEvent] = [
            *self._reports.make_notices(request, built.omitted_files, advice)
        ]

        # A notice if the request does not begin as the last one did, so that no cache covers it.
        loss = self._prefix_watch.compare(request, built.body)
        if loss is not None:
            notices.append(loss)
        return notices

    def _watch_prompt(
        self,
        request: ModelRequest,
        body: RequestBody,
        events: AsyncGenerator[ProviderEvent, None],
    ) -> AsyncGenerator[ProviderEvent, None]:
        """Return `events`, with a notice if a local server cut the prompt, once in a conversation.

        Large servers answer with an error instead; see `prompt_cuts.py`.
        """
        software = self._http.endpoint.local
        is_local_server = bool(software) or is_local(self._http.endpoint.url)
        shows_cuts = self.counts_whole_prompt and is_local_server
        if not (shows_cuts and request.is_turn):
            return events
        if self._reports.was_reported(request, _CUT_PROMPT):
            return events

        sent_tokens = count_least_tokens(body.messages)
        if sent_tokens < MIN_SENT_TOKENS:
            return events

        return watch_prompt(
            events,
            sent=sent_tokens,
            advice=advise_context(software),
            on_cut=lambda: self._reports.mark_reported(request, _CUT_PROMPT),
        )

    # --- errors ----------------------------------------------------------------------------------

    def _recover_or_locate(
        self, error: ProviderError, request: ModelRequest, rendering: RenderingT
    ) -> ProviderEvent | None:
        """Return a last event instead of `error`, such as a `Retry`; None if there is none.

        Without one, `error.item` is set to the position of the item that the server rejects, if the
        error names its message. The user then learns which turn to remove.
        """
        event = self._recover(error, request, rendering)
        if event is None and is_media_refusal(error):
            event = self._omit_media(error, request, rendering)
        if event is None:
            self._locate_error(error, request)
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
        if request.is_turn:  # the notice below replaces the warning
            for name in names:
                self._reports.mark_reported(request, name)

        listed = ", ".join(names)
        notice = f"⚠ {format_refusal(error)}. The request is sent again without {listed}."
        return Retry(error.without_address, notice=notice)

    def _locate_error(self, error: ProviderError, request: ModelRequest) -> None:
        """Set `error.item` if the error names a message of the context."""
        message_index = read_rejected_index(error)
        if message_index is None:
            return

        rendering = self._renderings.render_once(request)
        body = self._build_body(request, rendering, self._make_answer_schema(request)).body
        # Messages with attachments or instructions come before those of the context.
        messages_before = len(body.messages) - len(rendering.encode(request.context))

        def count_messages(beginning: RequestContext) -> int:
            shorter = replace(request, context=beginning)
            return len(self._renderings.render_once(shorter).messages)

        error.item = find_rejected_item(
            message_index - messages_before, request.context, count_messages
        )

    # --- batches ---------------------------------------------------------------------------------

    def _make_whole_answers(
        self, split: Callable[[WireObject], Sequence[WireObject]]
    ) -> WholeAnswers:
        """Return the functions with which batches write requests, and read whole answers.

        `split` returns the messages that a stream would have sent for a whole answer.
        """

        def make_decoder(request: ModelRequest) -> Decoder:
            rendering = self._renderings.render_once(request)
            return self._make_decoder(request, rendering, self._make_answer_schema(request), b"")

        return WholeAnswers(encode=self._encode_whole, make_decoder=make_decoder, split=split)

    def _encode_whole(self, request: ModelRequest) -> WireObject:
        """Return the body of a request whose answer is not streamed."""
        rendering = self._renderings.render_once(request)
        built = self._build_body(request, rendering, self._make_answer_schema(request))
        members = built.body.to_dict()
        return {name: value for name, value in members.items() if name not in _STREAM_FIELDS}

    # --- the server ------------------------------------------------------------------------------

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
