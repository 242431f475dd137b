"""Report of a replayed turn: its recorded results beside those of the current tools.

A replay (`turn_replay.py`) calls the tools of a recorded turn again, without a request to a model.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
    """One result of a replayed turn, beside the recorded one.

    Attributes:
        name: Name of the tool; `configuration` for the changes of all calls of a batch.
        then: The recorded result; None if it is missing.
        now: The result of the current tool; None if it is missing.
        note: The reason why the results cannot be equal; "" if they can.
    """

    name: str
    then: str | None
    now: str | None
    note: str = ""

    @property
    def is_same(self) -> bool:
        """True if both results are equal."""
        return not self.note and self.then == self.now


def render_replay(number: int, results: Sequence[Replayed], note: str = "") -> Report:
    """Return the differences, a table of all results, and a `note` about the whole replay.

    `number` is the stored number of the turn, counted from 0.
    """
    parts = list[Report]()
    rows = []

    for call_number, result in enumerate(results, 1):
        parts += _list_difference(call_number, result)

        state = "same" if result.is_same else "differs"
        then = "-" if result.then is None else result.then
        now = "-" if result.now is None else result.now
        rows.append((str(call_number), result.name, then, now, result.note or state))

    same_count = sum(result.is_same for result in results)
    parts.append(
        make_line(
            f"Turn {to_shown_turn(number)} with the current tools: {same_count} of {len(results)} "
            "results are the same. The conversation is unchanged."
        )
    )
    parts.append(make_table(("call", "tool", "then", "now", "same?"), rows, limit=80))
    if note:
        parts.append(make_line(note))

    return join_reports(parts)


def _list_difference(number: int, result: Replayed) -> Iterator[Report]:
    """Yield the difference of two results; nothing if they are the same, or one is missing."""
    if result.is_same or result.then is None or result.now is None:
        return

    label = f"{number} {one_line(result.name, limit=80)}"
    # `summarize_changes` compares two values of a setting. It gets the two results as such values.
    change = ProposedChange(label, json.dumps(result.then), json.dumps(result.now))
    [summary] = summarize_changes((change,))
    yield Report(f"≠ {make_code_span(summary.line)}", f"≠ {summary.line}")
    if summary.difference:
        yield make_block("\n".join(summary.difference), "diff")
