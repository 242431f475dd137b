"""Make the questions of a server during one call of its tool, and read their answers.

A server of the protocol of 2026 answers a request with a round of questions, and gets the answers
with the next request (`question_round.py`). A server of 2025 sends each question as a request of
its own while the call runs (`pushed_questions.py`).

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject
from jp_nb.mcp.exchange import ServerAnswer, ServerQuestion
from jp_nb.mcp.tool_calls.elicitations import make_answer, make_question, make_question_id
from jp_nb.text import one_line
from jp_nb.toolkit.outcome import NeedsInput
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.tool_context import ToolContext

log = logging.getLogger(__name__)

STARTED_AGAIN: Final = (
    "The server has forgotten the answers so far, so the call was started again. Your earlier "
    "answers are suggested."
)
QUESTION_NOT_SHOWN: Final = (
    "A question of the server was cancelled, because no form can show it: {}"
)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question of the server with this `key`, as the user gets it."""

    key: str
    question: Question


class CallQuestions:
    """The questions of one call.

    Args:
        server: Name of the server in the configuration.
        title: Name of the tool for the model.
        model_notes: Notes for the model, to which a question that cannot be shown adds one.

    Attributes:
        were_asked: True if the server has asked one.
        was_restarted: True if the call was started again, so the user may know the questions.
            `PendingCall` sets it.
    """

    def __init__(self, server: str, title: str, model_notes: list[str]) -> None:
        self.were_asked = False
        self.was_restarted = False
        self._server = server
        self._title = title
        self._model_notes = model_notes
        # The last answer to each question, by key, to suggest it if the call starts again.
        self._accepted: dict[str, JsonObject] = {}

    def make(self, asked: ServerQuestion, used_ids: set[str], *notes: str) -> AskedQuestion | None:
        """Return the question for the user, with `notes` about it; None if no form can show it.

        Its id is none of `used_ids`, and is added to them.
        """
        self.were_asked = True
        question_id = _make_unique(make_question_id(asked.key), used_ids)
        used_ids.add(question_id)
        if self.was_restarted:
            notes = (STARTED_AGAIN, *notes)

        try:
            question = make_question(
                self._server,
                asked,
                question_id,
                notes=notes,
                earlier=self._accepted.get(asked.key),
            )
        except UsageError as exc:
            note = QUESTION_NOT_SHOWN.format(one_line(str(exc), limit=300))
            log.warning("%s: %s", self._title, note)
            self._model_notes.append(note)
            return None

        return AskedQuestion(asked.key, question)

    def make_answer(self, asked: AskedQuestion, context: ToolContext) -> ServerAnswer:
        """Return the answer for the server: the outcome of the question in the run's `context`."""
        question_id = asked.question.id
        outcome = context.ends.get(question_id)
        answer = make_answer(asked.question, outcome, context.answers.get(question_id))
        if answer.content:
            self._accepted[asked.key] = dict(answer.content)
        return answer


def make_question_form(questions: Sequence[Question], *ends: asyncio.Future[Any]) -> NeedsInput:
    """Return a form that closes at once if one of `ends` is done before the user answers.

    `ends` are the futures after which the server does not need the answers, such as its own end.
    """
    withdrawn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def withdraw(_: object) -> None:
        if not withdrawn.done():
            withdrawn.set_result(None)

    for end in ends:
        end.add_done_callback(withdraw)
    # The server gets each outcome (`partial`), also that the user declined (`decline`).
    return NeedsInput(*questions, partial=True, decline=True, withdrawn=withdrawn)


def _make_unique(question_id: str, used: set[str]) -> str:
    """Return `question_id`, with a number if it is one of the `used` ids."""
    number = 1
    unique = question_id
    while unique in used:
        number += 1
        unique = f"{question_id}-{number}"
    return unique
