"""Table of reasoning that a model did not get, or could not use: `%jp usage --why`.

A request sends the reasoning of earlier answers again. The provider may report blocks of it that
no longer fit the conversation, with a reason. It drops a block, or gives it to the model
nevertheless. The record keeps the number of these blocks as *input changes* (`input_changes.py`).

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from jp_nb.record.documents.document import Document
from jp_nb.record.reading.input_changes import read_input_changes
from jp_nb.rendering.report import Report, join_reports, make_note, make_remark, make_table
from jp_nb.rendering.reports.usage_tables import format_turn_cells
from jp_nb.rendering.table_cells import MAX_TABLE_ROWS, format_count
from jp_nb.text import one_line

_REASON_CHARS: Final = 40
_COLUMNS: Final = ("turn", "request", "reasoning blocks", "used", "reason")
UNUSED_REASONS: Final = {
    "prefix": "something before them changed",
    "model": "the model cannot read those of another model",
    "organization": "another account made them",
    "end_user": "another user made them",
    "turn_boundary": "they belong to an earlier turn",
}
"""The reasons that Anthropic names, in words for the user."""
ALL_USED: Final = "No provider reported reasoning that a model did not get in these turns."
REPORTED_BY_BETA: Final = (
    "Anthropic reports this only with `thinking-binding-controls-2026-08-01` in "
    "`providers.llm.anthropic.beta_headers`."
)


def render_unused_reasoning(document: Document, last: int) -> Report:
    """Return the reported blocks of reasoning in the `last` turns, by reason."""
    rows = list[tuple[str, ...]]()
    for turn in list(document.conversation.turns())[-last:]:
        # The number of blocks for each reason, apart for those that the provider dropped.
        counts = sum((read_input_changes(entry.metadata) for entry in turn.entries), Counter())
        turn_cells = format_turn_cells(turn)

        for (reason, is_dropped), count in counts.most_common(MAX_TABLE_ROWS):
            reason_text = UNUSED_REASONS.get(reason, one_line(reason, limit=_REASON_CHARS))
            used_cell = "no" if is_dropped else "yes"
            rows.append((*turn_cells, format_count(count), used_cell, reason_text))
            turn_cells = ("", "")  # only in the first row of a turn

    report = make_table(_COLUMNS, rows) if rows else make_remark(ALL_USED)
    return join_reports([report, make_note(REPORTED_BY_BETA)])
