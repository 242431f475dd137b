"""The outcome of a tool call outside of the conversation.

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
    """A configuration change that a tool call proposed. It is never applied.

    Attributes:
        lines: The changes, one for each path.
        approved: True if a turn would have applied the change.
        by: `person` for the user; `grant` if the tool's rules need no approval; `nobody` if no user
            was available.
        reason: Why no user was available; None otherwise.
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
    """Outcome of `jp.call`. It is not part of the conversation.

    Attributes:
        name: Name of the tool.
        arguments: The arguments of the call, including edits by the user.
        content: The text that the model would read.
        is_error: True if `content` is an error message.
        skipped: True if the user skipped or stopped the call.
        images: The images that the model would see.
        structured: Data for programs that a turn would record but not send; None if there is none.
        questions: The questions of the tool, each with its answer.
        changes: The configuration changes that the tool proposed.
        seconds: Duration of the call, including the time for questions.
        traceback: Traceback of an exception in the tool, without the frames of `jp_nb`; None if
            there was no exception.
        exception: The exception that the tool raised; None if there was none.
        whole_chars: Length of the result before truncation, in characters; None if the result was
            not truncated.
        processes: For a program, the `stdin`, `stdout`, `stderr`, and `exit_code` of each process.
            Secrets are hidden.
        unavailable: Why no user was available for a necessary decision; None if none was missing.
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
        """True if the result was truncated."""
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
