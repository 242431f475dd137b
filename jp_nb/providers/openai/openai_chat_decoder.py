"""Decode the streams of Chat Completions.

Each message of a stream, a *chunk*, has the next piece of the answer as the *delta* of a *choice*:

    {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]}
    {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}

Many servers have this API. Their names of fields differ, and they omit parts or send them twice.
`chat_content.py` reads texts, and `call_assembler.py` finds the call of each piece of a call.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from jp_nb.agent.provider_events import Finished, FinishReason, Flush, TextKind, Usage
from jp_nb.providers.network.errors import classify_stream_error
from jp_nb.providers.openai.call_assembler import CallAssembler
from jp_nb.providers.openai.chat_content import join_content_texts, read_content_part
from jp_nb.providers.openai.chat_profiles import Profile
from jp_nb.providers.openai.reasoning_details import ReasoningDetails
from jp_nb.providers.openai.streamed_calls import StreamedCallPiece
from jp_nb.providers.openai.think_tags import ThinkSplitter
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.stream_decoder import Decoder, WireObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

_LOGGER: Final = logging.getLogger(__name__)
_OTHER_CONTENT: Final = frozenset(
    {
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "refusal",
        "tool_calls",
        "function_call",
    }
)
"""Fields of a delta besides its text."""
_REASONING, _ANSWER, _FIRST_CALL = range(3)  # indexes of a response's output items
_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "completed",
    "tool_calls": "completed",
    "function_call": "completed",
    "length": "max_tokens",
    "content_filter": "refused",
}
_FAILURES: Final = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder(Decoder):
    """Decoder for one response of Chat Completions.

    It fills in the methods of `Decoder` (`stream_decoder.py`): `feed` gets the chunks of a server,
    and adds events to `out`. A chunk has *choices*, which are alternative answers. Only the first
    one counts, and its *delta* is the next piece of the answer.

    The response has up to two items besides its calls: the reasoning, and the answer. One of them
    is open at a time, until a `Flush` event ends it. `tools` are the names of the offered tools,
    and `request` is the body of the request.

    Texts of the answer pass `self._answer` of the base class, which tells a message from structured
    data. Data in no event yet counts for the size limit of the response: `out.hold` adds its
    length, and `out.release` takes it away.
    """

    def __init__(
        self,
        profile: Profile,
        schema: AnswerSchema | None = None,
        *,
        request: bytes = b"",
        tools: Collection[str] = (),
    ) -> None:
        super().__init__(schema)
        self._name = profile.name
        self._splitter = ThinkSplitter(has_tags=profile.think_tags)
        self._open_item: int | None = None  # the reasoning or the answer, until it is flushed
        self._calls = CallAssembler(profile.name, _FIRST_CALL, tools=tools, request=request)
        # Choices with another index than 0, which count if no choice has the index 0:
        self._other_choices: list[WireObject] = []
        # Parts of the answer that are kept for a later event:
        self._details = ReasoningDetails()  # of the open reasoning
        self._refusal: list[str] = []  # pieces of the text with which the model refuses
        # What has arrived so far:
        self._has_delta = False
        self._has_text = False
        self._has_unknown_part = False
        # The words of the server, and of the one behind a router:
        self._finish_reason: str | None = None
        self._native_reason: str | None = None

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`, a chunk."""
        if message.get("error"):
            raise classify_stream_error(message["error"], provider=self._name)

        self._calls.begin_message()
        for choice in message.get("choices") or ():
            self._select_choice(choice, out)

        # Groq sends the usage in the member `x_groq`.
        if usage := message.get("usage") or (message.get("x_groq") or {}).get("usage"):
            out.add(_parse_usage(usage))

    def finish(self, out: EventBuffer, *, has_end_mark: bool = False) -> None:
        """Add `Finished` if the response has ended. Otherwise the stream was cut: add nothing.

        A response ends with a finish reason. Some servers send none: then the end mark of the
        stream ends it, if the answer is whole.
        """
        if not self._has_delta:
            self._apply_other_choice(out)

        may_have_ended = self._finish_reason is not None or has_end_mark
        if not may_have_ended:
            return

        for kind, piece in self._splitter.finish():
            self._add_piece(kind, piece, out)
        if self._finish_reason is None and not self._is_answer_whole():
            return

        self._flush_open_item(out)
        wire_reason = self._finish_reason or "stop"
        reason = _FINISH_REASONS.get(wire_reason, "other")
        self._calls.finish(out, is_cut=reason == "max_tokens")
        out.add(self._make_finished(reason, wire_reason))

    def _make_finished(self, reason: FinishReason, wire_reason: str) -> Finished:
        """Return the last event; with the words of the server if they tell more than `reason`."""
        if self._refusal:
            return Finished("refused", "".join(self._refusal))

        needs_detail = reason in ("other", "refused")
        detail = (self._native_reason or wire_reason) if needs_detail else None
        return Finished(reason, detail)

    def _select_choice(self, choice: WireObject | None, out: EventBuffer) -> None:
        """Apply a choice with the index 0, and keep others: a server may send several choices."""
        if choice is None:
            return
        if not choice.get("index"):
            self._apply_choice(choice, out)
        elif not self._has_delta:
            self._other_choices.append(choice)
            out.hold(_measure(choice))

    def _apply_other_choice(self, out: EventBuffer) -> None:
        """Apply the pieces of the first of the kept choices."""
        first_index = self._other_choices[0]["index"] if self._other_choices else None
        for choice in self._other_choices:
            out.release(_measure(choice))  # its text is counted again when it is applied
            if choice["index"] == first_index:
                self._apply_choice(choice, out)

    def _apply_choice(self, choice: WireObject, out: EventBuffer) -> None:
        """Add the delta of a choice, and note its finish reason."""
        delta = choice.get("delta")
        if not delta and not self._has_delta:
            delta = choice.get("message")  # of a server that does not stream

        if delta:
            self._has_delta = True
            if _OTHER_CONTENT.isdisjoint(delta):  # the usual case
                self._add_content(delta.get("content"), out)
            else:
                self._apply_delta(delta, out)

        if reason := choice.get("finish_reason"):
            self._note_end(reason, choice)

    def _apply_delta(self, delta: WireObject, out: EventBuffer) -> None:
        """Add all parts of a delta. The names of their fields are those of several servers."""
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            self._add_thought(join_content_texts(thought), out)
        if details := delta.get("reasoning_details"):
            self._add_reasoning_details(details, out)

        self._add_content(delta.get("content"), out)
        self._add_refusal(delta.get("refusal") or "", out)

        calls = delta.get("tool_calls") or []
        if isinstance(calls, dict):
            calls = [calls]
        for call in calls:
            if call is not None:
                self._apply_call(call, out)

        if call := delta.get("function_call"):
            self._apply_call({"index": 0, "function": call}, out)

    def _add_content(self, content: Any, out: EventBuffer) -> None:
        """Add the content of a delta: a text, or a list of parts."""
        if isinstance(content, str):
            self._add_answer(content, out)
            return
        if content is None:
            return

        parts = content if isinstance(content, list) else [content]
        for part in parts:
            if part is not None:
                self._add_part(part, out)

    def _add_part(self, part: Any, out: EventBuffer) -> None:
        kind, text = read_content_part(part)
        match kind:
            case "message":
                self._add_answer(text, out)
            case "reasoning":
                self._add_thought(text, out)
            case "refusal":
                self._add_refusal(text, out)
            case None if not self._has_unknown_part:
                self._has_unknown_part = True
                _LOGGER.debug("%s sent content that is not text, which is omitted", self._name)

    def _add_answer(self, text: str, out: EventBuffer) -> None:
        """Add text of the answer, which can begin with reasoning between `<think>` tags."""
        if text and self._splitter.is_done:
            self._add_piece("message", text, out)
        elif text:
            for kind, piece in self._splitter.feed(text):
                self._add_piece(kind, piece, out)

    def _add_thought(self, text: str, out: EventBuffer) -> None:
        if text:
            self._add_piece("reasoning", text, out)

    def _add_refusal(self, text: str, out: EventBuffer) -> None:
        if text:
            self._refusal.append(text)
            out.hold(len(text))

    def _add_piece(self, kind: TextKind, text: str, out: EventBuffer) -> None:
        """Add a piece to the item of its kind. The other item is ended if it is open."""
        item = _REASONING if kind == "reasoning" else _ANSWER
        if item != self._open_item:
            self._flush_open_item(out)
            self._open_item = item

        if item == _REASONING:
            out.add_text(item, kind, text)
        else:
            self._has_text = self._has_text or not text.isspace()
            self._answer.feed(item, text, out)

    def _add_reasoning_details(self, details: Sequence[dict[str, Any]], out: EventBuffer) -> None:
        """Keep details of the reasoning, which are sent back, for its metadata."""
        if self._open_item != _REASONING:
            self._add_piece("reasoning", "", out)  # encrypted reasoning needs a part

        for detail in details:
            out.hold(self._details.add(detail))

    def _flush_open_item(self, out: EventBuffer) -> None:
        """End the open item, if there is one."""
        if self._open_item == _REASONING:
            out.add(Flush(_REASONING, self._details.make_metadata()))
            self._details = ReasoningDetails()
        elif self._open_item == _ANSWER:
            self._answer.finish(_ANSWER, out)
            out.add(Flush(_ANSWER))

        self._open_item = None

    def _apply_call(self, call: WireObject, out: EventBuffer) -> None:
        """Add a piece of a call (`call_assembler.py`)."""
        function = call.get("function") or {}
        id_ = call.get("id")
        if id_ is None:
            id_ = ""
        elif type(id_) is int:  # some servers count their calls
            id_ = str(id_)

        name = function.get("name") or ""
        if not (isinstance(id_, str) and isinstance(name, str)):
            raise TypeError  # `StreamDecoder` reports it

        self._flush_open_item(out)
        piece = StreamedCallPiece(
            call.get("index"),
            id_,
            name,
            function.get("arguments"),
            has_empty_name=function.get("name") == "",
        )
        self._calls.add(piece, out)

    def _note_end(self, reason: Any, choice: WireObject) -> None:
        """Keep the finish reason: usage and calls may follow it, so `finish` adds the last event.

        Raises:
            ProviderError: The reason is a failure.
        """
        if not isinstance(reason, str):
            raise TypeError  # `StreamDecoder` reports it
        if reason in _FAILURES:
            error = choice.get("error") or {"code": 503, "message": f"finish reason {reason}"}
            raise classify_stream_error(error, provider=self._name)

        self._finish_reason = reason
        self._native_reason = choice.get("native_finish_reason")
        self.is_complete = True

    def _is_answer_whole(self) -> bool:
        """Return True if the response can end here, although no finish reason has arrived."""
        has_answer = self._has_text or self._refusal or self._calls.calls
        return bool(has_answer) and self._calls.are_whole()


def _measure(choice: WireObject) -> int:
    """Return the number of characters for which a kept choice counts."""
    return len(json.dumps(choice.get("delta")))


def _parse_usage(usage: WireObject) -> Usage:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        reasoning_tokens=completion.get("reasoning_tokens"),
        cache_read_tokens=prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=prompt.get("cache_write_tokens"),
    )
