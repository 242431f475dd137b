"""Text parts of a response, on their way from a decoder's words to events.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
from typing import Final, Literal

from jp_nb.agent.model_events import ProviderEvent, TextPart
from jp_nb.providers.answer_schema import AnswerSchema

Kind = Literal["message", "reasoning"]


class AnswerText:
    """The answer's text: a message, or data that fits a schema.

    Where data is asked for, a text that does not even begin as data does stays a message: what a
    model says before it calls a tool, or instead of an answer. Data that has to be restored to
    the user's schema is held back until it is complete.
    """

    def __init__(self, schema: AnswerSchema | None) -> None:
        self._schema = schema
        self._kind: Literal["message", "structured"] | None = None
        self._held: list[str] = []
        self.held = 0
        """Characters that were taken and not given yet."""

    def part(self, index: int, text: str) -> list[ProviderEvent]:
        """The event for a piece of text; none while it is held back."""
        if self._schema is None:
            return [TextPart(index, "message", text)]
        if self._kind is None:
            text = "".join([*self._held, text])
            self._held, self.held = [], 0
            leading = text.lstrip()
            if leading:
                is_data = leading[0] in self._schema.begins
                self._kind = "structured" if is_data else "message"
        if self._kind is None or (self._kind == "structured" and not self._schema.as_is):
            self._held.append(text)
            self.held += len(text)
            return []
        return [TextPart(index, self._kind, text)]

    def complete(self, index: int) -> list[ProviderEvent]:
        """The event for what was held back; what comes next is another text."""
        kind, self._kind = self._kind, None
        text, self._held, self.held = "".join(self._held), [], 0
        if not text or kind is None or self._schema is None:
            return []
        return [TextPart(index, kind, self._schema.restore(text))]


def is_json_object(text: str) -> bool:
    """Return True if `text` is a complete JSON object, such as the arguments of a call."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class ThinkSplitter:
    """Finds reasoning that a chat template left in the text as a leading `<think>…</think>`.

    Up to eight characters are held back, so that a tag cut by a chunk's end is found.
    """

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "answer start", "answer"] = "start"
        self._held = ""

    def feed(self, text: str) -> list[tuple[Kind, str]]:
        """The pieces of `text` with what each is."""
        if self._state == "answer":
            return [("message", text)]
        text = self._held + text
        self._held = ""
        pieces: list[tuple[Kind, str]] = []
        if self._state == "start":
            leading = text.lstrip()
            if _OPEN.startswith(leading):  # whole too: the line break after it may come later
                self._held = text
                return []
            if not leading.startswith(_OPEN):
                self._state = "answer"
                return [("message", text)]
            self._state = "thinking"
            text = leading[len(_OPEN) :].removeprefix("\n")
        if self._state == "thinking":
            thought, tag, text = text.partition(_CLOSE)
            if not tag:
                cut = _partial_tag(thought)
                thought, self._held = thought[:cut], thought[cut:]
            if thought:
                pieces.append(("reasoning", thought))
            if not tag:
                return pieces
            self._state = "answer start"
        if text := text.lstrip("\n"):
            self._state = "answer"
            pieces.append(("message", text))
        return pieces

    def finish(self) -> list[tuple[Kind, str]]:
        """Return what was held back, when the text is over."""
        text, self._held = self._held, ""
        if not text:
            return []
        return [("reasoning" if self._state == "thinking" else "message", text)]


def _partial_tag(text: str) -> int:
    """Return where `text` ends in the beginning of the closing tag; its length if it does not."""
    for size in range(min(len(_CLOSE) - 1, len(text)), 0, -1):
        if _CLOSE.startswith(text[-size:]):
            return len(text) - size
    return len(text)
