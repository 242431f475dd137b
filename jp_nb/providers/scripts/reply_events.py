"""Provider events for the replies of a script, as a server would stream them.

A reply has output items: its reasoning, its text, and its calls. Each event has the `index` of its
item. A `Flush` ends an item, which then becomes an entry of the record with this `metadata`. An
item without a `Flush` is incomplete.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import (
    Finished,
    Flush,
    ProviderEvent,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
)
from jp_nb.errors import ProviderError
from jp_nb.providers.response_parts.answer_text import AnswerText
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.schemas.answer_schemas import pass_schema
from jp_nb.providers.scripts.script_format import Reply, Script

_PIECES: Final = 3
"""Number of pieces of a text that is streamed at once."""
_WORD: Final = re.compile(r"\s*\S+|\s+$")


def make_inquiry_events(
    script: Script, question: str, request: ModelRequest
) -> Iterator[ProviderEvent]:
    """Yield the events of the response to a `question` of a tool, by the key of its inquiry.

    Raises:
        ProviderError: The script has no answer.
    """
    if question not in script.inquiries:
        known = ", ".join(repr(key) for key in sorted(script.inquiries)) or "none"
        raise ProviderError(
            f"the script {script.name!r} has no answer to the question {question!r} "
            f"of a tool; its [inquiries] have {known}"
        )
    data: dict[str, JsonValue] = {"answer": script.inquiries[question]}

    # The schema of some requests wants the id of the inquiry back.
    match request.schema:
        case {"properties": {"inquiry_id": {"const": constant}}}:
            data = {"inquiry_id": constant, **data}

    yield TextPart(0, "structured", json.dumps(data, ensure_ascii=False))
    yield Flush(0)
    yield Finished()


def make_reply_events(
    reply: Reply,
    number: int,
    metadata: Mapping[str, JsonValue],
    schema: Mapping[str, JsonValue] | None = None,
) -> Iterator[ProviderEvent]:
    """Yield the events of the reply with this `number`, before the end of its response.

    Each entry of the reply gets `metadata`. Its usage is an event, too. With a `schema`, a text is
    streamed as the answer of a server that does not enforce it. A reply that is an error leaves its
    entries incomplete.
    """
    slow = reply.chunk_ms is not None  # `ScriptedProvider` waits after each piece
    index = 0
    texts: list[tuple[Literal["message", "reasoning", "structured"], str | None]] = [
        ("reasoning", reply.reasoning),
        ("message", reply.text),
    ]

    if "data" in reply.model_fields_set:
        texts.append(("structured", json.dumps(reply.data, ensure_ascii=False)))

    for kind, text in texts:
        if text:
            pieces = _split_text(text, slow=slow)
            if kind == "message" and schema is not None:
                yield from _find_answer(index, pieces, schema)
            else:
                yield from (TextPart(index, kind, piece) for piece in pieces)
            if reply.error is None:
                yield Flush(index, metadata)
            index += 1

    for call_number, call in enumerate(reply.tool_calls, start=1):
        yield ToolCallStart(index, f"call_{number}_{call_number}", call.name)
        yield ToolCallArguments(index, json.dumps(call.arguments, ensure_ascii=False))
        if reply.error is None:
            yield Flush(index, metadata)
        index += 1

    if reply.usage is not None:
        yield reply.usage


def _find_answer(
    index: int, pieces: Sequence[str], schema: Mapping[str, JsonValue]
) -> Iterator[ProviderEvent]:
    """Yield the events of a structured answer from a server that does not enforce its schema.

    Such an answer may have text around its data. As in the decoders of such servers, `AnswerText`
    tells both apart, and adds the events to the buffer.
    """
    answer = AnswerText(pass_schema(schema))  # the schema itself, not a server's form of it
    buffer = EventBuffer()
    for piece in pieces:
        answer.feed(index, piece, buffer)
        yield from buffer.take()

    answer.finish(index, buffer)
    yield from buffer.take()


def _split_text(text: str, *, slow: bool) -> list[str]:
    """Return the pieces in which a text is streamed: its words, or a few equal pieces."""
    if slow:
        return _WORD.findall(text)
    size = -(-len(text) // _PIECES)  # rounded up
    return [text[start : start + size] for start in range(0, len(text), size)]
