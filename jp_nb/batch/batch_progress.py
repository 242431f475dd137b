"""Show the progress of a batch: a line for each end of a run.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TextIO

from jp_nb.batch.notebook_batch import BatchCounts
from jp_nb.batch.run_log import EndedLine
from jp_nb.batch.run_spec import RunSpec
from jp_nb.text import one_line, plain


class LineProgress:
    """Prints a line for each run that has ended, for logs of CI and terminals without a bar."""

    def __init__(self, total: int, *, file: TextIO | None = None) -> None:
        self._total = total
        self._file = sys.stderr if file is None else file
        self._ended = 0

    def start(self, spec: RunSpec) -> None:
        """Print nothing: the log has the start."""

    def end(self, spec: RunSpec, line: EndedLine, counts: BatchCounts) -> None:
        """Print the outcome of a run, and the cause if it failed."""
        self._ended += 1
        begin = f"[{self._ended}/{self._total}]"
        self.tell(f"{begin} {line.outcome.replace('_', ' ')} {spec.run} ({line.seconds:.1f} s)")
        for text in format_causes(line):
            self.tell(f"  {text}")

    def tell(self, text: str) -> None:
        """Print a message to the user."""
        print(f"jp-nb: {plain(text)}", file=self._file, flush=True)

    def close(self, counts: BatchCounts) -> None:
        """Print the counts of all runs."""
        self.tell(format_counts(counts))


def format_counts(counts: BatchCounts) -> str:
    """Return the counts of a batch in one line."""
    total = counts.outcomes + counts.done_before
    parts = [f"{number} {outcome.replace('_', ' ')}" for outcome, number in sorted(total.items())]
    text = ", ".join(parts) or "no run"
    if before := counts.done_before.total():
        text += f" ({before} of them before)"
    if counts.repeated:
        text += f"; {counts.repeated} repeated sets of parameters ran once"
    return text


def format_causes(line: EndedLine) -> Iterator[str]:
    """Yield the errors of a failed run, and the warnings of any run."""
    for cell in line.failed_cells:
        place = "" if cell.index is None else f"cell {cell.index + 1}: "
        yield f"{place}{one_line(cell.error, limit=300)}"
    for warning in line.warnings:
        yield one_line(warning, limit=300)
