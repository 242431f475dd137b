"""A question with options on stdin: by their numbers, and an own text behind a number of its own.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from jp_nb.agent.prompts import Answered, QuestionPrompt
from jp_nb.notebook.prompt.stdin_dialogue import (
    EMPTY_TEXT,
    UNCHANGED,
    StdinChannel,
    StdinDialogue,
    TryAgain,
    barred,
    confirm_empty,
)
from jp_nb.rendering import wording
from jp_nb.safe_text import plain, spell_unseen
from jp_nb.tooling.select_kind import NONE_OF_THESE, OTHER, Picks, SelectAnswer

RECOMMENDED: Final = "(recommended)"
NONE: Final = 0
"""The number that answers with no option."""
MAX_DIGITS: Final = 9


def select_dialogue(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    """Return the dialogue of a question with options; where there are none, that of its text."""
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    choice = _Choice(prompt, kind, channel)
    return choice.by_number if kind.options else choice.own_text(())


@dataclass(frozen=True)
class _Choice:
    prompt: QuestionPrompt
    kind: SelectAnswer
    channel: StdinChannel

    # --- what is shown -----------------------------------------------------------------------

    @cached_property
    def labels(self) -> list[str]:
        return wording.option_labels(self.kind.labels)

    @property
    def highest(self) -> int:
        return len(self.labels) + self.kind.other

    @cached_property
    def default(self) -> Picks | None:
        preset = wording.preselected(self.prompt)
        return None if preset is None else self.kind.picks(preset)

    @property
    def _sent_by_enter(self) -> Picks | None:
        """What an empty line sends: nothing where only the user may answer."""
        return None if self.prompt.question.exclusive else self.default

    @cached_property
    def by_number(self) -> StdinDialogue:
        default = self._sent_by_enter
        return StdinDialogue(
            above=self._listed(),
            prompt=f"Number{'s' if self.kind.multi else ''}: ",
            told={"?": self._help()},
            parse=self._parse,
            default=None if default is None else self._answered(default),
            default_words="" if default is None else self._in_words(default),
        )

    def _listed(self) -> list[str]:
        width = len(str(self.highest))
        lines = []
        for number, (label, option) in enumerate(
            zip(self.labels, self.kind.options, strict=True), start=1
        ):
            lines.append(f"  {number:>{width}}  {label}{self._suffix(number - 1)}")
            if option.description:
                text = plain(option.description).strip("\n")
                lines += [f"  {'':>{width}}  {line}" for line in barred(text.split("\n"))]
        if self.kind.other:
            lines.append(f"  {self.highest:>{width}}  {OTHER}")
        if self._may_be_none:
            lines.append(f"  {NONE:>{width}}  {NONE_OF_THESE.capitalize()}")
        if wanted := wording.picks_wanted(self.kind):
            lines.append(f"  {wanted}")
        return lines

    @property
    def _may_be_none(self) -> bool:
        return self.kind.multi and not self.kind.min_picks

    def _suffix(self, index: int) -> str:
        """Return the mark of an option that is suggested, or recommended among single picks."""
        default = self.default
        if self.prompt.question.exclusive and default is not None and index in default.indices:
            return f" ({wording.SUGGESTED})"
        if self.kind.multi or index != self.kind.recommended_index:
            return ""
        return "" if self.labels[index].lower().endswith(RECOMMENDED) else f" {RECOMMENDED}"

    def _in_words(self, picks: Picks) -> str:
        numbers = [str(index + 1) for index in picks.indices]
        numbers += [] if picks.custom is None else [str(self.highest)]
        words = plain(self.kind.in_words(self.kind.answer(picks)), limit=80)
        return f"{','.join(numbers) or NONE}, {words}"

    def _help(self) -> list[str]:
        lines = ["  Type the number of an option, or its text if that is not a number."]
        if self.kind.multi:
            lines = ["  Type the numbers of your choices, such as 3,1. Their order is kept."]
        if self._may_be_none:
            lines.append(f"  {NONE} means {NONE_OF_THESE}.")
        if self.kind.other:
            also = ", alone or with other numbers" if self.kind.multi else ""
            lines.append(f"  {self.highest} lets you type your own answer{also}.")
        return lines

    # --- what is typed -----------------------------------------------------------------------

    def _parse(self, line: str) -> Answered | TryAgain | StdinDialogue:
        word = line.strip()
        if not word and self._sent_by_enter is not None:
            return self._answered(self._sent_by_enter)
        numbers = self._numbers(word)
        if numbers is None:
            index = self._labelled(word)
            return self._again() if index is None else self._fitting(Picks((index,)))
        if not all(self._is_offered(number) for number in numbers):
            return self._again()
        return self._picked(numbers)

    def _picked(self, numbers: Sequence[int]) -> Answered | TryAgain | StdinDialogue:
        if len({*numbers}) < len(numbers):
            return TryAgain("A number appears twice. Please type each number once.")
        if NONE in numbers and len(numbers) > 1:
            return TryAgain(f"{NONE} means {NONE_OF_THESE}. Please type it alone, or omit it.")
        own = self.kind.other and self.highest in numbers
        indices = tuple(n - 1 for n in numbers if n != NONE and not (own and n == self.highest))
        fits = self._fitting(Picks(indices, "own text" if own else None))
        return self.own_text(indices) if own and isinstance(fits, Answered) else fits

    def _fitting(self, picks: Picks) -> Answered | TryAgain:
        """Return the answer that `picks` are, or how many are to be picked."""
        answer = self._answered(picks)
        misfit = self.kind.misfit(answer.value)
        return TryAgain(wording.picks_wanted(self.kind)) if misfit else answer

    def _numbers(self, word: str) -> list[int] | None:
        """Return the numbers that `word` lists; None if it is no list of numbers."""
        parts = word.replace(",", " ").split() if self.kind.multi else [word]
        if not parts or not all(part.isascii() and part.isdigit() for part in parts):
            return None
        # Python reads no number of 5000 digits.
        return [int(part) if len(part) <= MAX_DIGITS else self.highest + 1 for part in parts]

    def _is_offered(self, number: int) -> bool:
        return (NONE if self._may_be_none else 1) <= number <= self.highest

    def _labelled(self, word: str) -> int | None:
        """Return the option that is called so, as it is shown or as it is; None if none is."""
        for labels in (self.labels, [*self.kind.labels]):
            if word and word in labels:
                return labels.index(word)
        return None

    def _again(self) -> TryAgain:
        if self.kind.multi:
            none = f"{NONE} for {NONE_OF_THESE}, " if self._may_be_none else ""
            example = "2,1" if self.highest > 1 else "1"
            return TryAgain(
                f"Please type numbers from 1 to {self.highest}, such as {example}, {none}"
                "or ? for help."
            )
        return TryAgain(f"Please type a number from 1 to {self.highest}, or ? for help.")

    def _answered(self, picks: Picks) -> Answered:
        return Answered(self.kind.answer(picks), self.channel)

    # --- an own text -------------------------------------------------------------------------

    def _own_default(self, before: str | None) -> Answered | None:
        if self.kind.options or not before or self.prompt.question.exclusive:
            return None
        return self._answered(Picks((), before))

    def own_text(self, indices: tuple[int, ...]) -> StdinDialogue:
        """Return the dialogue of an own text beside the options `indices`."""
        before = self.default.custom if self.default is not None else None
        back = "an empty line goes back to the options" if self.kind.options else ""
        above = [
            "  Type your own answer in one line.",
            *([f"  {back.capitalize()}."] if back else []),
        ]
        if before:
            above.append(f"  {UNCHANGED} sends: {plain(spell_unseen(before), limit=500)}")

        def parse(line: str) -> Answered | TryAgain | StdinDialogue:
            word = line.strip()
            if before and word == UNCHANGED:
                return self._answered(Picks(indices, before))
            if word == EMPTY_TEXT:
                return confirm_empty(self._answered(Picks(indices, "")), dialogue)
            if word:
                return self._answered(Picks(indices, line))
            if self.kind.options:
                return self.by_number
            return TryAgain(f"Please type a text, or {EMPTY_TEXT} for an empty text.")

        dialogue = StdinDialogue(
            above,
            "Your answer: ",
            {"?": [*above, f"  Type {EMPTY_TEXT} for an empty text."]},
            parse,
            inner=bool(self.kind.options),
            default=self._own_default(before),
        )
        return dialogue
