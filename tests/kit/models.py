"""The two sides of a model: what a request has, and what a provider streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from jp_nb.agent.model_requests.response_builder import ResponseBuilder
from jp_nb.record.request_context.head_marks import mark_head
from tests.kit import _words
from tests.kit.kinds import is_kind, make


def model_event(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return an event of a streamed response: `model_event("text", 0, "message", "Hi.")`."""
    return _words.find(_words.MODEL_EVENTS, kind)(*values, **fields)


def record_response(
    request: Any, provider: str, response: Iterable[Any], *, record: Any = None
) -> list[Any]:
    """Add a response to the context of its request, or to the `record` of a turn, as a turn does.

    The `response` has events of a stream, or complete entries. Returns its entries.
    """
    builder = ResponseBuilder()
    entries: list[Any] = []
    for each in response:
        is_entry = is_kind(each, "chat_response", "tool_call_request")
        entry = each if is_entry else builder.feed(each)
        if entry is not None:
            entries.append(entry)

    context = request.context
    entries[:1] = [mark_head(entry, request.head, context.head) for entry in entries[:1]]
    if record is not None:
        record.add(*entries)
        return entries

    for entry in entries:
        context.note_head(entry)
        context.add(entry, provider)
    return entries


class EventProvider:
    """A provider that streams one list of events per request.

    It raises the exceptions in a list, and awaits the functions.

    Attributes:
        requests: The requests, with the entries of the context at that time.
        closed: How many streams were closed.
    """

    def __init__(self, *scripts: Sequence[Any]) -> None:
        self._scripts = list(scripts)
        self.requests: list[tuple[Any, list[Any]]] = []
        self.closed = 0

    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        self.requests.append((request, [item.entry for item in request.context]))
        if not self._scripts:
            raise AssertionError("the test expects no further request")
        try:
            for step in self._scripts.pop(0):
                if isinstance(step, Exception):
                    raise step
                if callable(step):
                    await step()
                else:
                    yield step
        finally:
            self.closed += 1

    def preview(self, request: Any) -> Any:
        return make("sent_request", "", "nowhere", {}, b"{}")

    @property
    def address(self) -> str:
        return ""

    def check_ready(self, model: str, text: str) -> None:
        return None

    def check_schema(self, schema: Mapping[str, Any]) -> None:
        return None

    async def count_tokens(self, request: Any, *, seconds: float) -> int:
        return 0

    async def models(self, *, seconds: float) -> Any:
        return make("model_list")

    async def aclose(self) -> None:
        return None
