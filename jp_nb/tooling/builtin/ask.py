"""`ask`: the model puts one question or several to the person, as one form.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.record.events import InquirySource
from jp_nb.tooling.base import CellThread, ToolDefaults
from jp_nb.tooling.builtin.asked_form import MODES, read_form
from jp_nb.tooling.builtin.form_answers import form_result, refused_call
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Outcome

DESCRIPTION: Final = """\
Ask the user one or several questions in one form, and get the answers back.

Use it for a choice between options that need an explanation, for a choice of several options, or \
for several answers that you need before you continue. Put all of these questions into one call. \
For a single short question use `ask_user` instead, if it is available. Ask rather than assume a \
default that matters. Do not ask for information that you can derive from the conversation, and do \
not ask the user to confirm an obvious next step.

Give a choice 2 to 5 options with short labels. Explain each option in its `description`, and \
recommend at most one. The form adds "Other" for a custom answer, so do not list it. The user can \
leave questions open, or reply to you instead. The result then states this.

Never use it to collect secrets such as passwords, API keys or passphrases: answers are sent back \
to you and are stored in the conversation."""

_OPTION: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "description": "A few words that name the option."},
        "value": {
            "type": "string",
            "description": "Value that you get back with the label. Default: the label.",
        },
        "description": {"type": "string", "description": "What choosing this option means."},
        "recommended": {"type": "boolean", "description": "Marks the option that you recommend."},
    },
    "required": ["label"],
    "additionalProperties": False,
}
_QUESTION: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "id": {
            "type": "string",
            "description": 'Unique name of the answer in the result, such as "database".',
        },
        "question": {"type": "string", "description": "The question, on a single line."},
        "header": {"type": "string", "description": "Topic of the question, in one or two words."},
        "context": {
            "type": "string",
            "description": "Background shown above the question. Can have several lines.",
        },
        "mode": {
            "type": "string",
            "enum": [*MODES],
            "description": 'Kind of answer: one of `options`, or a text. Default: "choice".',
        },
        "options": {
            "type": "array",
            "items": _OPTION,
            "description": 'The options of a "choice", without "Other".',
        },
        "multi": {
            "type": "boolean",
            "description": "The user can pick several options. Default: false.",
        },
        "recommended": {
            "type": "integer",
            "description": "Index of the option that you recommend, from 0.",
        },
        "allow_other": {
            "type": "boolean",
            "description": "The user can type an answer of their own. Default: true.",
        },
        "required": {
            "type": "boolean",
            "description": (
                "If true, no option is chosen for the user, who can still leave the "
                "question open. If false, the recommended or first option is used "
                "when no user answers in time. Default: true."
            ),
        },
    },
    "required": ["id", "question"],
    "additionalProperties": False,
}
SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": _QUESTION,
            "minItems": 1,
            "description": "The pages of the form, in order.",
        }
    },
    "required": ["questions"],
    "additionalProperties": False,
}


class Ask(ToolDefaults):
    """Validates the questions, has them asked as one form, hands what came of it to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": True,
        "run": "unattended",
        "result": "unattended",
        "style": {"hidden": True},
        "description": DESCRIPTION,
    }
    schema = SCHEMA
    needs_person = True

    def inquiry_source(self, name: str) -> InquirySource:
        """Return the assistant, who asks through this tool."""
        return InquirySource(source="assistant")

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the questions on the first run, and what came of them on the second."""
        asked, problems = read_form(arguments)
        if problems:
            return refused_call(problems)
        if any(each.question.id not in context.ends for each in asked):
            return NeedsInput(*(each.question for each in asked), partial=True, menu=True)
        return form_result(asked, context)
