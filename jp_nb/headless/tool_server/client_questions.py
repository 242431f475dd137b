"""The questions of one call of a served tool, which the user answers in an MCP client.

A tool asks questions in rounds: it runs, asks, and runs again with the answers (`QuestionState`).
`Questions` decides which questions of a round need the user, and reads the client's response to
each one. `client_forms.py` makes the form of a question.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.calls.call import CallEnded
from jp_nb.agent.inquiries.question_route import (
    Refuse,
    UseAnswer,
    format_no_user_error,
    select_route,
)
from jp_nb.config.tree.tool_settings import QuestionConfig
from jp_nb.errors import ToolError
from jp_nb.headless.tool_server.client_forms import read_form_answer
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.outcomes import QuestionEnd
from jp_nb.record.reading.outcome_words import END_WORDS
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question

ClientAction = Literal["accept", "decline", "cancel"]

NO_CLIENT_FORMS: Final = "the client cannot show questions"
CLIENT_MISFIT: Final = (
    "{}: the answer of the client to the question `{}` does not fit: {}. Call it again."
)


@dataclass(slots=True)
class QuestionState:
    """The questions of one call so far.

    Attributes:
        answers: The answers, by question id.
        ends: How each question ended, by question id.
        rounds: How often the tool has asked.
    """

    answers: JsonObject = field(default_factory=dict)
    ends: dict[str, QuestionEnd] = field(default_factory=dict)
    rounds: int = 0

    def to_json(self) -> JsonObject:
        """Return the state for `requestState`."""
        return {"answers": self.answers, "ends": dict(self.ends), "rounds": self.rounds}

    @classmethod
    def from_json(cls, state: Mapping[str, JsonValue]) -> QuestionState:
        """Return the state that `to_json` returned. Only this program can have written it."""
        ends: dict[str, QuestionEnd] = dict(as_object(state["ends"]))  # type: ignore[arg-type]
        rounds = state["rounds"]
        assert isinstance(rounds, int)
        return cls(dict(as_object(state["answers"])), ends, rounds)


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one run of a tool.

    Attributes:
        tool: The name of the tool.
        questions: The questions, in order.
        partial: True if the tool also runs again with open questions (`NeedsInput.partial`).
        configured: The configured answers, by question id.
    """

    tool: str
    questions: Sequence[Question]
    partial: bool
    configured: Mapping[str, JsonValue]

    def select_open(self, state: QuestionState, *, can_ask: bool) -> list[Question]:
        """Settle questions without the user in `state`, and return those that the user answers.

        Raises:
            ToolError: A question needs a user or a model, and there is none. The message is that of
                a headless run.
        """
        unavailable_reason = None if can_ask else NO_CLIENT_FORMS
        shown: list[Question] = []

        # The same routes as in a turn, but no model can answer here. A client gets no exclusive
        # question, because it may let a model answer. An optional question without a default stays
        # open (`leave_open`) if no client can answer. `decline` would need an answers file.
        for question in self.questions:
            route = select_route(
                self.tool,
                question,
                QuestionConfig(answer=self.configured.get(question.id)),
                remembered=None,
                unavailable_reason=unavailable_reason,
            )
            match route:
                case UseAnswer(answer=answer):
                    self._settle(state, question, "answered", answer)
                case Refuse(text=text):
                    raise ToolError(text)
                case "leave_open" | "decline":
                    self._settle(state, question, "unavailable", None)
                case "user" if question.exclusive:
                    raise ToolError(format_no_user_error(self.tool))
                case "user":
                    shown.append(question)
                case "model":
                    raise ToolError(format_no_user_error(self.tool))
        return shown

    def settle_response(
        self, state: QuestionState, question: Question, action: ClientAction, content: JsonValue
    ) -> None:
        """Put the client's response to `question` into `state`.

        Raises:
            CallEnded: The user gave no answer, so the call ends.
            ToolError: The answer does not fit.
        """
        if action == "accept":
            answer = read_form_answer(question, as_object(content))
            if answer is not None and question.misfit(answer) is None:
                self._settle(state, question, "answered", answer)
                return
            if answer is not None or question.required:
                why = question.answer_type.format_problem(answer)
                raise ToolError(
                    CLIENT_MISFIT.format(self.tool, question.id, one_line(why, limit=500))
                )
            action = "decline"  # an optional question that the user left open

        end: QuestionEnd = "declined" if action == "decline" else "cancelled"
        if not self.partial and (question.required or end == "cancelled"):
            raise CallEnded(END_WORDS[end].response, skipped=True)

        self._settle(state, question, end, None)

    def _settle(
        self, state: QuestionState, question: Question, end: QuestionEnd, answer: JsonValue
    ) -> None:
        """Note the end of a question. With `partial`, an open one has no key in the answers."""
        if end == "answered" or not self.partial:
            state.answers[question.id] = answer
        state.ends[question.id] = end
