"""Collect the outputs of a cell that runs inside of a turn, until they are stored in this cell.

The kernel publishes the outputs of the code as those of the running cell, whose turn runs the code.
So the messages are taken from `Session.send`. Meanwhile, the turn shows the outputs
(`run_display.py`), and `OutputCapture` collects them for the model (`capture.py`).

Source: `docs/cells.md`, https://nbformat.readthedocs.io/en/latest/format_description.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final

from jp_nb.notebook.display.output_origin import get_running_request, is_ours
from jp_nb.notebook.display.pending_output import flush_streams
from jp_nb.notebook.display.run_display import RunDisplay, RunOutput, make_text_bundle
from jp_nb.notebook.published import OUTPUT_CHANGES, Published, read_mapping

MAX_STORED_CHARS: Final = 4_000_000
"""Limit for all outputs of one cell that runs in a turn.

If they are longer, all stay in the turn, or printed text is omitted (`OwnCell.end`).
"""


class RunOutputs:
    """Collects the outputs of a cell, and shows them in the turn if it `shows`.

    The cell is the *own cell* of the code. It has the execution `count`. First comes `collecting`,
    in whose block the code runs, then `to_json`, and at last `remove` or `keep`.

    Any thread may print. The lock guards the outputs and their display. Private methods are called
    with it held, except `_collect_or_send`. While it is held, streams must not be flushed, because
    another thread may hold a stream and wait for the lock.

    Attributes:
        is_complete: False if the outputs were too long (`MAX_STORED_CHARS`) at any time since the
            code cleared them last. Further text that the code prints is not stored then.
    """

    def __init__(self, kernel: Any, count: int, *, shows: bool) -> None:
        self.is_complete = True
        self._count = count
        self._request_id = get_running_request(kernel)  # the one whose outputs are collected
        self._session = kernel.session
        self._lock = RLock()
        self._display = RunDisplay(kernel, self._lock, shows=shows)
        self._outputs: list[RunOutput] = []  # those that the code has not cleared
        self._chars = 0  # of all `_outputs`
        self._clears_next = False  # the next output replaces all earlier ones

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the outputs of the running cell inside of the block."""
        flush_streams()
        replaced = self._session.__dict__.get("send")
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
                self._display.show_waiting_text()

    def add_error(self, error: BaseException, summary: str, lines: Sequence[str]) -> None:
        """Add the error that ended the code, with the lines of its traceback."""
        stored = {
            "output_type": "error",
            "ename": type(error).__name__,
            "evalue": summary,
            "traceback": list(lines),
        }
        with self._lock:
            self._append(stored, make_text_bundle("stderr", "\n".join(lines)))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the outputs as a notebook stores them."""
        with self._lock:
            return [output.to_json() for output in self._outputs]

    def remove(self) -> None:
        """Remove the outputs from the turn: their own cell has them."""
        with self._lock:
            for output in self._outputs:
                self._display.remove(output)

    def keep(self) -> None:
        """Leave the outputs in the turn."""
        with self._lock:
            for output in self._outputs:
                self._display.leave(output)

    # --- messages ----------------------------------------------------------------------------

    def _collect_or_send(self, stream: Any, message: Any, *args: Any, **kwargs: Any) -> Any:
        """Collect an output of the code, or send another message. It replaces `Session.send`."""
        published = Published.read(message, *args, **kwargs)
        is_output = published.kind in OUTPUT_CHANGES and published.is_about(self._request_id)
        if not is_output or is_ours() or _is_of_jp_nb(published):
            return self._display.send(stream, message, *args, **kwargs)

        with self._lock:
            if not self._collect(published):
                return self._display.send(stream, message, *args, **kwargs)
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
            case _:  # `error`: this code has none, because `add_error` adds its error
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
        self._display.show_text_in_time(last)

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

        # First: it applies a `clear_output` that waits for this output.
        self._append(stored, data, metadata=metadata, user_id=published.display_id)
        self._count_chars(_measure(data))

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
            self._display.show(output)

        return True

    def _append(
        self,
        stored: dict[str, Any],
        bundle: Mapping[str, Any],
        *,
        metadata: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        is_shown: bool = True,
    ) -> RunOutput:
        """Add an output after those before it, whose text is shown first.

        `stored` is its JSON in the notebook, and `bundle` the MIME bundle that the turn shows.
        """
        if self._clears_next:
            self._clear()
        self._display.show_waiting_text()

        display_id = self._display.make_display_id()
        output = RunOutput(display_id, stored, bundle, metadata or {}, user_id=user_id)
        self._outputs.append(output)
        if is_shown:
            self._display.show(output)
        return output

    def _clear(self) -> None:
        """Remove all outputs, as the code demands with `clear_output`."""
        for output in self._outputs:
            self._display.remove(output)
        self._outputs.clear()
        self._chars = 0
        self.is_complete = True
        self._clears_next = False

    def _count_chars(self, count: int) -> None:
        """Add to the size of the outputs. If they are too long, they stay incomplete until cleared.

        Updates can make them shorter again, but printed text may be missing by then.
        """
        self._chars += count
        if self._chars > MAX_STORED_CHARS:
            self.is_complete = False


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
