"""Builds entries from what a provider streams.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.model_events import (
    Flush,
    ProviderEvent,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.json_values import read_json
from jp_nb.record.events import ChatResponse, Entry, ToolCallRequest

TextKind = Literal["message", "reasoning", "structured"]


@dataclass(slots=True)
class _Buffer:
    kind: TextKind | Literal["tool"]
    parts: list[str] = field(default_factory=list)
    id: str = ""
    name: str = ""


class ResponseBuilder:
    """Builds one model response, item by item.

    Attributes:
        usage: Tokens as reported so far.
        bad_arguments: Parse errors of arguments that were no JSON object, by the number of the
            tool call among those of the response (from 0): ids may come twice.
        without_arguments: The numbers of the tool calls for which not a character came.
        ignored: How many parts did not belong where they came.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.bad_arguments: dict[int, str] = {}
        self.without_arguments: set[int] = set()
        self._calls = 0
        self.ignored = 0
        self._open: dict[int, _Buffer] = {}

    def feed(self, event: ProviderEvent) -> Entry | None:
        """Take one event; return the finished entry, if it completes one."""
        if isinstance(event, TextPart):
            buffer = self._buffer(event.index, event.kind)
            if buffer is not None:
                buffer.parts.append(event.text)
        elif isinstance(event, ToolCallArguments):
            buffer = self._buffer(event.index, "tool")
            if buffer is not None:
                buffer.parts.append(event.text)
        elif isinstance(event, ToolCallStart):
            buffer = self._buffer(event.index, "tool")
            if buffer is not None:
                buffer.id, buffer.name = buffer.id or event.id, buffer.name or event.name
        elif isinstance(event, Flush):
            buffer = self._open.pop(event.index, None)
            return None if buffer is None else self._entry(buffer, event.metadata)
        elif isinstance(event, Usage):
            given = {f.name: v for f in fields(event) if (v := getattr(event, f.name)) is not None}
            self.usage = replace(self.usage, **given)
        return None

    def _buffer(self, index: int, kind: TextKind | Literal["tool"]) -> _Buffer | None:
        buffer = self._open.get(index)
        if buffer is None:
            buffer = self._open[index] = _Buffer(kind)
        if buffer.kind != kind:
            self.ignored += 1
            return None
        return buffer

    def finish(self) -> tuple[list[Entry], list[str]]:
        """Return what was not flushed: texts as entries, and the names of unfinished tool calls."""
        unfinished = [b.name for b in self._open.values() if b.kind == "tool"]
        return self._as_they_stand("message", "reasoning", "structured"), unfinished

    def peek(self) -> list[Entry]:
        """Return the texts as they stand, for an answer that broke off.

        Never a tool call and never structured data: half of one is none.
        """
        return self._as_they_stand("message", "reasoning")

    def _as_they_stand(self, *kinds: TextKind) -> list[Entry]:
        texts = [buffer for _, buffer in sorted(self._open.items()) if buffer.kind in kinds]
        entries = [self._entry(buffer, {}) for buffer in texts]
        return [entry for entry in entries if entry is not None]

    def _entry(self, buffer: _Buffer, metadata: Mapping[str, JsonValue]) -> Entry | None:
        text, stored = "".join(buffer.parts), dict(metadata)
        if buffer.kind == "message":
            return ChatResponse(message=text, metadata=stored) if text.strip() else None
        if buffer.kind == "reasoning":
            return ChatResponse(reasoning=text, metadata=stored) if text or stored else None
        if buffer.kind == "structured":
            return ChatResponse(data=_json_or_text(text), metadata=stored)
        self._calls += 1
        return ToolCallRequest(
            id=buffer.id,
            name=buffer.name,
            arguments=self._arguments(self._calls - 1, text),
            metadata=stored,
        )

    def _arguments(self, number: int, text: str) -> dict[str, JsonValue]:
        if not text.strip():
            self.without_arguments.add(number)
            return {}
        try:
            value = read_json(text)
        except ValueError as exc:
            self.bad_arguments[number] = f"The arguments are not JSON: {exc}"
            return {}
        if not isinstance(value, dict):
            self.bad_arguments[number] = "The arguments are not a JSON object."
            return {}
        return value


class Seam:
    """Takes away what a continued answer repeats of the text before it.

    Args:
        before: The answer so far.
    """

    LOOKED_AT = 500
    SHORTEST = 5

    def __init__(self, before: str) -> None:
        self._before = before[-self.LOOKED_AT :]
        self._held = ""
        self._open = True

    def feed(self, text: str) -> str:
        """Return what is new of the text so far; "" while that cannot be told."""
        if not self._open:
            return text
        self._held += text
        place = self._before.find(self._held)
        may_repeat_more = 0 <= place < len(self._before) - len(self._held)
        return "" if may_repeat_more else self.rest()

    def rest(self) -> str:
        """Return what is new of the text that was held back; none is held back any more."""
        self._open, held, self._held = False, self._held, ""
        for size in range(min(len(held), len(self._before)), self.SHORTEST - 1, -1):
            if self._before.endswith(held[:size]) and not held[:size].isspace():
                return held[size:]
        return held


def _json_or_text(text: str) -> JsonValue:
    try:
        return read_json(text)
    except ValueError:
        return text
