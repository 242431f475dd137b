"""Exchanges with a model, and cassettes that hold them."""

from __future__ import annotations

from pathlib import Path

from jp_nb.agent.asked_request import AskedRequest
from jp_nb.agent.exchange import BrokeOff, End, Exchange, Failed
from jp_nb.agent.model_events import (
    Finished,
    Flush,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.workspace.cassette_writer import CassetteWriter
from tests.support.asked_requests import SPEC, asked, changed

ANSWER: tuple[ProviderEvent, ...] = (
    Usage(input_tokens=10),
    TextPart(0, "message", 'Sunny — \u2028 "and" 24 °C\n'),
    Flush(0, {"signature": "c2ln", "deep": [{"a": None}]}),
    ToolCallStart(1, "call_1", "weather"),
    ToolCallArguments(1, '{"city": "Bern"}'),
    Flush(1),
)


def requests() -> list[AskedRequest]:
    """Return a first request, the same again, one with more messages, and one to another model."""
    first = {**SPEC, "message": SPEC["message"][:1]}
    return [asked(first), asked(first), asked(SPEC), asked(changed(SPEC, ("model",), "haiku"))]


def exchanges() -> list[Exchange]:
    """Return the requests with an answer each: failed, finished, to be retried, broken off."""
    ends: tuple[End, ...] = (
        Failed("busy", "rate_limit", 429, 20.0),
        Finished(),
        Retry("stale", drop_metadata="signature"),
        BrokeOff(),
    )
    return [Exchange(each, ANSWER, end) for each, end in zip(requests(), ends, strict=True)]


def written(path: Path, *given: Exchange) -> Path:
    """Write a cassette of `given`, or of `exchanges`, to `path`."""
    writer = CassetteWriter(path)
    for each in given or exchanges():
        writer.add(each)
    return path
