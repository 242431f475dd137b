"""Compact a conversation: on request, before a turn that is too long, or after an error.

Rules of the configuration select turns, and replace them by a summary or omit parts of them
(`compaction_plan.py`). The record keeps these turns. It gets entries by which later requests omit
them.

Source: `docs/record.md`, `docs/turns.md` (RFD 064), `docs/decisions.md` D105, D128, D130, D131.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jp_nb.agent.compacting.compaction_entries import make_compactions
from jp_nb.agent.compacting.compaction_plan import (
    CompactionPlan,
    CompactionPlanner,
    CompactionStep,
    count_uncompacted_turns,
)
from jp_nb.agent.compacting.summarizer import Summarizer
from jp_nb.agent.display import MODEL_WAITS, Notice, Waits
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, PromptDetail
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.token_estimates import (
    ContextTokens,
    estimate_attachment_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
)
from jp_nb.agent.turn_state import TurnContext
from jp_nb.config.tree.compaction_settings import (
    AutoCompaction,
    CompactionRule,
    SummaryConfig,
)
from jp_nb.errors import JpNbError, ProviderError
from jp_nb.record.compactions.compaction_text import format_compaction_line, format_compactions
from jp_nb.record.entries.clock import Clock
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream
from jp_nb.toolkit.function_tools.tool_errors import summarize_error

log = logging.getLogger(__name__)

UNDO_COMMAND: Final = "`%jp compact --undo`"
MIN_EFFECT_DIVISOR: Final = 10
"""Automatic compaction must save a tenth of its limit. Otherwise, it would run in every turn.

After a failure, it runs again when the context has grown by a tenth of the limit.
"""
SUMMARY_TOO_LONG_REASON: Final = "the summary is not shorter than the turns that it replaces"
NO_EFFECT_NOTICE: Final = "⊟ No rule makes the conversation shorter. It is sent unchanged."
_TOO_LONG: Final = "The conversation is longer than the model's context window"


@dataclass(frozen=True, slots=True)
class ContextSize:
    """Size of a conversation when automatic compaction looked at it.

    Attributes:
        stream: The conversation; None before the first one.
        tokens: Estimated tokens of its context; 0 if there is no limit for them.
        turns: Number of uncompacted turns; 0 if there is no limit for them.
    """

    stream: ConversationStream | None = None
    tokens: int = 0
    turns: int = 0

    def has_grown_since(self, failed: ContextSize, auto: AutoCompaction) -> bool:
        """Return True if a compaction that failed at the size `failed` should be tried again.

        The context has grown enough, is smaller than before, or is of another conversation.
        """
        new_tokens = self.tokens - failed.tokens
        new_turns = self.turns - failed.turns
        if self.stream is not failed.stream or new_tokens < 0 or new_turns < 0:
            return True

        if auto.max_tokens and new_tokens * MIN_EFFECT_DIVISOR >= auto.max_tokens:
            return True
        return bool(auto.max_turns) and new_turns * MIN_EFFECT_DIVISOR >= auto.max_turns


@dataclass(slots=True)
class CompactionSettings:
    """Settings for compaction, with the state that outlives a turn.

    Attributes:
        providers: Returns the provider at the beginning of the record, and after each configuration
            change (`Projection.providers`), for the context.
        summarizer: Returns the summarizer for a rule.
        tokens: Counts the tokens of the conversation as it grows.
        now: The time for rules that keep turns by their age.
        last_failure: Size of the last context that automatic compaction could not reduce.
    """

    providers: Callable[[], Sequence[str]]
    summarizer: Callable[[Resolved, CompactionRule], Summarizer]
    tokens: ContextTokens = field(default_factory=ContextTokens)
    now: Clock = utc_now
    last_failure: ContextSize = field(default_factory=ContextSize)


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts the conversation of one turn.

    A `Resolved` (`effective_model.py`) has the model of the turn, and the configuration (`basis`)
    with the rules.
    """

    turn: TurnContext
    settings: CompactionSettings

    async def compact_on_request(self, resolved: Resolved) -> None:
        """Compact the conversation by the configured rules. Errors are only displayed."""
        plan = self._plan(resolved.basis.config.conversation.compaction.effective_rules)
        if not plan.steps:
            self.turn.display(Notice(NO_EFFECT_NOTICE))
            return

        await self._apply(plan, resolved, why="")

    async def compact_if_due(self, resolved: Resolved, request_text: str) -> None:
        """Compact the conversation before a turn if it exceeds a limit. Errors are displayed.

        It does nothing if it failed for this conversation, and the conversation has hardly grown.
        """
        settings = resolved.basis.config.conversation.compaction
        auto = settings.auto
        size = self._measure(auto)
        request_tokens = 0
        if auto.max_tokens:
            request_tokens = size.tokens + _estimate_overhead(resolved, request_text)

        is_long = request_tokens > auto.max_tokens  # without a limit, both are 0
        has_many_turns = 0 < auto.max_turns < size.turns
        if not (is_long or has_many_turns):
            return
        if not size.has_grown_since(self.settings.last_failure, auto):
            return

        plan = self._plan(settings.effective_rules)
        # After a small effect, compaction would be due again in the next turn.
        is_worth_it = has_many_turns or plan.saved_tokens * MIN_EFFECT_DIVISOR >= auto.max_tokens
        why = f"More than {auto.max_turns} turns"
        if is_long:
            why = f"About {request_tokens:,} tokens, limit {auto.max_tokens:,}"

        is_done = False
        if plan.steps and is_worth_it:
            is_done = await self._apply(plan, resolved, why=why)
        if not is_done:
            self.settings.last_failure = size

    def _measure(self, auto: AutoCompaction) -> ContextSize:
        """Return the size of the conversation. What has no limit is not counted."""
        stream = self.turn.record.stream
        tokens = self.settings.tokens.estimate(self.turn.record.context) if auto.max_tokens else 0
        turns = count_uncompacted_turns(stream) if auto.max_turns else 0
        return ContextSize(stream, tokens, turns)

    async def compact_after_error(self, error: ProviderError, resolved: Resolved) -> bool:
        """Return True if the conversation was compacted after an `error` about its length.

        Without automatic compaction, or if the rules have no effect, the user decides. Return False
        if no user is available.
        """
        if error.kind != "too_long":
            return False

        settings = resolved.basis.config.conversation.compaction
        summarize_all = CompactionRule(keep_first="0", keep_last="0", summary=SummaryConfig())
        choices = {"compact": settings.effective_rules, "summarise": (summarize_all,)}
        plans = {choice: self._plan(rules, in_turn=True) for choice, rules in choices.items()}
        plans = {choice: plan for choice, plan in plans.items() if plan.steps}

        if settings.auto.is_on and "compact" in plans:  # it saves tokens, so the retries end
            return await self._apply(plans["compact"], resolved, why=_TOO_LONG, in_turn=True)
        if not plans or self.turn.prompter.unavailable() is not None:
            return False

        ask = SafeAsk(self.turn.prompter, self.turn.times)
        end = await ask(_make_plan_prompt(plans))
        chosen = plans.get(str(end.value)) if isinstance(end, Answered) else None
        if chosen is None:
            return False
        return await self._apply(chosen, resolved, why="", in_turn=True)

    def _plan(self, rules: Iterable[CompactionRule], *, in_turn: bool = False) -> CompactionPlan:
        """Return the plan for `rules`. `in_turn` is True if the last turn still runs."""
        stream = self.turn.record.stream
        providers = self.settings.providers()
        planner = CompactionPlanner(stream, providers, now=self.settings.now(), in_turn=in_turn)
        return planner.make_plan(planner.make_steps(rules))

    async def _apply(
        self, plan: CompactionPlan, resolved: Resolved, *, why: str, in_turn: bool = False
    ) -> bool:
        """Apply a plan and display the result; return True on success.

        `why` is the reason of an automatic compaction; "" if the user asked for it.
        """

        async def summarize(step: CompactionStep, context: RequestContext) -> str:
            summarizer = self.settings.summarizer(resolved, step.rule)
            return await summarizer.summarize(
                context, waits=self._wait, on_usage=self.turn.tokens.count_for_entry
            )

        stream = self.turn.record.stream
        providers = self.settings.providers()

        try:
            entries = await make_compactions(plan.steps, stream, providers, summarize)
            # The record only grows, so the effect is tried on a copy first.
            outcome = stream.until(len(stream))
            outcome.append(*entries)
            context = build_context(outcome, providers, in_turn=in_turn)
            # A summary may be longer than its turns.
            if ContextTokens().estimate(context) >= plan.before:
                raise ProviderError(SUMMARY_TOO_LONG_REASON)
        except Exception as exc:
            if not isinstance(exc, JpNbError):
                log.exception("Compaction failed")
            reason = exc if isinstance(exc, JpNbError) else summarize_error(exc)
            self.turn.display(Notice(f"⚠ The conversation was not compacted: {reason}"))
            return False
        finally:
            self.turn.display(Waits(MODEL_WAITS, ""))  # ends the wait for the summary

        self.turn.record.add(*self.turn.tokens.attach_usage_to_last(entries))
        self.turn.record.context = build_context(stream, providers, in_turn=in_turn)
        text = format_compaction_line(entries)
        if why:
            text = f"⊟ {why}: from now on, {format_compactions(entries)}"
        self.turn.display(Notice(f"{text}. Undo: {UNDO_COMMAND}"))
        return True

    def _wait(self, model: str, *, again: str = "", until: float | None = None) -> None:
        text = f"{model}, which is summarizing earlier turns"
        if again:
            text += f": {again}"
        self.turn.display(Waits(MODEL_WAITS, text, until))


# The two plans that the prompt offers: by the configured rules, or a summary of all turns.
_KEYS: Final = {"compact": "c", "summarise": "u"}
_NAMES: Final = {"compact": "Compact", "summarise": "Summarize"}
_HELP: Final = "The record keeps every turn. A model writes the summary. The numbers are estimates."


def _make_plan_prompt(plans: dict[str, CompactionPlan]) -> ActionPrompt:
    """Return the prompt for a conversation that is too long, with a button for each plan."""
    actions = [Action(_KEYS[choice], f"{_NAMES[choice]} and try again", choice) for choice in plans]
    actions.append(Action("s", "End the turn", "stop"))

    exhibits: list[PromptDetail] = []
    for choice, plan in plans.items():
        made = format_compactions([step.make_entry() for step in plan.steps])
        text = f"{made}: about {plan.saved_tokens:,} tokens less"
        exhibits.append(PromptDetail(_NAMES[choice], text))

    return ActionPrompt(
        _TOO_LONG, tuple(actions), label="Too long", exhibits=tuple(exhibits), help=_HELP
    )


def _estimate_overhead(resolved: Resolved, request_text: str) -> int:
    """Estimate the tokens of the next request without the earlier turns."""
    tokens = sum(map(estimate_text_tokens, resolved.system)) + estimate_text_tokens(request_text)
    tokens += sum(estimate_tool_tokens(tool.definition) for tool in resolved.tools.tools.values())
    return tokens + sum(map(estimate_attachment_tokens, resolved.attachments))
