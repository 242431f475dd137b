"""A text of several lines on stdin, such as code: seen with numbers, typed line by line.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.agent.prompts import Answered, QuestionPrompt
from jp_nb.notebook.prompt.stdin_dialogue import (
    HELP,
    UNCHANGED,
    StdinChannel,
    StdinDialogue,
    TryAgain,
    barred,
)
from jp_nb.rendering import wording

END: Final = "."
"""Typed alone in a line, it ends the text: no code has such a line."""


def code_dialogue(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    """Return the dialogue in which a text is kept as it is, or typed anew."""
    draft, preset = wording.draft(prompt), wording.preselected(prompt)
    lines = draft.shown.split("\n")
    width = len(str(len(lines)))
    numbered = [f"{number:>{width}} {line}" for number, line in enumerate(lines, start=1)]
    explained = [
        f"  Type {UNCHANGED} to keep the text above.",
        "  To replace it, type the new text line by line. Empty lines are part of the text.",
        f"  A line with only {END} ends the text. As the first line, it cancels the edit.",
    ]

    def parse(line: str) -> Answered | TryAgain | StdinDialogue:
        if line.strip() == UNCHANGED:
            return Answered(preset, channel)
        return _more(line, [], channel, draft)

    return StdinDialogue(
        [*([draft.hint] if draft.hint else []), *barred(numbered)],
        f"Text [{UNCHANGED} keeps it, {END} ends a new text]: ",
        {HELP: explained},
        parse,
    )


def _more(
    line: str, typed: list[str], channel: StdinChannel, draft: wording.EditableText
) -> Answered | StdinDialogue:
    """Return the text that `line` ends, or the dialogue for the next line."""
    if line.strip() == END:
        return Answered(draft.meant("\n".join(typed)), channel)
    typed.append(line)
    return StdinDialogue(
        [], f"{len(typed) + 1}: ", {}, lambda said: _more(said, typed, channel, draft), inner=True
    )
