"""Ask questions, permissions, and menus on stdin.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

import getpass
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from jp_nb.agent.prompts import (
    EMPTY_MARK,
    ActionPrompt,
    Answered,
    NotAnswered,
    QuestionPrompt,
    SimplePrompt,
)
from jp_nb.rendering import prompt_text
from jp_nb.rendering.change_text import NOW_WHOLE, PROPOSED_WHOLE, spell_change
from jp_nb.rendering.question_text import spell_option_labels
from jp_nb.rendering.text_diff import diff_change
from jp_nb.text import BAR, MAX_DIGITS, force_left_to_right, one_line, plain, spell_invisible
from jp_nb.toolkit.answer_types import (
    NONE_OF_THESE,
    OTHER_LABEL,
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    Picks,
    SecretAnswer,
    SelectAnswer,
    TextAnswer,
    UrlAnswer,
)

ATTEMPTS: Final = 5
MAX_COLUMNS: Final = 100
"""Width of an exactly shown line. `CONTINUATION` marks the rest of a longer one."""
CONTINUATION: Final = "┊ "
HELP_KEY: Final = "?"
EMPTY_TEXT_KEY: Final = '""'
"""Input for the empty text, which an empty line never means."""
SECRET_OR_KEY: Final = "This text is also a key of the form. Is it your secret?"
SECRET_OR_KEY_KEYS: Final = {"y": "send it", "n": "use the key"}
UNCHANGED: Final = "="
"""Input that sends the proposed or earlier text unchanged."""
DETAILS_KEY: Final = "d"
SHOW_AGAIN: Final = "a"
END: Final = "."
"""Line that ends a text. Valid Python code rarely contains such a line."""
RECOMMENDED: Final = "(recommended)"
NONE: Final = 0
"""Number that selects none of the options."""

StdinChannel = Literal["stdin", "terminal"]
STDIN: Final[StdinChannel] = "stdin"
"""Channel of an answer in a dialogue. The function that asks replaces it by its own channel."""


class Console(Protocol):
    """Port for writing and reading lines."""

    def write(self, text: str) -> None:
        """Show `text` and a line break."""

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return one line typed after `prompt`, without echo if it is `secret`.

        Raises:
            EOFError: The user ended the input.
        """


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
            method = "getpass" if secret else "raw_input"
            return str(getattr(self._kernel, method)(prompt))

        try:
            return getpass.getpass(prompt) if secret else input(prompt)
        except KeyboardInterrupt:
            # Otherwise the text typed before the interrupt would start the next answer.
            with suppress(ImportError):  # Windows discards the text
                import termios

                with suppress(OSError, ValueError, termios.error):  # stdin is no terminal
                    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

            raise


# --- dialogues -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StdinDialogue:
    """The lines that ask one kind of prompt, and the meaning of the typed lines.

    Attributes:
        parse: Return the answer in a line, a dialogue that replaces this one, or the reason why the
            line is no answer.
        above: Lines between the question and the input, written once.
        legend: Lines that explain the keys, written each time before the cursor.
        key_help: Lines to show for keys that are no answer, such as `?` for help.
        default: The answer that an empty line sends, if any.
        inner: True if another dialogue led to this one. `parse` then handles an empty line, even if
            it is one of the `keys` of `converse`.
    """

    prompt: str
    parse: Parse
    above: Sequence[str] = ()
    legend: Sequence[str] = ()
    key_help: Mapping[str, Sequence[str]]
    secret: bool = False
    default: Answered | None = None
    default_words: str = ""
    inner: bool = False


Parsed = Answered | str | StdinDialogue
Parse = Callable[[str], Parsed]


def converse(
    console: Console,
    dialogue: StdinDialogue,
    *,
    keys: Collection[str] = (),
    help: Iterable[str] = (),  # noqa: A002 - named for the key
) -> Answered | str:
    """Run `dialogue` and return the answer, or the key of `keys` that the user typed.

    An empty line in `keys` is also a key. To answer with the text of a key, the user types it in
    double quotes. Hidden input that looks like a key may be a secret, so the user is asked. `?`
    shows the help of the dialogue, then `help`.

    Raises:
        EOFError: The input ended, or `ATTEMPTS` lines were no answer.
    """
    quoted = {f'"{key}"': key for key in (*keys, HELP_KEY) if key} if keys else {}
    attempt = 0
    explained = False
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
                more = () if dialogue.inner or word != HELP_KEY else help
                _write(console, [*key_help, *more])
                explained = word == HELP_KEY and not dialogue.secret
                continue

            if not word and dialogue.default is not None:
                return dialogue.default

            line = quoted.get(word, line)

        parsed = dialogue.parse(line)
        if isinstance(parsed, Answered):
            return parsed

        if isinstance(parsed, StdinDialogue):
            dialogue = parsed
            attempt = 0
            _write(console, dialogue.above)
            continue

        attempt += 1
        if attempt < ATTEMPTS:
            console.write(parsed)

    raise EOFError(f"no answer in {ATTEMPTS} lines")


def _is_meant_as_key(console: Console, hidden: str, keys: Collection[str]) -> bool:
    if not keys or hidden not in (*keys, HELP_KEY):
        return False
    return not hidden or choose(console, [SECRET_OR_KEY], SECRET_OR_KEY_KEYS) == "n"


def _write(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.write(line)


def choose(
    console: Console,
    above: Iterable[str],
    meanings: Mapping[str, str],
    keys: Collection[str] | None = None,
) -> str:
    """Return the typed key, asked below `above`. `keys` replaces the keys of `meanings`."""
    if keys is None:
        keys = meanings
    dialogue = key_dialogue(meanings, {}, above=above)
    chosen = converse(console, dialogue, keys=keys)
    assert isinstance(chosen, str)
    return chosen


def key_dialogue(
    meanings: Mapping[str, str],
    outcomes: Mapping[str, Answered | StdinDialogue],
    *,
    above: Iterable[str] = (),
    hint: str = "",
) -> StdinDialogue:
    """Return a dialogue that is answered by one of the keys of `meanings`."""
    legend = [f"  {key}  {meaning}" for key, meaning in meanings.items()]
    refusal = f"Please type one of {', '.join(meanings)}, or ? for help."
    return StdinDialogue(
        prompt=f"[{'/'.join(meanings)}/{HELP_KEY}]{hint} ",
        parse=lambda line: outcomes.get(line.strip(), refusal),
        above=[*above],
        legend=legend,
        key_help={HELP_KEY: legend},
    )


def confirm_empty(answer: Answered, otherwise: StdinDialogue) -> StdinDialogue:
    """Return a dialogue that leads to the empty `answer`, or back to the dialogue `otherwise`."""
    confirmed = replace(answer, marks=answer.marks | EMPTY_MARK)
    meanings = {"y": "send it empty", "n": "go back"}
    above = ["Your text is empty. Send it?"]
    dialogue = key_dialogue(meanings, {"y": confirmed, "n": otherwise}, above=above)
    return replace(dialogue, inner=True)


def bar_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines` with a bar, so that none of them looks like a line of the prompt itself."""
    for line in lines:
        mark = BAR
        for part in _wrap_line(line):
            yield mark + force_left_to_right(part)
            mark = CONTINUATION


def _wrap_line(line: str) -> Iterator[str]:
    # Wrapped here, because the rest of a line that the terminal wraps would have no bar.
    part = list[str]()
    columns = 0

    for char in line:
        width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if columns + width > MAX_COLUMNS and not unicodedata.combining(char):
            yield "".join(part)
            part = []
            columns = 0

        part.append(char)
        columns += width

    yield "".join(part)


# --- one question or decision --------------------------------------------------------------------


def ask_on_stdin(
    prompt: SimplePrompt, console: Console, channel: StdinChannel
) -> Answered | NotAnswered:
    """Ask `prompt` at `console` and return its end."""
    _write(console, _head_lines(prompt))
    if isinstance(prompt, ActionPrompt):
        dialogue = _action_dialogue(prompt)
    else:
        dialogue = STDIN_DIALOGUES[type(prompt.question.answer_type)](prompt)

    if dialogue.default is not None:
        caption = dialogue.prompt.removesuffix(": ")
        words = f"{caption} (Enter sends: {dialogue.default_words}): "
        dialogue = replace(dialogue, prompt=words)

    try:
        answered = converse(console, dialogue)
    except EOFError:
        return NotAnswered("cancelled", channel)

    assert isinstance(answered, Answered)  # `converse` got no keys
    return replace(answered, channel=channel)


def _head_lines(prompt: SimplePrompt) -> Iterator[str]:
    question = prompt_text.format_question(prompt)
    if prompt_text.format_header(prompt):
        yield prompt_text.format_head_line(prompt)
    elif by := prompt_text.format_origin(prompt):
        question = f"{question} ({by})"

    if isinstance(prompt, QuestionPrompt):
        if context := prompt_text.format_context(prompt):
            yield context
        yield question
        return

    yield f"{question}:" if prompt.changes else question
    for caption, detail in prompt_text.list_exhibits(prompt):
        yield caption
        yield from bar_lines(detail)

    if prompt.changes:
        yield ""
        for change in prompt.changes:
            exact = spell_change(change)
            found = diff_change(change)
            if found is None:
                yield f"  {exact}"
                continue

            yield f"  {exact.path}: {found.sizes}"
            for line in bar_lines(map(str, found.lines)):
                yield f"  {line}"

        yield ""


def _full_values(prompt: ActionPrompt) -> Iterator[str]:
    for change in prompt.changes:
        found = diff_change(change)
        if found is None or not found.is_folded:
            continue

        values = {NOW_WHOLE: found.now, PROPOSED_WHOLE: found.proposed}
        for title, value in values.items():
            if value:
                path = spell_change(change).path
                yield f"  {path}: {title[0].lower()}{title[1:]}"
                yield from (f"  {line}" for line in bar_lines(value))


def _action_dialogue(prompt: ActionPrompt) -> StdinDialogue:
    answers = {action.key: Answered(action.value, STDIN) for action in prompt.actions}
    meanings = {action.key: one_line(action.label) for action in prompt.actions}
    details = [] if DETAILS_KEY in answers else [*_full_values(prompt)]
    if details:
        meanings[DETAILS_KEY] = "Show the full values, before and after"

    dialogue = key_dialogue(meanings, answers)
    key_help = {HELP_KEY: [*dialogue.legend]}
    if details:
        key_help[DETAILS_KEY] = details
    if prompt.help:
        key_help[HELP_KEY].append(f"  {one_line(prompt.help)}")

    if prompt.last_line is None:
        return replace(dialogue, key_help=key_help)

    if details:
        key_help[DETAILS_KEY.upper()] = details

    legend = dialogue.legend
    if answers.keys() == {"y", "n"}:
        legend = ()  # `Apply delta? [y/n/?]` (R078-76) needs none

    return replace(
        dialogue,
        prompt=f"{one_line(prompt.last_line)} {dialogue.prompt}",
        parse=lambda line: dialogue.parse(line.lower()),
        legend=legend,
        key_help=key_help,
    )


def _boolean_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    # The tool's default is only marked. An empty line does not send it.
    offered = prompt_text.list_choices(prompt)
    answers = {each.key: Answered(each.value, STDIN, each.remember) for each in offered}
    answers |= {"yes": answers["y"], "no": answers["n"]}
    meanings = {choice.key: choice.meaning for choice in offered}
    hint = ""

    if (suggested := prompt_text.find_suggested_choice(prompt)) is not None:
        hint = f" ({suggested.key} {prompt_text.SUGGESTED})"
        meanings[suggested.key] += f" ({prompt_text.SUGGESTED})"

    return key_dialogue(meanings, answers, hint=hint)


def _text_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    if prompt.is_code:
        return _code_dialogue(prompt)

    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    preset = prompt_text.get_preselected(prompt)
    draft = prompt_text.make_editable_text(prompt)
    default = preset if isinstance(preset, str) else ""
    shown_above = "\n" in default or prompt.consents
    words = "the text above" if shown_above else plain(spell_invisible(default), limit=80)
    sent_by_enter = bool(default) and not prompt.consents and not prompt.question.exclusive
    sent_by_key = prompt.consents or (bool(default) and not sent_by_enter)

    def parse(line: str) -> Answered | str:
        typed = line.strip()
        if not typed:
            return _please_type(kind, suggests=sent_by_key)

        if typed == UNCHANGED and sent_by_key:
            text = default
        elif typed == EMPTY_TEXT_KEY:
            text = ""
        elif kind.format:
            text = draft.unspell_edited(typed)
        else:
            text = draft.unspell_edited(line)

        return _please_type(kind) if kind.misfit(text) else Answered(text, STDIN)

    is_restricted = kind.expects != TextAnswer().expects
    expected = "one line of text"
    caption = "Text"
    if is_restricted:
        expected = prompt_text.describe_expected(kind)
        caption = _caption(kind)

    help_lines = [f"  Type {expected}."]

    suggested = ""
    if sent_by_key:
        suggested = f" ({UNCHANGED} sends: {words})"
        help_lines.append(f"  {UNCHANGED} sends: {words}")

    if not kind.misfit(""):
        help_lines.append(f"  Type {EMPTY_TEXT_KEY} for an empty text.")

    shown = draft.shown.split("\n") if shown_above else []
    entered = Answered(default, STDIN) if sent_by_enter else None

    return StdinDialogue(
        prompt=f"{caption}{suggested}: ",
        parse=parse,
        above=_lines_above(draft, shown),
        key_help={HELP_KEY: help_lines},
        default=entered,
        default_words=words,
    )


def _code_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    draft = prompt_text.make_editable_text(prompt)
    preset = prompt_text.get_preselected(prompt)
    lines = draft.shown.split("\n")
    width = len(str(len(lines)))
    numbered = [f"{number:>{width}} {line}" for number, line in enumerate(lines, start=1)]
    help_lines = [
        f"  Type {UNCHANGED} to keep the text above.",
        "  To replace it, type the new text line by line. Empty lines are part of the text.",
        f"  A line with only {END} ends the text. As the first line, it cancels the edit.",
    ]
    typed: list[str] = []

    def parse(line: str) -> Parsed:
        if line.strip() == UNCHANGED and not typed:
            return Answered(preset, STDIN)
        if line.strip() == END:
            return Answered(draft.unspell_edited("\n".join(typed)), STDIN)
        typed.append(line)
        return StdinDialogue(prompt=f"{len(typed) + 1}: ", parse=parse, key_help={}, inner=True)

    return StdinDialogue(
        prompt=f"Text [{UNCHANGED} keeps it, {END} ends a new text]: ",
        parse=parse,
        above=_lines_above(draft, numbered),
        key_help={HELP_KEY: help_lines},
    )


def _lines_above(draft: prompt_text.EditableText, lines: Iterable[str]) -> list[str]:
    hint = [draft.hint] if draft.hint else []
    return [*hint, *bar_lines(lines)]


def _caption(kind: AnswerType) -> str:
    wanted = prompt_text.describe_expected(kind)
    return f"{wanted[:1].upper()}{wanted[1:]}"


def _please_type(kind: AnswerType, *, suggests: bool = False) -> str:
    ways = [prompt_text.describe_expected(kind)]
    if suggests:
        ways.append(f"{UNCHANGED} for the suggested text")
    if isinstance(kind, TextAnswer) and not kind.misfit(""):
        ways.append(f"{EMPTY_TEXT_KEY} for an empty text")
    return f"Please type {', '.join(ways)}, or ? for help."


def _number_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = prompt_text.get_preselected(prompt)
    default = None if prompt.question.exclusive else preset

    def parse(line: str) -> Answered | str:
        try:
            number = kind.from_text(line)
        except ValueError:
            return _please_type(kind)
        if kind.misfit(number):
            return _please_type(kind)
        return Answered(number, STDIN)

    suggested = f" ({prompt_text.SUGGESTED}: {preset})" if preset != default else ""
    entered = None if default is None else Answered(default, STDIN)
    return StdinDialogue(
        prompt=f"{_caption(kind)}{suggested}: ",
        parse=parse,
        key_help={HELP_KEY: [f"  Type {prompt_text.describe_expected(kind)}."]},
        default=entered,
        default_words=str(default),
    )


class _Selection:
    """Dialogues of a question with options: one for their numbers, one for the user's own text."""

    def __init__(self, prompt: QuestionPrompt) -> None:
        kind = prompt.question.answer_type
        assert isinstance(kind, SelectAnswer)
        self._kind = kind
        self._exclusive = prompt.question.exclusive
        self._labels = spell_option_labels(kind.labels)
        self._highest = len(self._labels) + kind.other
        self._may_be_none = kind.multi and not kind.min_picks
        preset = prompt_text.get_preselected(prompt)
        self._default = None if preset is None else kind.picks(preset)

    def dialogue(self) -> StdinDialogue:
        return self._by_number() if self._kind.options else self._own_text(())

    def _by_number(self) -> StdinDialogue:
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

        words = ""
        entered = None
        if default is not None:
            entered = self._answer(default)
            numbers = [str(index + 1) for index in default.indices]
            if default.custom is not None:
                numbers.append(str(self._highest))
            answer = plain(self._kind.format_answer(self._kind.answer(default)), limit=80)
            words = f"{','.join(numbers) or NONE}, {answer}"

        return StdinDialogue(
            prompt=f"{caption}: ",
            parse=self._parse,
            above=[*self._option_lines()],
            key_help={HELP_KEY: help_lines},
            default=entered,
            default_words=words,
        )

    def _option_lines(self) -> Iterator[str]:
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
                yield from (f"  {'':>{width}}  {x}" for x in bar_lines(text.split("\n")))

        if kind.other:
            yield f"  {self._highest:>{width}}  {OTHER_LABEL}"

        if self._may_be_none:
            yield f"  {NONE:>{width}}  {NONE_OF_THESE.capitalize()}"

        if wanted := prompt_text.describe_expected_picks(kind):
            yield f"  {wanted}"

    def _parse(self, line: str) -> Parsed:
        word = line.strip()
        parts = word.replace(",", " ").split() if self._kind.multi else [word]
        if not parts or not all(part.isascii() and part.isdigit() for part in parts):
            for labels in (self._labels, self._kind.labels):
                if word and word in labels:
                    return self._check_picks(Picks((labels.index(word),)))
            return self._refusal()

        numbers = list(map(self._parse_number, parts))
        least = NONE if self._may_be_none else 1
        if not all(least <= number <= self._highest for number in numbers):
            return self._refusal()
        if len({*numbers}) < len(numbers):
            return "A number appears twice. Please type each number once."
        if NONE in numbers and len(numbers) > 1:
            return f"{NONE} means {NONE_OF_THESE}. Please type it alone, or omit it."

        indices = tuple(number - 1 for number in numbers if 0 < number <= len(self._labels))
        if self._highest == len(self._labels) or self._highest not in numbers:
            return self._check_picks(Picks(indices))

        checked = self._check_picks(Picks(indices, "own text"))
        return checked if isinstance(checked, str) else self._own_text(indices)

    def _parse_number(self, digits: str) -> int:
        # Python refuses to parse thousands of digits; such a number is too high anyway.
        if len(digits) > MAX_DIGITS:
            return self._highest + 1
        return int(digits)

    def _check_picks(self, picks: Picks) -> Answered | str:
        answer = self._answer(picks)
        misfit = self._kind.misfit(answer.value)
        return prompt_text.describe_expected_picks(self._kind) if misfit else answer

    def _refusal(self) -> str:
        numbers = f"a number from 1 to {self._highest}"
        if self._kind.multi:
            example = "2,1" if self._highest > 1 else "1"
            none = f", {NONE} for {NONE_OF_THESE}" if self._may_be_none else ""
            numbers = f"numbers from 1 to {self._highest}, such as {example}{none}"
        return f"Please type {numbers}, or ? for help."

    def _answer(self, picks: Picks) -> Answered:
        return Answered(self._kind.answer(picks), STDIN)

    def _own_text(self, indices: tuple[int, ...]) -> StdinDialogue:
        before = self._default.custom if self._default is not None else None
        has_options = bool(self._kind.options)
        above = ["  Type your own answer in one line."]
        if has_options:
            above.append("  An empty line goes back to the options.")

        if before:
            above.append(f"  {UNCHANGED} sends: {plain(spell_invisible(before), limit=500)}")

        def parse(line: str) -> Parsed:
            word = line.strip()
            if before and word == UNCHANGED:
                return self._answer(Picks(indices, before))
            if word == EMPTY_TEXT_KEY:
                return confirm_empty(self._answer(Picks(indices, "")), dialogue)
            if word:
                return self._answer(Picks(indices, line))
            if has_options:
                return self._by_number()

            return f"Please type a text, or {EMPTY_TEXT_KEY} for an empty text."

        default = None
        if before and not has_options and not self._exclusive:
            default = self._answer(Picks((), before))

        dialogue = StdinDialogue(
            prompt="Your answer: ",
            parse=parse,
            above=above,
            key_help={HELP_KEY: [*above, f"  Type {EMPTY_TEXT_KEY} for an empty text."]},
            inner=has_options,
            default=default,
            default_words=plain(spell_invisible(before or ""), limit=80),
        )
        return dialogue


def _url_dialogue(prompt: QuestionPrompt) -> StdinDialogue:
    lines = prompt_text.format_address_lines(prompt)
    meanings = {"y": "done", SHOW_AGAIN: "try again: show the address again"}
    dialogue = key_dialogue(meanings, {"y": Answered(True, STDIN)}, above=lines)
    return replace(dialogue, key_help={**dialogue.key_help, SHOW_AGAIN: lines})


STDIN_DIALOGUES: Final[dict[type[AnswerType], Callable[[QuestionPrompt], StdinDialogue]]] = {
    BooleanAnswer: _boolean_dialogue,
    SelectAnswer: lambda prompt: _Selection(prompt).dialogue(),
    TextAnswer: _text_dialogue,
    SecretAnswer: lambda _: StdinDialogue(
        prompt="Secret: ",
        parse=lambda line: Answered(line, STDIN) if line else "Nothing was typed.",
        key_help={HELP_KEY: []},
        secret=True,
    ),
    NumberAnswer: _number_dialogue,
    IntegerAnswer: _number_dialogue,
    UrlAnswer: _url_dialogue,
}
"""Dialogue by answer type. The fields of a `form` are asked one by one."""
