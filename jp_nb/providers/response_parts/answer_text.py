"""Tell the text of an answer apart: a message for the user, or data that fits a schema.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from typing import Literal

from jp_nb.agent.provider_events import Flush
from jp_nb.providers.response_parts.answer_fences import (
    FENCE_MARKS,
    find_fenced_answer,
    measure_before_fence,
)
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.schemas.answer_schemas import AnswerSchema


class AnswerText:
    """Text of an answer: a message, or data that fits a schema.

    With a schema, a text that does not begin like JSON is a message, for example before a tool
    call. If it contains the data in a code fence, the text around the fence is the message.

    Data is held back until it is complete if it has to be restored to the user's schema. A message
    is held back from its first code fence on. Such text still counts for the size limit of
    the response (`EventBuffer.hold`). Each decoder has one `AnswerText`: it feeds the texts of the
    model to it, each with its output item (`index`), and ends each by `finish`.
    """

    def __init__(self, schema: AnswerSchema | None) -> None:
        self._schema = schema
        # About the current text, from one `finish` to the next:
        self._kind: Literal["message", "structured"] | None = None  # None: only spaces so far
        self._held: list[str] = []  # pieces that are held back
        self._has_fence = False  # True if they begin with a code fence
        self._has_message = False  # True if a part of the message was added to the events

    def feed(self, index: int, text: str, out: EventBuffer) -> None:
        """Add a piece of text to `out`, unless it is held back."""
        if self._schema is None:
            out.add_text(index, "message", text)
            return

        if self._kind is None:
            text = self._take_held(out) + text
            leading = text.lstrip()
            if leading:
                is_data = leading[0] in self._schema.first_chars
                self._kind = "structured" if is_data else "message"

        if self._kind == "message":
            self._feed_message(index, text, out)
        elif self._kind == "structured" and self._schema.is_unchanged:
            out.add_text(index, "structured", text)
        else:
            self._hold(text, out)

    def _feed_message(self, index: int, text: str, out: EventBuffer) -> None:
        """Add the text before the first code fence to `out`, and hold the rest back."""
        if self._has_fence:
            self._hold(text, out)
            return

        text = self._take_held(out) + text
        fence_start = measure_before_fence(text)
        before = text[:fence_start]
        self._has_fence = text.startswith(FENCE_MARKS, fence_start)
        self._hold(text[fence_start:], out)

        # Spaces before the first word are dropped: alone, they would be an empty message.
        if before.strip() or (before and self._has_message):
            self._has_message = True
            out.add_text(index, "message", before)

    def finish(self, index: int, out: EventBuffer) -> None:
        """Add the text that was held back to `out`. The next `feed` begins a new text."""
        kind = self._kind
        has_message = self._has_message
        text = self._take_held(out)
        self._kind = None
        self._has_message = False
        self._has_fence = False
        if not text or kind is None or self._schema is None:
            return

        if kind == "structured":
            out.add_text(index, kind, self._schema.restore(text))
            return

        answer = find_fenced_answer(text, self._schema.first_chars)
        if answer is None:
            out.add_text(index, kind, text)
            return

        # The message before the fence, the data, and the message after it are an entry each, which
        # a `Flush` ends. Spaces alone before the fence continue a message: at its beginning,
        # `_feed_message` drops them.
        if answer.before:
            out.add_text(index, "message", answer.before)
        if has_message or answer.before.strip():
            out.add(Flush(index))
        out.add_text(index, "structured", self._schema.restore(answer.json))
        if answer.after.strip():
            out.add(Flush(index))
            out.add_text(index, "message", answer.after.strip())

    def _hold(self, text: str, out: EventBuffer) -> None:
        """Keep `text` for a later event."""
        if text:
            self._held.append(text)
            out.hold(len(text))

    def _take_held(self, out: EventBuffer) -> str:
        """Return the text that was held back, which the caller adds or holds again."""
        text = "".join(self._held)
        self._held = []
        out.release(len(text))
        return text
