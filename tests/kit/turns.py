"""Parts of a turn, as `jp.last` and the log show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jp_nb.record import outcomes, turn_view
from tests.kit import _words

TURN_VALUES: Mapping[str, type[Any]] = {
    "text": turn_view.TurnText,
    "tool_call": turn_view.ToolCall,
    "inquiry": turn_view.Inquiry,
    "outcome": outcomes.QuestionOutcome,
    "config_change": turn_view.ConfigChange,
}


def turn_value(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return a part of a turn: `turn_value("text", "Hi.", by_person=True)`."""
    return _words.find(TURN_VALUES, kind)(*values, **fields)
