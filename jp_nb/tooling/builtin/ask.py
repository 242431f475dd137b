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
Ask the user one or several questions in one form, and read what they decided.

Use it where the user has to choose between options whose meaning must be explained, where several \
of them may be picked, or where you need several answers before you can go on: put all of these \
into one call. For one quick question with a short answer use `ask_user` instead, if you have it. \
Ask rather than assume a default that matters. Do not ask what can be derived from the \
conversation, nor to confirm an obvious next step.

Give a choice 2 to 5 options with short labels, say in each `description` what it would mean, and \
recommend one at most. The form itself offers "Other" for an answer in the user's own words: do \
not list it. The user may leave questions open, or reply to you instead; the result says so.

Never use it to collect secrets such as passwords, API keys or passphrases: answers are sent back \
to you and are stored in the conversation."""

_OPTION: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "description": "A few words that name the option."},
        "value": {
            "type": "string",
            "description": "What you get back beside the label. Default: the label.",
        },
        "description": {"type": "string", "description": "What choosing it means."},
        "recommended": {"type": "boolean", "description": "Marks it as what you would choose."},
    },
    "required": ["label"],
    "additionalProperties": False,
}
_QUESTION: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "id": {
            "type": "string",
            "description": 'Names the answer in the result, such as "database"; unique.',
        },
        "question": {"type": "string", "description": "The question, on a single line."},
        "header": {"type": "string", "description": "One or two words: what it is about."},
        "context": {
            "type": "string",
            "description": "Background shown above the question; may have several lines.",
        },
        "mode": {
            "type": "string",
            "enum": [*MODES],
            "description": 'What answers it: one of `options`, or a text. Default: "choice".',
        },
        "options": {
            "type": "array",
            "items": _OPTION,
            "description": 'The options of a "choice", without "Other".',
        },
        "multi": {"type": "boolean", "description": "Several may be picked. Default: false."},
        "recommended": {
            "type": "integer",
            "description": "Index, from 0, of the option that you would choose.",
        },
        "allow_other": {
            "type": "boolean",
            "description": "The user may answer in words of their own. Default: true.",
        },
        "required": {
            "type": "boolean",
            "description": (
                "Nothing is chosen for the user, who may still leave it open. If false, the "
                "recommended or first option is taken where the user is not there, or not in "
                "time. Default: true."
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
