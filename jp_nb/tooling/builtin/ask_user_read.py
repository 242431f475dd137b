"""`ask_user_read`: the model reads what the user was asked before, and answered.

It reads, and changes nothing. Of a notebook that is not trusted it reads nothing.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import compact_json
from jp_nb.record.question_entry import PastAnswer
from jp_nb.record.question_history import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    NO_HISTORY,
    UNTRUSTED,
    QuestionHistory,
    checked_limit,
)
from jp_nb.tooling.base import CellThread, ToolDefaults
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import Failure, Outcome, Success

NAME: Final = "ask_user_read"
ACTIONS: Final = ("list", "get", "query")
MAX_CHARS: Final = 40_000
"""Of one result, so that its JSON is whole; the oldest answers give way."""

DESCRIPTION: Final = """\
Read earlier questions to the user and the user's answers. They come from this conversation or, \
if the workspace keeps a question log, from all of its notebooks. Use it before you ask something \
that the user may already have decided.

`action` is "list" (the newest answers), "get" (the answer with `id`) or "query" (the answers \
whose question or answer contains `text`)."""

PARAMETERS: Final[dict[str, JsonValue]] = {
    "action": {"type": "string", "required": True, "enum": [*ACTIONS]},
    "limit": {
        "type": "integer",
        "description": f"Maximum number of answers, 1 to {MAX_LIMIT}. Default: {DEFAULT_LIMIT}.",
    },
    "id": {"type": "integer", "description": 'The id of the answer that "get" returns.'},
    "text": {"type": "string", "description": 'Text that "query" searches for, ignoring case.'},
}


class AskUserRead(ToolDefaults):
    """Hands the model earlier questions and their answers."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": True},
        "run": "unattended",
        "result": "unattended",
        "style": {"inline_results": "off"},
        "description": DESCRIPTION,
        "parameters": PARAMETERS,
    }

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the answers that are asked for as JSON text, oldest first."""
        given = {key: value for key, value in arguments.items() if value is not None}
        if wrong := _wrong(given):
            return Failure(wrong)
        history = await context.history() if context.history is not None else QuestionHistory()
        if not history.trusted:
            refused = {"message": UNTRUSTED, "untrusted": True, "total": 0, "entries": []}
            return Failure(compact_json(refused))
        try:
            return _found(history, given)
        except UsageError as exc:
            return Failure(str(exc))


def _wrong(given: Mapping[str, JsonValue]) -> str | None:
    """Return what is wrong with the arguments of a call; None if nothing is."""
    action, number = given.get("action"), given.get("id")
    if action not in ACTIONS:
        return 'Unknown or missing `action`: use "list", "get" or "query".'
    if action == "get" and (type(number) is not int or number < 1):
        return 'The action "get" needs `id`, the whole number of an answer, from 1.'
    if action == "query" and not (isinstance(text := given.get("text"), str) and text.strip()):
        return 'The action "query" needs `text`: the text to search for, not blank.'
    try:
        checked_limit(given.get("limit", DEFAULT_LIMIT))
    except UsageError as exc:
        return f"The `limit` argument is wrong: {exc}."
    return None


def _found(history: QuestionHistory, given: Mapping[str, JsonValue]) -> Outcome:
    """Return what of `history` a call asks for; the arguments are as they should be."""
    limit = checked_limit(given.get("limit", DEFAULT_LIMIT))
    if given["action"] == "get":
        number = int(str(given["id"]))
        if not (one := history.get(number)):
            return Failure(history.nothing_at(number))
        return _result(history, one, len(one), "")
    if given["action"] == "query":
        text = str(given["text"])
        found = history.containing(text)
        message = "" if found else history.nothing_like(text)
        return _result(history, found[-limit:], len(found), message)
    message = "" if history.answers else NO_HISTORY
    return _result(history, history.latest(limit), len(history.answers), message)


_KEPT_IN: Final = {"record": "this conversation", "log": "this workspace"}


def _result(
    history: QuestionHistory, answers: Sequence[PastAnswer], total: int, message: str
) -> Outcome:
    """Return `answers`, the newest of `total`, as many as there is room for."""
    entries: list[JsonValue] = []
    room = MAX_CHARS
    for answer in reversed(answers):
        entry = answer.to_json()
        room -= len(compact_json(entry))
        if room < 0 and entries:
            break
        entries.append(entry)
    entries.reverse()
    body: dict[str, JsonValue] = {"message": message} if message else {}
    body |= {"of": _KEPT_IN[history.kept_in], "total": total, "entries": entries}
    if len(entries) < len(answers):
        body["shortened"] = (
            f"only the newest {len(entries)} of {len(answers)}: the others are too long"
        )
    if history.left_out:
        body["left_out"] = f"{history.left_out} by other authors, which the user has not checked"
    return Success(compact_json(body))
