"""Compaction by hand: what is sent of the active conversation is made shorter, or whole again.

Source: `docs/guide.md`, `docs/record.md`, `docs/decisions.md` D128, D129.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.agent.compaction import (
    CompactionPlan,
    CompactionPlanner,
    CompactionStep,
    make_compactions,
)
from jp_nb.agent.display import MODEL_WAITS, Notice, Waits
from jp_nb.agent.tokens import ContextTokens, UsageCounter
from jp_nb.agent.turn_state import Resolved
from jp_nb.config.directives import Directive
from jp_nb.config.tree.app import CompactionRule, TurnBound
from jp_nb.record.compaction import (
    active_compactions,
    format_compaction_line,
    last_step_of,
    make_revert,
    mark_as_one_step,
)
from jp_nb.record.context import RequestContext, build_context
from jp_nb.record.events import Compaction, ConfigDelta, Entry, is_usage_mark
from jp_nb.record.stream import ConversationStream
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import TurnOutput
from jp_nb.session.turns import TurnRunner

NO_SUMMARY: Final = "⚠ No summary was written"
STOPPED: Final = "You stopped the compaction. The conversation is sent as before."


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """What a person wants to have made shorter.

    Attributes:
        rules: In place of those that are configured; None: these.
        keep_first: In place of that of each rule.
        keep_last: Likewise.
        first: The first turn, in place of what is kept.
        last: The last one.
        directives: What counts of the configuration for this alone.
    """

    rules: tuple[CompactionRule, ...] | None = None
    keep_first: str | None = None
    keep_last: str | None = None
    first: TurnBound | None = None
    last: TurnBound | None = None
    directives: tuple[Directive, ...] = ()

    def apply_bounds(self, rule: CompactionRule) -> CompactionRule:
        """Return `rule` with the bounds that count here."""
        given = {"keep_first": self.keep_first, "keep_last": self.keep_last}
        return rule.model_copy(update={key: x for key, x in given.items() if x is not None})


class ManualCompaction:
    """Compactions of the active conversation, from the cell's thread.

    Args:
        active: The conversation.
        turns: What runs turns, and asks for summaries.

    Raises:
        UsageError: If a turn runs.
    """

    def __init__(self, active: ActiveConversation, turns: TurnRunner) -> None:
        active.refuse_while_running()
        active.reload_files()
        self._active = active
        self._turns = turns

    @property
    def stream(self) -> ConversationStream:
        """The active conversation."""
        return self._active.document.conversation

    def plan(self, order: CompactionOptions) -> CompactionPlan:
        """Return what `order` would make shorter. Changes nothing.

        Raises:
            ConfigError: If a directive or the configuration is wrong.
        """
        settings = self._active.settings
        config = settings.draft(order.directives).config()
        rules = order.rules or config.conversation.compaction.effective_rules
        planner = CompactionPlanner(self.stream, self._providers, now=self._active.clock())
        given = [order.apply_bounds(rule) for rule in rules]
        cuts = planner.steps(given, first=order.first, last=order.last)
        return planner.plan(cuts, wants_summary=order.rules is not None)

    @property
    def _providers(self) -> list[str]:
        return self._active.settings.projection.providers()

    def tokens(self) -> int:
        """Return about how many tokens of messages a model is sent now."""
        return ContextTokens().of(build_context(self.stream, self._providers))

    # --- it is done --------------------------------------------------------------------------

    def carry_out(self, plan: CompactionPlan, order: CompactionOptions) -> list[Compaction]:
        """Make shorter what is planned; return what was recorded.

        Raises:
            ProviderError: If a model gave no summary; nothing was recorded but its tokens.
            ConfigError: If there is no such model; nothing was recorded.
            KeyboardInterrupt: If the kernel was interrupted; likewise.
        """
        self._turns.repair_conversation(resumes=True)
        if any(cut.rule.summary is not None for cut in plan.steps):
            return self._with_summaries(plan, order)
        entries = mark_as_one_step([cut.entry() for cut in plan.steps])
        self._record(entries)
        return entries

    def _record(self, entries: Sequence[Entry]) -> None:
        self.stream.append(*entries)
        self._turns.clear_context()

    def _with_summaries(self, plan: CompactionPlan, order: CompactionOptions) -> list[Compaction]:
        settings, work = self._active.settings, self._turns.runner
        draft = settings.draft(order.directives)
        resolved = self._turns.resolve(settings.snapshot(draft), self.stream.id)
        output = work.begin_turn(resolved.basis.config)
        job = SummaryJob(plan, self._turns, resolved, output)
        entries: list[Compaction] | None = None
        try:
            with work.cell.defer_interrupts(), work.display(output):
                entries = work.run(job.run(self.stream, self._providers), job)
        finally:
            if entries is None:
                mark = job.tokens.attach_usage(ConfigDelta())
                self._record([mark] if is_usage_mark(mark) else [])
        if entries is None:
            raise KeyboardInterrupt(STOPPED)
        told = [
            each
            for each in job.tokens.attach_usage_to_last(entries)
            if isinstance(each, Compaction)
        ]
        self._record(told)
        return told

    # --- it is taken back --------------------------------------------------------------------

    def find_last(self) -> list[Compaction]:
        """Return those that `undo` would take back: the newest that were made in one step."""
        return [placed.entry for placed in last_step_of(active_compactions(self.stream.entries))]

    def undo(self) -> list[Compaction]:
        """Take back the newest compactions that were made in one step; return them.

        Nothing leaves the record. `[]` if there is none.
        """
        found = self.find_last()
        if found:
            self._record([make_revert(entry) for entry in reversed(found)])
        return found


class SummaryJob:
    """Has a model write the summaries of a plan, while the cell waits.

    Attributes:
        interrupt_count: How many interrupts it took notice of: the first ends it.
        tokens: Counts what it takes.
    """

    def __init__(
        self, plan: CompactionPlan, turns: TurnRunner, resolved: Resolved, output: TurnOutput
    ) -> None:
        self.interrupt_count = 0
        self.tokens = UsageCounter(output)
        self._plan = plan
        self._turns = turns
        self._resolved = resolved
        self._output = output
        self._task: asyncio.Task[object] | None = None

    async def run(self, stream: ConversationStream, providers: Sequence[str]) -> list[Compaction]:
        """Return what is to be recorded.

        Raises:
            ProviderError: If a model gave no summary.
            ConfigError: If there is no such model.
        """
        self._task = asyncio.current_task()
        entries: list[Compaction] = []
        try:
            entries = await make_compactions(self._plan.steps, stream, providers, self._summarize)
        finally:  # what was waited for leaves no empty output
            said = format_compaction_line(entries) if entries else NO_SUMMARY
            self._output(Notice(said))
        return entries

    async def _summarize(self, cut: CompactionStep, thread: RequestContext) -> str:
        summarizer = self._turns.resolver.summarizer(self._resolved, cut.rule)
        return await summarizer.summarize(thread, waits=self._wait, spent=self.tokens.add)

    def _wait(self, model: str, *, again: str = "", until: float | None = None) -> None:
        said = f"{model}, which is summarizing {self._plan.steps[0].turns}"
        self._output(Waits(MODEL_WAITS, f"{said}: {again}" if again else said, until))

    def interrupt(self) -> None:
        """Hear that the kernel was interrupted; called on the agent's loop."""
        self.interrupt_count += 1
        if self._task is not None:
            self._task.cancel()
