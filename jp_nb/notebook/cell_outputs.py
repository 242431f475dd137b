"""Outputs of a running cell, kept for a page that opens while the cell runs.

An *own* output is one that jp_nb displays, such as a turn. All others come from the user's code.

`%load_ext` loads this module, so it imports little.

Source: `docs/protocol.md`, "Outputs of a running cell".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, ClassVar, Final

from jp_nb.notebook.bounded_text import BoundedText
from jp_nb.notebook.published import Published

MAX_KEPT_OUTPUTS: Final = 100
"""Limit of the outputs of user code that are kept for each running cell."""
MAX_KEPT_CHARS: Final = 1_000_000
"""Limit of the text and the data in these outputs."""

Bundle = dict[str, Any]


@dataclass(slots=True)
class _KeptDisplay:
    """A display.

    Attributes:
        display_id: The id by which updates find it; None without one.
        data: The content by MIME type.
        metadata: The metadata of the content.
        is_own: True if jp_nb displays it, with an id by which a page finds it.
        chars: The size of the data; 0 for an own display, which has no limit. It is counted once
            for each content: each further output of the cell compares it with the limit.
    """

    display_id: str | None
    data: Bundle
    metadata: Bundle
    is_own: bool
    chars: int = field(init=False)

    def __post_init__(self) -> None:
        self.set_content(self.data, self.metadata)

    def set_content(self, data: Bundle, metadata: Bundle) -> None:
        self.data = data
        self.metadata = metadata
        self.chars = 0 if self.is_own else sum(map(_count_chars, data.values()))

    def to_json(self) -> Bundle:
        output = {"data": self.data, "metadata": self.metadata}
        if self.is_own:
            return {"display_id": self.display_id, **output}
        return output


def _count_chars(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return len(json.dumps(value, default=str))


@dataclass(slots=True)
class _KeptText:
    """Text that user code has printed to the stream `name`."""

    name: str
    text: BoundedText = field(default_factory=BoundedText)
    is_own: ClassVar[bool] = False

    @property
    def chars(self) -> int:
        return self.text.kept_chars

    def to_json(self) -> Bundle:
        return {"name": self.name, "text": self.text.to_continue()}


@dataclass(slots=True)
class CellOutputs:
    """The outputs of a cell in their order, as a page shows them. Hold `lock` to use them.

    Those of user code are bounded: the oldest are omitted.

    Attributes:
        lock: Guards all outputs of this cell. Threads that print, and the one that sends outputs to
            a page, hold it.
        has_own: True once jp_nb has displayed its own output.
    """

    lock: RLock = field(default_factory=RLock, repr=False)
    has_own: bool = False
    _outputs: list[_KeptDisplay | _KeptText] = field(default_factory=list)
    _omitted_count: int = 0
    _clears_next: bool = False  # the next output replaces all earlier ones

    def set_own(
        self, display_id: str, data: Bundle, metadata: Bundle, *, update: bool = False
    ) -> None:
        """Set the content of the output `display_id`, which jp_nb displays or updates."""
        self.has_own = True
        # `clear_output(wait=True)` takes effect with the next new output, not with an update.
        if self._clears_next and not update:
            self._clear()

        shown = self._find_displays(display_id)
        for display in shown:
            display.set_content(data, metadata)

        if not shown:
            self._append(_KeptDisplay(display_id, data, metadata, is_own=True))

    def add_published(self, published: Published) -> None:
        """Add an output that was published for the cell, or change those that it changes.

        An error is not kept: the page adds it when it receives the reply of the cell. Displays of
        jp_nb come twice, through `set_own` first, and are ignored here.
        """
        content = published.content
        match published.kind:
            case "stream":
                name = str(content.get("name", "stdout"))
                self._add_text(name, str(content.get("text", "")))
            case "display_data" | "execute_result":
                shown = self._find_displays(published.display_id)
                if not any(display.is_own for display in shown):
                    data, metadata = _read_bundle(content)
                    self._append(_KeptDisplay(published.display_id, data, metadata, is_own=False))
            case "update_display_data":
                for display in self._find_displays(published.display_id):
                    if not display.is_own:
                        display.set_content(*_read_bundle(content))
            case "clear_output":
                if content.get("wait"):
                    self._clears_next = True
                else:
                    self._clear()
        self._omit_oldest()

    def to_json(self, *, with_printed: bool) -> list[Any]:
        """Return the outputs for a page; those of user code only `with_printed`.

        Not all pages can show these.
        """
        if not with_printed:
            return [output.to_json() for output in self._outputs if output.is_own]

        outputs = [output.to_json() for output in self._outputs]
        if self._omitted_count:
            note = f"[… {self._omitted_count} earlier outputs omitted …]\n"
            outputs.insert(0, {"name": "stdout", "text": note})
        return outputs

    def _find_displays(self, display_id: str | None) -> list[_KeptDisplay]:
        if display_id is None:
            return []
        displays = [output for output in self._outputs if isinstance(output, _KeptDisplay)]
        return [display for display in displays if display.display_id == display_id]

    def _add_text(self, name: str, text: str) -> None:
        last = self._outputs[-1] if self._outputs else None
        if self._clears_next or not isinstance(last, _KeptText) or last.name != name:
            last = _KeptText(name)
            self._append(last)
        last.text.add(text)

    def _append(self, output: _KeptDisplay | _KeptText) -> None:
        if self._clears_next:
            self._clear()
        self._outputs.append(output)

    def _clear(self) -> None:
        self._outputs.clear()
        self._omitted_count = 0
        self._clears_next = False

    def _omit_oldest(self) -> None:
        """Omit outputs of user code until the others are within the limits."""
        outputs_of_code = [output for output in self._outputs if not output.is_own]
        count = len(outputs_of_code)
        chars = sum(output.chars for output in outputs_of_code)

        for oldest in outputs_of_code:
            if count <= MAX_KEPT_OUTPUTS and chars <= MAX_KEPT_CHARS:
                return
            self._outputs = [output for output in self._outputs if output is not oldest]
            self._omitted_count += 1
            count -= 1
            chars -= oldest.chars


def _read_bundle(content: Mapping[str, Any]) -> tuple[Bundle, Bundle]:
    data = content.get("data") or {}
    metadata = content.get("metadata") or {}
    return dict(data), dict(metadata)
