"""Ask one question, permission or menu on stdin.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, Protocol, Self

from jp_nb.agent.prompts import (
    EMPTY_MARK,
    ActionPrompt,
    Answered,
    NotAnswered,
    Prompt,
    ProposedChange,
    QuestionPrompt,
)
from jp_nb.rendering import prompts as prompt_text
from jp_nb.rendering.prompts import difference
from jp_nb.text import BAR, force_left_to_right, one_line, plain, spell_invisible
from jp_nb.tools.answer_types import (
    NONE_OF_THESE,
    OTHER,
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    Picks,
    SecretAnswer,
    SelectAnswer,
    TextAnswer,
)

ATTEMPTS: Final = 5
MAX_COLUMNS: Final = 100
"""Width of a line that is shown exactly; `GOES_ON` marks the rest of a longer one."""
GOES_ON: Final = "┊ "
HELP: Final = "?"
EMPTY_TEXT: Final = '""'
"""Typed, it is the empty text: an empty line never is."""
UNCHANGED: Final = "="
"""Typed, it sends a text as it was proposed, or as it was typed before."""

StdinChannel = Literal["stdin", "terminal"]


class Console(Protocol):
    """Writes and reads lines."""

    def write(self, text: str) -> None:
        """Show `text` and a line break."""
        ...

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return one line typed after `prompt`, without echo if it is `secret`.

        Raises:
            EOFError: If the person ended the input.
            KeyboardInterrupt: If the wait was interrupted.
        """
        ...


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The line is not an answer: say why, and ask again."""

    why: str


@dataclass(frozen=True, slots=True)
class StdinDialogue:
    """The lines by which one kind of prompt is asked, and the meaning of what is typed.

    Attributes:
        above: Lines between the question and the input, written once.
        prompt: What stands before the cursor.
        told: By keys that are no answer, lines that they show: `?` explains the others.
        parse: What a line says. Another dialogue is held instead of this one.
        secret: Whether nothing that is typed is shown.
        legend: Lines that say in words what may be typed, written each time before the cursor.
        default: What an empty line sends; None if it sends nothing.
        default_words: That answer in words.
        inner: Whether it came of another dialogue: an empty line is then its own.
    """

    above: list[str]
    prompt: str
    told: Mapping[str, list[str]]
    parse: Parse
    secret: bool = False
    legend: list[str] = field(default_factory=list)
    default: Answered | None = None
    default_words: str = ""
    inner: bool = False

    def naming_default(self) -> Self:
        """Return it with a prompt that says what an empty line sends."""
        if self.default is None:
            return self
        caption = self.prompt.removesuffix(": ")
        return replace(self, prompt=f"{caption} (Enter sends: {self.default_words}): ")


Parse = Callable[[str], "Answered | TryAgain | StdinDialogue"]


def converse(
    console: Console,
    dialogue: StdinDialogue,
    *,
    keys: Collection[str] = (),
    help: Iterable[str] | None = None,  # noqa: A002 - what the key is for
) -> Answered | str:
    """Hold `dialogue` and return the answer that is typed, or that one of `keys` which is.

    Among `keys` the empty line may be: it is then no answer. A key that is meant as a text is typed
    in double quotes. What is typed unseen is never a key.

    Args:
        console: Where.
        dialogue: What is asked.
        keys: What is typed to do something else than to answer.
        help: What `?` says of them and of an empty line; None: nothing more than the dialogue has.

    Raises:
        EOFError: If the input ended, or so many lines as `ATTEMPTS` were no answer.
    """
    quoted = {f'"{key}"': key for key in (*keys, HELP) if key} if keys else {}
    attempt, explained = 0, False
    _write(console, dialogue.above)
    while attempt < ATTEMPTS:
        if not explained:
            _write(console, dialogue.legend)
        explained = False
        line = console.read(dialogue.prompt, secret=dialogue.secret)
        word = line.strip()
        if not dialogue.secret:
            if word in keys and (word or not dialogue.inner):
                return word
            if (told := dialogue.told.get(word)) is not None:
                more = () if help is None or dialogue.inner or word != HELP else help
                _write(console, [*told, *more])
                explained = word == HELP
                continue
            line = quoted.get(word, line)
        match dialogue.parse(line):
            case TryAgain(why=why):
                attempt += 1
                if attempt < ATTEMPTS:
                    console.write(why)
            case StdinDialogue() as follows:
                dialogue, attempt = follows, 0
                _write(console, dialogue.above)
            case answered:
                return answered
    raise EOFError(f"no answer in {ATTEMPTS} lines")


def _write(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.write(line)


def bracket(keys: Iterable[str]) -> str:
    """Return the keys as they stand before the cursor: `[y/n/?]`."""
    return f"[{'/'.join(keys)}/{HELP}]"


def legend_of(meanings: Mapping[str, str]) -> list[str]:
    """Return the lines that say what each key means."""
    return [f"  {key}  {meaning}" for key, meaning in meanings.items()]


def type_one_of(keys: Iterable[str]) -> TryAgain:
    """Return what is said where none of `keys` was typed."""
    return TryAgain(f"Please type one of {', '.join(keys)}, or ? for help.")


def choose(console: Console, above: list[str], meanings: Mapping[str, str]) -> str:
    """Return which key of `meanings` is typed below the lines `above`.

    Raises:
        EOFError: As `converse` does.
    """
    chosen = converse(
        console, _among(above, meanings, lambda _: type_one_of(meanings)), keys=meanings
    )
    assert isinstance(chosen, str)
    return chosen


def _among(above: list[str], meanings: Mapping[str, str], parse: Parse) -> StdinDialogue:
    legend = legend_of(meanings)
    told = {HELP: legend}
    return StdinDialogue(above, f"{bracket(meanings)} ", told, parse, legend=legend, inner=True)


def confirm_empty(answer: Answered, otherwise: StdinDialogue) -> StdinDialogue:
    """Return a dialogue that asks if an empty text is the answer; else `otherwise` is held."""
    meanings = {"y": "send it empty", "n": "go back"}
    said: dict[str, Answered | StdinDialogue] = {
        "y": replace(answer, marks=answer.marks | EMPTY_MARK),
        "n": otherwise,
    }

    def parse(line: str) -> Answered | TryAgain | StdinDialogue:
        return said.get(line.strip()) or type_one_of(meanings)

    return _among(["Your text is empty. Send it?"], meanings, parse)


def barred(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines` such that nothing in them can pass for a line of ours."""
    for line in lines:
        for index, part in enumerate(_folded(line)):
            yield (GOES_ON if index else BAR) + force_left_to_right(part)


def _folded(line: str) -> Iterator[str]:
    """Yield `line` in parts that fit: one that a terminal breaks could pass for two."""
    part, columns = list[str](), 0
    for char in line:
        width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if columns + width > MAX_COLUMNS and not unicodedata.combining(char):
            yield "".join(part)
            part, columns = [], 0
        part.append(char)
        columns += width
    yield "".join(part)


END: Final = "."
"""Typed alone in a line, it ends the text: no code has such a line."""


def code_dialogue(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    """Return the dialogue in which a text is kept as it is, or typed anew."""
    draft, preset = prompt_text.draft(prompt), prompt_text.preselected(prompt)
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
    line: str, typed: list[str], channel: StdinChannel, draft: prompt_text.EditableText
) -> Answered | StdinDialogue:
    """Return the text that `line` ends, or the dialogue for the next line."""
    if line.strip() == END:
        return Answered(draft.meant("\n".join(typed)), channel)
    typed.append(line)
    return StdinDialogue(
        [], f"{len(typed) + 1}: ", {}, lambda said: _more(said, typed, channel, draft), inner=True
    )


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
        return prompt_text.option_labels(self.kind.labels)

    @property
    def highest(self) -> int:
        return len(self.labels) + self.kind.other

    @cached_property
    def default(self) -> Picks | None:
        preset = prompt_text.preselected(self.prompt)
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
        if wanted := prompt_text.picks_wanted(self.kind):
            lines.append(f"  {wanted}")
        return lines

    @property
    def _may_be_none(self) -> bool:
        return self.kind.multi and not self.kind.min_picks

    def _suffix(self, index: int) -> str:
        """Return the mark of an option that is suggested, or recommended among single picks."""
        default = self.default
        if self.prompt.question.exclusive and default is not None and index in default.indices:
            return f" ({prompt_text.SUGGESTED})"
        if self.kind.multi or index != self.kind.recommended_index:
            return ""
        return "" if self.labels[index].lower().endswith(RECOMMENDED) else f" {RECOMMENDED}"

    def _in_words(self, picks: Picks) -> str:
        numbers = [str(index + 1) for index in picks.indices]
        numbers += [] if picks.custom is None else [str(self.highest)]
        words = plain(self.kind.format_answer(self.kind.answer(picks)), limit=80)
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
        return TryAgain(prompt_text.picks_wanted(self.kind)) if misfit else answer

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
            above.append(f"  {UNCHANGED} sends: {plain(spell_invisible(before), limit=500)}")

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


DETAILS = "d"


def ask_on_stdin(prompt: Prompt, console: Console, channel: StdinChannel) -> Answered | NotAnswered:
    """Put `prompt` to the person at `console` and return what comes of it."""
    for line in _opening(prompt):
        console.write(line)
    try:
        answered = converse(console, _dialogue(prompt, channel).naming_default())
    except EOFError:
        return NotAnswered("cancelled", channel)
    assert isinstance(answered, Answered)  # no other keys were asked for
    return answered


def _opening(prompt: Prompt) -> list[str]:
    """Return the lines before the control: header, context, question; or what is decided about."""
    header, by = prompt_text.header(prompt), prompt_text.asked_by(prompt)
    lines = [f"{header} ({by})" if by else header] if header else []
    context, question = prompt_text.context(prompt), prompt_text.question(prompt)
    if header is None and by:
        question = f"{question} ({by})"
    if isinstance(prompt, QuestionPrompt):
        return [*lines, *([context] if context else []), question]
    changes = [f"  {line}" for change in prompt.changes for line in _change(change)]
    if changes:
        question, changes = f"{question}:", ["", *changes, ""]
    shown = [line for exhibit in prompt_text.exhibits(prompt) for line in _exhibit(exhibit)]
    return [*lines, question, *shown, *changes]


def _exhibit(exhibit: prompt_text.CaptionedLines) -> Iterator[str]:
    yield exhibit.caption
    yield from barred(exhibit.lines)


def _change(change: ProposedChange) -> list[str]:
    """Return the lines of a change; of long values, what differs."""
    if (found := difference(change)) is None:
        return [str(prompt_text.exactly(change))]
    return [f"{_path(change)}: {found.sizes}", *barred(map(str, found.lines))]


def _details(prompt: ActionPrompt) -> list[str]:
    """Return whole the values of which a part is folded; nothing if there is none."""
    lines = []
    for change in prompt.changes:
        if (found := difference(change)) is not None and found.is_folded:
            for title, value in (
                (prompt_text.NOW_WHOLE, found.now),
                (prompt_text.PROPOSED_WHOLE, found.proposed),
            ):
                if value:
                    lines.append(f"  {_path(change)}: {title[0].lower()}{title[1:]}")
                    lines += [f"  {line}" for line in barred(value)]
    return lines


def _path(change: ProposedChange) -> str:
    return prompt_text.exactly(change).path


def _dialogue(prompt: Prompt, channel: StdinChannel) -> StdinDialogue:
    if isinstance(prompt, ActionPrompt):
        return _actions(prompt, channel)
    return STDIN_DIALOGUES[type(prompt.question.answer_type)](prompt, channel)


def _actions(prompt: ActionPrompt, channel: StdinChannel) -> StdinDialogue:
    by_key = {action.key: action.value for action in prompt.actions}
    meanings = {action.key: one_line(action.label) for action in prompt.actions}
    told: dict[str, list[str]] = {}
    last_line = prompt.last_line
    if (details := _details(prompt)) and DETAILS not in by_key:
        told[DETAILS] = details
        meanings[DETAILS] = "Show the full values, before and after"
        if last_line is not None:
            told[DETAILS.upper()] = details
    explained = legend_of(meanings)
    # `Apply delta? [y/n/?]` (R078-76) says what its keys mean.
    legend = [] if last_line is not None and by_key.keys() == {"y", "n"} else explained
    told["?"] = [*explained]
    if prompt.help:
        told["?"].append(f"  {one_line(prompt.help)}")

    def parse(line: str) -> Answered | TryAgain:
        key = line.strip() if last_line is None else line.strip().lower()
        return Answered(by_key[key], channel) if key in by_key else type_one_of(meanings)

    asked = f"{one_line(last_line)} " if last_line is not None else ""
    return StdinDialogue([], f"{asked}{bracket(meanings)} ", told, parse, legend=legend)


def _boolean(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    """Return a dialogue in which the tool's default is named, and an empty line is no answer."""
    offered = {choice.key: choice for choice in prompt_text.choices(prompt)}
    suggested = prompt_text.suggested(prompt)
    hint = f" ({suggested.key} {prompt_text.SUGGESTED})" if suggested is not None else ""
    explained = [
        f"  {choice.key}  {choice.meaning}"
        + (f" ({prompt_text.SUGGESTED})" if choice is suggested else "")
        for choice in offered.values()
    ]

    def parse(line: str) -> Answered | TryAgain:
        word = line.strip()
        choice = offered.get({"yes": "y", "no": "n"}.get(word, word))
        if choice is None:
            return type_one_of(offered)
        return Answered(choice.value, channel, remember=choice.remember)

    told = {"?": explained}
    return StdinDialogue([], f"{bracket(offered)}{hint} ", told, parse, legend=explained)


def _text(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    if prompt.is_code:
        return code_dialogue(prompt, channel)
    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    preset, draft = prompt_text.preselected(prompt), prompt_text.draft(prompt)
    default = preset if isinstance(preset, str) else ""
    shown_above = "\n" in default or prompt.consents
    above = [*barred(draft.shown.split("\n"))] if shown_above else []
    hint = [draft.hint] if draft.hint else []
    words = "the text above" if above else plain(spell_invisible(default), limit=80)
    by_enter = bool(default) and not prompt.consents and not prompt.question.exclusive
    by_key = prompt.consents or (bool(default) and not by_enter)

    def parse(line: str) -> Answered | TryAgain:
        typed = line.strip()
        if not typed and not by_enter:
            return _please_type(kind, UNCHANGED if by_key else None)
        if typed == (UNCHANGED if by_key else ""):
            text = default
        else:
            text = "" if typed == EMPTY_TEXT else draft.meant(typed if kind.format else line)
        return _please_type(kind) if kind.misfit(text) else Answered(text, channel)

    explained = [f"  Type {prompt_text.wanted(kind) if _is_bound(kind) else 'one line of text'}."]
    if by_key:
        explained += [f"  {UNCHANGED} sends: {words}"]
    if not kind.misfit(""):
        explained += [f"  Type {EMPTY_TEXT} for an empty text."]
    suggested = f" ({UNCHANGED} sends: {words})" if by_key else ""
    return StdinDialogue(
        [*hint, *above],
        f"{_caption(kind) if _is_bound(kind) else 'Text'}{suggested}: ",
        {"?": explained},
        parse,
        default=Answered(default, channel) if by_enter else None,
        default_words=words,
    )


def _is_bound(kind: TextAnswer) -> bool:
    return kind.expects != TextAnswer().expects


def _caption(kind: AnswerType) -> str:
    wanted = prompt_text.wanted(kind)
    return f"{wanted[:1].upper()}{wanted[1:]}"


def _please_type(kind: AnswerType, unchanged: str | None = None) -> TryAgain:
    """Return the message about a line that is no answer, such as an empty one."""
    keys = [f"{unchanged} for the suggested text"] if unchanged else []
    if isinstance(kind, TextAnswer) and not kind.misfit(""):
        keys.append(f"{EMPTY_TEXT} for an empty text")
    return TryAgain(f"Please type {', '.join((prompt_text.wanted(kind), *keys))}, or ? for help.")


def _number(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = prompt_text.preselected(prompt)
    default = None if prompt.question.exclusive else preset

    def parse(line: str) -> Answered | TryAgain:
        if not line.strip() and default is not None:
            return Answered(default, channel)
        try:
            number = kind.from_text(line)
        except ValueError:
            return _please_type(kind)
        return _please_type(kind) if kind.misfit(number) else Answered(number, channel)

    suggested = f" ({prompt_text.SUGGESTED}: {preset})" if preset != default else ""
    return StdinDialogue(
        [],
        f"{_caption(kind)}{suggested}: ",
        {"?": [f"  Type {prompt_text.wanted(kind)}."]},
        parse,
        default=None if default is None else Answered(default, channel),
        default_words=str(default),
    )


def _secret(_: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    def parse(line: str) -> Answered | TryAgain:
        if not line:
            return TryAgain("Nothing was typed.")
        return Answered(line, channel)

    return StdinDialogue(above=[], prompt="Secret: ", told={}, parse=parse, secret=True)


STDIN_DIALOGUES: Final[
    dict[type[AnswerType], Callable[[QuestionPrompt, StdinChannel], StdinDialogue]]
] = {
    BooleanAnswer: _boolean,
    SelectAnswer: select_dialogue,
    TextAnswer: _text,
    SecretAnswer: _secret,
    NumberAnswer: _number,
    IntegerAnswer: _number,
}
"""Makes the dialogue of each kind of question but `form`, whose fields are asked one by one."""


class KernelConsole:
    """Asks the front end of the kernel for a line."""

    def __init__(self, kernel: object) -> None:
        self._kernel = kernel

    def write(self, text: str) -> None:
        """Print `text`."""
        print(text, flush=True)

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the line from the front end's input box."""
        ask = getattr(self._kernel, "getpass" if secret else "raw_input")
        return str(ask(prompt))


class TerminalConsole:
    """Asks in the terminal that IPython runs in."""

    def write(self, text: str) -> None:
        """Print `text`."""
        print(text, flush=True)

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the line typed, without echo if it is `secret`."""
        try:
            return _typed(prompt, secret=secret)
        except KeyboardInterrupt:
            _drop_half_a_line()
            raise


def _typed(prompt: str, *, secret: bool) -> str:
    if secret:
        from getpass import getpass

        return getpass(prompt)
    return input(prompt)


def _drop_half_a_line() -> None:
    """Drop what was typed without Enter: it must not begin the answer to what is asked next."""
    try:
        import termios
    except ImportError:  # Windows, whose console keeps none
        return
    with suppress(OSError, ValueError, termios.error):  # stdin is no terminal
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
