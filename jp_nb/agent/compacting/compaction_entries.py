"""Make the entries of a compaction, with summaries of turns.

A model that cannot read all turns at once gets them in parts.

Source: `docs/turns.md` (RFD 064), `docs/decisions.md` D105, D128.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from jp_nb.agent.compacting.compaction_plan import CompactionStep
from jp_nb.errors import ProviderError
from jp_nb.record.compactions.compaction import mark_as_one_step
from jp_nb.record.compactions.compaction_range import TurnRange
from jp_nb.record.entries.events import Compaction, ToolCallResponse
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.record.request_context.context_builder import build_turns_context
from jp_nb.record.stream import ConversationStream

Summarize = Callable[[CompactionStep, RequestContext], Awaitable[str]]
"""Returns a summary of the turns of a step. Raises `ProviderError` or `ConfigError`."""
OMITTED_RESULT: Final = "(omitted: the turn is too long)"


async def make_compactions(
    steps: Iterable[CompactionStep],
    stream: ConversationStream,
    providers: Sequence[str],
    summarize: Summarize,
) -> list[Compaction]:
    """Return the entries for the record.

    `summarize` gets the original turns. If they are too long for its model, it gets them in parts,
    and a single turn without the results of tools. Other errors are raised.
    """

    async def summarize_turns(step: CompactionStep, turns: TurnRange) -> str:
        """Return the summary of `turns`, in parts if they are too long for the model.

        If a single turn is too long, its tool results are omitted.
        """
        context = build_turns_context(stream, providers, turns)
        if not len(context):
            return ""

        try:
            return await summarize(step, context)
        except ProviderError as exc:
            if exc.kind != "too_long":
                raise

        if turns.first == turns.last:
            items = [_without_result(item) for item in context]
            return await summarize(step, RequestContext(items))

        middle = (turns.first + turns.last) // 2
        halves = TurnRange(turns.first, middle), TurnRange(middle + 1, turns.last)
        parts = [await summarize_turns(step, half) for half in halves]
        return "\n\n".join(filter(None, parts))

    entries: list[Compaction] = []
    for step in steps:
        summary = None
        if step.rule.summary is not None:
            summary = await summarize_turns(step, step.turns)
        entries.append(step.make_entry(summary))

    return mark_as_one_step(entries)


def _without_result(item: ContextItem) -> ContextItem:
    if not isinstance(item.entry, ToolCallResponse):
        return item
    short = item.entry.model_copy(update={"content": OMITTED_RESULT})
    return ContextItem(short, item.provider)
