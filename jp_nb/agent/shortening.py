"""Makes what a model is sent of a conversation shorter; the record keeps everything.

Source: `docs/record.md`, `docs/turns.md` (RFD 064), `docs/decisions.md` D128, D130.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import accumulate
from typing import Final

from jp_nb.agent.token_estimate import ThreadTokens
from jp_nb.config.tree.compaction_config import (
    CompactionRule,
    SummaryConfig,
    ToolCalls,
    TurnBound,
    read_bound,
)
from jp_nb.errors import ProviderError
from jp_nb.record.compacted import turn_treatments
from jp_nb.record.compaction_range import (
    CompactionBounds,
    TurnRange,
    summary_ranges,
    with_summaries,
)
from jp_nb.record.compactions import counting, in_one_step
from jp_nb.record.events import Compaction, Summary, ToolCallPolicy, ToolCallResponse
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, ThreadItem, thread_of, thread_of_turns

Summarize = Callable[["Cut", Thread], Awaitable[str]]
"""Has a model sum up the turns of a cut.

Raises:
    ProviderError: If it does not.
    ConfigError: If there is no such model.
"""
LEFT_OUT: Final = "(omitted: the turn is too long)"

_HALVES: Final[dict[ToolCalls, tuple[bool, bool]]] = {
    "strip": (True, True),
    "strip-responses": (False, True),
    "strip-requests": (True, False),
}
"""Whether the request and the response of each call are blanked."""


@cache
def all_summed_up() -> CompactionRule:
    """Return the rule that leaves the model a summary of all that came before."""
    return CompactionRule(keep_first="0", keep_last="0", summary=SummaryConfig())


@dataclass(frozen=True, slots=True)
class Cut:
    """Turns that are to be sent shorter, by a rule."""

    turns: TurnRange
    rule: CompactionRule

    def entry(self, summary: str | None = None) -> Compaction:
        """Return what is recorded of it, with the `summary` if the rule wants one."""
        first, last, rule = self.turns.first, self.turns.last, self.rule
        if rule.summary is not None:
            text = Summary(summary=summary or "")
            return Compaction(from_turn=first, to_turn=last, summary=text)
        calls = None if rule.tool_calls is None else _policy(rule.tool_calls)
        return Compaction(from_turn=first, to_turn=last, reasoning=rule.reasoning, tool_calls=calls)


def _policy(given: ToolCalls) -> ToolCallPolicy:
    """Return what is recorded of a rule for tool calls."""
    if given == "omit":
        return ToolCallPolicy(policy="omit")
    request, response = _HALVES[given]
    return ToolCallPolicy(policy="strip", request=request, response=response)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What is to be made shorter.

    Attributes:
        cuts: Those that make something shorter, in order.
        before: About how many tokens of messages a model is sent now.
        after: And afterwards, where a new summary counts as what it takes the place of that was
            a summary already.
        outcome: The conversation as it would be, without the texts of new summaries.
    """

    cuts: tuple[Cut, ...]
    before: int
    after: int
    outcome: ConversationStream

    @property
    def frees(self) -> int:
        """About how many tokens less there will be."""
        return self.before - self.after


class CompactionPlanner:
    """Says what a conversation comes to if parts of it are made shorter. Changes nothing.

    Args:
        stream: The conversation.
        providers: Those in force in its course (`Projection.providers`).
        now: The time, for rules that go by it.
        in_turn: True if the last turn is under way: it stays as it is.
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
        self._counting = counting(stream.entries)

    def cuts(
        self,
        rules: Iterable[CompactionRule],
        *,
        first: TurnBound | None = None,
        last: TurnBound | None = None,
    ) -> list[Cut]:
        """Return what each of `rules` is about; `first` and `last` count instead of its bounds."""
        found: list[Cut] = []
        summaries = summary_ranges(self._counting)
        for rule in rules:
            kept = self._bounds.kept(
                read_bound(rule.keep_first), read_bound(rule.keep_last, may_be_last=False)
            )
            given = first is not None or last is not None
            turns = self._bounds.given(first, last, kept) if given else kept
            if turns is None:
                continue
            if rule.summary is not None:
                turns = with_summaries(turns, summaries)
                summaries.append(turns)
            found.append(Cut(turns, rule))
        return found

    def plan(self, cuts: Iterable[Cut], *, wants_summary: bool = False) -> CompactionPlan:
        """Return those of `cuts` that make something shorter, and by how much.

        Where somebody `wants_summary`, one is made whatever it frees.
        """
        copy = self._stream.until(len(self._stream))
        before = size = self._size(copy)
        kept: list[Cut] = []
        for cut in cuts:
            copy.append(cut.entry(_summaries_in(copy, cut.turns)))
            after = self._size(copy)
            if after < size or (wants_summary and cut.rule.summary is not None):
                kept.append(cut)
                size = after
            else:
                copy = copy.until(len(copy) - 1)
        return CompactionPlan(tuple(kept), before, size, copy)

    def _size(self, stream: ConversationStream) -> int:
        return ThreadTokens().of(thread_of(stream, self._providers, in_turn=self._in_turn))


def _summaries_in(stream: ConversationStream, turns: TurnRange) -> str:
    """Return the summaries that are sent in place of `turns`, each once.

    Not those that a later one of the same turns took the place of.
    """
    treatments = turn_treatments(stream)[turns.first : turns.last + 1]
    found = {id(x.summary): x.summary.summary for x in treatments if x.summary is not None}
    return "\n".join(text.summary for text in found.values() if text is not None)


def whole_turns(stream: ConversationStream) -> int:
    """Return how many turns are sent whole: no compaction says anything of them."""
    edges = [0] * (stream.turn_count + 1)
    for placed in counting(stream.entries):
        entry = placed.of_its_time
        if entry.from_turn <= entry.to_turn:
            edges[entry.from_turn] += 1
            edges[entry.to_turn + 1] -= 1
    return sum(not depth for depth in accumulate(edges[:-1]))


async def carry_out(
    cuts: Iterable[Cut],
    stream: ConversationStream,
    providers: Sequence[str],
    summarize: Summarize,
) -> list[Compaction]:
    """Return what is to be recorded of `cuts`. Summaries are made of turns as they were.

    Raises:
        ProviderError: If a model gave no summary.
        ConfigError: If there is no such model.
    """
    found: list[Compaction] = []
    for cut in cuts:
        text = None
        if cut.rule.summary is not None:

            def turns_in(turns: TurnRange) -> Thread:
                return thread_of_turns(stream, providers, turns)

            text = await _summed_up(cut, cut.turns, turns_in, summarize)
        found.append(cut.entry(text))
    return in_one_step(found)


async def _summed_up(
    cut: Cut,
    turns: TurnRange,
    turns_in: Callable[[TurnRange], Thread],
    summarize: Summarize,
) -> str:
    """Return the summary of `turns`: in parts if they are too long for the model that writes it.

    Of a single turn that is too long what tools returned is left out.
    """
    thread = turns_in(turns)
    if not len(thread):
        return ""
    try:
        return await summarize(cut, thread)
    except ProviderError as exc:
        if exc.kind != "too_long":
            raise
    if turns.first == turns.last:
        return await summarize(cut, _without_results(thread))
    middle = (turns.first + turns.last) // 2
    halves = TurnRange(turns.first, middle), TurnRange(middle + 1, turns.last)
    parts = [await _summed_up(cut, half, turns_in, summarize) for half in halves]
    return "\n\n".join(filter(None, parts))


def _without_results(thread: Thread) -> Thread:
    """Return a copy of `thread` in which what tools returned is left out."""
    return Thread([_without_result(item) for item in thread])


def _without_result(item: ThreadItem) -> ThreadItem:
    if not isinstance(item.entry, ToolCallResponse):
        return item
    entry = item.entry.model_copy(update={"content": LEFT_OUT})
    return ThreadItem(entry, item.provider)
