"""Watch the output of tools while a turn runs.

All output of a cell leaves the kernel through `Session.send`, from any thread. So `ToolOutput`
replaces this method. `TurnDisplay` asks it whether a tool has shown anything, to start a new part
of the turn below that output.

Source: `docs/protocol.md`, https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from jp_nb.notebook.display.outbox import BATCH_INTERVAL_S, Outbox
from jp_nb.notebook.display.output_origin import get_running_request, is_ours
from jp_nb.notebook.display.pending_output import flush_streams, list_open_figures, show_figures
from jp_nb.notebook.published import OUTPUT_CHANGES, Published, read_mapping

SendOutput = Callable[[], Any]


class ClearOutput(Protocol):
    """Receiver of the request of a tool to clear outputs; with `wait`, before its next output."""

    def __call__(self, *, wait: bool) -> None:
        """Clear the outputs of the current call."""


class ToolOutput:
    """Watcher of the output of tools while a turn runs.

    Output of a *function*, which runs on the cell's thread, is distinguished from output of *other*
    tools. Output inside of `mark_as_ours` belongs to the turn.

    Args:
        hold: Hold the output until `take_of_function` or `take_of_others`, because in a headless
            run the order of final outputs matters. Otherwise it is sent in batches with all output
            of the cell.
        interval: Shortest time between two batches, in seconds.

    Attributes:
        watches: True while tools run.
        function_has_image: True if the last function displayed an image.
        on_clear: Called on the thread of a tool that clears outputs, so that the front end also
            forgets the text that the tool has printed (`PrintedTexts`).
        on_cleared: Called for the turn, on any thread, when a tool has cleared the cell's outputs,
            and with them those of the turn. Held output is cleared here, so the cell keeps its
            outputs.
    """

    def __init__(self, kernel: Any, *, hold: bool, interval: float = BATCH_INTERVAL_S) -> None:
        self.watches = False
        self.function_has_image = False
        self.on_clear: ClearOutput = lambda *, wait: None
        self.on_cleared: Callable[[], None] = lambda: None
        self._holds = hold
        self._session = kernel.session
        self._replaced: Callable[..., Any] | None = None  # `send` of the session until `close`
        self._request = get_running_request(kernel)  # the id of the request that runs the cell
        self._outbox = None if hold else Outbox.of(kernel, self._request, interval)
        self._send: Callable[..., Any] = (self._outbox or self._session).send
        self._function_runs = False
        self._figures: frozenset[int] = frozenset()  # figures that were open before the function
        self._of_function = _HeldOutput()
        self._of_others = _HeldOutput()

    def open(self) -> None:
        """Start to watch."""
        self._replaced = self._session.__dict__.get("send")
        self._session.send = self._watch_and_send

    def close(self) -> None:
        """Stop watching, and send the current batch."""
        self.send_now()
        if self._session.__dict__.get("send") != self._watch_and_send:
            return  # other code has replaced it meanwhile, and may still call ours

        if self._replaced is None:
            del self._session.send
        else:
            self._session.send = self._replaced

    def send_now(self) -> None:
        """Send the current batch."""
        if self._outbox is not None:
            self._outbox.release()

    def begin_function(self) -> None:
        """Note that a tool's function begins on this thread."""
        flush_streams()
        self._of_function.is_new = False
        self.function_has_image = False
        self._figures = list_open_figures()
        self._function_runs = True

    def end_function(self) -> bool:
        """Note that the function has ended, and show its figures.

        Return True if the function has shown anything since the last call.
        """
        if list_open_figures() - self._figures:
            show_figures()
        has_output = self.check_function_output()
        self._function_runs = False
        return has_output

    def check_function_output(self) -> bool:
        """Return True if the running function has shown anything since the last call.

        What it has printed is flushed first, so that it is seen here.
        """
        flush_streams()
        return self._of_function.take_new()

    def check_output_of_others(self) -> bool:
        """Return True if other tools have shown anything since the last call.

        What they have printed is flushed first, so that it is seen here.
        """
        flush_streams()
        return self._of_others.take_new()

    def take_of_function(self) -> list[SendOutput]:
        """Remove and return the held output of functions, as functions that send it."""
        return self._of_function.take()

    def take_of_others(self) -> list[SendOutput]:
        """Remove and return the held output of other tools, as functions that send it."""
        return self._of_others.take()

    def _watch_and_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Send or hold a message. This replaces `Session.send`, and returns the sent message."""
        send = partial(self._send, stream, message, *args, **kwargs)
        published = Published.read(message, *args, **kwargs)
        is_output = published.kind in OUTPUT_CHANGES and published.is_about(self._request)
        if not (self.watches and is_output) or is_ours():
            return send()

        if published.kind == "clear_output":
            self.on_clear(wait=bool(published.content.get("wait")))

        held = self._of_others
        if self._function_runs:
            held = self._of_function
            kinds = read_mapping(published.content.get("data"))
            self.function_has_image |= any(str(kind).startswith("image/") for kind in kinds)

        held.is_new = True
        if self._holds:
            held.add(send, published)
            return message

        sent = send()
        if published.kind == "clear_output":
            self.on_cleared()

        return sent


class _HeldOutput:
    """Output of tools that was not sent yet. Clearing affects only this output.

    Attributes:
        is_new: True if there was output since the last `take_new`, held or sent.
    """

    def __init__(self) -> None:
        self.is_new = False
        self._sends: list[SendOutput] = []
        self._clears_next = False  # the next output replaces all earlier ones

    def take_new(self) -> bool:
        """Return `is_new`, and set it to False."""
        is_new = self.is_new
        self.is_new = False
        return is_new

    def add(self, send: SendOutput, published: Published) -> None:
        """Hold a message, or remove the earlier ones if it clears outputs."""
        clears = published.kind == "clear_output"
        if clears and published.content.get("wait"):
            self._clears_next = True
            return

        if clears or self._clears_next:
            self._sends.clear()
            self._clears_next = False

        if not clears:
            self._sends.append(send)

    def take(self) -> list[SendOutput]:
        taken = list(self._sends)
        del self._sends[: len(taken)]  # another thread may append meanwhile
        return taken
