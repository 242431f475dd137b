"""Convert the events of a recorded response to JSON and back, for cassettes.

    {"event": "text", "index": 0, "kind": "message", "text": "Hello"}
    {"end": "finished"}

The tables name all events that a cassette has. `PrefixLoss` and `PromptCut`, which are about the
transmission of one request, and `KeepAlive` are not recorded.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final, Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from jp_nb.agent.model_requests.recorded_exchange import End, FailedResponse, IncompleteResponse
from jp_nb.agent.provider_events import (
    Finished,
    Flush,
    InputChange,
    OmittedFiles,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.storable_json import make_storable

# The stored names of events, and of ends.
_EVENTS: Final[Mapping[str, type[Any]]] = {
    "text": TextPart,
    "call": ToolCallStart,
    "arguments": ToolCallArguments,
    "flush": Flush,
    "usage": Usage,
    "input-change": InputChange,
    "omitted-files": OmittedFiles,
}
_ENDS: Final[Mapping[str, type[Any]]] = {
    "finished": Finished,
    "retry": Retry,
    "failed": FailedResponse,
    "broke-off": IncompleteResponse,
}
_TYPES: Final[Mapping[str, type[Any]]] = {**_EVENTS, **_ENDS}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}


def event_to_json(event: ProviderEvent | End) -> JsonObject:
    """Return `event` as JSON: its name, and all values that are not the default."""
    key = "event" if type(event) in _EVENTS.values() else "end"
    name = _NAMES[type(event)]
    attributes = _make_adapter(name).dump_python(event, exclude_defaults=True)
    stored = make_storable({key: name, **attributes})
    assert isinstance(stored, dict)
    return stored


@cache
def _make_adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[name])


def event_from_json(value: Mapping[str, JsonValue], key: Literal["event", "end"]) -> Any:
    """Return the event or the end of a response in `value`, whose name is at `key`.

    Raises:
        ValueError: `value` is not valid. The message says why.
    """
    table = _EVENTS if key == "event" else _ENDS
    kind_name = value.get(key)
    kind = table.get(kind_name) if isinstance(kind_name, str) else None
    if kind is None:
        raise ValueError(f"expected one of {', '.join(table)} at `{key}`")

    attributes = {name: item for name, item in value.items() if name != key}
    known = {field.name for field in fields(kind)}
    unknown = sorted(attributes.keys() - known)
    if unknown:
        raise ValueError(f"unknown key `{unknown[0][:60]}` in `{kind_name}`")

    # Strict, as JSON: a number in place of a text is an error, and a list is accepted for a tuple.
    try:
        return _make_adapter(str(kind_name)).validate_json(compact_json(attributes), strict=True)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (kind_name, *first["loc"])))
        raise ValueError(f"{place}: {first['msg']}") from None
