"""Rules of compaction: which turns, and what is left out of them.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from jp_nb.config.tree import durations
from jp_nb.config.tree.model_config import ModelChoice
from jp_nb.config.tree.node import ConfigTable, before, found, word
from jp_nb.config.tree.strategy import Merge

LAST_COMPACTION = "last-compaction"
_TURN = re.compile(r"@0*[1-9][0-9]*")
_TURNS = re.compile(r"-?[0-9]+")


def _bound(value: Any, *, first: bool) -> str:
    """A bound as it is written: `2`, `@3`, `-1`, `5h`, and at the start `last-compaction`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        text = value.strip().lower()
        if _TURNS.fullmatch(text):
            return str(int(text)) if text.lstrip("-0") else "0"
        if _TURN.fullmatch(text):
            return f"@{int(text[1:])}"
        if first and text in ("last", LAST_COMPACTION):
            return LAST_COMPACTION
        if duration := durations.canonical(text):
            return duration
        if re.fullmatch(r"@0+", text):
            raise ValueError("turns count from 1: @0 is none, expected @1 or a later one")
    also = f", or {LAST_COMPACTION}" if first else ""
    raise ValueError(
        "expected a number of turns, @N (the turn N), -N (N turns before the last), a duration "
        f"such as 5h{also}, {found(value)}"
    )


def _first_bound(value: Any) -> str:
    return _bound(value, first=True)


def _last_bound(value: Any) -> str:
    return _bound(value, first=False)


ToolCallsPolicy = Literal["strip", "strip-responses", "strip-requests", "omit"]
_SHORT = {"s": "strip", "sres": "strip-responses", "sreq": "strip-requests", "o": "omit"}


def _tool_calls(value: Any) -> Any:
    return _SHORT.get(value, value) if isinstance(value, str) else value


class SummaryConfig(ConfigTable):
    """A text by a model in place of what it sums up."""

    model: ModelChoice | None = None
    instructions: str | None = None
    context: str | None = None


ReasoningPolicy = Literal["strip"]


class Rule(ConfigTable):
    """What is left out of the turns between two bounds. A summary replaces them whole."""

    keep_first: Annotated[str, before(_first_bound)] = "1"
    keep_last: Annotated[str, before(_last_bound)] = "1"
    reasoning: Annotated[ReasoningPolicy | None, word(ReasoningPolicy)] = None
    tool_calls: Annotated[
        ToolCallsPolicy | None, word(ToolCallsPolicy, ", or s, sres, sreq, o"), before(_tool_calls)
    ] = None
    summary: SummaryConfig | None = None


def default_rules() -> list[Rule]:
    """What is compacted as long as nobody configures other rules."""
    return [Rule(reasoning="strip", tool_calls="strip")]


RULES = Merge("append", items="sequence", annotated=True)
