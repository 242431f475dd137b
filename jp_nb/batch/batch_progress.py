"""Show the progress of a batch: a bar on a terminal, and lines for logs.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final, Protocol, TextIO

from jp_nb.batch.notebook_batch import BatchCounts, BatchObserver
from jp_nb.batch.plans.run_spec import RunSpec
from jp_nb.batch.results.open_decisions import list_misfits
from jp_nb.batch.results.run_log_lines import EndedLine
from jp_nb.text import one_line, plain, pluralize

MAX_SHOWN_RUNS: Final = 4
"""Number of running notebooks that the line below the bar names."""


class BatchProgress(BatchObserver, Protocol):
    """Shows the progress of a batch, and its counts at the end.

    The batch calls `start` and `end` for each run that it executes, and `tell` for messages to the
    user.
    """

    def close(self, counts: BatchCounts) -> None:
        """Show the counts of all runs."""


class LineProgress:
    """A `BatchProgress` that prints a line for each run that has ended, for logs of CI."""

    def __init__(self, total: int, *, file: TextIO | None = None) -> None:
        self._total = total
        self._file = sys.stderr if file is None else file
        self._ended_count = 0

    def start(self, spec: RunSpec) -> None:
        """Print nothing: the log has the start."""

    def end(self, spec: RunSpec, line: EndedLine, counts: BatchCounts) -> None:
        """Print the outcome of a run, and the cause if it failed."""
        self._ended_count += 1
        position = f"[{self._ended_count}/{self._total}]"
        self.tell(f"{position} {line.outcome.replace('_', ' ')} {spec.run} ({line.seconds:.1f} s)")
        for text in format_causes(line):
            self.tell(f"  {text}")

    def tell(self, text: str) -> None:
        """Print a message to the user."""
        print(f"jp-nb: {plain(text)}", file=self._file, flush=True)

    def close(self, counts: BatchCounts) -> None:
        """Print the counts of all runs."""
        self.tell(format_counts(counts))


def format_counts(counts: BatchCounts) -> str:
    """Return the counts of a batch in one line, with the runs that earlier batches have done."""
    totals = counts.outcomes + counts.done_before
    parts = [f"{count} {outcome.replace('_', ' ')}" for outcome, count in sorted(totals.items())]
    text = ", ".join(parts) or "no run"
    if earlier := counts.done_before.total():
        text += f" ({earlier} of them before)"
    # Such a cell may have failed for another reason than the decision for which the run waits.
    if unclear := counts.waiting_with_failed_cell:
        text += f"; {unclear} waiting {pluralize('run', unclear)} with a failed cell"
    if counts.repeated:
        text += f"; {counts.repeated} repeated sets of parameters ran once"
    return text


def format_causes(line: EndedLine) -> Iterator[str]:
    """Yield errors, prepared answers that did not fit their questions, and warnings of a run."""
    for cell in line.failed_cells:
        place = "" if cell.index is None else f"cell {cell.index + 1}: "
        yield f"{place}{one_line(cell.error, limit=300)}"
    for misfit in list_misfits(line):
        yield one_line(misfit, limit=300)
    for warning in line.warnings:
        yield one_line(warning, limit=300)


class BarProgress:
    """A `BatchProgress` with a bar: ended runs, outcomes, requests, tokens, and the time left.

    A second line names the runs that run now. Failed runs and messages are printed above. The bar
    is that of tqdm, which notebook users know, and which may be absent.
    """

    def __init__(self, total: int, *, file: TextIO | None = None) -> None:
        from tqdm import tqdm

        self._file = sys.stderr if file is None else file
        self._running: dict[str, None] = {}  # ids of the running runs, in the order of their starts
        bar_format = (
            "{percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"
        )
        self._bar = tqdm(total=total, file=self._file, bar_format=bar_format, dynamic_ncols=True)
        # tqdm has no text below a bar: a second "bar" at the next position has only a description.
        self._names_line = tqdm(
            total=0, file=self._file, bar_format="{desc}", position=1, dynamic_ncols=True
        )

    def start(self, spec: RunSpec) -> None:
        """Show that the run is running."""
        self._running[spec.run] = None
        self._show_running()

    def end(self, spec: RunSpec, line: EndedLine, counts: BatchCounts) -> None:
        """Advance the bar, and print the cause if the run failed."""
        self._running.pop(spec.run, None)
        self._show_running()
        self._bar.set_postfix_str(_format_postfix(counts), refresh=False)
        self._bar.update()

        causes = list(format_causes(line))
        if causes or line.outcome != "passed":
            self.tell(f"{line.outcome.replace('_', ' ')} {spec.run}")
        for text in causes:
            self.tell(f"  {text}")

    def tell(self, text: str) -> None:
        """Print a message above the bar."""
        self._bar.write(f"jp-nb: {plain(text)}", file=self._file)

    def close(self, counts: BatchCounts) -> None:
        """Remove the bar, and print the counts of all runs."""
        self._names_line.leave = False
        self._names_line.close()
        self._bar.close()
        print(f"jp-nb: {format_counts(counts)}", file=self._file, flush=True)

    def _show_running(self) -> None:
        names = [one_line(run, limit=60) for run in self._running]
        shown = ", ".join(names[:MAX_SHOWN_RUNS])
        if len(names) > MAX_SHOWN_RUNS:
            shown += f" and {len(names) - MAX_SHOWN_RUNS} more"
        self._names_line.set_description_str(f"now: {shown}" if shown else "")


def _format_postfix(counts: BatchCounts) -> str:
    """Return the text of the bar after the number of ended runs."""
    failed = counts.outcomes["failed"] + counts.outcomes["unknown"]
    parts = [f"{failed} failed", f"{counts.outcomes['waiting']} waiting"]
    parts.append(f"{counts.requests:,} requests")
    parts.append(f"{counts.tokens:,} tokens")
    return ", ".join(parts)


def make_progress(total: int, *, file: TextIO | None = None) -> BatchProgress:
    """Return a bar on a terminal with tqdm, and lines elsewhere, such as in CI."""
    stream = sys.stderr if file is None else file
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    if is_terminal and not os.environ.get("CI") and find_spec("tqdm") is not None:
        return BarProgress(total, file=file)
    return LineProgress(total, file=file)
