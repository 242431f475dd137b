"""Display events of a running turn.

A turn sends them to its `Display`. Front ends implement it: they draw texts, calls, and questions,
and redraw them as further events arrive. Events about one tool call have its key, `call_id`.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.prompting.prompts import ProposedChange
from jp_nb.images import Image
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.toolkit.arguments.text_arguments import TextArgument
from jp_nb.toolkit.question import Question


class ShowText(NamedTuple):  # twice as fast as a frozen dataclass, and a turn has thousands
    """A piece of assistant text or reasoning."""

    kind: Literal["message", "reasoning", "structured"]
    text: str


@dataclass(frozen=True, slots=True)
class DiscardText:
    """The displayed text of the current response is withdrawn, because the model refused."""


@dataclass(frozen=True, slots=True)
class EndOfText:
    """The current piece of assistant text is complete."""


@dataclass(frozen=True, slots=True)
class ToolBegins:
    """A tool call is about to run, waits for permission, or is displayed differently from now on.

    Attributes:
        call_id: Key of the call, which no other call of the batch has.
        name: Name of the tool.
        arguments: The arguments of the call, perhaps edited by the user.
        hidden: True if the output of the turn does not show the calls of the tool.
        parameters: Display of `arguments`: in the line of the call, as JSON below it, or not.
        formatted: Arguments as a formatter wrote them, displayed below the line of the call.
        edited: True if the user changed the arguments.
        texts: Text arguments, such as code, displayed below the line.
        asked: True while a prompt displays the text arguments, which the turn does not repeat.
        rule: The rule that decided about the call, in words; None without one.
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
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class ToolEnds:
    """A tool call has its response.

    Attributes:
        call_id: Key of the call, as in `ToolBegins`.
        name: Name of the tool.
        content: The response that the model gets.
        is_error: True if the response is an error.
        seconds: Duration of all runs, without the time for prompts.
        hidden: True if the output of the turn does not show the calls of the tool.
        traceback: Traceback of an exception of the tool; None without one.
        skipped: True if the user skipped or stopped it.
        result_lines: Number of lines of `content` to display; None: all.
        folds_result: True if the user can unfold the content instead.
        images: The images that the model gets.
        omitted_images: Lines that replace images for the model.
        edits: The edits of cells that were applied without a review.
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
    folds_result: bool = False
    images: tuple[Image, ...] = ()
    omitted_images: tuple[str, ...] = ()
    edits: JsonValue = None


@dataclass(frozen=True, slots=True)
class QuestionEnds:
    """A question has its outcome.

    Attributes:
        call_id: Key of the call whose tool asked.
        tool: Name of the tool that asked.
        question: The question as it was asked.
        outcome: The outcome as the record has it.
        answer: None without an answer, and for a secret.
        label: Header of the question; None: the name of the tool.
    """

    call_id: str
    tool: str
    question: Question
    outcome: QuestionOutcome
    answer: JsonValue = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeEnds:
    """A proposed configuration change was decided. It takes effect when the batch ends.

    Attributes:
        call_id: Key of the call whose tool proposed the change.
        tool: Name of the tool.
        changes: A line for each changed setting.
        applied: True if the change was approved.
        by: `person` for the user, through `channel` (`answers`: the answers file); `grant` if the
            tool needs no approval; `nobody` if no user was available, for the `reason`.
        person: Name of the user in a shared notebook.
        takes_effect: False outside of a turn, where changes never take effect.
    """

    call_id: str
    tool: str
    changes: tuple[ProposedChange, ...]
    applied: bool
    by: Literal["person", "grant", "nobody"]
    channel: str | None = None
    reason: str | None = None
    person: str | None = None
    takes_effect: bool = True


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to the user, such as a warning."""

    text: str


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """The request of the turn, if the cell does not contain it. It is displayed folded."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of the user to the model in the middle of the turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Waits:
    """The turn waits for something, from now on.

    Attributes:
        key: `MODEL_WAITS`, or a tool call. It replaces the earlier event with this key.
        text: Description such as `anthropic/claude-opus`; "" at the end of the wait.
        until: End of a pause, by `time.monotonic`.
        person: True if the user has to decide, perhaps after other prompts.
        progress: Report of a running tool about its progress.
    """

    key: str
    text: str
    until: float | None = None
    person: bool = False
    progress: str = ""


MODEL_WAITS = "model"
"""Key for the model of the turn."""


@dataclass(frozen=True, slots=True)
class TokensSoFar:
    """Tokens of the turn up to its last response; None if the provider does not report them."""

    sent: int | None
    received: int | None


@dataclass(frozen=True, slots=True)
class FunctionBegins:
    """A function of a tool occupies the cell's thread. Sent on that thread."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class FunctionEnds:
    """A function of a tool leaves the cell's thread. Sent on that thread."""

    call_id: str


@dataclass(frozen=True, slots=True)
class CodeAsks:
    """The code of a tool asks the user, as `jp.ask` does.

    Attributes:
        call_id: Key of the call whose tool runs the code.
        waits: True while the code waits; False once it has the answer.
    """

    call_id: str
    waits: bool


@dataclass(frozen=True, slots=True)
class InterruptReceived:
    """The kernel was interrupted. `then` is the effect; None until it is decided."""

    then: Literal["menu", "continue", "reply", "restart", "stop", "abort"] | None = None


TransientEvent = Waits | TokensSoFar | FunctionBegins | FunctionEnds | CodeAsks | InterruptReceived
"""Events that the display does not keep."""

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
"""Receives events in order, usually on the agent's thread. It must not block."""
