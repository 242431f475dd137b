"""A prompt on stdin: in the front end's input box, in a console, in a terminal.

Source: `docs/prompts.md`, `docs/turns.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from jp_nb.agent.prompts import (
    ActionPrompt,
    Answered,
    NotAnswered,
    Prompt,
    ProposedChange,
    QuestionPrompt,
)
from jp_nb.notebook.prompt.stdin_code import code_dialogue
from jp_nb.notebook.prompt.stdin_dialogue import (
    EMPTY_TEXT,
    UNCHANGED,
    Console,
    StdinChannel,
    StdinDialogue,
    TryAgain,
    barred,
    bracket,
    converse,
    legend_of,
    type_one_of,
)
from jp_nb.notebook.prompt.stdin_select import select_dialogue
from jp_nb.rendering import wording
from jp_nb.rendering.difference import difference
from jp_nb.safe_text import one_line, plain, spell_unseen
from jp_nb.tooling.question_kinds import (
    AnswerType,
    BooleanAnswer,
    IntegerAnswer,
    NumberAnswer,
    SecretAnswer,
    TextAnswer,
)
from jp_nb.tooling.select_kind import SelectAnswer

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
    yield from barred(exhibit.lines)


def _change(change: ProposedChange) -> list[str]:
    """Return the lines of a change; of long values, what differs."""
    if (found := difference(change)) is None:
        return [str(wording.exactly(change))]
    return [f"{_path(change)}: {found.sizes}", *barred(map(str, found.lines))]


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
                    lines += [f"  {line}" for line in barred(value)]
    return lines


def _path(change: ProposedChange) -> str:
    return wording.exactly(change).path


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
            return type_one_of(offered)
        return Answered(choice.value, channel, remember=choice.remember)

    told = {"?": explained}
    return StdinDialogue([], f"{bracket(offered)}{hint} ", told, parse, legend=explained)


def _text(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    if prompt.is_code:
        return code_dialogue(prompt, channel)
    kind = prompt.question.answer_type
    assert isinstance(kind, TextAnswer)
    preset, draft = wording.preselected(prompt), wording.draft(prompt)
    default = preset if isinstance(preset, str) else ""
    shown_above = "\n" in default or prompt.consents
    above = [*barred(draft.shown.split("\n"))] if shown_above else []
    hint = [draft.hint] if draft.hint else []
    words = "the text above" if above else plain(spell_unseen(default), limit=80)
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

    explained = [f"  Type {wording.wanted(kind) if _is_bound(kind) else 'one line of text'}."]
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
    wanted = wording.wanted(kind)
    return f"{wanted[:1].upper()}{wanted[1:]}"


def _please_type(kind: AnswerType, unchanged: str | None = None) -> TryAgain:
    """Return the message about a line that is no answer, such as an empty one."""
    keys = [f"{unchanged} for the suggested text"] if unchanged else []
    if isinstance(kind, TextAnswer) and not kind.misfit(""):
        keys.append(f"{EMPTY_TEXT} for an empty text")
    return TryAgain(f"Please type {', '.join((wording.wanted(kind), *keys))}, or ? for help.")


def _number(prompt: QuestionPrompt, channel: StdinChannel) -> StdinDialogue:
    kind = prompt.question.answer_type
    assert isinstance(kind, NumberAnswer)
    preset = wording.preselected(prompt)
    default = None if prompt.question.exclusive else preset

    def parse(line: str) -> Answered | TryAgain:
        if not line.strip() and default is not None:
            return Answered(default, channel)
        try:
            number = kind.from_text(line)
        except ValueError:
            return _please_type(kind)
        return _please_type(kind) if kind.misfit(number) else Answered(number, channel)

    suggested = f" ({wording.SUGGESTED}: {preset})" if preset != default else ""
    return StdinDialogue(
        [],
        f"{_caption(kind)}{suggested}: ",
        {"?": [f"  Type {wording.wanted(kind)}."]},
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
