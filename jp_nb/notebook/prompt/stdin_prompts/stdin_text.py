"""Dialogues on stdin for a question with a typed text: one line, or the lines of code.

`parse` of a `StdinDialogue` gets each typed line. It returns the answer, the reason why the line is
none, or the dialogue of the next line, which is then *inner*.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.exact_form import spell_invisible
from jp_nb.notebook.prompt.stdin_prompts.barred_lines import bar_lines
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import (
    EMPTY_TEXT_KEY,
    HELP_KEY,
    STDIN,
    UNCHANGED,
    Parsed,
    StdinDialogue,
)
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.editable_text import EditableText, make_editable_text
from jp_nb.text import plain
from jp_nb.toolkit.question_types.answer_types import AnswerType
from jp_nb.toolkit.question_types.text_answer import TextAnswer

END: Final = "."
"""Line that ends a text. Valid Python code rarely contains such a line."""


def make_text_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a text in one line, or of code."""
    if prompt.is_code:
        return _make_code_dialogue(prompt)
    return _LineDialogue(prompt).make()


class _LineDialogue:
    """The dialogue of a text in one line.

    The *default* is the text that the question proposes. Enter sends it. But two kinds of questions
    need an explicit answer, so the key `=` sends their default: an *exclusive* one, which only the
    user may answer, and one that *consents*, whose default permits something.

    The draft (`EditableText`) is the default with its invisible characters spelled out, such as
    `a⟨U+200B⟩b`. The user may type them so: `unspell_edited` reads them back.
    """

    def __init__(self, prompt: QuestionPrompt) -> None:
        kind = prompt.question.answer_type
        assert isinstance(kind, TextAnswer)
        preset = prompt_text.get_preselected(prompt)
        default = preset if isinstance(preset, str) else ""
        sent_by_enter = bool(default) and not prompt.consents and not prompt.question.exclusive

        self._kind = kind
        self._draft = make_editable_text(prompt)
        self._default = default
        self._sent_by_enter = sent_by_enter
        self._sent_by_key = prompt.consents or (bool(default) and not sent_by_enter)
        self._is_shown_above = "\n" in default or prompt.consents

    def make(self) -> StdinDialogue:
        """Return the dialogue."""
        default_words = "the text above"
        lines_above: list[str] = []
        if self._is_shown_above:
            lines_above = self._draft.shown.split("\n")
        else:
            default_words = plain(spell_invisible(self._default), limit=80)

        is_restricted = self._kind.expects != TextAnswer().expects
        caption = format_caption(self._kind) if is_restricted else "Text"
        if self._sent_by_key:
            caption += f" ({UNCHANGED} sends: {default_words})"

        default = Answered(self._default, STDIN) if self._sent_by_enter else None
        return StdinDialogue(
            prompt=f"{caption}: ",
            parse=self._parse,
            above=_format_lines_above(self._draft, lines_above),
            key_help={HELP_KEY: self._list_help(default_words, is_restricted=is_restricted)},
            default=default,
            default_words=default_words,
        )

    def _list_help(self, default_words: str, *, is_restricted: bool) -> list[str]:
        """Return the lines that `?` shows."""
        expected = "one line of text"
        if is_restricted:
            expected = prompt_text.describe_expected(self._kind)

        help_lines = [f"  Type {expected}."]
        if self._sent_by_key:
            help_lines.append(f"  {UNCHANGED} sends: {default_words}")
        if not self._kind.misfit(""):  # the empty text is a valid answer
            help_lines.append(f"  Type {EMPTY_TEXT_KEY} for an empty text.")

        return help_lines

    def _parse(self, line: str) -> Parsed:
        """Return the text in a line, or the reason why it is none."""
        typed = line.strip()
        if not typed:
            return format_typing_hint(self._kind, suggests=self._sent_by_key)

        if typed == UNCHANGED and self._sent_by_key:
            text = self._default
        elif typed == EMPTY_TEXT_KEY:
            text = ""
        elif self._kind.format:  # such as a date, in which spaces at the ends mean nothing
            text = self._draft.unspell_edited(typed)
        else:
            text = self._draft.unspell_edited(line)

        return format_typing_hint(self._kind) if self._kind.misfit(text) else Answered(text, STDIN)


def _make_code_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue of a text of several lines: each line has its own dialogue."""
    draft = make_editable_text(prompt)
    preset = prompt_text.get_preselected(prompt)
    lines = draft.shown.split("\n")
    width = len(str(len(lines)))
    numbered = [f"{number:>{width}} {line}" for number, line in enumerate(lines, start=1)]
    if prompt.consents:  # an empty text is no consent: the actions are shown again
        if_first = "As the first line, it cancels the edit."
    else:  # such as an argument in a form
        if_first = "If it is the first line, the text is empty."
    help_lines = [
        f"  Type {UNCHANGED} to keep the text above.",
        "  To replace it, type the new text line by line. Empty lines are part of the text.",
        f"  A line with only {END} ends the text. {if_first}",
    ]
    typed_lines: list[str] = []

    def parse(line: str) -> Parsed:
        if line.strip() == UNCHANGED and not typed_lines:
            return Answered(preset, STDIN)
        if line.strip() == END:
            return Answered(draft.unspell_edited("\n".join(typed_lines)), STDIN)

        # The dialogue of the next line has no keys, because any line may be a part of the text.
        typed_lines.append(line)
        number = len(typed_lines) + 1
        return StdinDialogue(prompt=f"{number}: ", parse=parse, key_help={}, inner=True)

    return StdinDialogue(
        prompt=f"Text [{UNCHANGED} keeps it, {END} ends a new text]: ",
        parse=parse,
        above=_format_lines_above(draft, numbered),
        key_help={HELP_KEY: help_lines},
    )


def _format_lines_above(draft: EditableText, lines: Iterable[str]) -> list[str]:
    hint = [draft.hint] if draft.hint else []
    return [*hint, *bar_lines(lines)]


def format_caption(kind: AnswerType) -> str:
    """Return the accepted input in words, as the text before the cursor."""
    wanted = prompt_text.describe_expected(kind)
    return f"{wanted[:1].upper()}{wanted[1:]}"


def format_typing_hint(kind: AnswerType, *, suggests: bool = False) -> str:
    """Return a request for valid input. If the dialogue `suggests` a text, `=` sends it."""
    ways = [prompt_text.describe_expected(kind)]
    if suggests:
        ways.append(f"{UNCHANGED} for the suggested text")
    if isinstance(kind, TextAnswer) and not kind.misfit(""):
        ways.append(f"{EMPTY_TEXT_KEY} for an empty text")
    return f"Please type {', '.join(ways)}, or ? for help."
