"""Projections of conversations over given configurations."""

from __future__ import annotations

from typing import Any

from jp_nb.config.layers import Layer
from jp_nb.record.config_history import Projection
from jp_nb.record.stream import ConversationStream
from tests.support.entries import T

NAMED: dict[str, Any] = {"user": {"name": "Ada"}}


def delta(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "config_delta", "timestamp": T, "delta": value}


def projection(
    stream: ConversationStream, *below: dict[str, Any], trusted: bool = True
) -> Projection:
    return Projection(
        stream, lambda: [Layer("below", partial) for partial in below], trusted=trusted
    )
