"""Built-in tool `ask_user`: one typed question of the model to the user.

The tool runs twice in a call: the first run returns the question, the second one the answer as
JSON, such as `{"answer_type":"boolean","answer":true}`.

Source: `docs/turns.md` (RFD 083).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.json_writing import compact_json
from jp_nb.toolkit.arguments.parameters import argument
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success, ToolFailure
from jp_nb.toolkit.question import QUESTION_KINDS, Question
from jp_nb.toolkit.question_types.answer_types import AnswerType
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
    read_only = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the question in the first run, and the answer as JSON in the second run."""
        question = read_question(arguments)
        if isinstance(question, ToolFailure):
            return question
        if ANSWER_ID not in context.answers:
            return NeedsInput(question)

        # An answers file, or a model that answers for the user, may give a value of another type.
        answer = context.answers[ANSWER_ID]
        if question.misfit(answer):
            return ToolFailure("the accumulated answer does not match the requested answer type")
        body = {"answer_type": question.answer_type.type, "answer": answer}
        return Success(compact_json(body))


def read_question(arguments: Mapping[str, JsonValue]) -> Question | ToolFailure:
    """Return the question of a call, or a failure if the arguments are invalid."""
    # Models send null for a missing argument.
    fields = {name: value for name, value in arguments.items() if value is not None}

    text = fields.get("question")
    if not isinstance(text, str) or not text.strip():
        return ToolFailure("Missing `question`: provide a non-empty, single-line question.")
    if "\n" in text or "\r" in text:
        return ToolFailure(
            "The `question` must be a single line; move additional lines into `context`."
        )

    answer_type = _read_answer_type(fields)
    if isinstance(answer_type, ToolFailure):
        return answer_type

    # The reason why the default is no valid answer: "option" for an unknown one.
    problem = answer_type.misfit(fields["default"]) if "default" in fields else None
    if problem == "option":
        return ToolFailure("The `default` value is not one of `options`.")
    if problem is not None:
        return ToolFailure(f'The `default` value does not fit `answer_type` "{answer_type.type}".')

    context = fields.get("context")
    if context is not None and not isinstance(context, str):
        return ToolFailure("The `context` argument must be a string.")

    return Question(
        id=ANSWER_ID,
        text=text,
        context=context,
        answer_type=answer_type,
        default=fields.get("default"),
        exclusive=True,
        persistence="none",
    )


def _read_answer_type(fields: Mapping[str, JsonValue]) -> AnswerType | ToolFailure:
    """Return the type of the question, or a failure if it is unknown or its options do not fit."""
    kind = fields.get("answer_type", "text")
    if not isinstance(kind, str) or kind not in ANSWER_KINDS:
        shown = kind if isinstance(kind, str) else json.dumps(kind)
        return ToolFailure(f'Unknown `answer_type` "{shown}": use "boolean", "select", or "text".')

    options = fields.get("options")
    if kind == "select":
        are_texts = isinstance(options, list) and all(isinstance(option, str) for option in options)
        if not options or not are_texts:
            return ToolFailure('A "select" question needs a non-empty `options` array of strings.')
        return QUESTION_KINDS[kind].model_validate({"options": options})

    if options is not None:
        return ToolFailure('The `options` argument is only allowed when `answer_type` is "select".')
    return QUESTION_KINDS[kind].model_validate({})
