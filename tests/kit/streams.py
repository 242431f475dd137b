"""The streamed responses of model servers, from their bytes to events and entries."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Self

import jp_nb as jp
from jp_nb.agent.model_requests.response_builder import ResponseBuilder
from jp_nb.providers.anthropic.anthropic_decoder import AnthropicDecoder
from jp_nb.providers.anthropic.anthropic_schemas import adapt_for_anthropic
from jp_nb.providers.google.google_generate_decoder import GenerateDecoder
from jp_nb.providers.google.google_interactions_decoder import InteractionsDecoder
from jp_nb.providers.google.google_schemas import adapt_for_google
from jp_nb.providers.key_redactor import KeyRedactor
from jp_nb.providers.openai.chat_profiles import PROFILES
from jp_nb.providers.openai.openai_chat_decoder import ChatDecoder
from jp_nb.providers.openai.openai_responses_decoder import ResponsesDecoder
from jp_nb.providers.openai.openai_schemas import adapt_for_openai
from jp_nb.providers.request_parts.call_rules import ANTHROPIC_CALLS
from jp_nb.providers.request_parts.parameter_names import ParameterNames
from jp_nb.providers.response_parts.stream_decoder import Decoder, StreamDecoder
from jp_nb.providers.response_parts.streaming import stream_events
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, adapt_for_json_mode
from tests.kit.kinds import select_kind

Piece = bytes | Mapping[str, Any] | list[Any]
"""Bytes of a body, or a JSON value that the server sends as an event."""


class StreamReader:
    """Read a response piece by piece, as the provider of its `api` does.

    An `api` is `anthropic`, `responses`, `interactions`, `generate`, `chat`, or `chat/PROVIDER` for
    a server that differs from OpenAI's. With a `schema`, the answer is structured. `tools` are the
    definitions of the tools that the request offered. The `key` of the request is hidden.

    Attributes:
        events: All events so far, as `model_event` makes them.
        error: The error that ended `read`.
    """

    def __init__(
        self,
        api: str,
        *,
        schema: Mapping[str, Any] | None = None,
        request: bytes = b"",
        tools: Sequence[Any] = (),
        max_response_bytes: int = 0,
        key: str = "",
    ) -> None:
        self.events: list[Any] = []
        self.error: jp.ProviderError | None = None
        self._stream = StreamDecoder(
            _make_decoder(api, schema, request, tools),
            provider="p",
            max_response_bytes=max_response_bytes,
            redactor=KeyRedactor(key),
        )

    def feed(self, *pieces: Piece) -> list[Any]:
        """Return the events that `pieces` complete. `events` has those before an error."""
        start = len(self.events)
        for piece in pieces:
            data = piece if isinstance(piece, bytes) else _encode_event(piece)
            for event in self._stream.feed(data):
                self.events.append(event)
        return self.events[start:]

    def finish(self) -> list[Any]:
        """Return the events at the end of the body, or raise the error of an incomplete one."""
        start = len(self.events)
        for event in self._stream.finish():
            self.events.append(event)
        return self.events[start:]

    def read(self, pieces: Iterable[Piece], *, has_end: bool = True) -> Self:
        """Read `pieces`, and the end of the body unless it is still open. Keeps the error."""
        try:
            for piece in pieces:
                self.feed(piece)
                if self.is_finished:
                    return self
            if has_end:
                self.finish()
        except jp.ProviderError as exc:
            self.error = exc
        return self

    def iter_chunks(
        self, chunks: AsyncGenerator[bytes, None], *, idle_timeout: float = 1
    ) -> AsyncGenerator[Any, None]:
        """Yield the events of a body whose `chunks` come from a connection."""
        return stream_events(chunks, self._stream, idle_timeout=idle_timeout)

    @property
    def is_finished(self) -> bool:
        """True if the response is complete."""
        return self._stream.events.finished

    @property
    def entries(self) -> list[Any]:
        """The complete entries of the record that the events make."""
        return self._build()[0]

    @property
    def valid_calls(self) -> list[Any]:
        """The calls of the entries whose arguments are valid."""
        return self._build()[1]

    @property
    def problems(self) -> list[str]:
        """The errors in the arguments of calls, and the names of calls that are not complete."""
        return self._build()[2]

    def _build(self) -> tuple[list[Any], list[Any], list[str]]:
        builder = ResponseBuilder()
        found = [builder.feed(event) for event in self.events]
        entries = [entry for entry in found if entry is not None]
        unfinished = builder.list_unfinished_calls()

        calls = select_kind(entries, "tool_call_request")
        valid = [call for place, call in enumerate(calls) if place not in builder.bad_arguments]
        return entries, valid, [*builder.bad_arguments.values(), *unfinished]


def _encode_event(message: Any) -> bytes:
    """Return the JSON `message` as an event of a stream."""
    return b"data: %b\n\n" % json.dumps(message).encode()


def _make_decoder(
    api: str, schema: Mapping[str, Any] | None, request: bytes, tools: Sequence[Any]
) -> Decoder:
    answer: AnswerSchema | None = None
    name, _, server = api.partition("/")

    if name == "chat":
        profile = PROFILES[server or "openai"]
        if schema is not None:
            adapt = profile.answer or adapt_for_json_mode
            answer = adapt(schema)
        return ChatDecoder(profile, answer, request=request, tools=[tool.name for tool in tools])

    if name == "responses":
        if schema is not None:
            answer = adapt_for_openai(schema)
        return ResponsesDecoder("openai", answer, request=request)

    if name == "anthropic":
        if schema is not None:
            answer = adapt_for_anthropic(schema)
        names = {tool.name: ParameterNames.of(tool, ANTHROPIC_CALLS) for tool in tools}
        return AnthropicDecoder(answer, request=request, parameter_names=names)

    make_decoder = {"interactions": InteractionsDecoder, "generate": GenerateDecoder}[name]
    if schema is not None:
        answer = adapt_for_google(schema)
    return make_decoder(answer, request=request)
