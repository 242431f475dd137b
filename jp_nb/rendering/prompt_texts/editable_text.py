"""The content of a text box: invisible characters are spelled out, and read back from the edit.

So the user sees each character of a proposed text, such as `a⟨U+200B⟩b`, and can keep it, remove
it, or type one in this form.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.exact_form import spell_editable, unspell
from jp_nb.rendering.prompt_texts.prompt_text import get_preselected

SPELLED_OUT: Final = "⟨U+200B⟩ stands for one invisible character; U+200B is its code point."


@dataclass(frozen=True, slots=True)
class EditableText:
    """A text as the user edits it in a box.

    Attributes:
        shown: The text with invisible characters spelled out.
        hint: Explains the spelled-out characters; None if there are none.
    """

    shown: str
    hint: str | None

    def unspell_edited(self, text: str) -> str:
        """Return the text that the user meant by the edited `text`.

        Without a hint, the user does not know of spelled-out characters: `⟨U+200B⟩` is just text.
        """
        return text if self.hint is None else unspell(text)


def make_editable_text(prompt: QuestionPrompt) -> EditableText:
    """Return the initial content of the text box of a question."""
    preset = get_preselected(prompt)
    text = preset if isinstance(preset, str) else ""
    shown = spell_editable(text)
    hint = SPELLED_OUT if shown != text else None
    return EditableText(shown, hint)
