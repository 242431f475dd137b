"""Google Gemini: the facts that its two dialects share.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    ModelList,
    ModelRequest,
    ProviderEvent,
    Retry,
    Usage,
)
from jp_nb.errors import ProviderError
from jp_nb.images import Image
from jp_nb.json_schema import Schema, check_references
from jp_nb.providers.answer_schemas import AnswerSchema
from jp_nb.providers.attachment_parts import (
    IMAGE_AND_PDF_TYPES,
    FormattedAttachments,
    encode_content,
    format_attachment_name,
    format_documents_xml,
    split_attachments,
)
from jp_nb.providers.call_rules import GOOGLE_CALLS
from jp_nb.providers.endpoint import Endpoint, Level, parse_reasoning
from jp_nb.providers.errors import classify_stream_error
from jp_nb.providers.event_buffer import EventBuffer
from jp_nb.providers.google_schemas import adapt_for_google
from jp_nb.providers.head_changes import REMOVED_TOOLS, HeadChange
from jp_nb.providers.http_provider import HttpProvider
from jp_nb.providers.messages import Rendering
from jp_nb.providers.model_lists import list_google_models
from jp_nb.providers.request_body import Omitted, RequestBody, WireMessage, encode_json
from jp_nb.providers.stream_decoder import Decoder, WireObject

GOOGLE_NAME: Final = "google"
THOUGHT_SIGNATURE_KEY: Final = "google_thought_signature"
"""Metadata key of an entry for the signature of its reasoning."""
_ASSUMED_MAX_TOKENS: Final = 32_000

_REFUSAL: Final = re.compile(r"safety|blocked|prohibited|recitation|spii|blocklist", re.IGNORECASE)
_LEVELS: Final[Mapping[Level, str]] = {"none": "minimal", "xlow": "minimal", "max": "xhigh"}
_NEAREST_LEVEL: Final[Mapping[str, str]] = {"xhigh": "high", "minimal": "low", "medium": "high"}
"""Level that is sent instead of one that the model does not have."""
# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_STATUS_OF_CODE: Final[Mapping[int, int]] = {
    **{2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400},
    **{10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401},
}


def end_with_error(error: Any) -> Finished:
    """Return the end of a response that its server refused.

    `error` is `{"code": int | str, "message"}`. A code can be a word, a URI that ends in one, an
    HTTP status, or a code of gRPC.

    Raises:
        ProviderError: The error is not a refusal.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    code = fields.get("code")
    message = fields.get("message")

    if isinstance(code, str):
        code = code.rpartition("/")[2]
    elif isinstance(code, int):
        code = _STATUS_OF_CODE.get(code, code)

    if _REFUSAL.search(f"{code} {message}"):
        return Finished("refused", str(message or code))

    word = fields.get("status")
    raise classify_stream_error(
        {"message": message, "code": code, "type": word}, provider=GOOGLE_NAME
    )


def describe_change(change: HeadChange) -> str:
    """Return a text for the model about changed instructions, tools, and attachments.

    The APIs have no messages of the system within a conversation, so it is marked as such.
    """
    said = "\n\n".join(filter(None, (change.instructions(), change.tools(), change.attachments())))
    return f"<system>\n{said}\n</system>" if said.strip() else ""


def name_model(request: ModelRequest) -> str:
    """Return the model's name without the prefix of the list of models."""
    return request.model.removeprefix("models/")


Content = str | tuple[str, str]
"""A text, or the media type and the Base64 of an image or a PDF."""


def list_attachments(attachments: Sequence[Attachment]) -> tuple[list[Content], Omitted]:
    """Return the contents of a message with `attachments`, and the ones that it omits."""
    sent, omitted = split_attachments(attachments, IMAGE_AND_PDF_TYPES)
    xml = format_documents_xml(sent)
    contents: list[Content] = [xml] if xml else []

    for attachment in sent:
        if isinstance(attachment.content, bytes):
            data = attachment.media_type, encode_content(attachment.content)
            contents += [format_attachment_name(attachment), data]
    return contents, omitted


def list_input_contents(text: str, images: Sequence[Image]) -> list[Content]:
    """Return the contents of a message with `text`, if it is not blank, and named `images`."""
    contents: list[Content] = [text] if text.strip() else []
    for image in images:
        contents += [f"[{image.noun}: {image.words}]", (image.media_type, image.text)]
    return contents


class GoogleRendering(Rendering):
    """Messages for Gemini, without their form.

    The API has rejected the signatures of the first `unsigned_items`.
    """

    appended = frozenset({"system", "attachments", REMOVED_TOOLS})

    def __init__(self, unsigned_items: int = 0) -> None:
        super().__init__(GOOGLE_NAME, GOOGLE_CALLS)
        self.has_signatures = False
        self.allowed_tools: list[str] | None = None  # None: all of the request
        self.unsigned_items = unsigned_items

    def make_empty(self) -> Self:
        """Return an empty rendering with the same number of unsigned items."""
        return type(self)(self.unsigned_items)

    def settle(self, request: ModelRequest) -> ModelRequest:
        """Return `request` with its first head. A tool that was removed may not be called."""
        settled = super().settle(request)
        wanted = {tool.name for tool in request.tools}
        names = [tool.name for tool in settled.tools if tool.name in wanted]
        self.allowed_tools = names if len(names) < len(settled.tools) else None
        return settled

    def _may_sign(self) -> bool:
        return self.is_bound and self.items >= self.unsigned_items


MAX_REQUEST_CONTINUATIONS: Final = 5
"""How often a response is continued that reached the limit of one request."""


class ContinuedDecoder(Decoder):
    """Decoder for one response that may take several requests.

    A response that reaches the limit of one request ends with a token. The stream of the next
    request, which contains the token, continues the same response. `usage_fields` are pairs of the
    server's field and a field of `Usage`.
    """

    def __init__(
        self, schema: AnswerSchema | None, usage_fields: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__(schema)
        self._usage_fields = usage_fields
        self._usage: dict[str, int] = {}  # of this request, by the server's field
        self._earlier_usage: dict[str, int] = {}
        self._token = ""
        self._continuations = 0

    def keep_token(self, token: Any) -> bool:
        """Keep the token of an incomplete response; return False if it does not continue."""
        if not token or self._continuations == MAX_REQUEST_CONTINUATIONS:
            return False
        self._continuations += 1
        self._token = str(token)
        self.is_continued = True
        return True

    def begin_continuation(self) -> str:
        """Return the token for the next request, whose stream follows; "" if there is none."""
        token = self._token
        self._token = ""
        self.is_continued = False
        if token:
            self._earlier_usage = self._count_usage()
            self._usage = {}
        return token

    def add_usage(self, usage: WireObject | None, out: EventBuffer) -> None:
        """Add the usage of a request so far. Later numbers replace earlier ones."""
        if usage:
            self._usage.update((key, count) for key, count in usage.items() if type(count) is int)
            out.add(Usage(**self._count_usage()))

    def _count_usage(self) -> dict[str, int]:
        counts = {**self._earlier_usage}
        for theirs, ours in self._usage_fields:
            if theirs in self._usage:
                counts[ours] = counts.get(ours, 0) + self._usage[theirs]
        return counts


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

    def _appended_parts(self, model: str, parts: frozenset[str]) -> frozenset[str]:
        appended = super()._appended_parts(model, parts)
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

        if _REFUSAL.search(text):
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
