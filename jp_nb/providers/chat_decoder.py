"""Decodes the stream of OpenAI's chat completions into events.

Source: `docs/providers.md`;
https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.model_events import (
    Finished,
    FinishReason,
    Flush,
    ProviderEvent,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.errors import ProviderError
from jp_nb.providers import answer_schema as schemas
from jp_nb.providers.answers import AnswerText, ThinkSplitter, is_json_object
from jp_nb.providers.chat_profiles import Profile
from jp_nb.providers.chat_request import DETAILS
from jp_nb.providers.retry import classify_in_stream
from jp_nb.providers.streaming import WireObject

_REASONING, _ANSWER, _FIRST_CALL = range(3)  # indexes of a response's items
MAX_LOOKS: Final = 100
"""How often the arguments of one call are read to see whether another one begins."""
_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "completed",
    "tool_calls": "completed",
    "function_call": "completed",
    "length": "max_tokens",
    "content_filter": "refused",
}
_FAILURES: Final = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder:
    """Decodes the chunks of one response.

    Calls that a server gives no id have one that the `request`, its body, makes: unique in the
    conversation, since each request of it says more, and the same where it is asked again.
    """

    def __init__(
        self, profile: Profile, schema: schemas.AnswerSchema | None = None, *, request: bytes = b""
    ) -> None:
        self._request = request
        self._name = profile.name
        self._answer = AnswerText(schema)
        self._splitter = ThinkSplitter() if profile.think_tags else None
        self._open: set[int] = set()  # of reasoning and answer: those not flushed
        self._calls: list[_Call] = []
        self._by_wire_index: dict[int, _Call] = {}
        self._details: list[dict[str, Any]] = []
        self._refusal: list[str] = []
        self._finish_reason: str | None = None
        self._native_reason: str | None = None
        self._beside = 0

    @property
    def held(self) -> int:
        """Characters that were taken and are in no event yet."""
        return self._answer.held + self._beside

    @property
    def complete(self) -> bool:
        """True if the answer is complete: nothing but counts and the end mark is missing."""
        return self._finish_reason is not None

    def feed(self, message: WireObject) -> list[ProviderEvent]:
        """The events that `message`, a chunk, gives; see `streaming.Decoder`."""
        if message.get("error"):
            raise classify_in_stream(message["error"], provider=self._name)
        out: list[ProviderEvent] = []
        if choices := message.get("choices"):
            self._choice(choices[0], out)
        if usage := message.get("usage"):
            out.append(_usage(usage))
        return out

    def finish(self) -> list[ProviderEvent]:
        """The last events; a response is complete if it has a finish reason."""
        if self._finish_reason is None:
            raise ProviderError(
                f"the response of {self._name} ended before it was complete", kind="transient"
            )
        reason = _FINISH.get(self._finish_reason, "other")
        if self._refusal:
            return [Finished("refused", "".join(self._refusal))]
        word = self._native_reason or self._finish_reason
        return [Finished(reason, word if reason in ("other", "refused") else None)]

    def _choice(self, choice: WireObject, out: list[ProviderEvent]) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            self._reasoning(thought, out)
        if details := delta.get("reasoning_details"):
            self._reasoning_details(details, out)
        if text := delta.get("content"):
            if self._splitter is None:
                self._text(text, out)
            else:
                self._pieces(self._splitter.feed(text), out)
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
            self._beside += len(refusal)
        if calls := delta.get("tool_calls"):
            for call in calls:
                self._call(call, out)
        if call := delta.get("function_call"):
            self._call({"index": 0, "function": call}, out)
        if reason := choice.get("finish_reason"):
            self._native_reason = choice.get("native_finish_reason")
            self._end(reason, choice, out)

    def _reasoning(self, text: str, out: list[ProviderEvent]) -> None:
        if _REASONING not in self._open:
            self._close(out)
            self._open.add(_REASONING)
        out.append(TextPart(_REASONING, "reasoning", text))

    def _text(self, text: str, out: list[ProviderEvent]) -> None:
        if _ANSWER not in self._open:
            self._close(out)
            self._open.add(_ANSWER)
        out.extend(self._answer.part(_ANSWER, text))

    def _pieces(self, pieces: Sequence[tuple[str, str]], out: list[ProviderEvent]) -> None:
        for kind, text in pieces:
            if kind == "reasoning":
                self._reasoning(text, out)
            else:
                self._text(text, out)

    def _reasoning_details(
        self, details: Sequence[dict[str, Any]], out: list[ProviderEvent]
    ) -> None:
        """Keep OpenRouter's details, pieces of one item joined, to be sent back with the call."""
        if _REASONING not in self._open:
            self._reasoning("", out)  # encrypted reasoning has no text: give it a place
        for detail in details:
            self._beside += sum(len(v) for v in detail.values() if isinstance(v, str))
            last = self._details[-1] if self._details else {}
            if (last.get("type"), last.get("index")) != (detail.get("type"), detail.get("index")):
                self._details.append(dict(detail))
                continue
            for key, value in detail.items():
                if key in ("text", "summary", "data") and isinstance(value, str):
                    last[key] = (last.get(key) or "") + value
                elif value is not None:
                    last[key] = value

    def _close(self, out: list[ProviderEvent]) -> None:
        """Complete the reasoning or text that came before something else."""
        if _REASONING in self._open:
            metadata: dict[str, JsonValue] = {DETAILS: [*self._details]} if self._details else {}
            self._details = []
            out.append(Flush(_REASONING, metadata))
        if _ANSWER in self._open:
            out.extend(self._answer.complete(_ANSWER))
            out.append(Flush(_ANSWER))
        self._open.clear()

    def _own_id(self, index: int) -> str:
        digest = sha256(b"%d " % index + self._request)
        return f"call_{digest.hexdigest()[:32]}"

    def _call(self, delta: WireObject, out: list[ProviderEvent]) -> None:
        """A part of a tool call, found by its `index` or, without one, by its id."""
        function = delta.get("function") or {}
        id_, name = delta.get("id") or "", function.get("name") or ""
        wire_index = delta.get("index")
        if wire_index is not None:
            call = self._by_wire_index.get(wire_index)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or self._is_another(call, id_, name, has_index=wire_index is not None):
            self._close(out)
            call = _Call(_FIRST_CALL + len(self._calls), self._own_id)
            self._calls.append(call)
            if wire_index is not None:
                self._by_wire_index[wire_index] = call
        arguments = function.get("arguments") or ""
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        given = call.receive(id_, name, arguments)
        if not given:
            self._beside += len(arguments)
        out.extend(given)

    @staticmethod
    def _is_another(call: _Call, id_: str, name: str, *, has_index: bool) -> bool:
        if not id_ or id_ == call.id:
            return False
        # Some servers give every call index 0: a named one behind a complete one is new.
        return not has_index or (bool(name) and call.is_complete())

    def _end(self, reason: str, choice: WireObject, out: list[ProviderEvent]) -> None:
        if self._splitter is not None:
            self._pieces(self._splitter.finish(), out)
        self._close(out)
        if reason in _FAILURES:
            error = choice.get("error") or {"code": 503, "message": f"finish reason {reason}"}
            raise classify_in_stream(error, provider=self._name)
        cut = _FINISH.get(reason) == "max_tokens"
        for call in self._calls:
            if not call.name:
                raise ProviderError(f"{self._name} called a tool without a name", kind="transient")
            if not cut or is_json_object("".join(call.arguments)):
                out.append(Flush(call.index))
        self._calls.clear()
        self._finish_reason = reason


class _Call:
    """A tool call that is being received. The first id and name count."""

    def __init__(self, index: int, own_id: Callable[[int], str]) -> None:
        self.index = index
        self._own_id = own_id
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self._looks = 0

    def is_complete(self) -> bool:
        """Return True if the arguments are an object; False after too many looks in vain."""
        self._looks += 1
        return self._looks <= MAX_LOOKS and is_json_object("".join(self.arguments))

    def receive(self, id_: str, name: str, arguments: str) -> list[ProviderEvent]:
        """The events of a part; none before the name is known."""
        self.id = self.id or id_
        if arguments:
            self.arguments.append(arguments)
        if self.name:
            return [ToolCallArguments(self.index, arguments)] if arguments else []
        if not name:
            return []
        self.name = name
        self.id = self.id or self._own_id(self.index)
        before = "".join(self.arguments)
        start = ToolCallStart(self.index, self.id, name)
        return [start, ToolCallArguments(self.index, before)] if before else [start]


def _usage(usage: WireObject) -> Usage:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        reasoning_tokens=completion.get("reasoning_tokens"),
        cache_read_tokens=prompt.get("cached_tokens", usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=prompt.get("cache_write_tokens"),
    )
