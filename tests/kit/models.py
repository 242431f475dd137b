"""The two sides of a model: what a request has, and what a provider streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jp_nb.agent.response import ResponseBuilder
from jp_nb.record.head import mark_head
from tests.kit import _words


def model_event(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return an event of a streamed response: `model_event("text", 0, "message", "Hi.")`."""
    return _words.find(_words.MODEL_EVENTS, kind)(*values, **fields)


def request_value(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a request or one of its parts: `request_value("parameters", temperature=0.5)`."""
    return _words.find(_words.REQUEST_VALUES, kind)(*values, **fields)


def record_response(request: Any, provider: str, events: Iterable[Any]) -> list[Any]:
    """Add the entries of a response to the context of its request, as a turn does. Returns them."""
    builder = ResponseBuilder()
    found = [builder.feed(event) for event in events]
    entries = [entry for entry in found if entry is not None]

    context = request.context
    entries[:1] = [mark_head(entry, request.head, context.head) for entry in entries[:1]]
    for entry in entries:
        context.read_head(entry)
        context.add(entry, provider)
    return entries
