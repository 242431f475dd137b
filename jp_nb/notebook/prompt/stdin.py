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
    ProposedChange,
    QuestionPrompt,
    SimplePrompt,
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
"""Width of an exactly shown line. `CONTINUATION` marks the rest of a longer one."""
CONTINUATION: Final = "┊ "
HELP: Final = "?"
EMPTY_TEXT: Final = '""'
"""Input for the empty text, which an empty line never means."""
SECRET_OR_KEY: Final = "This text is also a key of the form. Is it your secret?"
SECRET_OR_KEY_KEYS: Final = {"y": "send it", "n": "use the key"}
UNCHANGED: Final = "="
"""Input that sends the proposed or earlier text unchanged."""

StdinChannel = Literal["stdin", "terminal"]
STDIN: Final[StdinChannel] = "stdin"
"""Channel of an answer in a dialogue. The function that asks replaces it by its own channel."""


class Console(Protocol):
    """Port for writing and reading lines."""

    def write(self, text: str) -> None:
        """Show `text` and a line break."""
        ...

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return one line typed after `prompt`, without echo if it is `secret`.

        Raises:
            EOFError: The user ended the input.
            KeyboardInterrupt: The wait was interrupted.
        """
        ...


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Reason why a line is not an answer. The user is asked again."""

    why: str


@dataclass(frozen=True, slots=True)
class StdinDialogue:
    """The lines that ask one kind of prompt, and the meaning of the typed lines.

    Attributes:
        above: Lines between the question and the input, written once.
        prompt: Text before the cursor.
        key_help: Lines to show for keys that are no answer, such as `?` for help.
        parse: Return the answer in a line, or a dialogue that replaces this one.
        secret: Whether the typed text is hidden.
        legend: Lines that explain the keys, written each time before the cursor.
        default: The answer that an empty line sends, if any.
        default_words: Text of that answer.
        inner: True if another dialogue led to this one. `parse` then handles an empty line, even if
            it is one of the `keys` of `converse`.
    """

    above: list[str]
    prompt: str
    key_help: Mapping[str, list[str]]
    parse: Parse
    secret: bool = False
    legend: list[str] = field(default_factory=list)
    default: Answered | None = None
    default_words: str = ""
    inner: bool = False

    def with_default_in_prompt(self) -> Self:
        """Return the dialogue with a prompt that names the answer of an empty line."""
        if self.default is None:
            return self
        caption = self.prompt.removesuffix(": ")
        return replace(self, prompt=f"{caption} (Enter sends: {self.default_words}): ")


Parsed = Answered | TryAgain | StdinDialogue
Parse = Callable[[str], Parsed]


def converse(
    console: Console,
    dialogue: StdinDialogue,
    *,
    keys: Collection[str] = (),
    help: Iterable[str] | None = None,  # noqa: A002 - named for the key
) -> Answered | str:
    """Run `dialogue` and return the answer, or the key of `keys` that the user typed.

    An empty line in `keys` is a key, too. To answer with the text of a key, the user types it in
    double quotes. Hidden input that looks like a key may be a secret, so the user is asked.

    Args:
        console: The console.
        dialogue: The dialogue.
        keys: Lines that are returned as they are, not parsed as an answer.
        help: Help about the keys, which `?` shows after the help of the dialogue.

    Raises:
        EOFError: The input ended, or `ATTEMPTS` lines were no answer.
    """
    quoted = {f'"{key}"': key for key in (*keys, HELP) if key} if keys else {}
    attempt, explained = 0, False
    _write(console, dialogue.above)
    while attempt < ATTEMPTS:
        if not explained:
            _write(console, dialogue.legend)
        explained = False
        line = console.read(dialogue.prompt, secret=dialogue.secret)
        word = line if dialogue.secret else line.strip()
        if not dialogue.secret or _is_meant_as_key(console, word, keys):
            if word in keys and (word or not dialogue.inner):
                return word
            if (key_help := dialogue.key_help.get(word)) is not None:
                more = () if help is None or dialogue.inner or word != HELP else help
                _write(console, [*key_help, *more])
                explained = word == HELP and not dialogue.secret
                continue
            if not word and dialogue.default is not None:
                return dialogue.default
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


def _is_meant_as_key(console: Console, hidden: str, keys: Collection[str]) -> bool:
    if not keys or hidden not in (*keys, HELP):
        return False
    return not hidden or choose(console, [SECRET_OR_KEY], SECRET_OR_KEY_KEYS) == "n"


def _write(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.write(line)


def format_keys(keys: Iterable[str]) -> str:
    """Return the keys as shown before the cursor: `[y/n/?]`."""
    return f"[{'/'.join(keys)}/{HELP}]"


def refuse_key(keys: Iterable[str]) -> TryAgain:
    """Return the message for a line that is none of `keys`."""
    return TryAgain(f"Please type one of {', '.join(keys)}, or ? for help.")


def choose(
    console: Console,
    above: Iterable[str],
    meanings: Mapping[str, str],
    keys: Collection[str] | None = None,
) -> str:
    """Return the typed key, asked below the lines `above`. `keys` replaces the keys of `meanings`.

    Raises:
        EOFError: As in `converse`.
    """
    dialogue = key_dialogue(meanings, lambda _: refuse_key(meanings), above=above, inner=True)
    chosen = converse(console, dialogue, keys=meanings if keys is None else keys)
    assert isinstance(chosen, str)
    return chosen


def key_dialogue(
    meanings: Mapping[str, str],
    parse: Parse,
    *,
    above: Iterable[str] = (),
    hint: str = "",
    inner: bool = False,
) -> StdinDialogue:
    """Return a dialogue that shows the `meanings` of keys, and then the keys and `hint`."""
    legend = [f"  {key}  {meaning}" for key, meaning in meanings.items()]
    prompt, key_help = f"{format_keys(meanings)}{hint} ", {HELP: legend}
    return StdinDialogue([*above], prompt, key_help, parse, legend=legend, inner=inner)


def confirm_empty(answer: Answered, otherwise: StdinDialogue) -> StdinDialogue:
    """Return a dialogue that confirms an empty text, or else returns to `otherwise`."""
    meanings = {"y": "send it empty", "n": "go back"}
    outcomes: dict[str, Answered | StdinDialogue] = {
        "y": replace(answer, marks=answer.marks | EMPTY_MARK),
        "n": otherwise,
    }

    def parse(line: str) -> Parsed:
        return outcomes.get(line.strip()) or refuse_key(meanings)

    return key_dialogue(meanings, parse, above=["Your text is empty. Send it?"], inner=True)


def bar_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines` with a bar, so that none of them looks like a line of the prompt itself."""
    for line in lines:
        for index, part in enumerate(_wrap_line(line)):
            yield (CONTINUATION if index else BAR) + force_left_to_right(part)


def _wrap_line(line: str) -> Iterator[str]:
    # Wrapped here, because the rest of a line that the terminal wraps would have no bar.
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
"""Line that ends a text. Valid Python code rarely contains such a line."""


def code_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue that keeps a text, or reads a new one line by line."""
    draft, preset = prompt_text.draft(prompt), prompt_text.preselected(prompt)
    lines = draft.shown.split("\n")
    width = len(str(len(lines)))
    numbered = [f"{number:>{width}} {line}" for number, line in enumerate(lines, start=1)]
    explained = [
        f"  Type {UNCHANGED} to keep the text above.",
        "  To replace it, type the new text line by line. Empty lines are part of the text.",
        f"  A line with only {END} ends the text. As the first line, it cancels the edit.",
    ]

    def parse(line: str) -> Parsed:
        if line.strip() == UNCHANGED:
            return Answered(preset, STDIN)
        return _next_line_dialogue(line, [], draft)

    return StdinDialogue(
        [*([draft.hint] if draft.hint else []), *bar_lines(numbered)],
        f"Text [{UNCHANGED} keeps it, {END} ends a new text]: ",
        {HELP: explained},
        parse,
    )


def _next_line_dialogue(
    line: str, typed: list[str], draft: prompt_text.EditableText
) -> Answered | StdinDialogue:
    if line.strip() == END:
        return Answered(draft.unspell_edited("\n".join(typed)), STDIN)
    typed.append(line)
    return StdinDialogue(
        [],
        f"{len(typed) + 1}: ",
        {},
        lambda line: _next_line_dialogue(line, typed, draft),
        inner=True,
    )


RECOMMENDED: Final = "(recommended)"
NONE: Final = 0
"""Number that selects none of the options."""
MAX_DIGITS: Final = 9


def select_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    """Return the dialogue that selects options; without options, the one for a typed text."""
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    choice = _Choice(prompt, kind)
    return choice.by_number if kind.options else choice.own_text(())


@dataclass(frozen=True)
class _Choice:
    prompt: QuestionPrompt
    kind: SelectAnswer

    # --- output ------------------------------------------------------------------------------

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

    @cached_property
    def by_number(self) -> StdinDialogue:
        # An exclusive question needs an explicit answer.
        default = None if self.prompt.question.exclusive else self.default
        return StdinDialogue(
            above=self._option_lines(),
            prompt=f"Number{'s' if self.kind.multi else ''}: ",
            key_help={HELP: self._help_lines()},
            parse=self._parse,
            default=None if default is None else self._answer(default),
            default_words="" if default is None else self._describe_default(default),
        )

    def _option_lines(self) -> list[str]:
        width = len(str(self.highest))
        lines = []
        for number, (label, option) in enumerate(
            zip(self.labels, self.kind.options, strict=True), start=1
        ):
            lines.append(f"  {number:>{width}}  {label}{self._suffix(number - 1)}")
            if option.description:
                text = plain(option.description).strip("\n")
                lines += [f"  {'':>{width}}  {line}" for line in bar_lines(text.split("\n"))]
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
        default = self.default
        if self.prompt.question.exclusive and default is not None and index in default.indices:
            return f" ({prompt_text.SUGGESTED})"
        if self.kind.multi or index != self.kind.recommended_index:
            return ""
        return "" if self.labels[index].lower().endswith(RECOMMENDED) else f" {RECOMMENDED}"

    def _describe_default(self, picks: Picks) -> str:
        numbers = [str(index + 1) for index in picks.indices]
        numbers += [] if picks.custom is None else [str(self.highest)]
        words = plain(self.kind.format_answer(self.kind.answer(picks)), limit=80)
        return f"{','.join(numbers) or NONE}, {words}"

    def _help_lines(self) -> list[str]:
        lines = ["  Type the number of an option, or its text if that is not a number."]
        if self.kind.multi:
            lines = ["  Type the numbers of your choices, such as 3,1. Their order is kept."]
        if self._may_be_none:
            lines.append(f"  {NONE} means {NONE_OF_THESE}.")
        if self.kind.other:
            also = ", alone or with other numbers" if self.kind.multi else ""
            lines.append(f"  {self.highest} lets you type your own answer{also}.")
        return lines

    # --- input -------------------------------------------------------------------------------

    def _parse(self, line: str) -> Parsed:
        word = line.strip()
        numbers = self._parse_numbers(word)
        if numbers is None:
            index = self._find_option(word)
            return self._refuse() if index is None else self._validate_picks(Picks((index,)))
        if not all(self._is_offered(number) for number in numbers):
            return self._refuse()
        return self._parse_picks(numbers)

    def _parse_picks(self, numbers: Sequence[int]) -> Parsed:
        if len({*numbers}) < len(numbers):
            return TryAgain("A number appears twice. Please type each number once.")
        if NONE in numbers and len(numbers) > 1:
            return TryAgain(f"{NONE} means {NONE_OF_THESE}. Please type it alone, or omit it.")
        own = self.kind.other and self.highest in numbers
        indices = tuple(n - 1 for n in numbers if n != NONE and not (own and n == self.highest))
        fits = self._validate_picks(Picks(indices, "own text" if own else None))
        return self.own_text(indices) if own and isinstance(fits, Answered) else fits

    def _validate_picks(self, picks: Picks) -> Answered | TryAgain:
        answer = self._answer(picks)
        misfit = self.kind.misfit(answer.value)
        return TryAgain(prompt_text.picks_wanted(self.kind)) if misfit else answer

    def _parse_numbers(self, word: str) -> list[int] | None:
        parts = word.replace(",", " ").split() if self.kind.multi else [word]
        if not parts or not all(part.isascii() and part.isdigit() for part in parts):
            return None
        # Python refuses to parse numbers with thousands of digits.
        return [int(part) if len(part) <= MAX_DIGITS else self.highest + 1 for part in parts]

    def _is_offered(self, number: int) -> bool:
        return (NONE if self._may_be_none else 1) <= number <= self.highest

    def _find_option(self, word: str) -> int | None:
        for labels in (self.labels, [*self.kind.labels]):
            if word and word in labels:
                return labels.index(word)
        return None

    def _refuse(self) -> TryAgain:
        if self.kind.multi:
            none = f"{NONE} for {NONE_OF_THESE}, " if self._may_be_none else ""
            example = "2,1" if self.highest > 1 else "1"
            return TryAgain(
                f"Please type numbers from 1 to {self.highest}, such as {example}, {none}"
                "or ? for help."
            )
        return TryAgain(f"Please type a number from 1 to {self.highest}, or ? for help.")

    def _answer(self, picks: Picks) -> Answered:
        return Answered(self.kind.answer(picks), STDIN)

    # --- the user's own text -----------------------------------------------------------------

    def own_text(self, indices: tuple[int, ...]) -> StdinDialogue:
        """Return the dialogue for the user's own text in addition to the options `indices`."""
        before = self.default.custom if self.default is not None else None
        back = "an empty line goes back to the options" if self.kind.options else ""
        above = [
            "  Type your own answer in one line.",
            *([f"  {back.capitalize()}."] if back else []),
        ]
        if before:
            above.append(f"  {UNCHANGED} sends: {plain(spell_invisible(before), limit=500)}")

        def parse(line: str) -> Parsed:
            word = line.strip()
            if before and word == UNCHANGED:
                return self._answer(Picks(indices, before))
            if word == EMPTY_TEXT:
                return confirm_empty(self._answer(Picks(indices, "")), dialogue)
            if word:
                return self._answer(Picks(indices, line))
            if self.kind.options:
                return self.by_number
            return TryAgain(f"Please type a text, or {EMPTY_TEXT} for an empty text.")

        has_default = before and not self.kind.options and not self.prompt.question.exclusive
        dialogue = StdinDialogue(
            above,
            "Your answer: ",
            {HELP: [*above, f"  Type {EMPTY_TEXT} for an empty text."]},
            parse,
            inner=bool(self.kind.options),
            default=self._answer(Picks((), before)) if has_default else None,
            default_words=plain(spell_invisible(before or ""), limit=80),
        )
        return dialogue


DETAILS = "d"


def ask_on_stdin(
    prompt: SimplePrompt, console: Console, channel: StdinChannel
) -> Answered | NotAnswered:
    """Ask `prompt` at `console` and return its end."""
    for line in _head_lines(prompt):
        console.write(line)
    try:
        answered = converse(console, _dialogue(prompt).with_default_in_prompt())
    except EOFError:
        return NotAnswered("cancelled", channel)
    assert isinstance(answered, Answered)  # `converse` got no keys
    return replace(answered, channel=channel)


def _head_lines(prompt: SimplePrompt) -> list[str]:
    header, by = prompt_text.header(prompt), prompt_text.asked_by(prompt)
    lines = [f"{header} ({by})" if by else header] if header else []
    context, question = prompt_text.context(prompt), prompt_text.question(prompt)
    if header is None and by:
        question = f"{question} ({by})"
    if isinstance(prompt, QuestionPrompt):
        return [*lines, *([context] if context else []), question]
    changes = [f"  {line}" for change in prompt.changes for line in _change_lines(change)]
    if changes:
        question, changes = f"{question}:", ["", *changes, ""]
    shown = [
        line
        for caption, detail in prompt_text.exhibits(prompt)
        for line in (caption, *bar_lines(detail))
    ]
    return [*lines, question, *shown, *changes]


def _change_lines(change: ProposedChange) -> list[str]:
    if (found := difference(change)) is None:
        return [str(prompt_text.exactly(change))]
    return [f"{_path(change)}: {found.sizes}", *bar_lines(map(str, found.lines))]


def _full_values(prompt: ActionPrompt) -> list[str]:
    lines = []
    for change in prompt.changes:
        if (found := difference(change)) is not None and found.is_folded:
            for title, value in (
                (prompt_text.NOW_WHOLE, found.now),
                (prompt_text.PROPOSED_WHOLE, found.proposed),
            ):
                if value:
                    lines.append(f"  {_path(change)}: {title[0].lower()}{title[1:]}")
                    lines += [f"  {line}" for line in bar_lines(value)]
    return lines


def _path(change: ProposedChange) -> str:
    return prompt_text.exactly(change).path


def _dialogue(prompt: SimplePrompt) -> StdinDialogue:
    if isinstance(prompt, ActionPrompt):
        return _action_dialogue(prompt)
    return STDIN_DIALOGUES[type(prompt.question.answer_type)](prompt)


def _action_dialogue(prompt: ActionPrompt) -> StdinDialogue:
    sent_by_key = {action.key: action.value for action in prompt.actions}
    meanings = {action.key: one_line(action.label) for action in prompt.actions}
    last_line, details = prompt.last_line, _full_values(prompt)
    has_details = bool(details) and DETAILS not in sent_by_key
    if has_details:
        meanings[DETAILS] = "Show the full values, before and after"

    def parse(line: str) -> Answered | TryAgain:
        key = line.strip() if last_line is None else line.strip().lower()
        return Answered(sent_by_key[key], STDIN) if key in sent_by_key else refuse_key(meanings)

    dialogue = key_dialogue(meanings, parse)
    help_lines = [*dialogue.legend, *([f"  {one_line(prompt.help)}"] if prompt.help else [])]
    key_help = {HELP: help_lines, **({DETAILS: details} if has_details else {})}
    if last_line is None:
        return replace(dialogue, key_help=key_help)
    if has_details:
        key_help[DETAILS.upper()] = details
    # `Apply delta? [y/n/?]` (R078-76) needs no legend.
    legend = [] if sent_by_key.keys() == {"y", "n"} else dialogue.legend
    asked = f"{one_line(last_line)} {dialogue.prompt}"
    return replace(dialogue, prompt=asked, key_help=key_help, legend=legend)


def _boolean_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    # The tool's default is only marked. An empty line does not send it.
    offered = {choice.key: choice for choice in prompt_text.choices(prompt)}
    meanings = {key: choice.meaning for key, choice in offered.items()}
    hint = ""
    if (suggested := prompt_text.suggested(prompt)) is not None:
        meanings[suggested.key] += f" ({prompt_text.SUGGESTED})"
        hint = f" ({suggested.key} {prompt_text.SUGGESTED})"

    def parse(line: str) -> Answered | TryAgain:
        word = line.strip()
        choice = offered.get({"yes": "y", "no": "n"}.get(word, word))
        if choice is None:
            return refuse_key(offered)
        return Answered(choice.value, STDIN, remember=choice.remember)

    return key_dialogue(meanings, parse, hint=hint)


def _text_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    if prompt.is_code:
        return code_dialogue(prompt)
    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    preset, draft = prompt_text.preselected(prompt), prompt_text.draft(prompt)
    default = preset if isinstance(preset, str) else ""
    shown_above = "\n" in default or prompt.consents
    above = [*bar_lines(draft.shown.split("\n"))] if shown_above else []
    hint = [draft.hint] if draft.hint else []
    words = "the text above" if above else plain(spell_invisible(default), limit=80)
    sent_by_enter = bool(default) and not prompt.consents and not prompt.question.exclusive
    sent_by_key = prompt.consents or (bool(default) and not sent_by_enter)

    def parse(line: str) -> Answered | TryAgain:
        typed = line.strip()
        if not typed:
            return _please_type(kind, UNCHANGED if sent_by_key else None)
        if typed == UNCHANGED and sent_by_key:
            text = default
        elif typed == EMPTY_TEXT:
            text = ""
        else:
            text = draft.unspell_edited(typed if kind.format else line)
        return _please_type(kind) if kind.misfit(text) else Answered(text, STDIN)

    expected = prompt_text.describe_expected(kind) if _is_restricted(kind) else "one line of text"
    explained = [f"  Type {expected}."]
    if sent_by_key:
        explained += [f"  {UNCHANGED} sends: {words}"]
    if not kind.misfit(""):
        explained += [f"  Type {EMPTY_TEXT} for an empty text."]
    suggested = f" ({UNCHANGED} sends: {words})" if sent_by_key else ""
    return StdinDialogue(
        [*hint, *above],
        f"{_caption(kind) if _is_restricted(kind) else 'Text'}{suggested}: ",
        {HELP: explained},
        parse,
        default=Answered(default, STDIN) if sent_by_enter else None,
        default_words=words,
    )


def _is_restricted(kind: TextAnswer) -> bool:
    return kind.expects != TextAnswer().expects


def _caption(kind: AnswerType) -> str:
    wanted = prompt_text.describe_expected(kind)
    return f"{wanted[:1].upper()}{wanted[1:]}"


def _please_type(kind: AnswerType, unchanged: str | None = None) -> TryAgain:
    keys = [f"{unchanged} for the suggested text"] if unchanged else []
    if isinstance(kind, TextAnswer) and not kind.misfit(""):
        keys.append(f"{EMPTY_TEXT} for an empty text")
    return TryAgain(
        f"Please type {', '.join((prompt_text.describe_expected(kind), *keys))}, or ? for help."
    )


def _number_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = prompt_text.preselected(prompt)
    default = None if prompt.question.exclusive else preset

    def parse(line: str) -> Answered | TryAgain:
        try:
            number = kind.from_text(line)
        except ValueError:
            return _please_type(kind)
        return _please_type(kind) if kind.misfit(number) else Answered(number, STDIN)

    suggested = f" ({prompt_text.SUGGESTED}: {preset})" if preset != default else ""
    return StdinDialogue(
        [],
        f"{_caption(kind)}{suggested}: ",
        {HELP: [f"  Type {prompt_text.describe_expected(kind)}."]},
        parse,
        default=None if default is None else Answered(default, STDIN),
        default_words=str(default),
    )


def _secret_dialogue(_: QuestionPrompt) -> StdinDialogue:
    def parse(line: str) -> Answered | TryAgain:
        if not line:
            return TryAgain("Nothing was typed.")
        return Answered(line, STDIN)

    return StdinDialogue(above=[], prompt="Secret: ", key_help={HELP: []}, parse=parse, secret=True)


STDIN_DIALOGUES: Final[dict[type[AnswerType], Callable[[QuestionPrompt], StdinDialogue]]] = {
    BooleanAnswer: _boolean_dialogue,
    SelectAnswer: select_dialogue,
    TextAnswer: _text_dialogue,
    SecretAnswer: _secret_dialogue,
    NumberAnswer: _number_dialogue,
    IntegerAnswer: _number_dialogue,
}
"""Dialogue by answer type. The fields of a `form` are asked one by one."""


class InputConsole:
    """The input box of the front end of `kernel`; without a kernel, the terminal of IPython."""

    def __init__(self, kernel: object | None) -> None:
        self._kernel = kernel

    def write(self, text: str) -> None:
        """Print `text`."""
        print(text, flush=True)

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the line typed, without echo if it is `secret`."""
        if self._kernel is not None:
            return str(getattr(self._kernel, "getpass" if secret else "raw_input")(prompt))
        try:
            return _read_line(prompt, secret=secret)
        except KeyboardInterrupt:
            _drop_unfinished_line()
            raise


def _read_line(prompt: str, *, secret: bool) -> str:
    if secret:
        from getpass import getpass

        return getpass(prompt)
    return input(prompt)


def _drop_unfinished_line() -> None:
    # Otherwise the text typed before the interrupt would start the next answer.
    try:
        import termios
    except ImportError:  # Windows discards the text
        return
    with suppress(OSError, ValueError, termios.error):  # stdin is no terminal
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
