"""Questions that a server of 2025 sends while a call runs.

They are shown one after the other. The request of the call continues meanwhile, and the server
waits for each answer.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jp_nb.mcp.exchange import CANCEL, ServerAnswer, ServerQuestion
from jp_nb.mcp.tool_calls.call_questions import AskedQuestion, CallQuestions, make_question_form
from jp_nb.toolkit.outcome import NeedsInput
from jp_nb.toolkit.tool_context import ToolContext

MAY_BELONG: Final = "The question belongs to one of these running calls: {}."


@dataclass(slots=True, eq=False)
class _PushedQuestion:
    """A question, and the future with its answer, for which the server waits."""

    asked: AskedQuestion
    reply: asyncio.Future[ServerAnswer]


class PushedQuestions:
    """Questions that a server of 2025 sends during a call.

    A question *waits* until `ask_next` makes its form. It is then *shown* until `give_answer`.

    Args:
        changed: Is set when a question arrives.
    """

    def __init__(self, questions: CallQuestions, changed: asyncio.Event) -> None:
        self._questions = questions
        self._changed = changed
        self._waiting: deque[_PushedQuestion] = deque()
        self._shown: _PushedQuestion | None = None

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
        # Its form has no other question, so any id is free.
        question = self._questions.make(asked, set(), *notes)
        if question is None:
            return CANCEL

        reply: asyncio.Future[ServerAnswer] = asyncio.get_running_loop().create_future()
        pushed = _PushedQuestion(question, reply)
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
        return make_question_form([pushed.asked.question], pushed.reply, request)

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

    def _reply(self, pushed: _PushedQuestion, answer: ServerAnswer) -> None:
        if not pushed.reply.done():
            pushed.reply.set_result(answer)
