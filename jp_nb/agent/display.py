"""What a cell is told of a running turn.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.prompts import Mark, ProposedChange
from jp_nb.images import Image
from jp_nb.tools.parameters import TextArgument
from jp_nb.tools.question import Question


class ShowText(NamedTuple):  # thousands are made, and a frozen dataclass takes twice the time
    """A piece of assistant text or reasoning, in order."""

    kind: Literal["message", "reasoning", "structured"]
    text: str


@dataclass(frozen=True, slots=True)
class DiscardText:
    """The text of the current response, shown so far, is withdrawn: the model refused."""


@dataclass(frozen=True, slots=True)
class EndOfText:
    """The current piece of assistant text is complete."""


@dataclass(frozen=True, slots=True)
class ToolBegins:
    """A tool call is about to run, or waits for permission; again if it is shown otherwise.

    Attributes:
        parameters: How its arguments are shown: `line` in the line of the call, `json` below it,
            `off` not at all.
        formatted: What a formatter made of them, shown below the line instead.
        edited: True if they are not the model's own: a person changed them.
        texts: Those that are texts of their own, such as code, shown below the line.
        asked: True while a prompt shows these texts, so that nobody reads them twice.
    """

    call_id: str
    name: str
    arguments: Mapping[str, JsonValue]
    hidden: bool = False
    parameters: Literal["line", "json", "off"] = "line"
    formatted: str | None = None
    edited: bool = False
    texts: tuple[TextArgument, ...] = ()
    asked: bool = False


@dataclass(frozen=True, slots=True)
class ToolEnds:
    """A tool call has its response.

    Attributes:
        traceback: Shown folded to the person alone.
        skipped: True if the tool did not run, or was cut short, because somebody wanted that.
        result_lines: How many lines of `content` are shown; None: all of them.
        images: What the model sees beside the text.
        omitted_images: What it reads in place of images that it does not see.
    """

    call_id: str
    name: str
    content: str
    is_error: bool
    seconds: float
    hidden: bool = False
    traceback: str | None = None
    skipped: bool = False
    result_lines: int | None = 0
    images: tuple[Image, ...] = ()
    omitted_images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionEnds:
    """A question was settled: `answer` is None unless `outcome` is `answered`.

    `by` is who did it, where several people share the notebook.
    """

    call_id: str
    tool: str
    question: Question
    outcome: Literal["answered", "redacted", "cancelled"]
    answer: JsonValue = None
    reason: str | None = None
    end: str | None = None
    channel: str | None = None
    label: str | None = None
    marks: frozenset[Mark] = frozenset()
    by: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeEnds:
    """A proposed configuration change was decided; it counts when all calls of the batch are done.

    Attributes:
        applied: False if it was rejected.
        by: `person`, through `channel` (`answers`: beforehand, in a file); `grant` if the tool need
            not ask; `nobody` if it had to and nobody was there.
        reason: Why nobody could be asked.
        person: Who that person is, where several share the notebook.
        counts: False if nothing is applied, whatever was decided: the call is no part of a turn.
    """

    call_id: str
    tool: str
    changes: tuple[ProposedChange, ...]
    applied: bool
    by: Literal["person", "grant", "nobody"]
    channel: str | None = None
    reason: str | None = None
    person: str | None = None
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know, such as an answer that was cut off."""

    text: str


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """The request of the turn, where the cell does not say it: it is shown folded, and whole."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """The person said something to the model in the middle of the turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Waits:
    """What is waited for from now on; shown while it lasts, and nothing of it is kept.

    Attributes:
        key: Who waits: `MODEL_WAITS`, or a tool call. What it waited for before is over.
        text: What for, such as `anthropic/claude-opus`; "": for nothing any more.
        until: When the wait ends by itself, by `time.monotonic`; None if nobody knows.
        person: True if the person is to decide: that may stand in line behind something else.
    """

    key: str
    text: str
    until: float | None = None
    person: bool = False


MODEL_WAITS = "model"
"""Key of the wait for the model that leads the turn."""


@dataclass(frozen=True, slots=True)
class TokensSoFar:
    """The tokens of the turn, as of its last response; None where none were reported."""

    sent: int | None
    received: int | None


@dataclass(frozen=True, slots=True)
class FunctionBegins:
    """A tool's function takes the cell's thread, on which this is said."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class FunctionEnds:
    """A tool's function gives the cell's thread back, on which this is said."""

    call_id: str


@dataclass(frozen=True, slots=True)
class InterruptReceived:
    """The kernel was interrupted. `then` is what comes of it; None until that is known."""

    then: Literal["menu", "continue", "reply", "restart", "stop", "abort"] | None = None


TransientEvent = Waits | TokensSoFar | FunctionBegins | FunctionEnds | InterruptReceived
"""What is shown while it lasts; nothing of it is kept."""

DisplayEvent = (
    ShowText
    | DiscardText
    | EndOfText
    | ToolBegins
    | ToolEnds
    | QuestionEnds
    | ChangeEnds
    | Notice
    | ShowRequest
    | UserMessage
    | TransientEvent
)
Display = Callable[[DisplayEvent], None]
"""Takes events in order, from the agent's thread as a rule; never blocks it."""
