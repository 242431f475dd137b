"""Settings of compaction: rules, and limits for automatic compaction.

Source: `docs/configuration.md`, `docs/record.md` (RFD 064).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from jp_nb.config.tree.model_config import ModelChoice
from jp_nb.config.tree.node import ConfigTable, Count, before, found, table, word
from jp_nb.config.tree.strategy import Merge

# --- bounds ------------------------------------------------------------------------------------

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
LAST: Final = "last-compaction"
_EXPECTED: Final = (
    "expected a number of turns, `@N` (turn N, counted from 1), `-N` (N turns before the last), "
    "or a duration such as `5h`"
)


@dataclass(frozen=True, slots=True)
class TurnBound:
    """One end of the turns that are made shorter.

    Attributes:
        kind: `count` turns are kept; `turn` is the end itself, `amount` its 0-based number;
            `from_end` is so many turns before the last; `duration` is in seconds; `last` is the
            turn behind the newest compaction.
    """

    kind: BoundKind
    amount: float = 0


def read_bound(text: str, *, may_be_last: bool = True) -> TurnBound:
    """Return the bound that `text` means.

    Raises:
        ValueError: If it means none; the message says what is accepted.
    """
    written = text.strip().lower()
    if written in ("last", LAST) and may_be_last:
        return TurnBound("last")
    if _WHOLE.fullmatch(written):
        return TurnBound("count", int(written))
    if written[:1] == "-" and _WHOLE.fullmatch(written[1:]):
        return TurnBound("from_end", int(written[1:]))
    if written[:1] == "@" and _WHOLE.fullmatch(written[1:]) and int(written[1:]):
        return TurnBound("turn", int(written[1:]) - 1)
    seconds = _seconds(written)
    if seconds is None:
        or_last = f", or `{LAST}`" if may_be_last else ""
        raise ValueError(f"{_EXPECTED}{or_last}, {found(text)}")
    return TurnBound("duration", seconds)


def _seconds(written: str) -> float | None:
    """Return the seconds of a duration such as `1h 30m`; None if it is none."""
    if len(written) > 80 or not _DURATION.fullmatch(written):
        return None
    parts = [(int(count), _SECONDS.get(unit)) for count, unit in _PART.findall(written)]
    known = [count * unit for count, unit in parts if unit is not None]
    return sum(known) if len(known) == len(parts) else None


def _bound(value: Any, *, may_be_last: bool) -> str:
    """Return a bound as it is written back: always a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{_EXPECTED}, {found(value)}")
    bound = read_bound(value, may_be_last=may_be_last)
    return LAST if bound.kind == "last" else value.strip().lower()


FirstBound = Annotated[str, before(lambda value: _bound(value, may_be_last=True))]
LastBound = Annotated[str, before(lambda value: _bound(value, may_be_last=False))]

# --- rules -------------------------------------------------------------------------------------

ToolCalls = Literal["strip", "strip-responses", "strip-requests", "omit"]
_SHORT: Final = {"s": "strip", "sres": "strip-responses", "sreq": "strip-requests", "o": "omit"}


def read_tool_calls(value: Any) -> Any:
    """Return a word for what becomes of tool calls in its long spelling; others unchanged."""
    if not isinstance(value, str):
        return value
    return _SHORT.get(value, value.replace("_", "-"))


class SummaryConfig(ConfigTable):
    """A summary that replaces turns in the context.

    Attributes:
        instructions: Instructions for the model that writes the summary.
        context: The purpose of the summary. It is added to the instructions.
    """

    model: ModelChoice = table()
    instructions: str | None = None
    context: str | None = None


class CompactionRule(ConfigTable):
    """A rule for a range of turns. Each rule makes one entry in the record.

    Attributes:
        keep_first: Start of the range: a number of turns to keep, `@N` for turn N (from 1), `-N`
            for N turns before the last, a duration such as `5h`, or `last-compaction`.
        keep_last: End of the range: as `keep_first`, without `last-compaction`.
        reasoning: `strip` to omit reasoning. It has no effect with a summary.
        tool_calls: Omit the arguments and results of tool calls, one of them, or with `omit` the
            calls as well. It has no effect with a summary.
    """

    keep_first: FirstBound = "1"
    keep_last: LastBound = "1"
    reasoning: Annotated[Literal["strip"], word(Literal["strip"])] | None = None
    tool_calls: Annotated[ToolCalls, word(ToolCalls), BeforeValidator(read_tool_calls)] | None = (
        None
    )
    summary: SummaryConfig | None = None


@cache
def default_rules() -> tuple[CompactionRule, ...]:
    """Return what counts where nobody configured a rule; made late: that builds its model."""
    return (CompactionRule(reasoning="strip", tool_calls="strip"),)


class AutoCompaction(ConfigTable):
    """Limits that start a compaction before a turn. 0 means no limit.

    Attributes:
        max_tokens: Maximum number of tokens of a request, by estimate.
        max_turns: Maximum number of turns that are sent whole.
    """

    max_tokens: Count = 0
    max_turns: Count = 0

    @property
    def is_on(self) -> bool:
        """True if there is a bound."""
        return self.max_tokens > 0 or self.max_turns > 0


class CompactionConfig(ConfigTable):
    """Compaction of long conversations.

    Attributes:
        rules: The rules. Without a rule, reasoning and the arguments and results of tool calls are
            omitted.
    """

    rules: Annotated[list[CompactionRule], Merge("append", annotated=True)] = Field([])
    auto: AutoCompaction = table()

    @property
    def in_force(self) -> tuple[CompactionRule, ...]:
        """The rules that count."""
        return tuple(self.rules) or default_rules()
