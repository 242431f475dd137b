"""Dialogues on stdin: lines that ask, keys, and the meaning of a typed line.

`converse` runs a dialogue at a `Console` (`input_console.py`): it writes lines, and reads one after
the other until one is an answer or a key.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from jp_nb.agent.prompting.prompt_ends import EMPTY_MARK, Answered
from jp_nb.notebook.prompt.stdin_prompts.input_console import Console

ATTEMPTS: Final = 5
"""Lines that are not answers, after which the input counts as ended."""

HELP_KEY: Final = "?"

EMPTY_TEXT_KEY: Final = '""'
"""Input for the empty text, which an empty line never means."""

UNCHANGED: Final = "="
"""Input that sends the proposed or earlier text unchanged."""

StdinChannel = Literal["stdin", "terminal"]

STDIN: Final[StdinChannel] = "stdin"
"""Channel of an answer in a dialogue. The function that asks replaces it by its own channel."""

SECRET_OR_KEY: Final = "This text is also a key of the form. Is it your secret?"

SECRET_OR_KEY_KEYS: Final = {"y": "send it", "n": "use the key"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StdinDialogue:
    """The lines that ask one kind of prompt, and the meaning of the typed lines.

    Attributes:
        prompt: The text before the cursor.
        parse: Return the answer in a line, a dialogue that replaces this one, or the reason why the
            line is not an answer.
        above: Lines between the question and the input, written once.
        legend: Lines that explain the keys, written each time before the cursor.
        key_help: Lines to show for keys that are not answers, such as `?` for help.
        secret: True if the line is typed without echo.
        default: The answer that an empty line sends, if any.
        default_words: The default in words, such as `2, Delft`.
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
"""The meaning of a line: an answer, a text that refuses it, or a dialogue that follows."""

Parse = Callable[[str], Parsed]


def converse(
    console: Console,
    dialogue: StdinDialogue,
    *,
    keys: Collection[str] = (),
    help: Iterable[str] = (),  # noqa: A002 - named for the key
) -> Answered | str:
    """Run `dialogue` and return the answer, or the key of `keys` that the user typed.

    A line means, in this order: a key in `keys`, which may also be an empty line; a key with help,
    such as `?`, whose help is followed by `help`; the default, if the line is empty; an answer. To
    answer with the text of a key, the user types it in double quotes. Hidden input that looks like
    a key may be a secret, so the user is asked.

    Raises:
        EOFError: The input ended, or `ATTEMPTS` lines were not answers.
    """
    answers_of_quoted_keys = _quote_keys(keys)
    attempt = 0
    shows_legend = True
    write_lines(console, dialogue.above)

    while attempt < ATTEMPTS:
        if shows_legend:
            write_lines(console, dialogue.legend)

        shows_legend = True
        line = console.read(dialogue.prompt, secret=dialogue.secret)
        word = line if dialogue.secret else line.strip()

        if not dialogue.secret or _ask_if_key(console, word, keys):
            is_empty_in_inner = not word and dialogue.inner  # `parse` handles it
            if word in keys and not is_empty_in_inner:
                return word

            if (key_help := dialogue.key_help.get(word)) is not None:
                more = () if dialogue.inner or word != HELP_KEY else help
                write_lines(console, [*key_help, *more])
                # The help that was just shown has the legend, except that of hidden input.
                shows_legend = word != HELP_KEY or dialogue.secret
                continue

            if not word and dialogue.default is not None:
                return dialogue.default

            line = answers_of_quoted_keys.get(word, line)

        # An answer, the dialogue that follows, or a text that refuses the line.
        parsed = dialogue.parse(line)
        if isinstance(parsed, Answered):
            return parsed

        if isinstance(parsed, StdinDialogue):
            dialogue = parsed
            attempt = 0
            write_lines(console, dialogue.above)
            continue

        attempt += 1
        if attempt < ATTEMPTS:
            console.write(parsed)

    raise EOFError(f"no answer in {ATTEMPTS} lines")


def _quote_keys(keys: Collection[str]) -> dict[str, str]:
    """Return the texts of keys, by the lines that answer with them: `"!"` for `!`.

    Outside of a form there are no `keys`, and quotes stay a part of the answer.
    """
    if not keys:
        return {}
    return {f'"{key}"': key for key in (*keys, HELP_KEY) if key}


def _ask_if_key(console: Console, hidden: str, keys: Collection[str]) -> bool:
    """Return True if `hidden` is a key. If it may also be the secret, ask the user."""
    if not keys or hidden not in (*keys, HELP_KEY):
        return False
    if not hidden:  # an empty line is never a secret
        return True
    return choose(console, [SECRET_OR_KEY], SECRET_OR_KEY_KEYS) == "n"


def write_lines(console: Console, lines: Iterable[str]) -> None:
    """Write each of `lines` at `console`."""
    for line in lines:
        console.write(line)


def choose(
    console: Console,
    above: Iterable[str],
    meanings: Mapping[str, str],
    keys: Collection[str] | None = None,
) -> str:
    """Return the key that the user types below the lines `above`.

    The legend has the `meanings`. `keys` are the valid keys; by default those of `meanings`.
    """
    if keys is None:
        keys = meanings
    # Without outcomes, no line is an answer: `converse` returns a key.
    dialogue = make_key_dialogue(meanings, outcomes={}, above=above)
    chosen = converse(console, dialogue, keys=keys)
    assert isinstance(chosen, str)
    return chosen


def make_key_dialogue(
    meanings: Mapping[str, str],
    outcomes: Mapping[str, Answered | StdinDialogue],
    *,
    above: Iterable[str] = (),
    hint: str = "",
) -> StdinDialogue:
    """Return a dialogue that is answered by one of the keys of `meanings`.

    `outcomes` has the answer of each key, or the dialogue that follows. `hint` is shown after the
    keys.
    """
    legend = [f"  {key}  {meaning}" for key, meaning in meanings.items()]
    refusal = f"Please type one of {', '.join(meanings)}, or ? for help."
    return StdinDialogue(
        prompt=f"[{'/'.join(meanings)}/{HELP_KEY}]{hint} ",
        parse=lambda line: outcomes.get(line.strip(), refusal),
        above=[*above],
        legend=legend,
        key_help={HELP_KEY: legend},
    )


def make_empty_confirmation(answer: Answered, otherwise: StdinDialogue) -> StdinDialogue:
    """Return a dialogue that leads to the empty `answer`, or back to the dialogue `otherwise`."""
    confirmed = replace(answer, marks=answer.marks | EMPTY_MARK)
    meanings = {"y": "send it empty", "n": "go back"}
    above = ["Your text is empty. Send it?"]
    dialogue = make_key_dialogue(meanings, {"y": confirmed, "n": otherwise}, above=above)
    return replace(dialogue, inner=True)
