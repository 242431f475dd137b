"""One more kind of question, `version`, with one entry in each table, to copy for another kind."""

from __future__ import annotations

from typing import Any, Literal

import ipywidgets
import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.notebook.prompt.controls.controls import FORM_CONTROLS
from jp_nb.notebook.prompt.controls.form_control import FormControl, FormMessage, NoValidAnswer
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import StdinDialogue
from jp_nb.notebook.prompt.stdin_prompts.stdin_questions import STDIN_DIALOGUES
from jp_nb.record.entries.inquiry_events import RECORDED_KINDS
from jp_nb.toolkit.question import QUESTION_KINDS
from jp_nb.toolkit.question_types.answer_types import AnswerType


class VersionAnswer(AnswerType):
    """Answered by an integer that is not less than `least`."""

    type: Literal["version"] = "version"
    least: int = 0

    @classmethod
    def register(cls, patch: pytest.MonkeyPatch) -> jp.Question:
        """Add the kind to each table, and return a question that a command asks: at least 3."""
        kind: type[AnswerType] = cls
        patch.setitem(QUESTION_KINDS, "version", kind)
        patch.setitem(RECORDED_KINDS, "version", ("least",))
        patch.setitem(FORM_CONTROLS, kind, _make_version_control)
        patch.setitem(STDIN_DIALOGUES, kind, _make_version_dialogue)
        asked = {"id": "n", "text": "How many?", "answer_type": {"type": "version", "least": 3}}
        return jp.Question.model_validate(asked)

    def answer_schema(self) -> dict[str, JsonValue]:
        """Return the schema for the answer of a model."""
        return {"type": "integer", "minimum": self.least}

    def misfit(self, answer: JsonValue) -> Any | None:
        """Return the reason why `answer` is none."""
        is_whole = isinstance(answer, int) and not isinstance(answer, bool)
        return None if is_whole and int(str(answer)) >= self.least else "type"

    @property
    def expects(self) -> str:
        """The accepted answers, as text."""
        return "an integer"

    def format_answer(self, answer: JsonValue) -> str:
        """Return an answer as text for the user."""
        return f"No. {answer}"


def _make_version_control(prompt: QuestionPrompt, in_form: bool) -> FormControl:
    entry = ipywidgets.IntText()

    def read(message: FormMessage) -> Answered | NoValidAnswer:
        value = message.get("value", entry.value)
        if prompt.question.misfit(value) is not None:
            return NoValidAnswer("Too small.")
        return Answered(value, "form")

    return FormControl(entry, read=read)


def _make_version_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    def parse(line: str) -> Answered | str:
        value = int(line)
        if prompt.question.misfit(value) is not None:
            return "Too small."
        return Answered(value, "stdin")

    return StdinDialogue(above=[], prompt="Number: ", key_help={}, parse=parse)
