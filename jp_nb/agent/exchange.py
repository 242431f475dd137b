"""One exchange with a model: what it was asked, and what came of that, as JSON and back.

Its timing is left out: signs of life are, and pieces of a text that follow each other are one.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from jp_nb.agent.asked_request import AskedRequest, Hide
from jp_nb.agent.model_events import (
    Finished,
    Flush,
    KeepAlive,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.errors import ProtocolError, ProviderError, ProviderErrorKind
from jp_nb.json_values import JsonObject, compact_json, storable


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed, or the response broke off; what `ProviderError` has to say of it."""

    message: str
    kind: ProviderErrorKind = "other"
    status: int | None = None
    retry_after: float | None = None
    is_protocol: bool = False

    def error(self) -> ProviderError:
        """Return the error. Where the same request may succeed later, that is at once."""
        made = ProtocolError if self.is_protocol else ProviderError
        error = made(self.message, kind=self.kind, status=self.status, retry_after=self.retry_after)
        if error.retryable:
            error.retry_after = 0.0  # the server that wanted a pause is not there
        return error


@dataclass(frozen=True, slots=True)
class BrokeOff:
    """The response ended without an end, and without an error."""


End = Finished | Retry | Failed | BrokeOff


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a model was asked, and what came of it.

    Attributes:
        asked: The request.
        events: The response, without its end.
        end: How it ended.
    """

    asked: AskedRequest
    events: tuple[ProviderEvent, ...]
    end: End

    @property
    def has_failed(self) -> bool:
        """True if the model did not answer."""
        return isinstance(self.end, Failed | BrokeOff)


class Listening:
    """Writes down one exchange while it happens.

    Args:
        asked: The request.
        hide: Takes secrets out of a text.
    """

    def __init__(self, asked: AskedRequest, hide: Hide = str) -> None:
        self._asked = asked
        self._hide = hide
        self._events: list[ProviderEvent] = []
        self._texts: list[str] = []

    def hear(self, event: ProviderEvent) -> Exchange | None:
        """Take one event; return the exchange if that ends it."""
        if isinstance(event, Retry):
            event = replace(event, reason=self._hide(event.reason))
        if isinstance(event, (Finished, Retry)):
            return self._ended(event)
        if isinstance(event, KeepAlive):
            return None
        before = self._events[-1] if self._events else None
        if isinstance(event, (TextPart, ToolCallArguments)):
            if before is None or replace(event, text="") != before:
                self._join()
                self._events.append(replace(event, text=""))
            self._texts.append(event.text)
        else:
            self._join()
            self._events.append(event)
        return None

    def _join(self) -> None:
        """Put the text that came into the event that it belongs to."""
        last = self._events[-1] if self._events else None
        if self._texts and isinstance(last, (TextPart, ToolCallArguments)):
            self._events[-1] = replace(last, text="".join(self._texts))
        self._texts.clear()

    def failed(self, error: ProviderError) -> Exchange:
        """Return the exchange that `error` ended."""
        return self._ended(
            Failed(
                self._hide(error.without_address),
                error.kind,
                error.status,
                error.retry_after,
                isinstance(error, ProtocolError),
            )
        )

    def broke_off(self) -> Exchange:
        """Return the exchange that ended without an end."""
        return self._ended(BrokeOff())

    def _ended(self, end: End) -> Exchange:
        self._join()
        return Exchange(self._asked, tuple(self._events), end)


# --- as JSON -----------------------------------------------------------------------------------

_EVENTS: Final[Mapping[str, type[Any]]] = {
    "text": TextPart,
    "call": ToolCallStart,
    "arguments": ToolCallArguments,
    "flush": Flush,
    "usage": Usage,
}
_ENDS: Final[Mapping[str, type[Any]]] = {
    "finished": Finished,
    "retry": Retry,
    "failed": Failed,
    "broke-off": BrokeOff,
}
_NAMES: Final = {kind: name for table in (_EVENTS, _ENDS) for name, kind in table.items()}


def event_json(event: ProviderEvent | End) -> JsonObject:
    """Return `event` as JSON: its name, and what is not as usual."""
    key = "event" if type(event) in _EVENTS.values() else "end"
    said: dict[str, Any] = {key: _NAMES[type(event)]}
    for field in fields(event):
        value = getattr(event, field.name)
        usual = field.default_factory() if field.default_factory is not MISSING else field.default
        if value != usual:
            said[field.name] = dict(value) if isinstance(value, Mapping) else value
    stored = storable(said)
    assert isinstance(stored, dict)
    return stored


def read_event(value: Mapping[str, JsonValue]) -> ProviderEvent:
    """Return the event that `value` is.

    Raises:
        ValueError: If it is none; the message says what is wrong.
    """
    event: ProviderEvent = _read(value, "event", _EVENTS)
    return event


def read_end(value: Mapping[str, JsonValue]) -> End:
    """Return the end that `value` is.

    Raises:
        ValueError: If it is none; the message says what is wrong.
    """
    end: End = _read(value, "end", _ENDS)
    return end


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter({**_EVENTS, **_ENDS}[name])


def _read(value: Mapping[str, JsonValue], key: str, table: Mapping[str, type[Any]]) -> Any:
    name = value.get(key)
    kind = table.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"expected one of {', '.join(table)} at `{key}`")
    said = {each: item for each, item in value.items() if each != key}
    known = {field.name for field in fields(kind)}
    if unknown := sorted(said.keys() - known):
        raise ValueError(f"unknown key `{unknown[0][:60]}` in `{name}`")
    try:
        return _adapter(str(name)).validate_json(compact_json(said), strict=True)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (name, *first["loc"])))
        raise ValueError(f"{place}: {first['msg']}") from None
