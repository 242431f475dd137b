"""The labels of a form's buttons.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.rendering.prompt_texts import form_text, prompt_text

LABELS: Final = {
    "back": form_text.BACK_LABEL,
    "next": form_text.NEXT_LABEL,
    "submit": prompt_text.SUBMIT_LABEL,
    "decline": prompt_text.DECLINE_LABEL,
    "cancel": prompt_text.CANCEL_LABEL,
    "discard": form_text.DISCARD_LABEL,
    "reply": form_text.REPLY_BUTTON_LABEL,
    "stop": form_text.STOP_TURN_LABEL,
    "resume": form_text.BACK_LABEL,  # from the summary or the menu to the question
}
"""Label of each button, by its action. Those of `send` and `submit` may depend on the form."""


def get_button_label(name: str, draft: FormDraft) -> str:
    """Return the label of the button with the action `name`."""
    if name == "send":
        return form_text.SEND_AS_IS_LABEL if draft.open_pages else form_text.SEND_ALL_LABEL
    if name == "submit" and len(draft.pages) == 1:
        return prompt_text.get_submit_label(draft.question)
    return LABELS[name]
