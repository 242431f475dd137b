"""Capture the outputs of the running cell.

All output of a cell leaves the kernel through `Session.send`, from any thread. In a terminal, it is
written to `sys.stdout` and `sys.stderr`.

Source: `docs/notebook-tools.md`,
https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from jp_nb.notebook.display.capture import OutputCapture
from jp_nb.notebook.display.output_origin import get_running_request, is_ours
from jp_nb.notebook.display.pending_output import flush_streams
from jp_nb.notebook.published import Published


@contextmanager
def capture_cell(shell: Any) -> Iterator[OutputCapture]:
    """Capture all output of the running cell, which is still shown. Use on the cell's thread."""
    capture = OutputCapture()
    session = getattr(getattr(shell, "kernel", None), "session", None)
    if session is None:
        # A terminal prints the text of displays as well.
        out = _Tee(sys.stdout, "stdout", capture)
        err = _Tee(sys.stderr, "stderr", capture)
        with redirect_stdout(out), redirect_stderr(err):
            yield capture
        return

    outer: Callable[..., Any] = session.send
    replaced = session.__dict__.get("send")  # None for the method of the class
    cell = get_running_request(shell.kernel)

    def send(stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        published = Published.read(message, *args, **kwargs)
        # Outputs of the turn, such as its status line, are in the cell too, and are not the code's.
        if published.is_about(cell) and not is_ours():
            capture.add_message(published.kind, published.content)
        return outer(stream, message, *args, **kwargs)

    flush_streams()  # what was printed before is not captured
    session.send = send

    try:
        yield capture
        flush_streams()  # what the code has printed is still captured
    finally:
        if replaced is None:
            del session.send
        else:
            session.send = replaced


class _Tee:
    """A stream whose text is also captured."""

    def __init__(self, stream: Any, name: str, capture: OutputCapture) -> None:
        self._stream = stream
        self._name = name
        self._capture = capture

    def write(self, text: str) -> int:
        self._capture.add_text(self._name, text)
        written: int = self._stream.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
