"""Collect the reasoning details of OpenRouter, which later requests send back.

A detail is an object with a text, a summary, or encrypted data. A long one arrives in pieces, which
have the same type and index:

    {"type": "reasoning.text", "index": 0, "text": "First, "}
    {"type": "reasoning.text", "index": 0, "text": "I look.", "signature": "…"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

REASONING_DETAILS_KEY: Final = "openrouter_reasoning_details"
"""Metadata key of a response for its reasoning details."""
_GROWING_FIELDS: Final = ("text", "summary", "data")
"""Fields of a reasoning detail that arrive in pieces."""


class ReasoningDetails:
    """The details of one reasoning, in the order in which they began."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []

    def add(self, piece: Mapping[str, Any]) -> int:
        """Add a detail, or a piece of the last one; return its number of characters."""
        if self._details and _continues(piece, self._details[-1]):
            _extend(self._details[-1], piece)
        else:
            self._details.append(dict(piece))

        texts = (value for value in piece.values() if isinstance(value, str))
        return sum(map(len, texts))

    def make_metadata(self) -> dict[str, JsonValue]:
        """Return the metadata of the reasoning; {} without details."""
        return {REASONING_DETAILS_KEY: [*self._details]} if self._details else {}


def _continues(piece: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """Return True if `piece` is a piece of the `last` detail: both have the same type and index."""
    return all(piece.get(key) == last.get(key) for key in ("type", "index"))


def _extend(last: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for key, value in piece.items():
        if key in _GROWING_FIELDS and isinstance(value, str):
            last[key] = (last.get(key) or "") + value
        elif value is not None:
            last[key] = value
