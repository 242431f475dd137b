"""The progress of many requests as a bar in the running cell.

One display is updated, and its last state stays in the notebook as a line of text. It needs no
widget, which a reopened notebook could not show.

Source: `docs/rows.md`.
"""

from __future__ import annotations

from html import escape
from typing import Any
from uuid import uuid4

from jp_nb.rendering.row_progress import RowProgress


class ProgressBar:
    """A bar with the counts below it."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._display_id = f"jp-nb-rows-{uuid4().hex}"
        self._is_shown = False

    def show(self, progress: RowProgress) -> None:
        """Show the bar, the counts, and the time left."""
        line = progress.format_line()
        bar = '<progress style="width: 100%" aria-label="rows">'
        if progress.total:
            values = f'value="{progress.done}" max="{progress.total}"'
            bar = bar.replace("<progress", f"<progress {values}")
        self._publish(line, f"{bar}</progress><div>{escape(line)}</div>")

    def finish(self, progress: RowProgress) -> None:
        """Replace the bar by the final counts."""
        self._publish(progress.counts, f"<div>{escape(progress.counts)}</div>")

    def _publish(self, text: str, html: str) -> None:
        self._shell.display_pub.publish(
            data={"text/plain": text, "text/html": html},
            metadata={},
            transient={"display_id": self._display_id},
            update=self._is_shown,
        )
        self._is_shown = True
