"""Outputs of cells as the kernel publishes them on iopub, and their text within bounds.

Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

MAX_OUTPUT_TEXT_CHARS: Final = 25_000
"""Limit at the beginning of one output, and at its end."""


class BoundedText:
    """The beginning and the end of a text that arrives in pieces.

    As in a terminal, a carriage return overwrites the line, such as a progress bar.
    """

    def __init__(self) -> None:
        self._head = self._line = ""
        self._tail: list[str] = []
        self._chars = self._tail_chars = 0

    def add(self, text: str) -> None:
        """Append `text`."""
        lines, newline, last = (self._line + text).rpartition("\n")
        if "\r" in lines:
            lines = "\n".join(map(_visible_part, lines.split("\n")))

        self._append(lines + newline)
        # A final carriage return stays: it takes effect when more text arrives.
        self._line = last[last.rstrip("\r").rfind("\r") + 1 :]
        if len(self._line) > MAX_OUTPUT_TEXT_CHARS:
            self._append(self._line)
            self._line = ""

    def __str__(self) -> str:
        """Return the text, with a note in place of omitted characters."""
        line = _visible_part(self._line)
        tail = "".join(self._tail)[-MAX_OUTPUT_TEXT_CHARS:]
        omitted = self._chars - len(self._head) - len(tail)
        gap = f"\n[… {omitted} characters omitted …]\n" if omitted else ""
        return f"{self._head}{gap}{tail}{line}"

    def to_continue(self) -> str:
        """Return the text as `str` does, ready for more text to be appended.

        It ends with a carriage return if the next text overwrites the last line.
        """
        return f"{self}\r" if self._line.endswith("\r") else str(self)

    @property
    def kept_chars(self) -> int:
        """The number of characters in memory."""
        return len(self._head) + self._tail_chars + len(self._line)

    def _append(self, text: str) -> None:
        self._chars += len(text)
        if room := MAX_OUTPUT_TEXT_CHARS - len(self._head):
            self._head += text[:room]
            text = text[room:]

        if text:
            self._tail.append(text)
            self._tail_chars += len(text)

        if self._tail_chars > 2 * MAX_OUTPUT_TEXT_CHARS:
            self._tail = ["".join(self._tail)[-MAX_OUTPUT_TEXT_CHARS:]]
            self._tail_chars = MAX_OUTPUT_TEXT_CHARS


def _visible_part(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[-1]


@dataclass(frozen=True, slots=True)
class Published:
    """A message that is published on iopub: `parent` is the header of its request."""

    kind: str
    content: Mapping[str, Any]
    parent: Mapping[str, Any]
    metadata: Mapping[str, Any]
    ident: Any

    @classmethod
    def read(
        cls, message: Any, content: Any = None, parent: Any = None, ident: Any = None, *_: Any,
        metadata: Any = None, **__: Any,
    ) -> Self:  # fmt: skip
        """Read the arguments of `Session.send` after the socket."""
        kind = message
        if isinstance(message, dict):
            kind = message.get("msg_type")
            content = message.get("content")
            parent = message.get("parent_header")
            metadata = message.get("metadata")

        about = read_mapping(parent)
        header = read_mapping(about.get("header", about))
        return cls(str(kind), read_mapping(content), header, read_mapping(metadata), ident)

    @property
    def display_id(self) -> str | None:
        """The display id of the output, if it has one."""
        display_id = read_mapping(self.content.get("transient")).get("display_id")
        return display_id if isinstance(display_id, str) else None

    def is_about(self, request: str | None) -> bool:
        """Return True if the message belongs to the request with this id."""
        return request is not None and self.parent.get("msg_id") == request


def read_mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


OUTPUTS: Final = frozenset(("stream", "display_data", "execute_result", "error"))
"""Types of messages that add an output to a cell."""
OUTPUT_CHANGES: Final = OUTPUTS | {"update_display_data", "clear_output"}
"""Types of messages that change the outputs of a cell."""
