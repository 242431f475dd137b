"""An answer in several responses, because they reached the token limit.

A response that reaches the token limit is continued by the next request (`answer_attempt.py`). The
continuations are recorded as parts of one answer, up to `MAX_ANSWER_CONTINUATIONS`. `model_call.py`
sends the requests.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jp_nb.agent.model_requests.overlap_trimmer import OverlapTrimmer
from jp_nb.agent.provider_events import Finished, TextPart
from jp_nb.record.entries.events import ChatResponse, Entry
from jp_nb.record.reading.marks import is_continuation

MAX_ANSWER_CONTINUATIONS = 5
"""Maximum number of continuations of a response that reaches the token limit."""


@dataclass(slots=True)
class ContinuedAnswer:
    """One answer in several responses. All but the last reached the token limit.

    Attributes:
        is_enabled: False if the answer must be one response.
        continuation_count: Number of responses after the first one.
        recorded_parts: The texts that are recorded. A text and its continuations are one part.
    """

    is_enabled: bool
    continuation_count: int = 0
    recorded_parts: list[TextPart] = field(default_factory=list)

    def note_recorded(self, entries: Sequence[Entry]) -> None:
        """Note that `entries` of the answer are recorded."""
        for entry in entries:
            if not isinstance(entry, ChatResponse) or entry.kind == "structured":
                continue
            part = TextPart(0, entry.kind, entry.message or entry.reasoning or "")
            if self.recorded_parts and is_continuation(entry):
                begun = self.recorded_parts.pop()
                part = replace(part, text=begun.text + part.text)
            self.recorded_parts.append(part)

    def make_trimmer(self) -> OverlapTrimmer | None:
        """Return the trimmer for the next response; None if it is the first.

        A continuation often repeats the end of the text before it.
        """
        if not self.continuation_count:
            return None
        text = "".join(part.text for part in self.recorded_parts if part.kind == "message")
        return OverlapTrimmer(text)

    def begin_continuation(self, finished: Finished, entries: Sequence[Entry]) -> bool:
        """Continue the answer after a response with these `entries`; return False if it ends."""
        if not self.is_enabled or finished.reason != "max_tokens":
            return False
        if self.continuation_count >= MAX_ANSWER_CONTINUATIONS:
            return False
        if not any(isinstance(entry, ChatResponse) and entry.message for entry in entries):
            return False

        self.continuation_count += 1
        return True
