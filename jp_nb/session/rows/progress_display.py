"""Show the progress of rows outside of a notebook's page: as lines, or as one line of a terminal.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import sys
from typing import Final, Protocol, TextIO

from jp_nb.rendering.reports.row_progress import RowProgress

PLAIN_STEPS: Final = 10
"""Number of lines that show the progress where lines cannot be replaced."""


class ProgressDisplay(Protocol):
    """Shows the progress of rows; on the thread that waits for them."""

    def show(self, progress: RowProgress) -> None:
        """Show the progress, a few times in a second."""

    def finish(self, progress: RowProgress) -> None:
        """Show the final counts."""


class NoProgress:
    """Shows nothing."""

    def show(self, progress: RowProgress) -> None:
        """Show nothing."""

    def finish(self, progress: RowProgress) -> None:
        """Show nothing."""


class PlainProgress:
    """Prints a line after each tenth of the rows, without times: equal runs print equal lines."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._shown_steps = 0

    def show(self, progress: RowProgress) -> None:
        """Print a line for each further tenth of the rows that is done."""
        total = progress.total
        if total is None or total < PLAIN_STEPS:  # only the final counts
            return

        # The line with the final counts, which `finish` prints, is that of the last step.
        steps = min(progress.done * PLAIN_STEPS // total, PLAIN_STEPS - 1)
        for step in range(self._shown_steps + 1, steps + 1):
            rows = total * step // PLAIN_STEPS
            print(f"jp_nb: {rows:,} of {total:,} rows", file=self._file, flush=True)
        self._shown_steps = max(self._shown_steps, steps)

    def finish(self, progress: RowProgress) -> None:
        """Print the lines that are left, and the final counts."""
        self.show(progress)
        print(f"jp_nb: {progress.format_counts()}", file=self._file, flush=True)


class TerminalProgress:
    """Replaces one line of a terminal."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def show(self, progress: RowProgress) -> None:
        """Replace the line."""
        self._file.write(f"\r\x1b[Kjp_nb: {progress.format_line()}")
        self._file.flush()

    def finish(self, progress: RowProgress) -> None:
        """Replace the line by the final counts."""
        self._file.write(f"\r\x1b[Kjp_nb: {progress.format_counts()}\n")
        self._file.flush()


def choose_stream_display() -> ProgressDisplay:
    """Return the display of a program without a notebook."""
    if sys.stderr is None:
        return NoProgress()
    return TerminalProgress(sys.stderr) if sys.stderr.isatty() else PlainProgress(sys.stderr)
