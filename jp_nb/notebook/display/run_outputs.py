"""The outputs of a cell that runs inside of a turn, until they are stored in their own cell.

While the cell runs, its outputs appear in the turn, each with a display id. Then they are stored in
their own cell, and removed from the turn. The messages `stream` and `error` have no display id, so
the turn shows printed text and the traceback as displays.

Source: `docs/cells.md`, https://nbformat.readthedocs.io/en/latest/format_description.html.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock, Timer
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from jp_nb.notebook.bounded_text import BoundedText
from jp_nb.notebook.display.output_origin import get_running_request, is_ours
from jp_nb.notebook.display.pending_output import flush_streams
from jp_nb.notebook.published import OUTPUT_CHANGES, Published, read_mapping
from jp_nb.notebook.running_cells import RunningCells

MAX_STORED_CHARS: Final = 4_000_000
"""Limit for all outputs of one cell that runs in a turn. If there are more, they stay there."""

TEXT_INTERVAL_S: Final = 0.1
"""Shortest time between two updates of printed text."""

_STREAM_TYPES: Final[Mapping[str, str]] = {
    "stdout": "application/vnd.jupyter.stdout",
    "stderr": "application/vnd.jupyter.stderr",
}
_NOTHING: Final[Mapping[str, str]] = {"text/plain": ""}


@dataclass(slots=True)
class _RunOutput:
    """One output of the code.

    Attributes:
        display_id: The id with which the turn shows the output.
        stored: Its JSON in a notebook, except the text of a stream.
        bundle: The MIME bundle that the turn shows.
        metadata: The metadata of a display of the code.
        user_id: The display id that the code has given; None without one.
        texts: The whole text of a stream, in pieces.
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
        if self.texts:
            return {**self.stored, "text": "".join(self.texts)}
        return self.stored


class RunOutputs:
    """Collects the outputs of a cell, and shows them in the turn if it `shows`.

    The cell is the *own cell* of the code. It has the execution `count`. The running cell, whose
    turn runs the code, has the outputs meanwhile. First comes `collecting`, in whose block the code
    runs, then `to_json`, and at last `remove` or `keep`.

    Any thread may print. The lock guards the outputs. Private methods are called with it held,
    except `_collect_or_send` and `_show_waiting_text`. While it is held, streams must not be
    flushed.

    Attributes:
        is_complete: False if there were more outputs than can be stored.
    """

    def __init__(self, kernel: Any, count: int, *, shows: bool) -> None:
        self.is_complete = True
        self._count = count
        self._shows = shows

        # The running cell, and the way in which its outputs leave the kernel.
        self._cells = RunningCells.of(kernel)
        self._request = kernel.get_parent("shell")
        self._request_id = get_running_request(kernel)
        self._session = kernel.session
        self._socket = kernel.iopub_socket
        self._send: Callable[..., Any] = self._session.send

        # The outputs that are not cleared, and the number of all outputs, for their display ids.
        self._lock = RLock()
        self._outputs: list[_RunOutput] = []
        self._prefix = f"jp-nb-run-{uuid4().hex}"
        self._output_count = 0
        self._chars = 0  # of all `_outputs`
        self._clears_next = False  # the next output replaces all earlier ones

        # The time of the next update of printed text, and the timer if text waits for it.
        self._next_text_at = 0.0
        self._timer: Timer | None = None

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the outputs of the running cell inside of the block."""
        flush_streams()
        replaced = self._session.__dict__.get("send")
        self._send = self._session.send
        self._session.send = self._collect_or_send

        try:
            yield
            flush_streams()
        finally:
            if replaced is None:
                del self._session.send
            else:
                self._session.send = replaced
            with self._lock:
                self._show_text()

    def add_error(self, error: BaseException, summary: str, lines: Sequence[str]) -> None:
        """Add the error that ended the code, with the lines of its traceback."""
        stored = {
            "output_type": "error",
            "ename": type(error).__name__,
            "evalue": summary,
            "traceback": list(lines),
        }
        bundle = {_STREAM_TYPES["stderr"]: "\n".join(lines), "text/plain": "\n".join(lines)}
        with self._lock:
            self._append(stored, bundle)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the outputs as a notebook stores them."""
        with self._lock:
            return [output.to_json() for output in self._outputs]

    def remove(self) -> None:
        """Remove the outputs from the turn: their own cell has them."""
        with self._lock:
            for output in self._outputs:
                self._publish(output, _NOTHING, {}, update=True)

    def keep(self) -> None:
        """Leave the outputs in the turn, without updates."""
        with self._lock:
            for output in self._outputs:
                self._publish(output, output.bundle, output.metadata, update=True)

    # --- messages ----------------------------------------------------------------------------

    def _collect_or_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Collect an output of the code, or send another message. It replaces `Session.send`."""
        published = Published.read(message, *args, **kwargs)
        is_output = published.kind in OUTPUT_CHANGES and published.is_about(self._request_id)
        if not is_output or is_ours() or _is_of_jp_nb(published):
            return self._send(stream, message, *args, **kwargs)

        with self._lock:
            if not self._collect(published):
                return self._send(stream, message, *args, **kwargs)
        return message

    def _collect(self, published: Published) -> bool:
        """Collect an output; return False if it belongs to other code."""
        content = published.content
        match published.kind:
            case "stream":
                self._add_text(str(content.get("name", "stdout")), str(content.get("text", "")))
            case "display_data" | "execute_result":
                self._add_display(published)
            case "update_display_data":
                return self._update(published)
            case "clear_output":
                self._clears_next = True
                if not content.get("wait"):
                    self._clear()
            case _:
                return False
        return True

    def _add_text(self, name: str, text: str) -> None:
        """Add text that was printed to the stream `name`, to its output if that is the last one."""
        last = self._outputs[-1] if self._outputs else None
        is_same_stream = last is not None and last.stored.get("name") == name
        if last is None or not is_same_stream or self._clears_next:
            last = self._append({"output_type": "stream", "name": name}, {}, is_shown=False)

        self._count_chars(len(text))
        if self.is_complete:
            last.texts.append(text)
        last.shown_text.add(text)
        self._show_text_in_time()

    def _show_text_in_time(self) -> None:
        """Show printed text now, or when the interval is over, also if no further text follows."""
        if not self._shows or self._timer is not None:
            return

        wait = self._next_text_at - monotonic()
        if wait <= 0:
            self._show_text()
            return
        self._timer = Timer(wait, self._show_waiting_text)
        self._timer.daemon = True
        self._timer.start()

    def _show_waiting_text(self) -> None:
        """Show the text for which the timer has waited; in the timer's thread."""
        with self._lock:
            if self._timer is not None:
                self._show_text()

    def _show_text(self) -> None:
        """Show the printed text of all outputs whose text has changed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

        self._next_text_at = monotonic() + TEXT_INTERVAL_S
        # Only the last output gets text, and the one before it got some until the last one began.
        for output in self._outputs[-2:]:
            name = output.stored.get("name")
            if name is None:  # a display, no stream
                continue

            text = str(output.shown_text)
            if output.bundle.get("text/plain") != text:
                kind = _STREAM_TYPES.get(name, _STREAM_TYPES["stdout"])
                output.bundle = {kind: text, "text/plain": text}
                self._show(output)

    def _add_display(self, published: Published) -> None:
        """Add a display, or the value of the last expression."""
        content = published.content
        data = dict(read_mapping(content.get("data")))
        metadata = dict(read_mapping(content.get("metadata")))
        stored: dict[str, Any] = {
            "output_type": published.kind,
            "data": data,
            "metadata": metadata,
        }
        if published.kind == "execute_result":
            stored["execution_count"] = self._count

        self._count_chars(_measure(data))
        self._append(stored, data, metadata=metadata, user_id=published.display_id)

    def _update(self, published: Published) -> bool:
        """Update displays of this code; return False if the display belongs to other code."""
        known = [output for output in self._outputs if output.user_id == published.display_id]
        if published.display_id is None or not known:
            return False

        data = dict(read_mapping(published.content.get("data")))
        metadata = dict(read_mapping(published.content.get("metadata")))
        for output in known:
            self._count_chars(_measure(data) - _measure(output.bundle))
            output.stored = {**output.stored, "data": data, "metadata": metadata}
            output.bundle = data
            output.metadata = metadata
            self._show(output)
        return True

    def _append(
        self,
        stored: dict[str, Any],
        bundle: Mapping[str, Any],
        *,
        metadata: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        is_shown: bool = True,
    ) -> _RunOutput:
        """Add an output after those before it, whose text is shown first.

        `stored` is its JSON in the notebook, and `bundle` the MIME bundle that the turn shows.
        """
        if self._clears_next:
            self._clear()
        self._show_text()

        output = _RunOutput(
            f"{self._prefix}-{self._output_count}", stored, bundle, metadata or {}, user_id=user_id
        )
        self._output_count += 1
        self._outputs.append(output)
        if is_shown:
            self._show(output)
        return output

    def _clear(self) -> None:
        for output in self._outputs:
            self._publish(output, _NOTHING, {}, update=True)
        self._outputs.clear()
        self._chars = 0
        self._clears_next = False

    def _count_chars(self, count: int) -> None:
        self._chars += count
        if self._chars > MAX_STORED_CHARS:
            self.is_complete = False

    # --- the turn ----------------------------------------------------------------------------

    def _show(self, output: _RunOutput) -> None:
        """Show an output in the turn. Its metadata let a reloaded page find it."""
        mark = {"jp_nb": {"display_id": output.display_id}}
        metadata = {**output.metadata, **mark}
        self._publish(output, output.bundle, metadata, update=output.is_shown)
        output.is_shown = True

    def _publish(
        self,
        output: _RunOutput,
        bundle: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        update: bool,
    ) -> None:
        """Send a display of the running cell, which a reloaded page gets too."""
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
        self._send(self._socket, kind, content, self._request, topic)


def _is_of_jp_nb(published: Published) -> bool:
    """Return True for outputs of jp_nb, such as the form of a question that the code asks.

    `OutputFactory` marks them in their metadata.
    """
    metadata = read_mapping(published.content.get("metadata"))
    return bool(read_mapping(metadata.get("jp_nb")))


def _measure(bundle: Mapping[str, Any]) -> int:
    """Return the number of characters in a MIME bundle."""
    chars = 0
    for value in bundle.values():
        text = value if isinstance(value, str) else json.dumps(value)
        chars += len(text)
    return chars
