"""A round: questions that are answered together, before the next request of a call.

A server of 2026 ends a request with a round of questions, which are one form; the answers go with
the next request. A server of 2025 asks each question during the request. It ends a request only
with addresses that the user must open, such as pages for a payment; then the request is repeated.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from jp_nb.mcp.exchange import CANCEL, ServerAnswer, ServerQuestion
from jp_nb.mcp.tool_calls.call_questions import AskedQuestion, CallQuestions, make_question_form
from jp_nb.toolkit.outcome import MAX_QUESTIONS, NeedsInput
from jp_nb.toolkit.tool_context import ToolContext

RoundKind = Literal["answers", "addresses"]
"""The answers go to the server with the next request (`answers`), or the user opens pages before it
(`addresses`)."""


class Round:
    """Questions that are answered together, with the next request of the call.

    Args:
        questions: Makes the questions for the user, and the answers for the server.
        received: The questions as the server sent them.

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
        self._not_shown: list[str] = []  # keys of questions that get `cancel`

        used_ids = set[str]()  # `make` adds the id of each question
        for server_question in received:
            question = questions.make(server_question, used_ids)  # None: no form can show it
            if question is None or len(self.asked) == MAX_QUESTIONS:
                self._not_shown.append(server_question.key)
            else:
                self.asked.append(question)

    def ask(self, server_end: asyncio.Future[None]) -> NeedsInput:
        """Return the form with the questions. It closes if `server_end` is done before."""
        return make_question_form([asked.question for asked in self.asked], server_end)

    def make_answers(self, context: ToolContext) -> dict[str, ServerAnswer]:
        """Return the answers for the server, by key.

        The tool has run again with the user's answers, which are in the `context` of this run.
        """
        answers = {asked.key: self._questions.make_answer(asked, context) for asked in self.asked}
        return {**answers, **dict.fromkeys(self._not_shown, CANCEL)}

    def cancel(self) -> dict[str, ServerAnswer]:
        """Return `cancel` for each question, by key."""
        keys = [asked.key for asked in self.asked]
        return dict.fromkeys([*keys, *self._not_shown], CANCEL)
