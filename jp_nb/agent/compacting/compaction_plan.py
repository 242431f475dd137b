"""Plan a compaction: its steps, and the tokens that it saves.

A compaction makes requests shorter, and leaves the record as it is. A *rule* of the configuration
selects turns, and replaces them by a summary, or omits their reasoning or tool calls. A *step* is
such a rule with the turns that it selects in one conversation.

Source: `docs/record.md`, `docs/turns.md` (RFD 064).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from jp_nb.agent.token_estimates import ContextTokens
from jp_nb.config.tree.compaction_settings import CompactionRule
from jp_nb.config.tree.turn_bounds import TurnBound, parse_bound
from jp_nb.record.compactions.compaction import list_active_compactions
from jp_nb.record.compactions.compaction_range import (
    CompactionBounds,
    TurnRange,
    list_summary_ranges,
    widen_to_summaries,
)
from jp_nb.record.compactions.turn_treatments import list_turn_treatments
from jp_nb.record.entries.events import (
    Compaction,
    Summary,
    ToolCallPolicy,
)
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream


@dataclass(frozen=True, slots=True)
class CompactionStep:
    """Turns that are compacted by a rule."""

    turns: TurnRange
    rule: CompactionRule

    def make_entry(self, summary: str | None = None) -> Compaction:
        """Return the entry for the record, with the `summary` if the rule needs one."""
        first = self.turns.first
        last = self.turns.last
        rule = self.rule

        if rule.summary is not None:
            text = Summary(summary=summary or "")
            return Compaction(from_turn=first, to_turn=last, summary=text)

        calls = None
        setting = rule.tool_calls
        if setting == "omit":
            calls = ToolCallPolicy(policy="omit")
        elif setting is not None:
            # `strip` removes both halves of a call, `strip-requests` and `strip-responses` one.
            strips_request = setting != "strip-responses"
            strips_response = setting != "strip-requests"
            calls = ToolCallPolicy(policy="strip", request=strips_request, response=strips_response)

        return Compaction(from_turn=first, to_turn=last, reasoning=rule.reasoning, tool_calls=calls)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Steps of a compaction, and their estimated effect.

    The text of a new summary is not known yet. The estimate and the outcome use the text of the
    summaries that it replaces.

    Attributes:
        steps: The steps that save tokens, in the order of the rules.
        before: Estimated tokens of the messages before the compaction.
        after: The same after it.
        outcome: The conversation after the compaction.
    """

    steps: tuple[CompactionStep, ...]
    before: int
    after: int
    outcome: ConversationStream

    @property
    def saved_tokens(self) -> int:
        """Estimated number of tokens that the compaction saves."""
        return self.before - self.after


class CompactionPlanner:
    """Estimates the effect of compaction rules on a conversation. Changes nothing.

    Args:
        providers: The provider at the beginning of the conversation, and after each configuration
            change (`Projection.providers`). The context of requests depends on them.
        now: The time for rules that keep turns by their age.
        in_turn: True if the last turn still runs, and is not compacted.
    """

    def __init__(
        self,
        stream: ConversationStream,
        providers: Sequence[str],
        *,
        now: datetime,
        in_turn: bool = False,
    ) -> None:
        self._stream = stream
        self._providers = providers
        self._in_turn = in_turn
        self._bounds = CompactionBounds(stream, now, in_turn=in_turn)
        self._active = list_active_compactions(stream.entries)

    def make_steps(
        self,
        rules: Iterable[CompactionRule],
        *,
        first: TurnBound | None = None,
        last: TurnBound | None = None,
    ) -> list[CompactionStep]:
        """Return a step for each of `rules` that applies. `first` and `last` override bounds."""
        steps: list[CompactionStep] = []
        summaries = list_summary_ranges(self._active)
        has_bounds = first is not None or last is not None

        for rule in rules:
            keep_first = parse_bound(rule.keep_first)
            keep_last = parse_bound(rule.keep_last, allows_last_compaction=False)
            turns = self._bounds.find_between_kept(keep_first, keep_last)
            if has_bounds:  # the user gave them to `%jp compact`; `turns` has a missing one
                turns = self._bounds.find_between(first, last, turns)
            if turns is None:  # the rule keeps all turns
                continue

            # A summary replaces whole summaries: half of one has no text.
            if rule.summary is not None:
                turns = widen_to_summaries(turns, summaries)
                summaries.append(turns)
            steps.append(CompactionStep(turns, rule))

        return steps

    def make_plan(
        self, steps: Iterable[CompactionStep], *, wants_summary: bool = False
    ) -> CompactionPlan:
        """Return a plan with the steps that save tokens.

        `wants_summary` is True if the user asked for these very steps: then a summary is made even
        if it saves nothing.
        """
        outcome = self._stream.until(len(self._stream))  # a copy
        original_size = self._estimate_size(outcome)
        size = original_size
        kept: list[CompactionStep] = []

        for step in steps:
            entry = step.make_entry(_join_summaries(outcome, step.turns))
            outcome.append(entry)
            size_with_step = self._estimate_size(outcome)
            is_wanted = wants_summary and step.rule.summary is not None
            if size_with_step < size or is_wanted:
                kept.append(step)
                size = size_with_step
            else:
                outcome = outcome.until(len(outcome) - 1)  # without the step

        return CompactionPlan(tuple(kept), original_size, size, outcome)

    def _estimate_size(self, stream: ConversationStream) -> int:
        context = build_context(stream, self._providers, in_turn=self._in_turn)
        return ContextTokens().estimate(context)


def _join_summaries(stream: ConversationStream, turns: TurnRange) -> str:
    """Return the text of the current summaries of `turns`, each once."""
    treatments = list_turn_treatments(stream)[turns.first : turns.last + 1]
    # The compaction by whose summary a turn is replaced: one object for all turns of the summary.
    compactions = {
        id(treatment.summary): treatment.summary
        for treatment in treatments
        if treatment.summary is not None
    }
    summaries = [compaction.summary for compaction in compactions.values()]
    return "\n".join(summary.summary for summary in summaries if summary is not None)


def count_uncompacted_turns(stream: ConversationStream) -> int:
    """Return the number of turns without a compaction."""
    # The change in the number of compactions at each turn: 1 where one begins, -1 after its end.
    edges = [0] * (stream.turn_count + 1)
    for placed in list_active_compactions(stream.entries):
        entry = placed.effective  # without turns that had not ended before it: may be empty
        if entry.from_turn <= entry.to_turn:
            edges[entry.from_turn] += 1
            edges[entry.to_turn + 1] -= 1

    counts = accumulate(edges[:-1])
    return sum(count == 0 for count in counts)
