"""Dialogue on stdin for a question with options.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
    make_empty_confirmation,
)
from jp_nb.rendering.prompt_texts import prompt_text
from jp_nb.rendering.prompt_texts.option_labels import spell_option_labels
from jp_nb.text import MAX_DIGITS, plain
from jp_nb.toolkit.question_types.answer_types import NONE_OF_THESE
from jp_nb.toolkit.question_types.select_answer import OTHER_LABEL, Picks, SelectAnswer

RECOMMENDED: Final = "(recommended)"

NONE: Final = 0
"""Number that selects none of the options."""


class SelectionDialogues:
    """Dialogues of a question with options: one for their numbers, one for the user's own text.

    `Picks` are the chosen options, as indices from 0, and the own text. The user types numbers from
    1. The number after those of the options stands for the own text, if the question allows one.

    The `parse` of a dialogue returns the answer, a text that refuses the line, or the dialogue that
    follows (`Parsed`).

    An *exclusive* question is one that only the user may answer. Enter does not send its default.
    """

    def __init__(self, prompt: QuestionPrompt) -> None:
        kind = prompt.question.answer_type
        assert isinstance(kind, SelectAnswer)
        self._kind = kind
        self._exclusive = prompt.question.exclusive
        self._labels = spell_option_labels(kind.labels)
        self._highest = len(self._labels) + int(kind.other)  # the last is that of the own text
        self._may_be_none = kind.multi and not kind.min_picks
        preset = prompt_text.get_preselected(prompt)
        self._default = None if preset is None else kind.read_picks(preset)

    def make_first(self) -> StdinDialogue:
        """Return the dialogue that asks first. It leads to the other one if that is needed."""
        return self._ask_numbers() if self._kind.options else self._ask_own_text(())

    def _ask_numbers(self) -> StdinDialogue:
        """Return the dialogue for the numbers of options."""
        # An exclusive question needs an explicit answer.
        default = None if self._exclusive else self._default
        caption = "Number"
        help_lines = ["  Type the number of an option, or its text if that is not a number."]
        if self._kind.multi:
            caption = "Numbers"
            help_lines = ["  Type the numbers of your choices, such as 3,1. Their order is kept."]

        if self._may_be_none:
            help_lines.append(f"  {NONE} means {NONE_OF_THESE}.")

        if self._kind.other:
            also = ", alone or with other numbers" if self._kind.multi else ""
            help_lines.append(f"  {self._highest} lets you type your own answer{also}.")

        dialogue = StdinDialogue(
            prompt=f"{caption}: ",
            parse=self._parse,
            above=[*self._format_options()],
            key_help={HELP_KEY: help_lines},
        )
        if default is None:
            return dialogue

        return replace(
            dialogue,
            default=self._make_answer(default),
            default_words=self._describe_picks(default),
        )

    def _describe_picks(self, picks: Picks) -> str:
        """Return the numbers of the picks and their labels, such as `2,3, Delft and Leiden`."""
        numbers = [str(index + 1) for index in picks.indices]
        if picks.custom is not None:
            numbers.append(str(self._highest))

        answer = plain(self._kind.format_answer(self._kind.make_answer(picks)), limit=80)
        return f"{','.join(numbers) or NONE}, {answer}"

    def _format_options(self) -> Iterator[str]:
        """Yield a line for each option with its number, and for the own text and "none"."""
        kind = self._kind
        width = len(str(self._highest))
        suggested: tuple[int, ...] = ()
        if self._exclusive and self._default is not None:
            suggested = self._default.indices

        for index, (label, option) in enumerate(zip(self._labels, kind.options, strict=True)):
            mark = ""
            if index in suggested:
                mark = f" ({prompt_text.SUGGESTED})"
            elif index == kind.recommended_index and not kind.multi:
                mark = "" if label.lower().endswith(RECOMMENDED) else f" {RECOMMENDED}"

            yield f"  {index + 1:>{width}}  {label}{mark}"
            if option.description:
                text = plain(option.description).strip("\n")
                yield from (f"  {'':>{width}}  {part}" for part in bar_lines(text.split("\n")))

        if kind.other:
            yield f"  {self._highest:>{width}}  {OTHER_LABEL}"

        if self._may_be_none:
            yield f"  {NONE:>{width}}  {NONE_OF_THESE.capitalize()}"

        if wanted := prompt_text.describe_expected_picks(kind):
            yield f"  {wanted}"

    def _parse(self, line: str) -> Parsed:
        """Read the numbers of options, or the label of one."""
        word = line.strip()
        parts = word.replace(",", " ").split() if self._kind.multi else [word]
        are_numbers = all(part.isascii() and part.isdigit() for part in parts)
        if not parts or not are_numbers:
            return self._parse_label(word)
        return self._check_numbers([self._parse_number(part) for part in parts])

    def _parse_label(self, word: str) -> Parsed:
        """Read the label of an option, as it is shown, or as the tool gave it."""
        for labels in (self._labels, self._kind.labels):
            if word and word in labels:
                return self._check_picks(Picks((labels.index(word),)))
        return self._format_refusal()

    def _check_numbers(self, numbers: list[int]) -> Parsed:
        """Return the answer with these numbers, the dialogue for the own text, or a refusal."""
        least = NONE if self._may_be_none else 1
        if not all(least <= number <= self._highest for number in numbers):
            return self._format_refusal()
        if len({*numbers}) < len(numbers):
            return "A number appears twice. Please type each number once."
        if NONE in numbers and len(numbers) > 1:
            return f"{NONE} means {NONE_OF_THESE}. Please type it alone, or omit it."

        indices = tuple(number - 1 for number in numbers if 0 < number <= len(self._labels))
        includes_own_text = self._kind.other and self._highest in numbers
        if not includes_own_text:
            return self._check_picks(Picks(indices))

        # Before the user types a text, check that the number of choices is allowed.
        checked = self._check_picks(Picks(indices, "own text"))
        return checked if isinstance(checked, str) else self._ask_own_text(indices)

    def _parse_number(self, digits: str) -> int:
        # Python refuses to parse thousands of digits; such a number is too high anyway.
        if len(digits) > MAX_DIGITS:
            return self._highest + 1
        return int(digits)

    def _check_picks(self, picks: Picks) -> Answered | str:
        """Return the answer, or a text about the expected choices if it does not fit."""
        answer = self._make_answer(picks)
        misfit = self._kind.misfit(answer.value)  # the reason why it is invalid, or None
        return prompt_text.describe_expected_picks(self._kind) if misfit else answer

    def _format_refusal(self) -> str:
        numbers = f"a number from 1 to {self._highest}"
        if self._kind.multi:
            example = "2,1" if self._highest > 1 else "1"
            none = f", {NONE} for {NONE_OF_THESE}" if self._may_be_none else ""
            numbers = f"numbers from 1 to {self._highest}, such as {example}{none}"
        return f"Please type {numbers}, or ? for help."

    def _make_answer(self, picks: Picks) -> Answered:
        return Answered(self._kind.make_answer(picks), STDIN)

    def _ask_own_text(self, indices: tuple[int, ...]) -> StdinDialogue:
        """Return the dialogue for the own text, in addition to the options with these `indices`."""
        default_text = self._default.custom if self._default is not None else None
        has_options = bool(self._kind.options)
        above = ["  Type your own answer in one line."]
        if has_options:
            above.append("  An empty line goes back to the options.")

        if default_text:
            above.append(f"  {UNCHANGED} sends: {plain(spell_invisible(default_text), limit=500)}")

        def parse(line: str) -> Parsed:
            word = line.strip()
            if default_text and word == UNCHANGED:
                return self._make_answer(Picks(indices, default_text))
            if word == EMPTY_TEXT_KEY:
                return make_empty_confirmation(self._make_answer(Picks(indices, "")), dialogue)
            if word:
                return self._make_answer(Picks(indices, line))
            if has_options:
                return self._ask_numbers()

            return f"Please type a text, or {EMPTY_TEXT_KEY} for an empty text."

        default = None
        if default_text and not has_options and not self._exclusive:
            default = self._make_answer(Picks((), default_text))

        dialogue = StdinDialogue(
            prompt="Your answer: ",
            parse=parse,
            above=above,
            key_help={HELP_KEY: [*above, f"  Type {EMPTY_TEXT_KEY} for an empty text."]},
            inner=has_options,
            default=default,
            default_words=plain(spell_invisible(default_text or ""), limit=80),
        )
        return dialogue
