"""The answers that a yes-or-no question offers: their buttons in a form, and their keys on stdin.

A tool may let the user's answer count for the rest of the turn (`persistence`). Where the caller
offers it (`QuestionPrompt.remember`), such a question has four answers, else two.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.rendering.prompt_texts.prompt_text import get_preselected


@dataclass(frozen=True, slots=True)
class BooleanChoice:
    """One answer to a boolean question.

    Attributes:
        label: The label of its button in a form.
        key: Its key on stdin.
        meaning: The text beside the key.
        value: The answer.
        remember: True if the answer is used again in the rest of the turn.
    """

    label: str
    key: str
    meaning: str
    value: bool
    remember: bool = False


CHOICES_ONCE = (BooleanChoice("Yes", "y", "yes", True), BooleanChoice("No", "n", "no", False))
CHOICES_FOR_TURN = (
    BooleanChoice("Yes", "y", "yes, just this once", True),
    BooleanChoice(
        "Yes, for this turn", "Y", "yes, and remember for this turn", True, remember=True
    ),
    BooleanChoice("No", "n", "no, just this once", False),
    BooleanChoice("No, for this turn", "N", "no, and remember for this turn", False, remember=True),
)


def list_choices(prompt: QuestionPrompt) -> tuple[BooleanChoice, ...]:
    """Return the answers that a boolean question offers."""
    remember = prompt.remember and prompt.question.persistence == "turn"
    return CHOICES_FOR_TURN if remember else CHOICES_ONCE


def find_suggested_choice(prompt: QuestionPrompt) -> BooleanChoice | None:
    """Return the tool's suggested answer to a boolean question; None without one."""
    preset = get_preselected(prompt)
    for choice in list_choices(prompt):
        if choice.value is preset and not choice.remember:
            return choice
    return None
