"""Separate reasoning in `<think>…</think>` from the text that follows it.

Some servers leave the tags of a chat template in the text of the answer.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from typing import Final, Literal

from jp_nb.agent.provider_events import TextKind

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class ThinkSplitter:
    """Separates reasoning that a chat template left in the text as a leading `<think>…</think>`.

    A tag may be split between deltas, so text that may be the beginning of a tag is held back. The
    splitter passes these states, some of which may be empty:

    - `start`: white space before the opening tag. Any other text begins the answer at once.
    - `thinking`: the text between the tags.
    - `answer start`: line breaks after the closing tag, which are dropped.
    - `answer`: all that follows.

    Without `has_tags`, the server separates reasoning itself: then all text is the answer.
    """

    def __init__(self, *, has_tags: bool = True) -> None:
        self._state: Literal["start", "thinking", "answer start", "answer"]
        self._state = "start" if has_tags else "answer"
        self._held = ""

    @property
    def is_done(self) -> bool:
        """True if later text belongs to the answer."""
        return self._state == "answer"

    def feed(self, text: str) -> list[tuple[TextKind, str]]:
        """Return the pieces of `text` with their kinds."""
        if self._state == "answer":
            return [("message", text)]

        text = self._held + text
        self._held = ""
        pieces: list[tuple[TextKind, str]] = []

        if self._state == "start":
            leading = text.lstrip()
            # The tag has arrived in part, or as a whole: then a line break may follow.
            if _OPEN.startswith(leading):
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
                end = len(thought) - _count_beginning_of_tag(thought)
                self._held = thought[end:]
                thought = thought[:end]
            if thought:
                pieces.append(("reasoning", thought))
            if not tag:
                return pieces
            self._state = "answer start"

        # The state is `answer start`.
        if text := text.lstrip("\n"):
            self._state = "answer"
            pieces.append(("message", text))
        return pieces

    def finish(self) -> list[tuple[TextKind, str]]:
        """Return the text that was held back."""
        text = self._held
        self._held = ""
        kind: TextKind = "reasoning" if self._state == "thinking" else "message"
        return [(kind, text)] if text else []


def _count_beginning_of_tag(text: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `</think>`."""
    for size in range(min(len(_CLOSE) - 1, len(text)), 0, -1):
        if _CLOSE.startswith(text[-size:]):
            return size
    return 0
