"""Description and arguments of the built-in tool `ask`, as the model reads them, and their limits.

The limits are not in the schema: an argument beyond one gets an error that names it
(`ask_problems.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.toolkit.arguments.parameters import argument
from jp_nb.toolkit.outcome import MAX_QUESTIONS

ASK_DESCRIPTION: Final = """\
Ask the user one or several questions in one form, and get the answers back.

Use it if options need an explanation, if the user can choose several options, or if you need \
several answers before you continue. Put all of these questions into one call. For a single short \
question use `ask_user` instead, if it is available. Ask rather than assume a default that \
matters. Do not ask for information that you can derive from the conversation, and do not ask the \
user to confirm an obvious next step.

Give a choice 2 to 5 options with short labels. Explain each option in its `description`, and \
recommend at most one. The form adds "Other" for a custom answer, so do not list it. The user can \
leave questions open, or reply to you instead. The result then states this.

Never use it to collect secrets such as passwords, API keys, or passphrases: answers are sent back \
to you and are stored in the conversation."""
OPTION_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "label": argument("string", "A few words that name the option."),
        "value": argument("string", "Value that you get back with the label. Default: the label."),
        "description": argument("string", "What choosing this option means."),
        "recommended": argument("boolean", "Marks the option that you recommend."),
    },
    "required": ["label"],
    "additionalProperties": False,
}
QUESTION_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "id": argument("string", 'Unique name of the answer in the result, such as "database".'),
        "question": argument("string", "The question, on a single line."),
        "header": argument("string", "Topic of the question, in one or two words."),
        "context": argument(
            "string", "Background shown above the question. Can have several lines."
        ),
        "mode": argument(
            "string",
            'Kind of answer: one of `options`, or a text. Default: "choice".',
            enum=["choice", "freetext"],
        ),
        "options": argument(
            "array", 'The options of a "choice", without "Other".', items=OPTION_SCHEMA
        ),
        "multi": argument("boolean", "The user can pick several options. Default: false."),
        "recommended": argument("integer", "Index of the option that you recommend, from 0."),
        "allow_other": argument(
            "boolean", "The user can type an answer of their own. Default: true."
        ),
        "required": argument(
            "boolean",
            "If true, no option is chosen for the user, who can still leave the "
            "question open. If false, the recommended or first option is used "
            "when no user answers in time. Default: true.",
        ),
    },
    "required": ["id", "question"],
    "additionalProperties": False,
}
ASK_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "questions": argument(
            "array", "The pages of the form, in order.", items=QUESTION_SCHEMA, minItems=1
        )
    },
    "required": ["questions"],
    "additionalProperties": False,
}
CHOICE_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "options": [],
    "multi": False,
    "recommended": None,
    "allow_other": True,
}
"""Defaults of the fields that have no effect in the mode `freetext`."""
MAX_FIELD_CHARS: Final[Mapping[str, int]] = {
    "id": 64,
    "question": 500,
    "header": 60,
    "context": 10_000,
    "label": 200,
    "value": 1000,
    "description": 1000,
}
"""Limits for the texts that a form shows without truncation."""
MAX_LIST_ITEMS: Final = {"questions": MAX_QUESTIONS, "options": 200}
MAX_ASK_CHARS: Final = 100_000  # limit for all texts of a call together
