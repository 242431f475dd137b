"""What the tools of a recorded turn answer now, beside what they answered then.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jp_nb.agent.prompts import ProposedChange
from jp_nb.rendering import wording
from jp_nb.rendering.bench_report import said
from jp_nb.rendering.markdown import code_block, code_span
from jp_nb.rendering.report import Report, joined, table
from jp_nb.safe_text import one_line

MAX_RESULT_CHARS = 80
"""Of one result in the table."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One result of a turn, then and now; None where there is none.

    Attributes:
        name: The tool; `configuration` of what all calls of a batch changed.
        note: Why it cannot be the same.
    """

    name: str
    then: str | None
    now: str | None
    note: str = ""

    @property
    def same(self) -> bool:
        """True if it is what it was."""
        return not self.note and self.then == self.now


def replay_report(number: int, results: Sequence[Replayed], note: str = "") -> Report:
    """Return what differs, one result after the other, a table of all of them, and `note`."""
    same = sum(each.same for each in results)
    head = said(
        f"Turn {number} with the current tools: {same} of {len(results)} results are the same. "
        "The conversation is unchanged."
    )
    rows = [
        (str(place), each.name, _short(each.then), _short(each.now), each.note or _verdict(each))
        for place, each in enumerate(results, 1)
    ]
    listed = table(("call", "tool", "then", "now", "same?"), rows, limit=MAX_RESULT_CHARS)
    return joined([*_differences(results), head, listed, *([said(note)] if note else [])])


def _differences(results: Sequence[Replayed]) -> Iterator[Report]:
    for place, each in enumerate(results, 1):
        if each.same or each.then is None or each.now is None:
            continue
        label = f"{place} {one_line(each.name, limit=80)}"
        change = ProposedChange(label, json.dumps(each.then), json.dumps(each.now))
        for shown in wording.decided((change,)):
            text = [f"≠ {shown.line}", *(f"    {line}" for line in shown.difference)]
            block = code_block("\n".join(shown.difference), "diff") if shown.difference else ""
            marked = "\n\n".join(filter(None, (f"≠ {code_span(shown.line)}", block)))
            yield Report(marked, "\n".join(text))


def _verdict(result: Replayed) -> str:
    return "same" if result.same else "differs"


def _short(text: str | None) -> str:
    return "-" if text is None else one_line(text, limit=MAX_RESULT_CHARS)
