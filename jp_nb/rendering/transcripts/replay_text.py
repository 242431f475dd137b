"""Report of a replayed turn: its recorded results beside those of the current tools.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.agent.prompting.prompts import ProposedChange
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.rendering.markdown import make_code_span
from jp_nb.rendering.prompt_texts.change_text import summarize_changes
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_block,
    make_line,
    make_table,
)
from jp_nb.text import one_line


@dataclass(frozen=True, slots=True)
class Replayed:
    """One result of a replayed turn: as recorded (`then`), and of the current tools (`now`).

    A missing result is None. `note` is the reason why the results cannot be equal. The `name` of
    the tool is `configuration` for the changes of all calls of a batch.
    """

    name: str
    then: str | None
    now: str | None
    note: str = ""

    @property
    def same(self) -> bool:
        """True if both results are equal."""
        return not self.note and self.then == self.now


def render_replay(number: int, results: Sequence[Replayed], note: str = "") -> Report:
    """Return the differences, a table of all results, and `note`."""
    parts = list[Report]()
    rows = []

    for place, each in enumerate(results, 1):
        state = "same" if each.same else "differs"
        then = "-" if each.then is None else each.then
        now = "-" if each.now is None else each.now
        rows.append((str(place), each.name, then, now, each.note or state))

        if not (each.same or each.then is None or each.now is None):
            label = f"{place} {one_line(each.name, limit=80)}"
            change = ProposedChange(label, json.dumps(each.then), json.dumps(each.now))
            [shown] = summarize_changes((change,))
            parts.append(Report(f"≠ {make_code_span(shown.line)}", f"≠ {shown.line}"))
            if shown.difference:
                parts.append(make_block("\n".join(shown.difference), "diff"))

    same = sum(each.same for each in results)
    parts.append(
        make_line(
            f"Turn {to_shown_turn(number)} with the current tools: {same} of {len(results)} "
            "results are the same. The conversation is unchanged."
        )
    )
    parts.append(make_table(("call", "tool", "then", "now", "same?"), rows, limit=80))
    if note:
        parts.append(make_line(note))

    return join_reports(parts)
