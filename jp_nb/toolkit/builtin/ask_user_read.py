"""Built-in tool `ask_user_read`: earlier questions to the user, and the answers.

It changes nothing, and reads nothing of an untrusted notebook. `QuestionHistory` has the answers,
oldest first: those of the conversation, or those of the workspace if it keeps a project log. Each
answer has a number as its `id`.

Source: `docs/turns.md` (RFD 083).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_writing import compact_json
from jp_nb.record.reading.question_history import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    NO_HISTORY,
    UNTRUSTED_HISTORY,
    LoggedAnswer,
    QuestionHistory,
    validate_limit,
)
from jp_nb.toolkit.arguments.parameters import argument
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

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

    read_only = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the requested answers as JSON, oldest first."""
        fields = {key: value for key, value in arguments.items() if value is not None}
        if problem := _check_arguments(fields):
            return ToolFailure(problem)

        history = await context.history() if context.history is not None else QuestionHistory()
        if not history.trusted:
            refused = {"message": UNTRUSTED_HISTORY, "untrusted": True, "total": 0, "entries": []}
            return ToolFailure(compact_json(refused))
        return _find_answers(history, fields)


def _check_arguments(fields: Mapping[str, JsonValue]) -> str | None:
    """Return the problem of the arguments for the model; None if there is none."""
    action = fields.get("action")
    if action not in ACTIONS:
        return 'Unknown or missing `action`: use "list", "get", or "query".'

    answer_id = fields.get("id")
    if action == "get" and (type(answer_id) is not int or answer_id < 1):
        return 'The action "get" needs `id`, the whole number of an answer, from 1.'

    text = fields.get("text")
    if action == "query" and not (isinstance(text, str) and text.strip()):
        return 'The action "query" needs `text`: the text to search for, not blank.'

    try:
        validate_limit(fields.get("limit", DEFAULT_LIMIT))
    except UsageError as exc:
        return f"The `limit` argument is wrong: {exc}."
    return None


def _find_answers(history: QuestionHistory, fields: Mapping[str, Any]) -> Outcome:
    """Return the answers that the checked arguments select."""
    limit = fields.get("limit", DEFAULT_LIMIT)
    if fields["action"] == "get":
        answers = history.get(fields["id"])
        if not answers:
            return ToolFailure(history.format_unknown_id(fields["id"]))
        return _make_result(history, answers, len(answers), "")

    if fields["action"] == "query":
        matches = history.containing(fields["text"])
        message = "" if matches else history.format_no_match(fields["text"])
        return _make_result(history, matches[-limit:], len(matches), message)

    message = "" if history.answers else NO_HISTORY
    return _make_result(history, history.latest(limit), len(history.answers), message)


_SCOPES: Final = {"record": "this conversation", "log": "this workspace"}


def _make_result(
    history: QuestionHistory, answers: Sequence[LoggedAnswer], total: int, message: str
) -> Outcome:
    """Return `answers` as JSON. `total` counts those beyond the limit too; `message` may be ""."""
    entries = _list_newest(answers)
    body: dict[str, JsonValue] = {"message": message} if message else {}
    body |= {"of": _SCOPES[history.source], "total": total, "entries": entries}

    count = len(entries)
    if count < len(answers):
        body["shortened"] = f"only the newest {count} of {len(answers)}: the others are too long"
    if history.left_out:  # untrusted answers, which no model reads
        body["left_out"] = f"{history.left_out} by other authors, which the user has not checked"
    return Success(compact_json(body))


def _list_newest(answers: Sequence[LoggedAnswer]) -> list[JsonValue]:
    """Return the newest of `answers` that fit into a result, but at least one, oldest first."""
    entries: list[JsonValue] = []
    remaining_chars = MAX_HISTORY_CHARS

    for answer in reversed(answers):
        entry = answer.to_json()
        remaining_chars -= len(compact_json(entry))
        if remaining_chars < 0 and entries:
            break
        entries.append(entry)

    entries.reverse()
    return entries
