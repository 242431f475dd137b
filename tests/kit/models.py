"""The two sides of a model: what a request has, and what a provider streams."""

from __future__ import annotations

from typing import Any

from tests.kit import _words


def model_event(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return an event of a streamed response: `model_event("text", 0, "message", "Hi.")`."""
    return _words.find(_words.MODEL_EVENTS, kind)(*values, **fields)


def request_value(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a request or one of its parts: `request_value("parameters", temperature=0.5)`."""
    return _words.find(_words.REQUEST_VALUES, kind)(*values, **fields)
