"""Settings of the compaction of long conversations.

A compaction omits parts of earlier turns from the requests, or replaces them by a summary. The
record keeps them.

Source: `docs/configuration.md`, `docs/record.md` (RFD 064).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from jp_nb.config.tree.base import ConfigTable, table
from jp_nb.config.tree.merge_rules import Merge
from jp_nb.config.tree.model_settings import ModelChoice
from jp_nb.config.tree.turn_bounds import LAST_COMPACTION, make_bound_error, parse_bound
from jp_nb.config.tree.value_checks import Count, before


def _normalize_bound(value: Any, *, allows_last: bool) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise make_bound_error(value)

    bound = parse_bound(value, allows_last_compaction=allows_last)
    return LAST_COMPACTION if bound.kind == "last" else value.strip().lower()


FirstBound = Annotated[str, before(lambda value: _normalize_bound(value, allows_last=True))]
LastBound = Annotated[str, before(lambda value: _normalize_bound(value, allows_last=False))]


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
