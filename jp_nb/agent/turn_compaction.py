"""A conversation that is made shorter for a turn: before it begins, or as it turns out too long.

Source: `docs/turns.md`, `docs/decisions.md` D130, D131.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jp_nb.agent.display_events import MODEL_WAITS, Display, Notice, Waits
from jp_nb.agent.prompt_queue import asking
from jp_nb.agent.prompts import Action, ActionPrompt, Answered, Exhibit, Prompter
from jp_nb.agent.resolved import Resolved
from jp_nb.agent.shortening import (
    CompactionPlan,
    CompactionPlanner,
    Cut,
    all_summed_up,
    carry_out,
    whole_turns,
)
from jp_nb.agent.summarizing import Summarizer
from jp_nb.agent.token_count import TokenCount
from jp_nb.agent.token_estimate import ThreadTokens, attachment_tokens, text_tokens, tool_tokens
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.config.tree.compaction_config import AutoCompaction, CompactionRule
from jp_nb.errors import JpNbError, ProviderError
from jp_nb.record.compaction_words import as_sentence, in_words
from jp_nb.record.events import Compaction
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, thread_of
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.tooling.faults import summary

log = logging.getLogger(__name__)

UNDO: Final = "`%jp compact --undo`"
WORTH: Final = 10
"""Compaction by itself frees at least one in so many of the tokens at its bound, and is tried again
after that many more: else it would come back with every turn."""
NO_SHORTER: Final = "the summary is not shorter than the turns that it replaces"
NOTHING_SHORTER: Final = "⊟ No rule makes the conversation shorter. It is sent unchanged."
_TOO_LONG: Final = "The conversation is longer than the model's context window"


@dataclass(frozen=True, slots=True)
class SentSize:
    """How much is sent of a conversation.

    Attributes:
        stream: Which one; None: none.
        tokens: About how many its messages take, where that matters.
        turns: How many turns are sent whole, where that matters.
    """

    stream: ConversationStream | None = None
    tokens: int = 0
    turns: int = 0

    def has_grown_since(self, before: SentSize, auto: AutoCompaction) -> bool:
        """Return True if there is enough that is new to try what was futile `before`."""
        tokens, turns = self.tokens - before.tokens, self.turns - before.turns
        if self.stream is not before.stream or tokens < 0 or turns < 0:
            return True
        return bool(
            (auto.max_tokens and tokens * WORTH >= auto.max_tokens)
            or (auto.max_turns and turns * WORTH >= auto.max_turns)
        )


@dataclass(slots=True)
class Shortening:
    """What it takes to make a conversation shorter.

    Attributes:
        providers: Returns those in force in its course (`Projection.providers`).
        summarizer: Returns the model that sums turns up for a rule.
        tokens: Counts the provider's view, from turn to turn.
        now: The time, for rules that go by it.
        futile: The size of one that could not be made shorter by itself, last.
    """

    providers: Callable[[], Sequence[str]]
    summarizer: Callable[[Resolved, CompactionRule], Summarizer]
    tokens: ThreadTokens = field(default_factory=ThreadTokens)
    now: Clock = utc_now
    futile: SentSize = field(default_factory=SentSize)


@dataclass(slots=True)
class TurnCompaction:
    """Makes the conversation of one turn shorter."""

    record: TurnRecord
    tokens: TokenCount
    prompter: Prompter
    display: Display
    shortening: Shortening

    # --- before the turn ---------------------------------------------------------------------

    async def as_wanted(self, resolved: Resolved) -> None:
        """Make the conversation shorter by the configured rules: the person wants that.

        Whatever goes wrong is said, and the turn goes on.
        """
        planner = self._planner(in_turn=False)
        plan = planner.plan(planner.cuts(resolved.basis.config.conversation.compaction.in_force))
        if not plan.cuts:
            self.display(Notice(NOTHING_SHORTER))
            return
        await self._carry_out(plan, resolved, why="")

    async def if_due(self, resolved: Resolved, asked: str) -> None:
        """Make the conversation shorter if it is over a bound with `asked`, before the turn begins.

        Whatever goes wrong is said, and the turn goes on.
        """
        settings = resolved.basis.config.conversation.compaction
        auto, sent = settings.auto, self._sent(settings.auto)
        size = sent.tokens + _beside(resolved, asked) if auto.max_tokens else 0
        is_long, many_turns = size > auto.max_tokens, 0 < auto.max_turns < sent.turns
        if not (is_long or many_turns) or not sent.has_grown_since(self.shortening.futile, auto):
            return
        planner = self._planner(in_turn=False)
        plan = planner.plan(planner.cuts(settings.in_force))
        is_worth_it = many_turns or plan.frees * WORTH >= auto.max_tokens
        why = _why(auto, size if is_long else 0)
        if not (plan.cuts and is_worth_it and await self._carry_out(plan, resolved, why=why)):
            self.shortening.futile = sent

    def _sent(self, auto: AutoCompaction) -> SentSize:
        """Return how much is sent of the conversation, as far as that has a bound."""
        stream = self.record.stream
        return SentSize(
            stream,
            self.shortening.tokens.of(self.record.thread) if auto.max_tokens else 0,
            whole_turns(stream) if auto.max_turns else 0,
        )

    # --- after a request that was too long ---------------------------------------------------

    async def after(self, error: ProviderError, resolved: Resolved) -> bool:
        """Make the conversation shorter after `error`, if that is one of its length.

        Without a question where it does so by itself anyway; else, and where the rules free
        nothing more, the person decides. Returns whether it is shorter: then the same may be
        asked again.
        """
        if error.kind != "too_long":
            return False
        settings = resolved.basis.config.conversation.compaction
        plans = self._plans(settings.in_force)
        if settings.auto.is_on and "compact" in plans:  # each frees something: it comes to an end
            return await self._carry_out(plans["compact"], resolved, why=_TOO_LONG, in_turn=True)
        if not plans or self.prompter.nobody() is not None:
            return False
        chosen = await self._chosen(plans)
        if chosen is None:
            return False
        return await self._carry_out(chosen, resolved, why="", in_turn=True)

    def _plans(self, rules: Sequence[CompactionRule]) -> dict[str, CompactionPlan]:
        """Return what would make the conversation shorter now."""
        planner = self._planner(in_turn=True)
        ways = {"compact": rules, "summarise": (all_summed_up(),)}
        plans = {way: planner.plan(planner.cuts(given)) for way, given in ways.items()}
        return {way: plan for way, plan in plans.items() if plan.cuts}

    async def _chosen(self, plans: dict[str, CompactionPlan]) -> CompactionPlan | None:
        """Ask the person what to do about the length; None: nothing."""
        actions = [Action(_KEYS[way], f"{_NAMES[way]} and try again", way) for way in plans]
        actions.append(Action("s", "Stop", "stop"))
        prompt = ActionPrompt(
            _TOO_LONG,
            tuple(actions),
            label="Too long",
            exhibits=tuple(Exhibit(_NAMES[way], _in_words(plan)) for way, plan in plans.items()),
            help=_HELP,
        )
        match await asking(self.prompter)(prompt):
            case Answered(value=str() as way):
                return plans.get(way)
        return None

    # --- both --------------------------------------------------------------------------------

    def _planner(self, *, in_turn: bool) -> CompactionPlanner:
        shortening = self.shortening
        return CompactionPlanner(
            self.record.stream, shortening.providers(), now=shortening.now(), in_turn=in_turn
        )

    async def _carry_out(
        self, plan: CompactionPlan, resolved: Resolved, *, why: str, in_turn: bool = False
    ) -> bool:
        """Do what is planned, and say so; return whether that worked."""

        async def summarize(cut: Cut, thread: Thread) -> str:
            made = self.shortening.summarizer(resolved, cut.rule)
            return await made.summary(thread, waits=self._wait, spent=self.tokens.add)

        stream, providers = self.record.stream, self.shortening.providers()
        try:
            entries = await carry_out(plan.cuts, stream, providers, summarize)
            if self._size_with(entries, in_turn=in_turn) >= plan.before:
                raise ProviderError(NO_SHORTER)
        except Exception as exc:
            if not isinstance(exc, JpNbError):
                log.exception("Compaction failed")
            said = exc if isinstance(exc, JpNbError) else summary(exc)
            self.display(Notice(f"⚠ The conversation was not compacted: {said}"))
            return False
        finally:
            self.display(Waits(MODEL_WAITS, ""))
        self.record.add(*self.tokens.told_by_last(entries))
        self.record.thread = thread_of(stream, providers, in_turn=in_turn)
        told = f"⊟ {why}: from now on, {in_words(entries)}" if why else as_sentence(entries)
        self.display(Notice(f"{told}. Undo: {UNDO}"))
        return True

    def _size_with(self, entries: Sequence[Compaction], *, in_turn: bool) -> int:
        """Return about how many tokens a model is sent once `entries` are recorded."""
        stream = self.record.stream
        outcome = stream.until(len(stream))
        outcome.append(*entries)
        thread = thread_of(outcome, self.shortening.providers(), in_turn=in_turn)
        return ThreadTokens().of(thread)

    def _wait(self, model: str, *, again: str = "", until: float | None = None) -> None:
        said = f"{model}, which is summarizing earlier turns"
        self.display(Waits(MODEL_WAITS, f"{said}: {again}" if again else said, until))


_KEYS: Final = {"compact": "c", "summarise": "u"}
_NAMES: Final = {"compact": "Compact", "summarise": "Summarize"}
_HELP: Final = "The record keeps every turn. A model writes the summary. The numbers are estimates."


def _in_words(plan: CompactionPlan) -> str:
    """Return what would become of which turns: `turns 1 to 3 are sent without reasoning, …`."""
    made = in_words([cut.entry() for cut in plan.cuts])
    return f"{made}: about {plan.frees:,} tokens less"


def _beside(resolved: Resolved, asked: str) -> int:
    """Return about how many tokens the next request takes beside the conversation so far."""
    beside = sum(map(text_tokens, resolved.system)) + text_tokens(asked)
    beside += sum(tool_tokens(tool.definition) for tool in resolved.tools.tools.values())
    return beside + sum(map(attachment_tokens, resolved.attachments))


def _why(auto: AutoCompaction, size: int) -> str:
    if size:
        return f"About {size:,} tokens, limit {auto.max_tokens:,}"
    return f"More than {auto.max_turns} turns"
