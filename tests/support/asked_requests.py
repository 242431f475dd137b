"""Normalized requests from plain JSON, and their exchanges on a cassette."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jp_nb as jp
from tests.kit.cassettes import CassetteFile
from tests.kit.kinds import make
from tests.kit.models import model_event
from tests.kit.records import new_event

INQUIRY_KEY = "inquiry"


Place = tuple[str | int, ...]
SPEC: dict[str, Any] = {
    "model": "opus",
    "tool choice": "auto",
    "parameter": {
        "max_tokens": 1000,
        "temperature": 0.1,
        "reasoning": {"effort": "low"},
        "stop_words": ["END", "ÄÖ"],
        "other": {"seed": 7},
    },
    "schema": {"type": "object", "properties": {"answer": {"type": "string"}}},
    "system text": ["You are helpful.", "Line one.\nLine two.\n" * 30 + "end"],
    "attachment": [
        {"source": "notes.md", "type": "text/plain", "text": "Delft\nBern"},
        {"source": "plan.png", "type": "image/png", "bytes": "PNG bytes"},
    ],
    "tool": [
        {
            "name": "weather",
            "description": "Tell the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
        {"name": "clock", "description": "Tell the time.", "parameters": {"type": "object"}},
    ],
    "message": [
        {"user": "How will it be in Bern?", "image": "a picture"},
        {"reasoning": "Two calls.", "signature": "c2ln", "provider": "anthropic"},
        {"said": "Let me see."},
        {"call": "weather", "id": "call_1", "arguments": {"city": "Bern", "days": 3}},
        {"call": "clock", "id": "call_1", "arguments": {}},
        {"result": "Bern: sun\nand 24 °C", "id": "call_1"},
        {"error": "No clock.", "id": "call_1", "image": "another picture"},
        {"data": {"answer": [1, 2.5, True, None, "x"]}},
        {"user": "Thanks."},
    ],
}
"""A request with one of each part."""
IDS = ("id",)
"""Keys whose values are not part of the normalized request."""


def asked(spec: dict[str, Any], provider: str = "anthropic") -> Any:
    """Return the normalized request of `spec`."""
    return CassetteFile.normalize(model_request(spec), provider)


def model_request(spec: dict[str, Any]) -> Any:
    """Return the request to a model that `spec` describes."""
    parameters = deepcopy(spec["parameter"])
    parameters["stop_words"] = tuple(parameters["stop_words"])
    return make(
        "model_request",
        model=spec["model"],
        context=make("request_context", [_item(message) for message in spec["message"]]),
        system=tuple(spec["system text"]),
        attachments=tuple(map(_attachment, spec["attachment"])),
        tools=tuple(make("tool_definition", **tool) for tool in spec["tool"]),
        tool_choice=spec["tool choice"],
        parameters=make("parameters", **parameters),
        schema=spec["schema"],
        conversation_id="jp-c1",
    )


def _attachment(spec: dict[str, str]) -> Any:
    content = spec["bytes"].encode() if "bytes" in spec else spec["text"]
    return make("attachment", spec["source"], spec["type"], content)


def _item(spec: dict[str, Any]) -> Any:
    images = (jp.Image("image/png", spec["image"].encode(), "figure"),) if "image" in spec else ()
    by = spec.get("provider", "anthropic")
    match spec:
        case {"user": text}:
            mark = {INQUIRY_KEY: spec["inquiry"]} if "inquiry" in spec else {}
            asked = new_event("chat_request", content=text, metadata={"cell_id": "c", **mark})
            return make("context_item", asked, by, images)
        case {"reasoning": text, "signature": signature}:
            return make(
                "context_item",
                new_event("chat_response", reasoning=text, metadata={"signature": signature}),
                by,
            )
        case {"said": text}:
            return make("context_item", new_event("chat_response", message=text), by)
        case {"call": name, "id": id_, "arguments": arguments}:
            return make(
                "context_item",
                new_event("tool_call_request", id=id_, name=name, arguments=arguments),
                by,
            )
        case {"result": text, "id": id_}:
            return make(
                "context_item",
                new_event("tool_call_response", id=id_, content=text, is_error=False),
                by,
                images,
            )
        case {"error": text, "id": id_}:
            return make(
                "context_item",
                new_event("tool_call_response", id=id_, content=text, is_error=True),
                by,
                images,
            )
    return make("context_item", new_event("chat_response", data=spec["data"]), by)


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Yield the path of each text and number in `value` that is part of the request."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in IDS:
                yield from places(each, (*above, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from places(each, (*above, number))
    elif value is not None:
        yield above


def at(spec: Any, place: Place) -> Any:
    """Return the part of `spec` at `place`."""
    for key in place:
        spec = spec[key]
    return spec


def changed(spec: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """Return a copy of `spec` with another `value` at `place`."""
    copy = deepcopy(spec)
    at(copy, place[:-1])[place[-1]] = value
    return copy


# --- exchanges --------------------------------------------------------------------------------

ANSWER: tuple[Any, ...] = (
    model_event("usage", input_tokens=10),
    model_event("text", 0, "message", 'Sunny — \u2028 "and" 24 °C\n'),
    model_event("flush", 0, {"signature": "c2ln", "deep": [{"a": None}]}),
    model_event("call_start", 1, "call_1", "weather"),
    model_event("call_arguments", 1, '{"city": "Bern"}'),
    model_event("flush", 1),
    model_event("input_change", "prefix", is_dropped=False, mark="c2ln"),
)


def requests() -> list[Any]:
    """Return a request, the same again, one with more messages, and one for another model."""
    first = {**SPEC, "message": SPEC["message"][:1]}
    return [asked(first), asked(first), asked(SPEC), asked(changed(SPEC, ("model",), "haiku"))]


def exchanges() -> list[Any]:
    """Return each request with a response: failed, finished, to be retried, incomplete."""
    ends: tuple[Any, ...] = (
        make("failed_response", "busy", "rate_limit", 429, 20.0),
        model_event("finished"),
        model_event("retry", "stale", drop_metadata="signature"),
        make("incomplete_response"),
    )
    return [make("exchange", each, ANSWER, end) for each, end in zip(requests(), ends, strict=True)]


def write_cassette(path: Path, *given: Any) -> Path:
    """Write a cassette with `given`, or with `exchanges`, to `path`."""
    writer = CassetteFile(path).writer()
    for each in given or exchanges():
        writer.add(each)
    return path
