"""Settings of the compaction of long conversations, and the bounds of a range of turns.

Source: `docs/configuration.md`, `docs/record.md` (RFD 064).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from jp_nb.config.tree.base import ConfigTable, Count, Merge, before, describe_found, table
from jp_nb.config.tree.model_settings import ModelChoice

BoundKind = Literal["count", "turn", "from_end", "duration", "last"]

_SECONDS: Final = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
    "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
}  # fmt: skip
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}\s*[a-z]+\s*)+")
_PART: Final = re.compile(r"([0-9]{1,9})\s*([a-z]+)")
LAST_COMPACTION: Final = "last-compaction"
_EXPECTED: Final = (
    "expected a number of turns, `@N` (turn N, counted from 1), `-N` (N turns before the last), "
    "or a duration such as `5h`"
)


@dataclass(frozen=True, slots=True)
class TurnBound:
    """One end of a range of turns.

    The meaning of `amount` depends on `kind`:

    | kind | written | amount |
    |---|---|---|
    | `count` | `3` | number of turns to keep |
    | `turn` | `@3` | number of the turn itself, counted from 0: here 2 |
    | `from_end` | `-3` | number of turns before the last |
    | `duration` | `5h` | seconds |
    | `last` | `last-compaction` | none: the bound is the turn after the newest compaction |
    """

    kind: BoundKind
    amount: float = 0


def parse_bound(text: str, *, may_be_last: bool = True) -> TurnBound:
    """Return the bound for `text`."""
    word = text.strip().lower()

    if word in ("last", LAST_COMPACTION) and may_be_last:
        return TurnBound("last")
    if _WHOLE.fullmatch(word):
        return TurnBound("count", int(word))
    if word[:1] == "-" and _WHOLE.fullmatch(word[1:]):
        return TurnBound("from_end", int(word[1:]))
    if word[:1] == "@" and _WHOLE.fullmatch(word[1:]) and int(word[1:]):
        return TurnBound("turn", int(word[1:]) - 1)

    parts = _PART.findall(word) if len(word) <= 80 and _DURATION.fullmatch(word) else []
    if not parts or not all(unit in _SECONDS for _, unit in parts):
        or_last = f", or `{LAST_COMPACTION}`" if may_be_last else ""
        raise ValueError(f"{_EXPECTED}{or_last}, {describe_found(text)}")
    return TurnBound("duration", sum(int(count) * _SECONDS[unit] for count, unit in parts))


def _normalize_bound(value: Any, *, may_be_last: bool) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{_EXPECTED}, {describe_found(value)}")

    bound = parse_bound(value, may_be_last=may_be_last)
    return LAST_COMPACTION if bound.kind == "last" else value.strip().lower()


FirstBound = Annotated[str, before(lambda value: _normalize_bound(value, may_be_last=True))]
LastBound = Annotated[str, before(lambda value: _normalize_bound(value, may_be_last=False))]


ToolCalls = Literal["strip", "strip-responses", "strip-requests", "omit"]
_SHORT: Final = {"s": "strip", "sres": "strip-responses", "sreq": "strip-requests", "o": "omit"}


def parse_tool_calls(value: Any) -> Any:
    """Return the long spelling of `tool_calls`; other values are not changed."""
    if not isinstance(value, str):
        return value
    return _SHORT.get(value, value.replace("_", "-"))


class SummaryConfig(ConfigTable):
    """A summary that replaces turns in the context."""

    model: ModelChoice = table()
    instructions: str | None = None
    """Instructions for the model that writes the summary."""
    context: str | None = None
    """The purpose of the summary. It is added to the instructions."""


class CompactionRule(ConfigTable):
    """A rule for a range of turns. Each rule makes one entry in the record."""

    keep_first: FirstBound = "1"
    """Start of the range: a number of turns to keep, `@N` for turn N (from 1), `-N` for N turns
    before the last, a duration such as `5h`, or `last-compaction`."""
    keep_last: LastBound = "1"
    """End of the range: as `keep_first`, without `last-compaction`."""
    reasoning: Literal["strip"] | None = None
    """`strip` to omit reasoning. It has no effect with a summary."""
    tool_calls: Annotated[ToolCalls | None, before(parse_tool_calls)] = None
    """Omit the arguments and results of tool calls, one of them, or with `omit` the calls as well.
    It has no effect with a summary."""
    summary: SummaryConfig | None = None


class AutoCompaction(ConfigTable):
    """Limits that start a compaction before a turn. 0 means no limit."""

    max_tokens: Count = 0
    """Maximum number of tokens of a request, by estimate."""
    max_turns: Count = 0
    """Maximum number of turns that are sent whole."""

    @property
    def is_on(self) -> bool:
        """True if there is a limit."""
        return self.max_tokens > 0 or self.max_turns > 0


class CompactionConfig(ConfigTable):
    """Compaction of long conversations."""

    rules: Annotated[list[CompactionRule], Merge("append", annotated=True)] = Field(
        default_factory=list
    )
    """The rules. Without a rule, reasoning and the arguments and results of tool calls are
    omitted."""
    auto: AutoCompaction = table()

    @property
    def effective_rules(self) -> tuple[CompactionRule, ...]:
        """The configured rules, or the default rules."""
        return tuple(self.rules) or (CompactionRule(reasoning="strip", tool_calls="strip"),)
