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
from jp_nb.agent.prompts import Action, ActionPrompt, Answered, Prompter
from jp_nb.agent.resolved import Resolved
from jp_nb.agent.shortening import (
    SUMMARISE,
    CompactionPlan,
    CompactionPlanner,
    Cut,
    carry_out,
)
from jp_nb.agent.summarizing import Summarizer
from jp_nb.agent.token_count import TokenCount
from jp_nb.agent.token_estimate import ThreadTokens, attachment_tokens, text_tokens, tool_tokens
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.config.tree.compaction_config import AutoCompaction, CompactionRule
from jp_nb.errors import JpNbError, ProviderError
from jp_nb.record.compaction_words import in_words
from jp_nb.record.thread import Thread, thread_of
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.tooling.faults import summary

log = logging.getLogger(__name__)

UNDO: Final = "`%jp compact --undo`"
WORTH: Final = 10
"""Compaction by itself frees at least one in so many of the tokens at its bound: else it would
come back with every turn."""
_TOO_LONG: Final = "The conversation is longer than the model reads"


@dataclass(frozen=True, slots=True)
class Shortening:
    """What it takes to make a conversation shorter.

    Attributes:
        providers: Returns those in force in its course (`Projection.providers`).
        summarizer: Returns the model that sums turns up for a rule.
        tokens: Counts the provider's view, from turn to turn.
        now: The time, for rules that go by it.
    """

    providers: Callable[[], Sequence[str]]
    summarizer: Callable[[Resolved, CompactionRule], Summarizer]
    tokens: ThreadTokens = field(default_factory=ThreadTokens)
    now: Clock = utc_now


@dataclass(slots=True)
class TurnCompaction:
    """Makes the conversation of one turn shorter."""

    record: TurnRecord
    tokens: TokenCount
    prompter: Prompter
    display: Display
    shortening: Shortening

    # --- before the turn ---------------------------------------------------------------------

    async def if_due(self, resolved: Resolved, asked: str) -> None:
        """Make the conversation shorter if it is over a bound with `asked`, before the turn begins.

        Whatever goes wrong is said, and the turn goes on.
        """
        settings = resolved.basis.config.conversation.compaction
        if not settings.auto.is_on:
            return
        size = self._size(resolved, asked) if settings.auto.max_tokens else 0
        planner = self._planner(in_turn=False)
        over = 0 < settings.auto.max_tokens < size
        if not over and not 0 < settings.auto.max_turns < planner.whole_turns():
            return
        plan = planner.plan(planner.cuts(settings.in_force))
        if plan.cuts and (not over or plan.frees * WORTH >= settings.auto.max_tokens):
            why = _why(settings.auto, size if over else 0)
            await self._carry_out(plan, resolved, why=why, in_turn=False)

    def _size(self, resolved: Resolved, asked: str) -> int:
        """Return about how many tokens the next request takes."""
        beside = sum(map(text_tokens, resolved.system)) + text_tokens(asked)
        beside += sum(tool_tokens(tool.definition) for tool in resolved.tools.tools.values())
        beside += sum(map(attachment_tokens, resolved.attachments))
        return beside + self.shortening.tokens.of(self.record.thread)

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
        ways = {"compact": rules, "summarise": (SUMMARISE,)}
        plans = {way: planner.plan(planner.cuts(given)) for way, given in ways.items()}
        return {way: plan for way, plan in plans.items() if plan.cuts}

    async def _chosen(self, plans: dict[str, CompactionPlan]) -> CompactionPlan | None:
        """Ask the person what to do about the length; None: nothing."""
        actions = [
            Action(_KEYS[way], f"{_LABELS[way]} ({plan.frees:,} tokens less)", way)
            for way, plan in plans.items()
        ]
        actions.append(Action("s", "Stop", "stop"))
        prompt = ActionPrompt(_TOO_LONG, tuple(actions), label="Too long", help=_HELP)
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
        self, plan: CompactionPlan, resolved: Resolved, *, why: str, in_turn: bool
    ) -> bool:
        """Do what is planned, and say so; return whether that worked."""

        async def summarize(cut: Cut, thread: Thread) -> str:
            made = self.shortening.summarizer(resolved, cut.rule)
            return await made.summary(thread, waits=self._wait, spent=self.tokens.add)

        stream, providers = self.record.stream, self.shortening.providers()
        try:
            entries = await carry_out(plan.cuts, stream, providers, summarize)
        except Exception as exc:
            if not isinstance(exc, JpNbError):
                log.exception("Compaction failed")
            said = exc if isinstance(exc, JpNbError) else summary(exc)
            self.display(Notice(f"⚠ The conversation was not made shorter: {said}"))
            return False
        finally:
            self.display(Waits(MODEL_WAITS, ""))
        self.record.add(*self.tokens.told_by_last(entries))
        self.record.thread = thread_of(stream, providers, in_turn=in_turn)
        told = f"{why}: " if why else ""
        self.display(Notice(f"⊟ {told}{in_words(entries)} from here on; {UNDO} takes that back"))
        return True

    def _wait(self, model: str, *, again: str = "", until: float | None = None) -> None:
        said = f"{model}, which sums up earlier turns"
        self.display(Waits(MODEL_WAITS, f"{said}: {again}" if again else said, until))


_KEYS: Final = {"compact": "c", "summarise": "u"}
_LABELS: Final = {
    "compact": "Compact and try again",
    "summarise": "Sum up and try again",
}
_HELP: Final = (
    "The record keeps everything; a summary is written by a model. What is freed is an estimate."
)


def _why(auto: AutoCompaction, size: int) -> str:
    if size:
        return f"About {size:,} tokens, {auto.max_tokens:,} is the bound"
    return f"More than {auto.max_turns} turns"
