"""Outcomes of a tool: success, failure, or questions. Read them from JSON, and truncate results.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_serializer,
)

from jp_nb.errors import ToolError
from jp_nb.images import Image
from jp_nb.json_values import MAX_STORED_LEVELS, encode_utf8, is_larger, is_storable
from jp_nb.toolkit.question import Question, first_problem

log = logging.getLogger(__name__)

MAX_QUESTIONS = 50  # maximum number of questions in one run of a tool
MAX_STRUCTURED_ITEMS: Final = 100_000
MAX_STRUCTURED_CHARS: Final = 2_000_000
MAX_STRUCTURED_LEVELS: Final = 64
"""Limits of a structured value: it is copied several times, and stored in the notebook."""
MAX_TRACE_CHARS: Final = 1_000_000
"""Characters of the lines of a trace that are joined."""
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
    # Before pydantic copies it.
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


def read_outcome(stdout: str) -> Outcome | None:
    """Return the outcome that a process printed as JSON; None if it printed any other text.

    Malformed optional keys do not hide the result from the model: those of an `error` are ignored,
    and a success with a malformed configuration change remains a success.

    Raises:
        ToolError: The process asked an invalid question.
    """
    stdout = stdout.removeprefix("\ufeff")  # programs on Windows may print a byte order mark
    if not stdout.lstrip().startswith("{") or not _has_few_items(stdout):
        return None

    try:
        data = json.loads(stdout, parse_int=_parse_int)
        if "\\u" in stdout:  # may escape a lone surrogate, which UTF-8 cannot encode
            whole = encode_utf8(json.dumps(data, ensure_ascii=False))
            data = json.loads(whole, parse_int=_parse_int)
    except (ValueError, RecursionError):
        return None

    if not isinstance(data, dict):
        return None

    match data.get("type"):
        case "success" if isinstance(data.get("content"), str):
            return _read_success(data)
        case "error" if isinstance(data.get("message"), str):
            _warn_of_change(data)
            trace = _read_texts(data.get("trace"))
            transient = data.get("transient") is True
            return ToolFailure(data["message"], trace=trace or (), transient=transient)
        case "needs_input":
            _warn_of_change(data)
            return _read_needs_input(data)
    return None


MAX_OUTCOME_ITEMS: Final = 100_000
"""A larger JSON value is no outcome: parsed, it takes up to 30 times the memory of its text."""

_ITEM: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A string, or the start of a value in a list or object. It never fails in a string: linear."""


def _has_few_items(text: str) -> bool:
    return next(islice(_ITEM.finditer(text), MAX_OUTCOME_ITEMS, None), None) is None


def _parse_int(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than `sys.get_int_max_str_digits()`
        return math.inf


def _read_success(data: Mapping[str, Any]) -> Success:
    config = data.get("config")
    unset = data.get("unset")
    if config is not None and not isinstance(config, dict):
        malformed = "expected `config` to be an object"
    elif not is_storable(config):
        malformed = "`config` contains a number that JSON does not have, or too many levels"
    elif unset is not None and _read_texts(unset) is None:
        malformed = "expected `unset` to be a list of strings"
    else:
        return Success(data["content"], config=config or None, unset=_read_texts(unset) or ())
    return Success(data["content"], malformed=malformed)


def _read_needs_input(data: Mapping[str, Any]) -> NeedsInput:
    several = data.get("questions")
    if several is not None and data.get("question") is not None:
        raise _invalid_question("it has `question` and `questions`: remove one of them")

    if several is None:
        return NeedsInput(_read_question(data.get("question"), "question"))
    if not isinstance(several, list) or not several:
        raise _invalid_question("expected `questions` to be a list of at least one object")
    questions = [_read_question(each, f"questions.{index}") for index, each in enumerate(several)]

    try:
        return NeedsInput(*questions)
    except ValidationError as exc:
        raise _invalid_question(exc) from exc


def _read_question(data: Any, name: str) -> Question:
    if not isinstance(data, dict):
        raise _invalid_question(f"expected `{name}` to be an object")
    if data.get("answer_type") is None:
        raise _invalid_question(f"`{name}.answer_type` is missing")
    if not is_storable(data):
        raise _invalid_question(
            f"`{name}` contains a number that JSON does not have, or too many levels"
        )

    try:
        return Question.model_validate(data)
    except ValidationError as exc:
        raise _invalid_question(exc, name) from exc


def _invalid_question(reason: str | ValidationError, *above: str) -> ToolError:
    if isinstance(reason, ValidationError):
        path, problem = first_problem(reason)
        reason = f"`{'.'.join((*above, *filter(None, [path])))}`: {problem}"
    return ToolError(f"The tool asked an invalid question: {reason}.")


def _warn_of_change(data: Mapping[str, Any]) -> None:
    if data.get("config") is not None or data.get("unset"):
        log.warning("a tool's %s proposed a configuration change: ignored", data["type"])


def _read_texts(value: Any) -> tuple[str, ...] | None:
    is_valid = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return tuple(value) if is_valid else None


MAX_RESULT_CHARS: Final = 50_000
"""Default limit for the characters of one result that the model reads."""

READ_REST_HINT: Final = (
    "If you need them, and a second call does no harm, call the tool again for a "
    "smaller part. Use the arguments that it has: a narrower query, a range, a page, or a limit."
)


STRUCTURED_OMITTED: Final = (
    f"[The structured value of this result has more than {MAX_STRUCTURED_ITEMS:,} items, "
    f"{MAX_STRUCTURED_CHARS:,} characters, or {MAX_STRUCTURED_LEVELS} levels. It is not recorded, "
    "so no program can read it.]"
)
"""Note to the model below such a result."""


def truncate_middle(text: str, limit: int, setting: str) -> str:
    """Return up to `limit` characters of `text` (0: all), with a note in place of its middle.

    The note to the model names the path of the `setting` with the limit.
    """
    if not limit or len(text) <= limit:
        return text

    head = limit - limit // 2
    tail = limit // 2
    omitted = f"{len(text) - limit} of {len(text)} characters are omitted here. {READ_REST_HINT}"
    note = f"[… {omitted} (The user can change the limit: {setting} is {limit}.) …]"
    return f"{text[:head]}\n\n{note}\n\n{text[len(text) - tail :]}"


def join_lines(lines: Iterable[str], max_chars: int) -> str:
    """Return `lines` in one text, with a note in place of the lines beyond `max_chars`."""
    kept: list[str] = []
    omitted = 0
    for line in lines:
        max_chars -= len(line) + 1
        if max_chars >= 0:
            kept.append(line)
        else:
            omitted += 1

    if omitted:
        kept.append(f"[… {omitted:,} more lines are omitted here …]")
    return "\n".join(kept)


def keep_end(text: str, limit: int) -> str:
    """Return the last `limit` characters of `text`, without a partial first line if possible."""
    if len(text) <= limit:
        return text
    end = text[len(text) - limit :]
    return end.partition("\n")[2] or end
