"""Run `%jp` and `%%jp` by the table of subcommands.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import difflib
import shlex
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NoReturn

from jp_nb.config.directives import parse_tool_choice
from jp_nb.errors import PromptCancelled, UsageError
from jp_nb.notebook.subcommands import (
    ASK_OPTIONS,
    ASK_USAGE,
    SUBCOMMANDS,
    MagicOption,
    Subcommand,
    subcommand_groups,
)
from jp_nb.rendering import report
from jp_nb.session.session import Session
from jp_nb.text import one_line, plain


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


MAX_DIGITS = 9
"""Of a number of turns."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One line of `%jp`, read, and what it acts on.

    Attributes:
        shell: Where its output is shown.
        session: The assistant.
        subcommand: What was called.
        text: The line behind the subcommand's name.
        options: Its options by name, and the other words as `words`.
    """

    shell: Any
    session: Session
    subcommand: Subcommand
    text: str
    options: Namespace

    @property
    def word(self) -> str | None:
        """Return the word that follows, if there is one."""
        return next(iter(self.options.words), None)

    def number(self, at_least: int = 0) -> int | None:
        """Return the number that follows, if something does.

        Raises:
            UsageError: If it is no number, or too small or too long.
        """
        if self.word is None:
            return None
        if not (self.word.isdecimal() and len(self.word) <= MAX_DIGITS) or (
            int(self.word) < at_least
        ):
            bound = f", at least {at_least}" if at_least else ""
            raise refusal(self.subcommand, self.text, bound)
        return int(self.word)

    def show(self, shown: report.Report) -> None:
        """Display `shown` in the running cell."""
        display(self.shell, shown)

    def say_summary(self) -> None:
        """Print which conversation is active now."""
        print(f"jp_nb: {plain(self.session.format_status())}")


Action = Callable[[Invocation], None]
HEAD: Final = ("%jp", "description")
NOT_A_NAME: Final = "`-o` takes a variable name. {!r} is not a valid Python name."
_TO_ASK: Final = "To ask the model, write a request below `%%jp`. `%%jp?` lists its options."


def run_subcommand(shell: Any, session: Session, name: str, text: str = "") -> None:
    """Run subcommand `name` with the `text` behind it; without a name list all there are.

    Raises:
        UsageError: If there is no such subcommand, and the message offers the nearest; or if
            `text` is not what it takes.
    """
    asked = SUBCOMMANDS.get(name.rstrip("?"))
    if not name.rstrip("?"):
        display(shell, _all_listed())
    elif asked is not None and asked.name != name and not text:  # `%jp config?`
        display(shell, _listing(asked.rows))
    elif name not in SUBCOMMANDS:
        raise UsageError(_unknown(name, text))
    else:
        subcommand = SUBCOMMANDS[name]
        options = read_words(subcommand, text)
        action_of(subcommand)(Invocation(shell, session, subcommand, text, options))


def display(shell: Any, shown: report.Report) -> None:
    """Display `shown` in the running cell."""
    bundle = {"text/markdown": shown.markdown, "text/plain": shown.text}
    shell.display_pub.publish(data=bundle, metadata={})


def action_of(subcommand: Subcommand) -> Action:
    """Return the function that does it; its module is loaded now."""
    module, _, function = subcommand.action.partition(":")
    action: Action = getattr(import_module(f"jp_nb.notebook.{module}"), function)
    return action


def ask(shell: Any, session: Session, line: str, cell: str) -> None:
    """Put the request `cell` to the model, with the options in `line`.

    Raises:
        UsageError: If an option is wrong; nothing was recorded.
    """
    options = read_ask_options(line)
    if options.out is not None and not options.out.isidentifier():
        raise UsageError(NOT_A_NAME.format(options.out))
    before = session.last_turn
    try:  # a turn that failed has a result, too
        with unless_cancelled():
            session.run_turn(
                cell,
                model=options.model,
                directives=options.directives,
                new=options.new,
                schema=options.schema,
                tool_choice=parse_tool_choice(*options.tool_uses),
                strict=options.strict,
                compact=options.compact,
            )
    finally:
        turn = session.last_turn
        if turn is not None and turn is not before and options.out is not None:
            shell.user_ns[options.out] = turn


def ask_in_one_line(call: Invocation) -> None:
    """Put what follows to the model."""
    if not call.text:
        raise UsageError(f"The request is empty. Usage: `{call.subcommand.usage}`")
    with unless_cancelled():
        call.session.run_turn(call.text)


def explain(call: Invocation) -> None:
    """Have the model explain the last error, and answer what follows."""
    with unless_cancelled():
        call.session.explain(call.text)


def retry(call: Invocation) -> None:
    """Ask the last request again, in a branch without the last turn."""
    call.session.retry(model=call.options.model)


def resume(call: Invocation) -> None:
    """Continue the last turn, or restore a conversation that a kernel left."""
    with unless_cancelled():
        if call.session.resume(call.word or "") is None:
            call.say_summary()


@contextmanager
def unless_cancelled() -> Iterator[None]:
    """End a block quietly, with one line, if the user cancels it where they are asked."""
    try:
        yield
    except PromptCancelled as exc:
        print(f"jp_nb: {one_line(str(exc))}")


def _all_listed() -> report.Report:
    """Return the subcommands in groups."""
    tables = [(title, report.table(HEAD, rows)) for title, rows in subcommand_groups()]
    return report.Report(
        "\n\n".join([*(f"**{title}**\n\n{x.markdown}" for title, x in tables), _TO_ASK]),
        "\n\n".join([*(f"{title}\n{x.text}" for title, x in tables), _TO_ASK]),
    )


def _listing(rows: Sequence[tuple[str, str]]) -> report.Report:
    listed = report.table(HEAD, rows)
    return report.Report(f"{listed.markdown}\n\n{_TO_ASK}", f"{listed.text}\n{_TO_ASK}")


def suggestion(word: str, known: Iterable[str], subcommand: str = "") -> str:
    """Return a question about the name in `known` that is most like `word`, or ""."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean `{' '.join(filter(None, ('%jp', subcommand, *near)))}`? " if near else ""


def _unknown(name: str, text: str) -> str:
    """Return what to say of words that begin with no subcommand: perhaps they are a request."""
    hint = suggestion(name, SUBCOMMANDS)
    words = one_line(f"{name} {text}".strip(), limit=200)
    request = words if text else "REQUEST"
    return (
        f"There is no subcommand `%jp {one_line(name, limit=60)}`. {hint}To ask the model, write "
        f"the request below `%%jp`, or `%jp q {request}`. `%jp` lists the subcommands."
    )
