"""Read the outcome that a command printed as JSON.

A command prints any text as its result, or one JSON object:

    {"type": "success", "content": "Done.", "config": {…}, "unset": […]}
    {"type": "error", "message": "…", "trace": […], "transient": false}
    {"type": "needs_input", "question": {"id": "…", "text": "…", "answer_type": "boolean"}}

`config` and `unset` propose a change of the configuration: new values, and settings to remove. Only
a success may propose one. An error is `transient` if another attempt may succeed.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from jp_nb.errors import ToolError
from jp_nb.storable_json import encode_utf8, is_storable
from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success, ToolFailure
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.answer_type_reading import find_first_problem

log = logging.getLogger(__name__)

MAX_OUTCOME_ITEMS: Final = 100_000
"""A larger JSON value is no outcome: parsed, it takes up to 30 times the memory of its text."""
_ITEM: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
"""A string, or the start of a value in a list or object.

The possessive quantifiers never go back into a string, so a search takes linear time.
"""


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
        if "\\u" in stdout:  # may escape a lone surrogate, which is replaced by `?`
            encodable = encode_utf8(json.dumps(data, ensure_ascii=False))
            data = json.loads(encodable, parse_int=_parse_int)
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


def _has_few_items(text: str) -> bool:
    further_items = islice(_ITEM.finditer(text), MAX_OUTCOME_ITEMS, None)
    return next(further_items, None) is None


def _parse_int(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than `sys.get_int_max_str_digits()`
        return math.inf


def _read_success(data: Mapping[str, Any]) -> Success:
    """Return the success, and its configuration change or the reason why that is malformed."""
    content = data["content"]
    config = data.get("config")
    unset = data.get("unset")
    paths = _read_texts(unset)

    if config is not None and not isinstance(config, dict):
        return Success(content, malformed="expected `config` to be an object")
    if not is_storable(config):
        malformed = "`config` contains a number that JSON does not have, or too many levels"
        return Success(content, malformed=malformed)
    if unset is not None and paths is None:
        return Success(content, malformed="expected `unset` to be a list of strings")

    return Success(content, config=config or None, unset=paths or ())


def _read_needs_input(data: Mapping[str, Any]) -> NeedsInput:
    """Return the questions in `question` or `questions`."""
    items = data.get("questions")
    if items is not None and data.get("question") is not None:
        raise _make_question_error("it has `question` and `questions`: remove one of them")

    if items is None:
        return NeedsInput(_read_question(data.get("question"), "question"))
    if not isinstance(items, list) or not items:
        raise _make_question_error("expected `questions` to be a list of at least one object")
    questions = [_read_question(item, f"questions.{index}") for index, item in enumerate(items)]

    try:
        return NeedsInput(*questions)
    except ValidationError as exc:
        raise _make_question_error(_describe_first_problem(exc)) from exc


def _read_question(data: Any, name: str) -> Question:
    """Return one question; `name` is its path for errors."""
    if not isinstance(data, dict):
        raise _make_question_error(f"expected `{name}` to be an object")
    if data.get("answer_type") is None:
        raise _make_question_error(f"`{name}.answer_type` is missing")
    if not is_storable(data):
        raise _make_question_error(
            f"`{name}` contains a number that JSON does not have, or too many levels"
        )

    try:
        return Question.model_validate(data)
    except ValidationError as exc:
        raise _make_question_error(_describe_first_problem(exc, name)) from exc


def _describe_first_problem(error: ValidationError, parent: str = "") -> str:
    path, problem = find_first_problem(error)
    keys = [key for key in (parent, path) if key]
    return f"`{'.'.join(keys)}`: {problem}"


def _make_question_error(reason: str) -> ToolError:
    return ToolError(f"The tool asked an invalid question: {reason}.")


def _warn_of_change(data: Mapping[str, Any]) -> None:
    """Log a configuration change in an outcome that cannot propose one."""
    if data.get("config") is not None or data.get("unset"):
        log.warning("a tool's %s proposed a configuration change: ignored", data["type"])


def _read_texts(value: Any) -> tuple[str, ...] | None:
    is_valid = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return tuple(value) if is_valid else None
