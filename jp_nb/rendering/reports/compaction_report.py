"""Reports of a compaction: the treatment of each turn in requests, summaries, and saved tokens.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from jp_nb.agent.compacting.compaction_plan import CompactionPlan
from jp_nb.record.compactions.compaction_range import TurnRange
from jp_nb.record.compactions.compaction_text import SENT_WHOLE, format_treatment
from jp_nb.record.compactions.turn_treatments import list_turn_treatments
from jp_nb.record.entries.events import Compaction
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.markdown_sanitizer import sanitize_markdown
from jp_nb.rendering.report import (
    Report,
    add_note,
    join_reports,
    make_table,
)
from jp_nb.rendering.table_cells import MAX_TABLE_ROWS
from jp_nb.text import plain


def render_treatment(stream: ConversationStream) -> Report:
    """Return a table of turns and their treatment in requests: in full, compacted, or omitted."""
    treatments = [format_treatment(treatment) for treatment in list_turn_treatments(stream)]
    if not treatments:  # no compaction applies
        treatments = [SENT_WHOLE] * stream.turn_count

    # Adjacent turns with the same treatment share a row. The user counts turns from 1.
    rows = []
    last = 0
    for treatment, adjacent in groupby(treatments):
        first = last + 1
        last += len(list(adjacent))
        turns = str(first) if first == last else f"{first} to {last}"
        rows.append((turns, treatment))

    if len(rows) > MAX_TABLE_ROWS:
        rows[MAX_TABLE_ROWS:] = [("…", f"{len(rows) - MAX_TABLE_ROWS} more")]

    return make_table(("turns", "sent"), rows)


def render_compactions(
    plan: CompactionPlan, stream: ConversationStream, entries: Sequence[Compaction], *, now: int
) -> Report:
    """Return the result of a compaction: treatment of turns, new summaries, and saved tokens.

    `stream` is the conversation after the compaction, `entries` are the recorded compactions, and
    `now` is the estimated number of message tokens that are sent now. It may differ from
    `plan.after`, because the plan did not know the text of a new summary.
    """
    parts = [render_treatment(stream)]
    for entry in entries:
        if entry.summary is not None:
            turns = f"The summary of {TurnRange(entry.from_turn, entry.to_turn)}:"
            summary = entry.summary.summary
            shown = Report(sanitize_markdown(summary), plain(summary))
            parts.append(join_reports([turns, shown]))

    note = (
        f"About {now:,} tokens of messages are sent instead of {plan.before:,}. The record keeps "
        "everything. Undo: `%jp compact --undo`"
    )
    return add_note(join_reports(parts, between="\n\n"), note)


def render_compaction_preview(plan: CompactionPlan) -> Report:
    """Return the expected result of `plan`, whose `outcome` is the conversation after it."""
    note = f"About {plan.after:,} tokens of messages would be sent instead of {plan.before:,}"
    if any(step.rule.summary is not None for step in plan.steps):
        note += ", plus the summary, which is not written yet"

    return add_note(render_treatment(plan.outcome), f"{note}. Nothing has changed.")
