"""Built-in tools `ask_user` and `ask_user_read`: ask the user, and read earlier answers.

`ask_user_read` changes nothing, and reads nothing of an untrusted notebook.

Source: `docs/turns.md` (RFD 083).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import compact_json
from jp_nb.record.question_history import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    NO_HISTORY,
    UNTRUSTED_HISTORY,
    LoggedAnswer,
    QuestionHistory,
    validate_limit,
)
from jp_nb.toolkit.answer_types import AnswerType
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success, ToolFailure
from jp_nb.toolkit.parameters import argument
from jp_nb.toolkit.question import QUESTION_KINDS, Question
from jp_nb.toolkit.tool_context import ToolContext

ANSWER_ID = "answer"
"""Id of the question."""
ANSWER_KINDS = ("boolean", "select", "text")
"""The types of questions that a model may ask. It may not ask for secrets (R083-3)."""

DESCRIPTION = """\
Ask the user one typed question and get the answer back.

Use it only when the conversation lacks a piece of information that you need and that the user can \
be expected to know. When in doubt, answer the original request instead. Do not use it for \
information that you can derive from the conversation, or to confirm an obvious next step. For \
options that need an explanation, for a choice of several options, or for several questions at \
once, use `ask` instead, if it is available.

Never use it to collect secrets such as passwords, API keys, or passphrases: answers are sent back \
to you and are stored in the conversation.

`answer_type` is "boolean" (yes or no), "select" (one of `options`) or "text" (the default)."""

PARAMETERS: dict[str, JsonValue] = {
    "question": argument("string", "The question, on a single line.", required=True),
    "context": argument("string", "Background shown above the question. Can have several lines."),
    "answer_type": argument("string", 'Kind of the answer. Default: "text".', enum=[*ANSWER_KINDS]),
    "options": argument(
        "array",
        'The choices of a "select" question; only for that type.',
        items={"type": "string"},
    ),
    "default": argument(
        ["boolean", "string"], "A value to preselect; it must fit the type of the answer."
    ),
}


class AskUser(Tool):
    """Tool that asks the user a question, and returns the answer to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": True, "allow_toggle": "if_named"},
        "run": "unattended",
        "result": "unattended",
        "style": {"hidden": True},
        "questions": {ANSWER_ID: {"prompt_label": "Assistant"}},
        "description": DESCRIPTION,
        "parameters": PARAMETERS,
    }

    asks_as_assistant = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the question in the first run, and the answer as JSON in the second run."""
        question = read_question(arguments)
        if isinstance(question, ToolFailure):
            return question
        if ANSWER_ID not in context.answers:
            return NeedsInput(question)

        answer = context.answers[ANSWER_ID]
        if question.misfit(answer):
            return ToolFailure("the accumulated answer does not match the requested answer type")
        body = {"answer_type": question.answer_type.type, "answer": answer}
        return Success(compact_json(body))


def read_question(arguments: Mapping[str, JsonValue]) -> Question | ToolFailure:
    """Return the question of a call, or a failure if the arguments are invalid."""
    given = {key: value for key, value in arguments.items() if value is not None}
    text = given.get("question")
    context = given.get("context")
    if not isinstance(text, str) or not text.strip():
        return ToolFailure("Missing `question`: provide a non-empty, single-line question.")
    if "\n" in text or "\r" in text:
        return ToolFailure(
            "The `question` must be a single line; move additional lines into `context`."
        )

    answer_type = _read_answer_type(given)
    if isinstance(answer_type, ToolFailure):
        return answer_type

    problem = answer_type.misfit(given["default"]) if "default" in given else None
    if problem == "option":
        return ToolFailure("The `default` value is not one of `options`.")
    if problem is not None:
        return ToolFailure(f'The `default` value does not fit `answer_type` "{answer_type.type}".')

    if context is not None and not isinstance(context, str):
        return ToolFailure("The `context` argument must be a string.")

    return Question(
        id=ANSWER_ID,
        text=text,
        context=context,
        answer_type=answer_type,
        default=given.get("default"),
        exclusive=True,
        persistence="none",
    )


def _read_answer_type(given: Mapping[str, JsonValue]) -> AnswerType | ToolFailure:
    kind = given.get("answer_type", "text")
    options = given.get("options")
    if not isinstance(kind, str) or kind not in ANSWER_KINDS:
        shown = kind if isinstance(kind, str) else json.dumps(kind)
        return ToolFailure(f'Unknown `answer_type` "{shown}": use "boolean", "select", or "text".')

    if kind == "select":
        texts = isinstance(options, list) and all(isinstance(option, str) for option in options)
        if not options or not texts:
            return ToolFailure('A "select" question needs a non-empty `options` array of strings.')
        return QUESTION_KINDS[kind].model_validate({"options": options})

    if options is not None:
        return ToolFailure('The `options` argument is only allowed when `answer_type` is "select".')
    return QUESTION_KINDS[kind].model_validate({})


ACTIONS: Final = ("list", "get", "query")
MAX_HISTORY_CHARS: Final = 40_000
"""Limit for one result. The oldest answers are omitted, so that the JSON stays complete."""

READ_DESCRIPTION: Final = """\
Read earlier questions to the user and the user's answers. They come from this conversation or, \
if the workspace keeps a project log, from all of its notebooks. Use it before you ask something \
that the user may already have decided.

`action` is "list" (the newest answers), "get" (the answer with `id`), or "query" (the answers \
whose question or answer contains `text`)."""

READ_PARAMETERS: Final[dict[str, JsonValue]] = {
    "action": {"type": "string", "required": True, "enum": [*ACTIONS]},
    "limit": argument(
        "integer", f"Maximum number of answers, 1 to {MAX_LIMIT}. Default: {DEFAULT_LIMIT}."
    ),
    "id": argument("integer", 'The id of the answer that "get" returns.'),
    "text": argument("string", 'Text that "query" searches for, ignoring case.'),
}


class AskUserRead(Tool):
    """Tool that returns earlier questions and answers to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": True},
        "run": "unattended",
        "result": "unattended",
        "style": {"inline_results": "off"},
        "description": READ_DESCRIPTION,
        "parameters": READ_PARAMETERS,
    }

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the requested answers as JSON, oldest first."""
        given = {key: value for key, value in arguments.items() if value is not None}
        if problem := _check_arguments(given):
            return ToolFailure(problem)

        history = await context.history() if context.history is not None else QuestionHistory()
        if not history.trusted:
            refused = {"message": UNTRUSTED_HISTORY, "untrusted": True, "total": 0, "entries": []}
            return ToolFailure(compact_json(refused))
        return _find_answers(history, given)


def _check_arguments(given: Mapping[str, JsonValue]) -> str | None:
    action = given.get("action")
    number = given.get("id")
    if action not in ACTIONS:
        return 'Unknown or missing `action`: use "list", "get", or "query".'
    if action == "get" and (type(number) is not int or number < 1):
        return 'The action "get" needs `id`, the whole number of an answer, from 1.'
    text = given.get("text")
    if action == "query" and not (isinstance(text, str) and text.strip()):
        return 'The action "query" needs `text`: the text to search for, not blank.'

    try:
        validate_limit(given.get("limit", DEFAULT_LIMIT))
    except UsageError as exc:
        return f"The `limit` argument is wrong: {exc}."
    return None


def _find_answers(history: QuestionHistory, given: Mapping[str, Any]) -> Outcome:
    limit = given.get("limit", DEFAULT_LIMIT)
    if given["action"] == "get":
        one = history.get(given["id"])
        if not one:
            return ToolFailure(history.format_unknown_id(given["id"]))
        return _make_result(history, one, len(one), "")

    if given["action"] == "query":
        found = history.containing(given["text"])
        message = "" if found else history.format_no_match(given["text"])
        return _make_result(history, found[-limit:], len(found), message)

    message = "" if history.answers else NO_HISTORY
    return _make_result(history, history.latest(limit), len(history.answers), message)


_SCOPES: Final = {"record": "this conversation", "log": "this workspace"}


def _make_result(
    history: QuestionHistory, answers: Sequence[LoggedAnswer], total: int, message: str
) -> Outcome:
    entries: list[JsonValue] = []
    room = MAX_HISTORY_CHARS

    for answer in reversed(answers):
        entry = answer.to_json()
        room -= len(compact_json(entry))
        if room < 0 and entries:
            break
        entries.append(entry)
    entries.reverse()

    body: dict[str, JsonValue] = {"message": message} if message else {}
    body |= {"of": _SCOPES[history.source], "total": total, "entries": entries}

    count = len(entries)
    if count < len(answers):
        body["shortened"] = f"only the newest {count} of {len(answers)}: the others are too long"
    if history.left_out:
        body["left_out"] = f"{history.left_out} by other authors, which the user has not checked"
    return Success(compact_json(body))
