"""What came of one tool call outside of the conversation.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.prompts import ProposedChange
from jp_nb.image import Image
from jp_nb.record.turn_view import Inquiry
from jp_nb.safe_text import one_line
from jp_nb.tooling.process_log import ProcessRun

MAX_REPR_CHARS = 80


@dataclass(frozen=True, slots=True)
class CallChange:
    """A configuration change that a call proposed. It was decided, and not applied.

    Attributes:
        lines: What it would change, path by path.
        approved: True if a turn would have applied it.
        by: `person`; `grant` if the tool need not ask; `nobody` if nobody was there.
        reason: Why nobody could be asked.
    """

    lines: tuple[ProposedChange, ...]
    approved: bool
    by: Literal["person", "grant", "nobody"]
    reason: str | None = None

    def __repr__(self) -> str:
        said = "approved" if self.approved else "not approved"
        return f"<{said}: {'; '.join(map(str, self.lines))}>"


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What a tool call came to, of which nothing is in the conversation.

    Attributes:
        name: The tool.
        arguments: What it ran with.
        content: What the model would read.
        is_error: True if that says what went wrong.
        skipped: True if it did not run, or was cut short, because somebody wanted that.
        images: What the model would see beside the text.
        structured: What would go into the record beside the text; None without that.
        questions: What the tool asked, and how that ended.
        changes: The configuration changes that it proposed.
        seconds: How long it took, questions included.
        traceback: Of what the tool raised, from its own first frame; None if it raised nothing.
        exception: What it raised.
        whole_chars: Characters of the result before it was cut; None if it was not.
        processes: What the processes of a command got and printed, run by run; secrets hidden.
        unavailable: Why nobody could decide what only a person may; None if that was not needed.
    """

    name: str
    arguments: Mapping[str, JsonValue]
    content: str
    is_error: bool = False
    skipped: bool = False
    images: tuple[Image, ...] = ()
    structured: JsonValue = None
    questions: tuple[Inquiry, ...] = ()
    changes: tuple[CallChange, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    traceback: str | None = field(default=None, compare=False)
    exception: BaseException | None = field(default=None, compare=False)
    whole_chars: int | None = field(default=None, compare=False)
    processes: tuple[ProcessRun, ...] = field(default=(), compare=False)
    unavailable: str | None = field(default=None, compare=False)

    @property
    def is_cut(self) -> bool:
        """True if the result was longer than the model may read."""
        return self.whole_chars is not None

    def __repr__(self) -> str:
        arguments = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}"
            for name, value in self.arguments.items()
        )
        call = one_line(f"{self.name}({arguments})", limit=MAX_REPR_CHARS)
        kind = "skipped: " if self.skipped else "error: " if self.is_error else ""
        text = one_line(self.content, limit=MAX_REPR_CHARS)
        counts = [
            f"{len(items)} {word}{'' if len(items) == 1 else 's'}"
            for items, word in (
                (self.images, "image"),
                (self.questions, "question"),
                (self.changes, "proposed change"),
            )
            if items
        ]
        return f"<call {call}: {', '.join([f'{kind}{text!r}', *counts])}>"
