"""One exchange of lines: what is written, what may be typed, and what that means.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol, Self

from jp_nb.agent.prompts import EMPTY_MARK, Answered
from jp_nb.safe_text import BAR, left_to_right

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
