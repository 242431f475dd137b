"""Write the summaries of a compaction that the user requests, while the cell waits.

Source: `docs/guide.md`, `docs/decisions.md` D128, D129.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jp_nb.agent.compacting.compaction_entries import make_compactions
from jp_nb.agent.compacting.compaction_plan import CompactionPlan, CompactionStep
from jp_nb.agent.display import MODEL_WAITS, Notice, Waits
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.usage_counter import UsageCounter
from jp_nb.record.compactions.compaction_text import format_compaction_line
from jp_nb.record.entries.events import Compaction
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.stream import ConversationStream
from jp_nb.session.host import TurnOutput
from jp_nb.session.turns.turn_runner import TurnRunner


class SummaryJob:
    """Writes the summaries of a plan while the cell waits. The first interrupt ends it.

    It runs on the agent's loop as the work of `AgentRunner.run`, which counts the interrupts that
    reach it (`Interruptible`).

    Attributes:
        interrupt_count: Number of interrupts that it has handled.
        usage: Counts the tokens of its requests.
    """

    def __init__(
        self, plan: CompactionPlan, turns: TurnRunner, resolved: Resolved, output: TurnOutput
    ) -> None:
        self.interrupt_count = 0
        self.usage = UsageCounter(output)
        self._plan = plan
        self._turns = turns
        self._resolved = resolved
        self._output = output
        self._task: asyncio.Task[object] | None = None

    async def run(self, stream: ConversationStream, providers: Sequence[str]) -> list[Compaction]:
        """Return the compactions to record."""
        self._task = asyncio.current_task()
        line = "⚠ No summary was written"

        try:
            entries = await make_compactions(self._plan.steps, stream, providers, self._summarize)
            if entries:
                line = format_compaction_line(entries)
            return entries
        finally:  # the output says what happened, also after an error
            self._output(Notice(line))

    async def _summarize(self, step: CompactionStep, context: RequestContext) -> str:
        def show_wait(model: str, *, again: str = "", until: float | None = None) -> None:
            status = f"{model}, which is summarizing {step.turns}"
            if again:
                status += f": {again}"
            self._output(Waits(MODEL_WAITS, status, until))

        summarizer = self._turns.resolver.background.make_summarizer(self._resolved, step.rule)
        return await summarizer.summarize(
            context, waits=show_wait, on_usage=self.usage.count_for_entry
        )

    def interrupt(self) -> None:
        """Cancel the job after an interrupt of the kernel; called on the agent's loop."""
        self.interrupt_count += 1
        if self._task is not None:
            self._task.cancel()
