"""A prompt on stdin: in the front end's input box, in a console, in a terminal.

Source: `design/prompts.md` section 5, `spec/tools-and-turn-loop.md` sections 4.3, 8.5, 9.3,
11.4-11.6.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, assert_never

from jp_nb.agent.exact import BAR, left_to_right, visible
from jp_nb.agent.ports import (
    ActionPrompt,
    Answered,
    NotAnswered,
    Prompt,
    QuestionPrompt,
)
from jp_nb.notebook.prompt import wording
from jp_nb.notebook.prompt.plain import one_line, plain
from jp_nb.tools.question import BooleanAnswer, SecretAnswer, SelectAnswer, TextAnswer

ATTEMPTS = 5
MAX_COLUMNS = 100
"""Of a line that is shown exactly; the rest of it goes on behind `GOES_ON`."""
GOES_ON = "┊ "


class Console(Protocol):
    """Where lines are written and read."""

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
class _Again:
    """The line is no answer: say why, and ask again."""

    why: str


_Parse = Callable[[str], Answered | _Again]


@dataclass(frozen=True, slots=True)
class _Dialogue:
    """How one kind of prompt is asked.

    Attributes:
        above: Lines between the question and the input.
        prompt: What stands before the cursor.
        help: Lines shown for `?`; None if `?` is a line like any other.
        parse: What a line says.
    """

    above: list[str]
    prompt: str
    help: list[str] | None
    parse: _Parse
    secret: bool = False


def ask_on_stdin(
    prompt: Prompt, console: Console, channel: Literal["stdin", "terminal"]
) -> Answered | NotAnswered:
    """Put `prompt` to the person at `console` and return what comes of it."""
    dialogue = _dialogue(prompt, channel)
    for line in (*_opening(prompt), *dialogue.above):
        console.write(line)
    attempt = 0
    while attempt < ATTEMPTS:
        try:
            line = console.read(dialogue.prompt, secret=dialogue.secret)
        except EOFError:
            break
        if dialogue.help is not None and line.strip() == "?":
            for explanation in dialogue.help:
                console.write(explanation)
            continue
        match dialogue.parse(line):
            case _Again(why=why):
                attempt += 1
                if attempt < ATTEMPTS:
                    console.write(why)
            case answered:
                return answered
    return NotAnswered("cancelled", channel)


def _opening(prompt: Prompt) -> list[str]:
    """Return the lines before the control: header, context, question; or what is decided about."""
    header, by = wording.header(prompt), wording.asked_by(prompt)
    lines = [f"{header} ({by})" if by else header] if header else []
    context, question = wording.context(prompt), wording.question(prompt)
    if header is None and by:
        question = f"{question} ({by})"
    if isinstance(prompt, QuestionPrompt):
        return [*lines, *([context] if context else []), question]
    changes = [f"  {wording.exactly(change)}" for change in prompt.changes]
    if changes:
        question, changes = f"{question}:", ["", *changes, ""]
    shown = [line for exhibit in wording.exhibits(prompt) for line in _exhibit(exhibit)]
    return [*lines, question, *shown, *changes]


def _exhibit(exhibit: wording.Shown) -> Iterator[str]:
    yield exhibit.caption
    yield from _barred(exhibit.lines)


def _barred(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines` such that nothing in them can pass for a line of ours."""
    for line in lines:
        for index, part in enumerate(_folded(line)):
            yield (GOES_ON if index else BAR) + left_to_right(part)


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


def _dialogue(prompt: Prompt, channel: Literal["stdin", "terminal"]) -> _Dialogue:
    if isinstance(prompt, ActionPrompt):
        return _actions(prompt, channel)
    match prompt.question.answer_type:
        case BooleanAnswer():
            return _boolean(prompt, channel)
        case SelectAnswer(options=options):
            return _select(prompt, options, channel)
        case TextAnswer():
            return _text(prompt, channel)
        case SecretAnswer():
            return _secret(channel)
        case other:
            assert_never(other)


def _keys(keys: list[tuple[str, str]], default: str | None) -> tuple[str, list[str]]:
    """Return the bracket with all keys, and the explanation of each."""
    hint = f" ({default})" if default is not None else ""
    return f"{_bracket([key for key, _ in keys])}{hint} ", [
        f"  {key}  {one_line(meaning)}{' (default)' if key == default else ''}"
        for key, meaning in keys
    ]


def _bracket(keys: list[str]) -> str:
    return f"[{'/'.join(keys)}/?]"


def _actions(prompt: ActionPrompt, channel: Literal["stdin", "terminal"]) -> _Dialogue:
    by_key = {action.key: action.value for action in prompt.actions}
    keys = {action.value: action.key for action in prompt.actions}
    default = keys.get(prompt.default) if prompt.default is not None else None
    bracket, explained = _keys([(a.key, a.label) for a in prompt.actions], default)
    last_line = prompt.last_line
    if last_line is not None:
        shown = [key.upper() if key == default else key for key in by_key]
        bracket = f"{one_line(last_line)} {_bracket(shown)} "
    if prompt.help:
        explained.append(f"  {one_line(prompt.help)}")

    def parse(line: str) -> Answered | _Again:
        key = line.strip() or default
        if key is not None and last_line is not None:
            key = key.lower()
        if key is None or key not in by_key:
            return _Again(f"Please type one of {', '.join(by_key)}, or ? for help.")
        return Answered(by_key[key], channel)

    return _Dialogue(above=[], prompt=bracket, help=explained, parse=parse)


def _boolean(prompt: QuestionPrompt, channel: Literal["stdin", "terminal"]) -> _Dialogue:
    offered = {choice.key: choice for choice in wording.choices(prompt)}
    preset = wording.preselected(prompt)
    default = None if preset is None else "y" if preset else "n"
    bracket, explained = _keys([(c.key, c.meaning) for c in offered.values()], default)

    def parse(line: str) -> Answered | _Again:
        word = line.strip() or default
        choice = offered.get({"yes": "y", "no": "n"}.get(word, word)) if word else None
        if choice is None:
            return _Again(f"Please type one of {', '.join(offered)}, or ? for help.")
        return Answered(choice.value, channel, remember=choice.remember)

    return _Dialogue(above=[], prompt=bracket, help=explained, parse=parse)


def _select(
    prompt: QuestionPrompt, options: tuple[str, ...], channel: Literal["stdin", "terminal"]
) -> _Dialogue:
    labels = wording.option_labels(options)
    preset = wording.preselected(prompt)
    default = options.index(preset) if isinstance(preset, str) else None

    def parse(line: str) -> Answered | _Again:
        word = line.strip()
        if not word and default is not None:
            return Answered(options[default], channel)
        if word.isascii() and word.isdigit():  # an index, also where an option is a number
            index = int(word) if len(word) < 10 else 0  # Python reads no number of 5000 digits
            if 1 <= index <= len(options):
                return Answered(options[index - 1], channel)
        elif word:
            for option, label in zip(options, labels, strict=True):
                if word in (option, label):
                    return Answered(option, channel)
        return _Again(f"Please type a number from 1 to {len(options)}, or ? for help.")

    width = len(str(len(options)))
    return _Dialogue(
        above=[f"  {number:>{width}}  {label}" for number, label in enumerate(labels, start=1)],
        prompt=f"Number{'' if default is None else f' [{default + 1}]'}: ",
        help=[
            "  Type the number of an option, or, if it is no number, the option itself."
            + ("" if default is None else f" Enter alone: {default + 1}, {labels[default]}.")
        ],
        parse=parse,
    )


def _text(prompt: QuestionPrompt, channel: Literal["stdin", "terminal"]) -> _Dialogue:
    preset, draft = wording.preselected(prompt), wording.draft(prompt)
    default = preset if isinstance(preset, str) else ""

    def parse(line: str) -> Answered | _Again:
        if line.strip() == '""':
            return Answered("", channel)
        return Answered(draft.meant(line) if line.strip() else default, channel)

    above = [] if "\n" not in default else [*_barred(draft.shown.split("\n"))]
    hint = [draft.hint] if draft.hint else []
    short = "as above" if above else plain(visible(default), limit=80)
    explained = ["  Type one line of text."]
    explained += (
        [
            "  Enter alone: the text above." if above else f"  Enter alone: {visible(default)}",
            '  "" is the empty text.',
        ]
        if default
        else ["  Enter alone is the empty text."]
    )
    prompt_text = f"Text [{short}]: " if default else "Text: "
    return _Dialogue(above=[*hint, *above], prompt=prompt_text, help=explained, parse=parse)


def _secret(channel: Literal["stdin", "terminal"]) -> _Dialogue:
    def parse(line: str) -> Answered | _Again:
        if not line:
            return _Again("Nothing was typed.")
        return Answered(line, channel)

    return _Dialogue(above=[], prompt="Secret: ", help=None, parse=parse, secret=True)


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
        if secret:
            from getpass import getpass

            return getpass(prompt)
        return input(prompt)
