"""The progress of many requests as a bar in the running cell.

One display is updated, and its last state stays in the notebook as a line of text. It needs no
widget, which a reopened notebook could not show.

Source: `docs/rows.md`.
"""

from __future__ import annotations

from html import escape
from typing import Any

from jp_nb.notebook.display.cell_output import OutputFactory
from jp_nb.rendering.reports.row_progress import RowProgress


class ProgressBar:
    """A bar with the counts below it, which a reloaded page shows too."""

    def __init__(self, shell: Any) -> None:
        outputs = OutputFactory(shell.display_pub.publish, shell.kernel)
        self._publish = outputs()  # the function that publishes one output, and updates it
        self._is_shown = False

    def show(self, progress: RowProgress) -> None:
        """Show the bar, the counts, and the time left."""
        values = ""
        if progress.total:  # without it, the bar moves to and fro
            values = f' value="{progress.done}" max="{progress.total}"'

        line = progress.format_line()
        bar = f'<progress{values} style="width: 100%" aria-label="rows"></progress>'
        self._show_html(line, f"{bar}<div>{escape(line)}</div>", final=False)

    def finish(self, progress: RowProgress) -> None:
        """Replace the bar by the final counts."""
        counts = progress.format_counts()
        self._show_html(counts, f"<div>{escape(counts)}</div>", final=True)

    def _show_html(self, text: str, html: str, *, final: bool) -> None:
        """Show `html` in place of the earlier state; `final` tells pages that it is the last."""
        bundle = {"text/plain": text, "text/html": html}
        self._publish(bundle, update=self._is_shown, final=final)
        self._is_shown = True
