"""Outcomes of one run of a tool: success, failure, or questions.

A Python tool returns one, and a command prints it as JSON (`outcome_reading.py`). Only built-in
tools that edit cells have a fourth one, `NeedsReview`, so it is not among the types of `Outcome`.

A tool may *propose* a configuration change with its success (`Success.proposes`). The limits below
are for such a proposal and for structured values.

Source: `docs/turns.md`, `docs/tools.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_serializer,
)

from jp_nb.images import Image
from jp_nb.json_limits import MAX_STORED_LEVELS, is_larger
from jp_nb.toolkit.question import Question

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.edit_review import EditReview

MAX_QUESTIONS = 50  # maximum number of questions in one run of a tool
MAX_STRUCTURED_ITEMS: Final = 100_000
MAX_STRUCTURED_CHARS: Final = 2_000_000
MAX_STRUCTURED_LEVELS: Final = 64
"""Limits of a structured value: it is copied several times, and stored in the notebook."""
MAX_PROPOSED: Final = 250_000
"""Items and characters of a proposal that are read: it is too large long before."""


class Success(BaseModel):
    """Outcome of a tool that succeeded. It can propose a configuration change.

    Example:
        >>> Success("Changed.", config={"assistant": {"name": "Ada"}}, unset=["user.name"]).proposes
        True

    Attributes:
        content: The text that the model reads.
        config: New values for settings, as a nested dictionary; None if there are none.
        unset: Paths of settings to unset.
        structured: A JSON value for programs. It is recorded with the result and never sent to a
            model. None if there is none. If it has more than 100,000 items, 2,000,000 characters,
            or 64 levels, it is omitted, and the model gets a note.
        images: Images that the model sees with the text. Only Python tools can return images.
        malformed: The reason why the configuration change that a program proposed cannot be read;
            None otherwise. Such a proposal is rejected as `invalid_config`.
        omits_structured: True if `structured` was too large, and is omitted.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    type: Literal["success"] = "success"
    content: str
    config: JsonValue = None
    unset: tuple[str, ...] = ()
    structured: JsonValue = Field(default=None, exclude=True)
    images: tuple[Image, ...] = Field(default=(), exclude=True)
    malformed: str | None = Field(default=None, exclude=True)
    omits_structured: bool = Field(default=False, exclude=True)

    @property
    def proposes(self) -> bool:
        """True if the outcome contains a proposal, even one that cannot be read."""
        return self.config not in (None, {}) or bool(self.unset) or self.malformed is not None

    def __init__(self, content: str = "", /, **data: object) -> None:
        _omit_large_structured(data)
        _refuse_large_proposal(data)
        super().__init__(**({"content": content} | data))


class ToolFailure(BaseModel):
    """Outcome of a tool that failed. A Python tool raises `ToolError` or another exception instead.

    Attributes:
        message: The text that the model reads.
        trace: Additional lines for the model.
        transient: True if another attempt may succeed. It is not sent to the model: put such advice
            into the message (RFD 083).
        structured: A JSON value for programs, as in `Success`.
        omits_structured: True if `structured` was too large, and is omitted.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    type: Literal["error"] = "error"
    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False
    structured: JsonValue = Field(default=None, exclude=True)
    omits_structured: bool = Field(default=False, exclude=True)

    def __init__(self, message: str = "", /, **data: object) -> None:
        _omit_large_structured(data)
        super().__init__(**({"message": message} | data))


def _omit_large_structured(data: dict[str, object]) -> None:
    """Remove a structured value that is too large, before pydantic copies it."""
    is_large = is_larger(
        data.get("structured"),
        items=MAX_STRUCTURED_ITEMS,
        chars=MAX_STRUCTURED_CHARS,
        levels=MAX_STRUCTURED_LEVELS,
    )
    if is_large:
        data["structured"] = None
        data["omits_structured"] = True


def _refuse_large_proposal(data: dict[str, object]) -> None:
    """Mark a proposal that is too large as malformed, before pydantic copies it."""
    proposed = [data.get("config"), data.get("unset")]
    if is_larger(proposed, items=MAX_PROPOSED, chars=MAX_PROPOSED, levels=MAX_STORED_LEVELS):
        from jp_nb.config.proposal import TOO_LARGE_REASON  # few proposals are too large

        data["config"] = None
        data["unset"] = ()
        data["malformed"] = TOO_LARGE_REASON


class NeedsInput(BaseModel):
    """Outcome of a tool that asks questions. The tool runs again with the answers.

    In the next run, `ToolContext.answers` has the answers by question id. Several questions are
    shown as one form with a page for each question. Their ids must differ.

    Example:
        >>> NeedsInput(Question.boolean("sure", "Really?")).questions[0].id
        'sure'

    A program prints `{"type": "needs_input", "question": {…}}`. For several questions, it prints
    `"questions": […]` instead of `"question"`. It cannot set `partial`, `menu`, and `decline`.

    Attributes:
        questions: The questions, 1 to 50, in the order of the pages.
        partial: True to run the tool again even if the user left required questions open;
            `ToolContext.ends` has the end of each question. Otherwise, an open required
            question ends the call with an error.
        menu: True to open a menu when the user cancels the form. In the menu the user can send a
            message to the model (`ToolContext.reply`) or stop the turn.
        decline: True to add the button Decline, with which the user says no to a question. Its end
            is then `declined`, and `cancelled` after Cancel. With `partial`, the tool runs again in
            both cases; required questions must be answered or declined.
        withdrawn: A future of the event loop that ends when the answers are not needed any more.
            The form then closes, its questions end as `cancelled`, and the tool runs again.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    type: Literal["needs_input"] = "needs_input"
    questions: tuple[Question, ...] = Field(min_length=1, max_length=MAX_QUESTIONS)
    partial: bool = Field(default=False, exclude=True)
    menu: bool = Field(default=False, exclude=True)
    decline: bool = Field(default=False, exclude=True)
    withdrawn: Any = Field(default=None, exclude=True, repr=False)

    def __init__(self, /, *questions: Question, **data: object) -> None:
        if "question" in data:
            data["questions"] = (data.pop("question"),)
        super().__init__(**({"questions": questions} | data))

    @field_validator("questions")
    @classmethod
    def _distinct(cls, questions: tuple[Question, ...]) -> tuple[Question, ...]:
        if len({question.id for question in questions}) < len(questions):
            raise ValueError("two questions have the same id")
        return questions

    @model_serializer(mode="plain")
    def _compact(self) -> dict[str, JsonValue]:
        questions: list[JsonValue] = [question.model_dump() for question in self.questions]
        if len(questions) == 1:
            return {"type": self.type, "question": questions[0]}
        return {"type": self.type, "questions": questions}

    @property
    def question(self) -> Question:
        """The first question."""
        return self.questions[0]


Outcome = Success | ToolFailure | NeedsInput


STRUCTURED_OMITTED: Final = (
    f"[The structured value of this result has more than {MAX_STRUCTURED_ITEMS:,} items, "
    f"{MAX_STRUCTURED_CHARS:,} characters, or {MAX_STRUCTURED_LEVELS} levels. It is not recorded, "
    "so no program can read it.]"
)
"""Note to the model below such a result."""


@dataclass(frozen=True, slots=True)
class NeedsReview:
    """Outcome of a built-in tool whose edits of cells the user has to review.

    The tool then runs again, with the decision in `ToolContext.edit_decision`.
    """

    review: EditReview
