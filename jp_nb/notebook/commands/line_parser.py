"""Parse the lines of `%%jp` (table: `ask_options.py`) and `%jp SUBCOMMAND` (`subcommands.py`).

A table has a `MagicOption` for each option, with its flags, and perhaps `choices` or a function
`parse`. Its `takes` is the name of the value, or "" for a flag without one. `magic_options.py`
explains all fields. argparse does the work, and its errors become a `UsageError`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NoReturn

from jp_nb.errors import UsageError
from jp_nb.notebook.ask_options import ASK_OPTIONS, ASK_USAGE
from jp_nb.notebook.magic_options import MagicOption, Subcommand


class OptionParser(argparse.ArgumentParser):
    """Argument parser that raises `UsageError` instead of ending the process.

    With `words`, it also accepts other words than options, as the attribute `words` of the result.
    """

    def __init__(self, options: Sequence[MagicOption], *, usage: str, words: bool = False) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._usage = usage
        if words:
            self.add_argument("words", nargs="*")

        for option in options:
            self.add_argument(*option.flags, **_make_settings(option))

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with the message and the usage line."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}. Usage: `{self._usage}`")


def _make_settings(option: MagicOption) -> dict[str, Any]:
    """Return the arguments of `add_argument` for an option."""
    settings: dict[str, Any] = {"dest": option.name}
    if option.takes:
        settings |= {"metavar": option.takes, "choices": option.choices or None}

    if option.parse is not None:
        settings |= {"action": _AppendParsed, "parse": option.parse, "default": []}
        settings["nargs"] = option.value_count
    elif not option.takes:
        settings["action"] = "store_true"
    return settings


class _AppendParsed(argparse.Action):
    """Append the parsed value to a list that several options share, in their order.

    So `-c`, `-t`, and `-a` fill the one list `directives`, which apply from left to right. `parse`
    gets the flag, and the text after it; None if there is no text.
    """

    def __init__(self, *args: Any, parse: Callable[[str, str | None], object], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._parse = parse

    def __call__(self, _parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        text = values if isinstance(values, str) else None
        value = self._parse(option or "", text)
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), value])


def parse_ask_options(line: str) -> argparse.Namespace:
    """Parse the options of `%%jp`.

    Raises:
        UsageError: An option is unknown or not valid.
    """
    return _make_ask_parser().parse_args(split_words(line))


@cache
def _make_ask_parser() -> OptionParser:
    return OptionParser(ASK_OPTIONS, usage=ASK_USAGE)


def parse_subcommand(subcommand: Subcommand, text: str) -> argparse.Namespace:
    """Parse the options of `subcommand`, and other words as `words`, or raise `UsageError`.

    The action of a subcommand that `is_text`, such as `q`, gets no words: it reads the text itself.
    A subcommand that `assigns`, such as `config`, takes changes without `-c`.
    """
    words = [] if subcommand.is_text else split_words(text)
    if subcommand.assigns:
        words = list(_mark_assignments(words, subcommand.options))

    if not subcommand.options:  # words that begin with `-` are allowed
        arguments = argparse.Namespace(words=words)
    else:
        parser = OptionParser(
            subcommand.options, usage=subcommand.usage, words=bool(subcommand.takes)
        )
        arguments = parser.parse_intermixed_args(words)

    count = len(getattr(arguments, "words", ()))
    if not subcommand.is_text and not subcommand.accepts_word_count(count):
        raise make_usage_error(subcommand, text)

    return arguments


def make_usage_error(subcommand: Subcommand, text: str, limit: str = "") -> UsageError:
    """Return the error for wrong arguments `text` of `subcommand`.

    `limit` follows the description of the right ones, such as ", at least 1".
    """
    expected = f"{subcommand.takes_description}{limit}"
    return UsageError(f"`%jp {subcommand.name}` takes {expected}, but got {text!r}.")


def _mark_assignments(words: Sequence[str], options: Sequence[MagicOption]) -> Iterator[str]:
    """Insert `-c`, the flag of a change, before each assignment such as `path=value`.

    So the changes have one order, in which they apply: that of the words and options on the line.
    """
    from jp_nb.config.assignments import is_assignment  # loads the configuration tree

    flags_with_value = set[str]()
    for option in options:
        if option.takes:
            flags_with_value.update(option.flags)

    previous = ""
    for word in words:
        is_value = previous in flags_with_value
        if not word.startswith("-") and is_assignment(word) and not is_value:
            yield "-c"
        yield word
        previous = word


def split_words(line: str) -> list[str]:
    """Split the line of a magic into words, as a shell does.

    Raises:
        UsageError: A quotation mark is not closed.
    """
    try:
        return shlex.split(line)
    except ValueError as exc:
        raise UsageError(f"Quotes in {line.strip()!r} must match, as in a shell: {exc}.") from exc
