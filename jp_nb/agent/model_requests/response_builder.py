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

from jp_nb.agent.provider_events import (
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
from jp_nb.json_reading import read_json, split_json_objects
from jp_nb.record.entries.events import ChatResponse, Entry, ToolCallRequest
from jp_nb.record.entries.shapes import add_shape
from jp_nb.storable_json import replace_surrogates
from jp_nb.text import one_line

MAX_SENT_CHARS: Final = 300
"""Length of the quoted arguments in the error of a call whose arguments are not JSON."""


@dataclass(slots=True)
class _OpenItem:
    """An output item that is not complete. `id` and `name` are those of a tool call."""

    kind: TextKind | Literal["tool"]
    parts: list[str] = field(default_factory=list)
    id: str = ""
    name: str = ""


class ResponseBuilder:
    """Builds one model response, item by item.

    Tool calls are numbered from 0, because ids may repeat.

    Attributes:
        usage: The tokens of the request. A later report of a count replaces the earlier one.
        input_changes: Reports of the server about reasoning in the request.
        finished: The last event of a complete response.
        retry: The last event of a response that asks for another request.
        bad_arguments: Parse errors of arguments, by number of the call.
        without_arguments: Numbers of the calls without any argument text. At the token limit, such
            a call may be incomplete. One with the text `null` is complete.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.input_changes: list[InputChange] = []
        self.finished: Finished | None = None
        self.retry: Retry | None = None
        self.bad_arguments: dict[int, str] = {}
        self.without_arguments: set[int] = set()
        self._call_count = 0
        self._open_items: dict[int, _OpenItem] = {}

    def feed(self, event: ProviderEvent) -> Entry | None:
        """Add one event; return the entry that it completes, if any."""
        match event:
            case TextPart():
                self._add_text(event.index, event.kind, event.text)
            case ToolCallArguments():
                self._add_text(event.index, "tool", event.text)
            case ToolCallStart():
                item = self._get_open_item(event.index, "tool")
                if item is not None:
                    item.id = item.id or replace_surrogates(event.id)
                    item.name = item.name or replace_surrogates(event.name)
            case Flush():
                item = self._open_items.pop(event.index, None)
                return None if item is None else self._make_entry(item, event.metadata)
            case Usage():
                counts = {count.name: getattr(event, count.name) for count in fields(event)}
                reported = {name: count for name, count in counts.items() if count is not None}
                self.usage = replace(self.usage, **reported)
            case InputChange():
                self.input_changes.append(event)
            case Finished():
                self.finished = event
            case Retry():
                self.retry = event
        return None

    def get_end(self) -> Finished | Retry:
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
        item = self._get_open_item(index, kind)
        if item is not None:
            item.parts.append(text)

    def _get_open_item(self, index: int, kind: TextKind | Literal["tool"]) -> _OpenItem | None:
        """Return item `index`, which begins here if it is new; None if it is of another kind."""
        item = self._open_items.get(index)
        if item is None:
            item = _OpenItem(kind)
            self._open_items[index] = item
        return item if item.kind == kind else None

    def list_unfinished_calls(self) -> list[str]:
        """Return the names of the tool calls that were not flushed."""
        return [item.name for item in self._open_items.values() if item.kind == "tool"]

    def make_unflushed_entries(self) -> list[Entry]:
        """Return entries of the texts that were not flushed when the response was complete."""
        return self._make_entries_of("message", "reasoning", "structured")

    def make_partial_entries(self) -> list[Entry]:
        """Return entries of the texts so far of an incomplete response.

        A structured answer is omitted: incomplete JSON has no use.
        """
        return self._make_entries_of("message", "reasoning")

    def _make_entries_of(self, *kinds: TextKind) -> list[Entry]:
        """Return entries of the open items of these kinds, in the order of the items."""
        texts = [item for _, item in sorted(self._open_items.items()) if item.kind in kinds]
        entries = [self._make_entry(item, {}) for item in texts]
        return [entry for entry in entries if entry is not None]

    def _make_entry(self, item: _OpenItem, metadata: Mapping[str, JsonValue]) -> Entry | None:
        """Return the entry of a complete item; None if it is empty.

        `add_shape` notes the order of keys and the spelling of numbers in JSON, so that later
        requests send it exactly as the model wrote it.
        """
        text = "".join(item.parts)
        if item.kind == "message":
            stored = add_shape(metadata)
            return ChatResponse(message=text, metadata=stored) if text.strip() else None

        if item.kind == "reasoning":
            stored = add_shape(metadata)
            # Reasoning without a text has metadata that the provider needs, such as a signature.
            return ChatResponse(reasoning=text, metadata=stored) if text or stored else None

        if item.kind == "structured":
            data: JsonValue = text
            with suppress(ValueError):
                data = read_json(text)
            return ChatResponse(data=data, metadata=add_shape(metadata, data=data))

        self._call_count += 1
        arguments = self._parse_arguments(self._call_count - 1, text)
        return ToolCallRequest(
            id=item.id,
            name=item.name,
            arguments=arguments,
            metadata=add_shape(metadata, arguments=arguments),
        )

    def _parse_arguments(self, number: int, text: str) -> dict[str, JsonValue]:
        """Return the arguments of call `number`; empty ones, and a noted error, if not valid."""
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
