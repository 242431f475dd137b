"""Keep the outputs of one run of code, as the model gets them.

They are bounded: the first and the last ones are kept, and the beginning and the end of each text
(`BoundedText`). `cell_capture.py` captures them. The error of the code is not an output here: the
model gets it separately (`code_runs.py`).

Source: `docs/notebook-tools.md`,
https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from jp_nb.image_headers import MEDIA_TYPES, detect_media_type
from jp_nb.images import Image
from jp_nb.notebook.bounded_text import BoundedText
from jp_nb.text import plain
from jp_nb.toolkit.notebook_access import CellOutput

MAX_RUN_OUTPUTS: Final = 100
"""Limit at the beginning of a run, and at its end."""
MAX_RUN_IMAGES: Final = 20
"""Limit of images of a run; further ones are replaced by a note."""

OutputKind = Literal["stream", "display", "result"]


@dataclass(slots=True)
class _Output:
    """One captured output; `name` is the name of a stream."""

    kind: OutputKind
    name: str = ""
    display_id: str | None = None
    text: BoundedText = field(default_factory=BoundedText)
    images: tuple[Image, ...] = ()


class OutputCapture:
    """The outputs of one run of code, in the state that a page shows at its end.

    The first and the last `MAX_RUN_OUTPUTS` outputs are kept.
    """

    def __init__(self) -> None:
        self._shows_value = False  # True inside of `showing_value`
        self._first: list[_Output] = []
        self._last: deque[_Output] = deque(maxlen=MAX_RUN_OUTPUTS)
        self._count = 0  # of all outputs, also of those that are not kept
        self._clears_next = False  # the next output replaces all earlier ones

    @contextmanager
    def showing_value(self) -> Iterator[None]:
        """Count the displays inside of the block as the value of an expression.

        Code without an entry in the history (`code_execution.py`) shows its value as a display.
        """
        self._shows_value = True
        try:
            yield
        finally:
            self._shows_value = False

    def add_message(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add the content of an iopub message of the type `kind`."""
        display_id = (content.get("transient") or {}).get("display_id")
        if kind == "stream":
            self.add_text(str(content.get("name", "stdout")), str(content.get("text", "")))
        elif kind in ("display_data", "execute_result"):
            shown_as: OutputKind = "result" if kind == "execute_result" else "display"
            output = _Output(shown_as, display_id=display_id)
            self._append(output)  # first: it applies a `clear_output` that waits for it
            self._fill(output, content)
        elif kind == "update_display_data" and display_id is not None:
            for output in (*self._first, *self._last):
                if output.display_id == display_id:
                    self._fill(output, content)
        elif kind == "clear_output":
            self._clears_next = True
            if not content.get("wait"):
                self._clear()

    def add_text(self, stream: str, text: str) -> None:
        """Add text that was written to `stream`."""
        kept = self._last or self._first
        latest = kept[-1] if kept and not self._clears_next else None

        if latest is None or (latest.kind, latest.name) != ("stream", stream):
            latest = _Output("stream", stream)
            self._append(latest)

        latest.text.add(text)

    def list_outputs(self) -> tuple[CellOutput, ...]:
        """Return the outputs without terminal escapes, with a note in place of omitted ones."""
        omitted = self._count - len(self._first) - len(self._last)
        first = map(_finish_output, self._first)
        last = map(_finish_output, self._last)
        if not omitted:
            return (*first, *last)

        return (*first, CellOutput("stream", f"[… {omitted} outputs omitted …]"), *last)

    def _append(self, output: _Output) -> None:
        if self._clears_next:
            self._clear()
        self._count += 1
        if len(self._first) < MAX_RUN_OUTPUTS:
            self._first.append(output)
        else:
            self._last.append(output)

    def _clear(self) -> None:
        self._first.clear()
        self._last.clear()
        self._count = 0
        self._clears_next = False

    def _fill(self, output: _Output, content: Mapping[str, Any]) -> None:
        """Set the content of a display to that of a message."""
        bundle = content.get("data") or {}
        if self._shows_value:
            output.kind = "result"

        output.text = BoundedText()
        output.images = ()
        output.text.add(_extract_text(bundle))

        if (image := _extract_image(bundle)) is not None:
            # Images that were replaced or cleared do not count, such as the frames of an animation.
            image_count = sum(len(kept.images) for kept in (*self._first, *self._last))
            if image_count < MAX_RUN_IMAGES:
                output.images = (image,)
            else:
                output.text.add(f" [image omitted: the limit is {MAX_RUN_IMAGES} images per run]")


def _finish_output(output: _Output) -> CellOutput:
    # Without a limit: the text is bounded already, and would get a second note.
    text = plain(str(output.text), limit=sys.maxsize)
    return CellOutput(output.kind, text, output.images)


def _extract_text(bundle: Mapping[str, Any]) -> str:
    """Return the plainest text of a MIME bundle, or the list of its types."""
    for kind in ("text/plain", "text/markdown", "text/latex"):
        if kind in bundle:
            return str(bundle[kind])
    return f"[{', '.join(sorted(map(str, bundle)))}]" if bundle else ""


def _extract_image(bundle: Mapping[str, Any]) -> Image | None:
    """Return the first image whose content fits its type, in the order of `MEDIA_TYPES`."""
    for kind in MEDIA_TYPES:
        text = bundle.get(kind)
        with suppress(binascii.Error, ValueError):
            content = base64.b64decode(text) if isinstance(text, str) else text
            if isinstance(content, bytes) and detect_media_type(content) == kind:
                return Image(kind, content)

    return None
