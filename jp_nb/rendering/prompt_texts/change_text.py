"""Proposed configuration changes as text, for prompts, and for the summary of a decision.

A `ProposedChange` is one change of a setting, with its current and its proposed value as JSON. An
unset setting may get another value `then`, that of a lower layer. As text, a change reads
`style.tone: "dry" → "warm"`. `change_table.py` shows changes as a table in a form.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

from jp_nb.agent.prompting.prompts import ProposedChange
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.rendering.report import MAX_CELL_CHARS
from jp_nb.rendering.text_diff import diff_change
from jp_nb.text import plain, pluralize

NOW_WHOLE = "The whole current value"
PROPOSED_WHOLE = "The whole proposed value"
MAX_CHANGES = 50
"""Limit of changes in the record of a decision; further ones are counted."""
MAX_DIFFERENCE_LINES = 100
"""Limit of all changed values together in the record of a decision."""


def spell_change(change: ProposedChange, *, limit: int = sys.maxsize) -> ProposedChange:
    """Return `change` with invisible characters spelled out, and texts cut to `limit`.

    The path is spelled as a name, such as `a⟨U+200B⟩b`. Values are JSON, and get its escapes.
    """

    def spell(value: str | None) -> str | None:
        return None if value is None else plain(escape_invisible(value), limit=limit)

    path = plain(spell_invisible(change.path), limit=limit) or '""'
    return replace(
        change,
        path=path,
        now=spell(change.now),
        proposed=spell(change.proposed),
        then=spell(change.then),
    )


class ChangeSummary(NamedTuple):
    """Summary of a decided change: a line, and the differences of long values.

    A short change is as a whole in its line. That of a long one has the sizes of its values, as in
    `text, 12 lines → text, 14 lines`, and `difference` has the lines that differ and some around.
    """

    line: str
    difference: tuple[str, ...] = ()


def summarize_changes(changes: tuple[ProposedChange, ...]) -> list[ChangeSummary]:
    """Return a summary of each of the first `MAX_CHANGES` changes, and a line about the others."""
    summaries: list[ChangeSummary] = []
    remaining_lines = MAX_DIFFERENCE_LINES

    for change in changes[:MAX_CHANGES]:
        short_change = spell_change(change, limit=MAX_CELL_CHARS)
        difference = diff_change(change)
        if difference is None:  # both values are short
            summaries.append(ChangeSummary(str(short_change)))
            continue

        listed = difference.lines[:remaining_lines]
        lines = [plain(str(line), limit=MAX_CELL_CHARS) for line in listed]
        omitted_lines = len(difference.lines) - len(listed)
        if omitted_lines:
            verb = "differs" if omitted_lines == 1 else "differ"
            noun = pluralize("line", omitted_lines)
            lines.append(f"… {omitted_lines} more {noun} that {verb}")

        remaining_lines = max(remaining_lines - len(lines), 0)
        line = f"{short_change.path}: {difference.sizes}"
        summaries.append(ChangeSummary(line, tuple(lines)))

    omitted_changes = len(changes) - len(summaries)
    if omitted_changes:
        noun = pluralize("change", omitted_changes)
        summaries.append(ChangeSummary(f"… {omitted_changes} more {noun}"))

    return summaries
