"""A prompt on stdin: in the front end's input box, in a console, in a terminal.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from jp_nb.agent.prompts import (
    ActionPrompt,
    Answered,
    NotAnswered,
    Prompt,
    ProposedChange,
    QuestionPrompt,
)
from jp_nb.rendering import wording
from jp_nb.rendering.difference import difference
from jp_nb.safe_text import BAR, left_to_right, one_line, plain, spell_unseen
from jp_nb.tooling.question_kinds import (
    AnswerType,
    BooleanAnswer,
    SecretAnswer,
    TextAnswer,
)
from jp_nb.tooling.select_kind import SelectAnswer

ATTEMPTS = 5
MAX_COLUMNS = 100
"""Of a line that is shown exactly; the rest of it goes on behind `GOES_ON`."""
GOES_ON = "┊ "
DETAILS = "d"
UNCHANGED = "="
"""Sends a text as it was proposed, where that lets something happen."""


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


Parse = Callable[[str], Answered | TryAgain]


@dataclass(frozen=True, slots=True)
class StdinDialogue:
    """The lines by which one kind of prompt is asked, and the meaning of what is typed.

    Attributes:
        above: Lines between the question and the input.
        prompt: What stands before the cursor.
        told: By keys that are no answer, lines that they show: `?` explains the others.
        parse: What a line says.
    """

    above: list[str]
    prompt: str
    told: Mapping[str, list[str]]
    parse: Parse
    secret: bool = False


def ask_on_stdin(prompt: Prompt, console: Console, channel: StdinChannel) -> Answered | NotAnswered:
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
        if (told := dialogue.told.get(line.strip())) is not None:
            for explanation in told:
                console.write(explanation)
            continue
        match dialogue.parse(line):
            case TryAgain(why=why):
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
    changes = [f"  {line}" for change in prompt.changes for line in _change(change)]
    if changes:
        question, changes = f"{question}:", ["", *changes, ""]
    shown = [line for exhibit in wording.exhibits(prompt) for line in _exhibit(exhibit)]
    return [*lines, question, *shown, *changes]


def _exhibit(exhibit: wording.CaptionedLines) -> Iterator[str]:
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


def _change(change: ProposedChange) -> list[str]:
    """Return the lines of a change; of long values, what differs."""
    if (found := difference(change)) is None:
        return [str(wording.exactly(change))]
    return [f"{_path(change)}: {found.sizes}", *_barred(map(str, found.lines))]


def _details(prompt: ActionPrompt) -> list[str]:
    """Return whole the values of which a part is folded; nothing if there is none."""
    lines = []
    for change in prompt.changes:
        if (found := difference(change)) is not None and found.is_folded:
            for title, value in (
                (wording.NOW_WHOLE, found.now),
                (wording.PROPOSED_WHOLE, found.proposed),
            ):
                if value:
                    lines.append(f"  {_path(change)}: {title[0].lower()}{title[1:]}")
                    lines += [f"  {line}" for line in _barred(value)]
    return lines


def _path(change: ProposedChange) -> str:
    return wording.exactly(change).path


def _dialogue(prompt: Prompt, channel: StdinChannel) -> StdinDialogue:
    if isinstance(prompt, ActionPrompt):
        return _actions(prompt, channel)
    return STDIN_DIALOGUES[type(prompt.question.answer_type)](prompt, channel)


def _bracket(keys: Iterable[str]) -> str:
    return f"[{'/'.join(keys)}/?]"


def _again(keys: Iterable[str]) -> TryAgain:
    return TryAgain(f"Please type one of {', '.join(keys)}, or ? for help.")


def _actions(prompt: ActionPrompt, channel: StdinChannel) -> StdinDialogue:
    by_key = {action.key: action.value for action in prompt.actions}
    meanings = {action.key: action.label for action in prompt.actions}
    told: dict[str, list[str]] = {}
    last_line = prompt.last_line
    if (details := _details(prompt)) and DETAILS not in by_key:
        told[DETAILS] = details
        meanings[DETAILS] = "All of what changes, before and after"
        if last_line is not None:
            told[DETAILS.upper()] = details
    told["?"] = [f"  {key}  {one_line(meaning)}" for key, meaning in meanings.items()]
    if prompt.help:
        told["?"].append(f"  {one_line(prompt.help)}")

    def parse(line: str) -> Answered | TryAgain:
        key = line.strip() if last_line is None else line.strip().lower()
        return Answered(by_key[key], channel) if key in by_key else _again(meanings)

    asked = f"{one_line(last_line)} " if last_line is not None else ""
    return StdinDialogue([], f"{asked}{_bracket(meanings)} ", told, parse)


def _boolean(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    """Return a dialogue in which the tool's default is named, and an empty line is no answer."""
    offered = {choice.key: choice for choice in wording.choices(prompt)}
    suggested = wording.suggested(prompt)
    hint = f" ({suggested.key} {wording.SUGGESTED})" if suggested is not None else ""
    explained = [
        f"  {choice.key}  {choice.meaning}"
        + (f" ({wording.SUGGESTED})" if choice is suggested else "")
        for choice in offered.values()
    ]

    def parse(line: str) -> Answered | TryAgain:
        word = line.strip()
        choice = offered.get({"yes": "y", "no": "n"}.get(word, word))
        if choice is None:
            return _again(offered)
        return Answered(choice.value, channel, remember=choice.remember)

    return StdinDialogue([], f"{_bracket(offered)}{hint} ", {"?": explained}, parse)


def _select(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    kind = prompt.question.answer_type
    assert isinstance(kind, SelectAnswer)
    options = kind.values
    labels = wording.option_labels(kind.labels)
    preset = wording.preselected(prompt)
    default = None if preset is None else options.index(preset)

    def parse(line: str) -> Answered | TryAgain:
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
        return TryAgain(f"Please type a number from 1 to {len(options)}, or ? for help.")

    width = len(str(len(options)))
    return StdinDialogue(
        above=[f"  {number:>{width}}  {label}" for number, label in enumerate(labels, start=1)],
        prompt=f"Number{'' if default is None else f' [{default + 1}]'}: ",
        told={
            "?": [
                "  Type the number of an option, or, if it is not a number, the option itself."
                + ("" if default is None else f" Enter alone: {default + 1}, {labels[default]}.")
            ]
        },
        parse=parse,
    )


def _text(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    preset, draft = wording.preselected(prompt), wording.draft(prompt)
    default = preset if isinstance(preset, str) else ""
    shown_above = "\n" in default or prompt.consents
    above = [*_barred(draft.shown.split("\n"))] if shown_above else []
    hint = [draft.hint] if draft.hint else []
    alone = f"{UNCHANGED} alone" if prompt.consents else "Enter alone"

    def parse(line: str) -> Answered | TryAgain:
        typed = line.strip()
        if typed == '""':
            return Answered("", channel)
        if prompt.consents and not typed:
            return TryAgain(f"Please type a text, {UNCHANGED} for the one above, or ? for help.")
        unchanged = typed == UNCHANGED if prompt.consents else not typed
        return Answered(default if unchanged else draft.meant(line), channel)

    explained = ["  Type one line of text."]
    if default or prompt.consents:
        text = "the text above." if above else spell_unseen(default)
        explained += [f"  {alone}: {text}", '  "" is the empty text.']
    else:
        explained += ["  Enter alone is the empty text."]
    short = "as above" if above else plain(spell_unseen(default), limit=80)
    if prompt.consents:
        short = f"{UNCHANGED} for the one above"
    asked = f"Text [{short}]: " if default or prompt.consents else "Text: "
    return StdinDialogue([*hint, *above], asked, {"?": explained}, parse)


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
    SelectAnswer: _select,
    TextAnswer: _text,
    SecretAnswer: _secret,
}
"""Makes the dialogue of each kind of question."""


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
