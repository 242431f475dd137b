"""Show the outputs of a cell that runs inside of a turn among the outputs of the turn.

The messages `stream` and `error` have no display id. So that each output can be updated, and at
last removed from the turn, the turn shows all of them as displays, also printed text and the
traceback.

`RunOutputs` (`run_outputs.py`) collects the outputs, as each `RunOutput`, and decides which of them
the turn shows. `RunDisplay` sends the messages for this.

Source: `docs/cells.md`, https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import RLock, Timer
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from jp_nb.notebook.bounded_text import BoundedText
from jp_nb.notebook.cell_watch import watch_cells

TEXT_INTERVAL_S: Final = 0.1
"""Shortest time between two updates of printed text."""

_STREAM_TYPES: Final[Mapping[str, str]] = {
    "stdout": "application/vnd.jupyter.stdout",
    "stderr": "application/vnd.jupyter.stderr",
}
_NOTHING: Final[Mapping[str, str]] = {"text/plain": ""}


@dataclass(slots=True)
class RunOutput:
    """One output of the code.

    Attributes:
        display_id: The id with which the turn shows the output.
        stored: Its JSON in a notebook, except the text of a stream.
        bundle: The MIME bundle that the turn shows.
        metadata: The metadata of a display of the code.
        user_id: The display id that the code has given; None without one.
        texts: The whole text of a stream, in pieces, to which `RunOutputs` appends.
        shown_text: The text of a stream as the turn shows it, bounded.
        is_shown: True if it was published.
    """

    display_id: str
    stored: dict[str, Any]
    bundle: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    user_id: str | None = None
    texts: list[str] = field(default_factory=list)
    shown_text: BoundedText = field(default_factory=BoundedText)
    is_shown: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the output as a notebook stores it."""
        if self.texts:
            return {**self.stored, "text": "".join(self.texts)}
        return self.stored


class RunDisplay:
    """Shows outputs as displays of the running cell, or does nothing unless it `shows`.

    `lock` is that of `RunOutputs`, which holds it in all calls. The timer takes it for itself.

    Attributes:
        send: `Session.send`, as it is before `RunOutputs` replaces it.
    """

    def __init__(self, kernel: Any, lock: RLock, *, shows: bool) -> None:
        self._lock = lock
        self._shows = shows
        self._prefix = f"jp-nb-run-{uuid4().hex}"
        self._id_count = 0

        # The running cell, and the way in which its outputs leave the kernel.
        self._cells = watch_cells(kernel)
        self._request = kernel.get_parent("shell")
        self._socket = kernel.iopub_socket
        self.send: Callable[..., Any] = kernel.session.send

        # The stream whose new text is not shown yet, the time of the next update of text, and the
        # timer while the text waits for that time.
        self._waiting: RunOutput | None = None
        self._next_text_at = 0.0
        self._timer: Timer | None = None

    def make_display_id(self) -> str:
        """Return a new display id."""
        display_id = f"{self._prefix}-{self._id_count}"
        self._id_count += 1
        return display_id

    # --- outputs -----------------------------------------------------------------------------

    def show(self, output: RunOutput) -> None:
        """Show an output, or its new bundle."""
        # With this mark, a page that is reloaded meanwhile finds the output, and can update it.
        mark = {"jp_nb": {"display_id": output.display_id}}
        metadata = {**output.metadata, **mark}
        self._publish(output, output.bundle, metadata, update=output.is_shown)
        output.is_shown = True

    def remove(self, output: RunOutput) -> None:
        """Remove an output from the turn. An empty display stays."""
        if output is self._waiting:
            self._waiting = None
        self._publish(output, _NOTHING, {}, update=True)

    def leave(self, output: RunOutput) -> None:
        """Leave an output in the turn. It needs no mark any more, because no update follows."""
        self._publish(output, output.bundle, output.metadata, update=True)

    def _publish(
        self,
        output: RunOutput,
        bundle: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        update: bool,
    ) -> None:
        """Send a display of the running cell, and keep it for pages that are reloaded meanwhile."""
        if not self._shows or (update and not output.is_shown):
            return

        data = dict(bundle)
        sent_metadata = dict(metadata)
        if self._cells is not None:
            display_id = output.display_id
            self._cells.set_output(self._request, display_id, data, sent_metadata, update=update)

        kind = "update_display_data" if update else "display_data"
        content = {
            "data": data,
            "metadata": sent_metadata,
            "transient": {"display_id": output.display_id},
        }
        topic = b"display_data"
        self.send(self._socket, kind, content, self._request, topic)

    # --- printed text ------------------------------------------------------------------------

    def show_text_in_time(self, output: RunOutput) -> None:
        """Show the new text of a stream now, or when the interval is over.

        `output` is the last one, because text is appended to no other. Call `show_waiting_text`
        before another output follows.
        """
        if not self._shows:
            return

        self._waiting = output
        if self._timer is not None:
            return

        wait = self._next_text_at - monotonic()
        if wait <= 0:
            self.show_waiting_text()
            return

        self._timer = Timer(wait, self._show_text_after_wait)
        self._timer.daemon = True
        self._timer.start()

    def _show_text_after_wait(self) -> None:
        """Show the text for which the timer has waited; in the timer's thread."""
        with self._lock:
            if self._timer is not None:  # otherwise the text was shown meanwhile
                self.show_waiting_text()

    def show_waiting_text(self) -> None:
        """Show the text that waits, if any. Later text waits for the interval."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

        self._next_text_at = monotonic() + TEXT_INTERVAL_S
        output = self._waiting
        self._waiting = None
        if output is None:
            return

        text = str(output.shown_text)
        if output.bundle.get("text/plain") != text:
            output.bundle = make_text_bundle(str(output.stored["name"]), text)
            self.show(output)


def make_text_bundle(stream: str, text: str) -> dict[str, str]:
    """Return the MIME bundle that pages show as the output of `stream`, such as `stderr`."""
    kind = _STREAM_TYPES.get(stream, _STREAM_TYPES["stdout"])
    return {kind: text, "text/plain": text}
