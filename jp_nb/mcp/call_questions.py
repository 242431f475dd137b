"""Questions of a server during one call of its tool, and their answers.

A server of 2026 ends its request with a round of questions, which are one form. A server of 2025
pushes its questions while the request runs, and they are shown one after the other.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject
from jp_nb.mcp.elicitations import make_answer, make_question, make_question_id
from jp_nb.mcp.exchange import CANCEL, ServerAnswer, ServerQuestion
from jp_nb.text import one_line
from jp_nb.toolkit.outcome import MAX_QUESTIONS, NeedsInput
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
MAY_BELONG: Final = "The question belongs to one of these running calls: {}."

RoundKind = Literal["answers", "addresses"]
"""The answers go to the server with the next request, or the user opens addresses before it."""


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
        notes: Notes for the model, to which a question that cannot be shown adds one.

    Attributes:
        were_asked: True if the server has asked one.
        was_restarted: True if the call was started again, so the user may know the questions.
    """

    def __init__(self, server: str, title: str, notes: list[str]) -> None:
        self.were_asked = False
        self.was_restarted = False
        self._server = server
        self._title = title
        self._notes = notes
        self._accepted: dict[str, JsonObject] = {}  # the last content, by key

    def make(self, asked: ServerQuestion, used_ids: set[str], *notes: str) -> AskedQuestion | None:
        """Return the question for the user, with an id that is none of `used_ids`.

        It is None if no form can show it.
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
            self._notes.append(note)
            return None

        return AskedQuestion(asked.key, question)

    def make_answer(self, asked: AskedQuestion, context: ToolContext) -> ServerAnswer:
        """Return the answer for the server."""
        question_id = asked.question.id
        outcome = context.ends.get(question_id)
        answer = make_answer(asked.question, outcome, context.answers.get(question_id))
        if answer.content:
            self._accepted[asked.key] = dict(answer.content)
        return answer


class Round:
    """Questions that are answered together, with the next request of the call.

    Attributes:
        asked: The questions that the user gets. A form cannot show the others.
        state: State of the server, which is in no record, log, or message.
    """

    def __init__(
        self,
        kind: RoundKind,
        questions: CallQuestions,
        received: Iterable[ServerQuestion],
        state: object = None,
    ) -> None:
        self.kind = kind
        self.state = state
        self.asked: list[AskedQuestion] = []
        self._questions = questions
        self._not_shown: list[str] = []

        used_ids = set[str]()
        for each in received:
            asked = questions.make(each, used_ids)
            if asked is None or len(self.asked) == MAX_QUESTIONS:
                self._not_shown.append(each.key)
            else:
                self.asked.append(asked)

    def ask(self, server_end: asyncio.Future[None]) -> NeedsInput:
        """Return the form with the questions. It closes if the server ends."""
        return _make_form([each.question for each in self.asked], server_end)

    def make_answers(self, context: ToolContext) -> dict[str, ServerAnswer]:
        """Return the answers for the server, by key."""
        answers = {each.key: self._questions.make_answer(each, context) for each in self.asked}
        return {**answers, **dict.fromkeys(self._not_shown, CANCEL)}

    def cancel(self) -> dict[str, ServerAnswer]:
        """Return `cancel` for each question, by key."""
        keys = [each.key for each in self.asked]
        return dict.fromkeys([*keys, *self._not_shown], CANCEL)


@dataclass(slots=True, eq=False)
class _Pushed:
    asked: AskedQuestion
    reply: asyncio.Future[ServerAnswer]


class PushedQuestions:
    """Questions that a server of 2025 sends during a call.

    Args:
        changed: Is set when a question arrives.
    """

    def __init__(self, questions: CallQuestions, changed: asyncio.Event) -> None:
        self._questions = questions
        self._changed = changed
        self._waiting: deque[_Pushed] = deque()
        self._shown: _Pushed | None = None

    @property
    def are_waiting(self) -> bool:
        """True if a question is not shown yet."""
        return bool(self._waiting)

    @property
    def is_shown(self) -> bool:
        """True if the form of a question is open, or its answer was not given yet."""
        return self._shown is not None

    @property
    def are_open(self) -> bool:
        """True if the server waits for an answer."""
        return self.is_shown or self.are_waiting

    async def receive(self, asked: ServerQuestion, titles: Sequence[str]) -> ServerAnswer:
        """Return the user's answer, after those to earlier questions.

        The question may belong to any of the running calls with these `titles`.
        """
        notes = [MAY_BELONG.format(", ".join(titles))] if titles else []
        made = self._questions.make(asked, set(), *notes)
        if made is None:
            return CANCEL

        reply: asyncio.Future[ServerAnswer] = asyncio.get_running_loop().create_future()
        pushed = _Pushed(made, reply)
        self._waiting.append(pushed)
        self._changed.set()

        try:
            return await reply
        finally:
            if pushed in self._waiting:
                self._waiting.remove(pushed)

    def ask_next(self, request: asyncio.Future[Any]) -> NeedsInput:
        """Return the form with the next question of a call that waits for `request`."""
        pushed = self._waiting.popleft()
        self._shown = pushed
        # The request ends with the server, and the reply if the server does not wait for it.
        return _make_form([pushed.asked.question], pushed.reply, request)

    def give_answer(self, context: ToolContext) -> None:
        """Give the answer to the shown question to the server."""
        assert self._shown is not None
        pushed = self._shown
        self._shown = None
        self._reply(pushed, self._questions.make_answer(pushed.asked, context))

    def cancel(self) -> None:
        """Answer all questions with `cancel`."""
        if self._shown is not None:
            self._reply(self._shown, CANCEL)
        for pushed in self._waiting:
            self._reply(pushed, CANCEL)

    def _reply(self, pushed: _Pushed, answer: ServerAnswer) -> None:
        if not pushed.reply.done():
            pushed.reply.set_result(answer)


def _make_form(questions: Sequence[Question], *ends: asyncio.Future[Any]) -> NeedsInput:
    """Return a form that closes at once if one of `ends` ends before the answer."""
    withdrawn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def withdraw(_: object) -> None:
        if not withdrawn.done():
            withdrawn.set_result(None)

    for each in ends:
        each.add_done_callback(withdraw)
    return NeedsInput(*questions, partial=True, decline=True, withdrawn=withdrawn)


def _make_unique(question_id: str, used: set[str]) -> str:
    number = 1
    unique = question_id
    while unique in used:
        number += 1
        unique = f"{question_id}-{number}"
    return unique
