"""`ask_user`: the model asks the person one typed question.

Source: `docs/turns.md` (RFD 083).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.json_values import compact_json
from jp_nb.record.events import InquirySource
from jp_nb.tooling.base import CellThread, ToolDefaults
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.tooling.question import QUESTION_KINDS, Question
from jp_nb.tooling.question_kinds import AnswerType

NAME = "ask_user"
ANSWER = "answer"
"""The id of the one question."""
KINDS = ("boolean", "select", "text")
"""What a model may ask: no secrets, whatever other kinds there are (R083-3)."""

DESCRIPTION = """\
Ask the user one typed question and get the answer back.

Use it only when the conversation lacks a piece of information that you need and that the user can \
be expected to know. When in doubt, answer the original request instead. Do not use it for \
information that you can derive from the conversation, or to confirm an obvious next step. For \
options that need an explanation, for a choice of several options, or for several questions at \
once, use `ask` instead, if it is available.

Never use it to collect secrets such as passwords, API keys or passphrases: answers are sent back \
to you and are stored in the conversation.

`answer_type` is "boolean" (yes or no), "select" (one of `options`) or "text" (the default)."""

PARAMETERS: dict[str, JsonValue] = {
    "question": {
        "type": "string",
        "required": True,
        "description": "The question, on a single line.",
    },
    "context": {
        "type": "string",
        "description": "Background shown above the question. Can have several lines.",
    },
    "answer_type": {
        "type": "string",
        "enum": [*KINDS],
        "description": 'Kind of the answer. Default: "text".',
    },
    "options": {
        "type": "array",
        "items": {"type": "string"},
        "description": 'The choices of a "select" question; only for that type.',
    },
    "default": {
        "type": ["boolean", "string"],
        "description": "A value to preselect; it must fit the type of the answer.",
    },
}


class AskUser(ToolDefaults):
    """Validates the question, has it asked, hands the answer to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": True, "allow_toggle": "if_named"},
        "run": "unattended",
        "result": "unattended",
        "style": {"hidden": True},
        "questions": {ANSWER: {"prompt_label": "Assistant"}},
        "description": DESCRIPTION,
        "parameters": PARAMETERS,
    }

    def inquiry_source(self, name: str) -> InquirySource:
        """Return the assistant, who asks through this tool."""
        return InquirySource(source="assistant")

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the question on the first run, the answer as JSON text on the second."""
        question = read_question(arguments)
        if isinstance(question, Failure):
            return question
        if ANSWER not in context.answers:
            return NeedsInput(question)
        answer = context.answers[ANSWER]
        if question.misfit(answer):
            return Failure("the accumulated answer does not match the requested answer type")
        body = {"answer_type": question.answer_type.type, "answer": answer}
        return Success(compact_json(body))


def read_question(arguments: Mapping[str, JsonValue]) -> Question | Failure:
    """Return the question that a call asks, or what is wrong with it."""
    given = {key: value for key, value in arguments.items() if value is not None}
    text = given.get("question")
    if not isinstance(text, str) or not text.strip():
        return Failure("Missing `question`: provide a non-empty, single-line question.")
    if "\n" in text or "\r" in text:
        return Failure(
            "The `question` must be a single line; move additional lines into `context`."
        )
    answer_type = _answer_type(given)
    if isinstance(answer_type, Failure):
        return answer_type
    wrong_default = _wrong_default(given, answer_type)
    if wrong_default is not None:
        return wrong_default
    context = given.get("context")
    if context is not None and not isinstance(context, str):
        return Failure("The `context` argument must be a string.")
    return Question(
        id=ANSWER,
        text=text,
        context=context,
        answer_type=answer_type,
        default=given.get("default"),
        exclusive=True,
        persistence="none",
    )


def _answer_type(given: Mapping[str, JsonValue]) -> AnswerType | Failure:
    kind, options = given.get("answer_type", "text"), given.get("options")
    if not isinstance(kind, str) or kind not in KINDS:
        shown = kind if isinstance(kind, str) else json.dumps(kind)
        return Failure(f'Unknown `answer_type` "{shown}": use "boolean", "select" or "text".')
    if kind == "select":
        texts = isinstance(options, list) and all(isinstance(option, str) for option in options)
        if not options or not texts:
            return Failure('A "select" question needs a non-empty `options` array of strings.')
        return QUESTION_KINDS[kind].model_validate({"options": options})
    if options is not None:
        return Failure('The `options` argument is only allowed when `answer_type` is "select".')
    return QUESTION_KINDS[kind].model_validate({})


def _wrong_default(given: Mapping[str, JsonValue], answer_type: AnswerType) -> Failure | None:
    if "default" not in given:
        return None
    match answer_type.misfit(given["default"]):
        case "type":
            return Failure(f'The `default` value does not fit `answer_type` "{answer_type.type}".')
        case "option":
            return Failure("The `default` value is not one of `options`.")
    return None
