"""Reads the line of a magic by the table of what it takes.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from jp_nb.errors import UsageError
from jp_nb.notebook.subcommands import ASK_OPTIONS, ASK_USAGE, MagicOption, Subcommand


class OptionParser(argparse.ArgumentParser):
    """An argument parser that raises instead of ending the process; `usage` is what to say."""

    def __init__(self, options: Sequence[MagicOption], *, usage: str, words: bool = False) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._how = usage
        if words:
            self.add_argument("words", nargs="*")
        for option in options:
            if option.reads is not None:
                nargs = ("?" if option.takes else 0) if option.may_stand_alone else None
                self.add_argument(
                    *option.flags, dest=option.name, metavar=option.takes, nargs=nargs,
                    action=_Listed, reads=option.reads, default=[],
                )  # fmt: skip
            elif option.takes:
                self.add_argument(
                    *option.flags, dest=option.name, metavar=option.takes,
                    choices=option.choices or None,
                )  # fmt: skip
            else:
                self.add_argument(*option.flags, dest=option.name, action="store_true")

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with the message and how it is done."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}. Usage: `{self._how}`")


class _Listed(argparse.Action):
    """Keeps the values of several options in one list: their order counts."""

    def __init__(self, *args: Any, reads: Callable[[str, str | None], object], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._reads = reads

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Add the value of one option."""
        value = self._reads(option_string or "", values if isinstance(values, str) else None)
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), value])


def read_ask_options(line: str) -> argparse.Namespace:
    """Return the options of `%%jp` in `line`, each under its name in the table.

    Raises:
        UsageError: If one is unknown or lacks what it takes.
    """
    return OptionParser(ASK_OPTIONS, usage=ASK_USAGE).parse_args(split(line))


def read_words(subcommand: Subcommand, text: str) -> argparse.Namespace:
    """Return the options of `subcommand` in `text`, and the other words as `words`.

    Raises:
        UsageError: If one is unknown or lacks what it takes, or there are too many or few words.
    """
    words = [] if subcommand.is_text else split(text)
    if subcommand.assigns:
        words = list(_with_flags(words, subcommand.options))
    if not subcommand.options:  # whatever begins with `-` is a word like others
        found = argparse.Namespace(words=words)
    else:
        parser = OptionParser(
            subcommand.options, usage=subcommand.usage, words=bool(subcommand.takes)
        )
        found = parser.parse_intermixed_args(words)
    if not subcommand.is_text and not subcommand.takes_words(len(getattr(found, "words", ()))):
        raise refusal(subcommand, text)
    return found


def refusal(subcommand: Subcommand, text: str, bound: str = "") -> UsageError:
    """Return the error that says what `subcommand` takes, where `text` was found."""
    return UsageError(f"`%jp {subcommand.name}` takes {subcommand.what}{bound}, but got {text!r}.")


def _with_flags(words: Sequence[str], options: Sequence[MagicOption]) -> Iterator[str]:
    """Yield `words` with a `-c` before each assignment: their order among options counts."""
    from jp_nb.config.assignments import is_assignment  # with it the configuration tree is loaded

    takers = {flag for option in options if option.takes for flag in option.flags}
    before = ""
    for word in words:
        if not word.startswith("-") and is_assignment(word) and before not in takers:
            yield "-c"
        yield word
        before = word


def split(line: str) -> list[str]:
    """Return the words of a magic's line, quoted as in a shell.

    Raises:
        UsageError: If a quote is not closed.
    """
    try:
        return shlex.split(line)
    except ValueError as exc:
        raise UsageError(f"Quotes in {line.strip()!r} must match, as in a shell: {exc}.") from exc
