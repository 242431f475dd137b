"""What a model will see of a conversation, and what not, in a table.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from jp_nb.agent.shortening import CompactionPlan
from jp_nb.record.compacted import turn_treatments
from jp_nb.record.compaction_range import TurnRange
from jp_nb.record.compaction_words import WHOLE, how_sent
from jp_nb.record.events import Compaction
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.markdown import safe_markdown
from jp_nb.rendering.question_table import with_note
from jp_nb.rendering.report import Report, joined, table
from jp_nb.safe_text import plain

MAX_ROWS = 50
"""So many are listed: a record that somebody else wrote may alternate at every turn."""


def how_turns_are_sent(stream: ConversationStream) -> Report:
    """Return how the turns of `stream` are sent to a model, neighbours that are alike together."""
    rows = list(_rows(stream))
    if len(rows) > MAX_ROWS:
        rows[MAX_ROWS:] = [("…", f"{len(rows) - MAX_ROWS} more")]
    return table(("turns", "sent"), rows)


def _rows(stream: ConversationStream) -> Iterator[tuple[str, str]]:
    words = [how_sent(each) for each in turn_treatments(stream)] or [WHOLE] * stream.turn_count
    for said, grouped in groupby(enumerate(words), key=lambda each: each[1]):
        turns = [turn for turn, _ in grouped]
        one = turns[0] == turns[-1]
        yield str(turns[0]) if one else f"{turns[0]} to {turns[-1]}", said


def compaction_report(
    plan: CompactionPlan, stream: ConversationStream, entries: Sequence[Compaction], *, now: int
) -> Report:
    """Return what was made shorter: how turns are sent, the new summaries, and what it frees.

    Args:
        plan: What was planned.
        stream: The conversation, with what was recorded.
        entries: That.
        now: About how many tokens of messages a model is sent now.
    """
    parts = [how_turns_are_sent(stream)]
    for entry in entries:
        if entry.summary is not None:
            turns = f"The summary of {TurnRange(entry.from_turn, entry.to_turn)}:"
            text = entry.summary.summary
            shown = Report(f"{turns}\n\n{safe_markdown(text)}", f"{turns}\n{plain(text)}")
            parts.append(shown)
    note = (
        f"About {now:,} tokens of messages are sent instead of {plan.before:,}. The record keeps "
        "everything. Undo: `%jp compact --undo`"
    )
    return with_note(joined(parts, between="\n\n"), note)


def preview_report(plan: CompactionPlan) -> Report:
    """Return what `plan` would make shorter."""
    note = f"About {plan.after:,} tokens of messages would be sent instead of {plan.before:,}"
    if any(cut.rule.summary is not None for cut in plan.cuts):
        note += ", plus the summary, which is not written yet"
    return with_note(how_turns_are_sent(plan.outcome), f"{note}. Nothing has changed.")
