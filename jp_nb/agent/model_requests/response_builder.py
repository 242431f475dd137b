"""Build the entries of one model response from the events that a provider streams.

A response consists of output items, such as a text and two tool calls. Each event belongs to the
item with its `index`. An item is complete after its `Flush`, and becomes one entry of the record.

Source: `docs/providers.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Finished,
    Flush,
    InputChange,
    ProviderEvent,
    Retry,
    TextKind,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.errors import ProviderError
from jp_nb.json_values import read_json, replace_surrogates, split_json_objects
from jp_nb.record.entries.events import ChatResponse, Entry, ToolCallRequest
from jp_nb.record.entries.shapes import add_shape
from jp_nb.text import one_line


@dataclass(slots=True)
class _Buffer:
    kind: TextKind | Literal["tool"]
    parts: list[str] = field(default_factory=list)
    id: str = ""
    name: str = ""


MAX_SENT_CHARS: Final = 300
"""Length of the quoted arguments in the error of a call whose arguments are not JSON."""


class ResponseBuilder:
    """Builds one model response, item by item.

    Tool calls are numbered from 0, because ids may repeat.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.input_changes: list[InputChange] = []
        self.finished: Finished | None = None
        self.retry: Retry | None = None
        self.bad_arguments: dict[int, str] = {}  # parse errors, by number of the call
        self.without_arguments: set[int] = set()  # calls without any argument text
        self._call_count = 0
        self._open: dict[int, _Buffer] = {}

    def feed(self, event: ProviderEvent) -> Entry | None:
        """Add one event; return the entry that it completes, if any."""
        match event:
            case TextPart():
                self._add_text(event.index, event.kind, event.text)
            case ToolCallArguments():
                self._add_text(event.index, "tool", event.text)
            case ToolCallStart():
                buffer = self._open_buffer(event.index, "tool")
                if buffer is not None:
                    buffer.id = buffer.id or replace_surrogates(event.id)
                    buffer.name = buffer.name or replace_surrogates(event.name)
            case Flush():
                buffer = self._open.pop(event.index, None)
                return None if buffer is None else self._entry(buffer, event.metadata)
            case Usage():
                counts = {each.name: getattr(event, each.name) for each in fields(event)}
                reported = {name: count for name, count in counts.items() if count is not None}
                self.usage = replace(self.usage, **reported)
            case InputChange():
                self.input_changes.append(event)
            case Finished():
                self.finished = event
            case Retry():
                self.retry = event
        return None

    def end(self) -> Finished | Retry:
        """Return the last event of the response.

        Raises:
            ProviderError: There was none.
        """
        end = self.finished or self.retry
        if end is None:
            raise ProviderError(
                "the response ended before the answer was complete", kind="transient"
            )
        return end

    def _add_text(self, index: int, kind: TextKind | Literal["tool"], text: str) -> None:
        buffer = self._open_buffer(index, kind)
        if buffer is not None:
            buffer.parts.append(text)

    def _open_buffer(self, index: int, kind: TextKind | Literal["tool"]) -> _Buffer | None:
        buffer = self._open.get(index)
        if buffer is None:
            buffer = _Buffer(kind)
            self._open[index] = buffer
        return buffer if buffer.kind == kind else None  # another kind does not fit the item

    def finish(self) -> tuple[list[Entry], list[str]]:
        """Return the texts that were not flushed, and the names of unfinished tool calls."""
        unfinished = [b.name for b in self._open.values() if b.kind == "tool"]
        return self._unflushed_texts("message", "reasoning", "structured"), unfinished

    def peek(self) -> list[Entry]:
        """Return the texts so far of an incomplete response, without JSON, which is incomplete."""
        return self._unflushed_texts("message", "reasoning")

    def _unflushed_texts(self, *kinds: TextKind) -> list[Entry]:
        texts = [buffer for _, buffer in sorted(self._open.items()) if buffer.kind in kinds]
        entries = [self._entry(buffer, {}) for buffer in texts]
        return [entry for entry in entries if entry is not None]

    def _entry(self, buffer: _Buffer, metadata: Mapping[str, JsonValue]) -> Entry | None:
        text = "".join(buffer.parts)
        if buffer.kind == "message":
            stored = add_shape(metadata)
            return ChatResponse(message=text, metadata=stored) if text.strip() else None

        if buffer.kind == "reasoning":
            stored = add_shape(metadata)
            return ChatResponse(reasoning=text, metadata=stored) if text or stored else None

        if buffer.kind == "structured":
            data: JsonValue = text
            with suppress(ValueError):
                data = read_json(text)
            return ChatResponse(data=data, metadata=add_shape(metadata, data=data))

        self._call_count += 1
        arguments = self._parse_arguments(self._call_count - 1, text)
        return ToolCallRequest(
            id=buffer.id,
            name=buffer.name,
            arguments=arguments,
            metadata=add_shape(metadata, arguments=arguments),
        )

    def _parse_arguments(self, number: int, text: str) -> dict[str, JsonValue]:
        if not text.strip():
            self.without_arguments.add(number)
            return {}

        try:
            value = read_json(text)
            if isinstance(value, str):  # some servers encode the text once more
                value = read_json(value) if value.strip() else None
        except ValueError as exc:
            self.bad_arguments[number] = _describe_bad_arguments(text, exc)
            return {}

        if value is None:  # some servers send `null` for a call without arguments
            return {}
        if not isinstance(value, dict):
            self.bad_arguments[number] = "The arguments are not a JSON object."
            return {}
        return value


def _describe_bad_arguments(text: str, error: ValueError) -> str:
    sent = one_line(text, limit=MAX_SENT_CHARS)
    objects = len(split_json_objects(text))
    if objects < 2:
        return f"The arguments are not JSON: {error}. You sent: {sent}"

    count = "two" if objects == 2 else f"several ({objects})"
    return (
        f"The arguments of this call are {count} JSON objects, so it did not run. Make one "
        f"call for each of them. You sent: {sent}"
    )
