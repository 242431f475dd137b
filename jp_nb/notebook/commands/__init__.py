"""Parse `%jp` and `%%jp` by the tables in `subcommands.py`, and run them.

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
from functools import cache
from importlib import import_module
from typing import Any, Final, NoReturn

from jp_nb.config.directives import parse_tool_choice
from jp_nb.errors import PromptCancelled, UsageError
from jp_nb.notebook.magic_help import list_groups
from jp_nb.notebook.subcommands import ASK_OPTIONS, ASK_USAGE, SUBCOMMANDS, MagicOption, Subcommand
from jp_nb.record.turn_view import Turn
from jp_nb.rendering import report
from jp_nb.session.session import Session
from jp_nb.text import MAX_DIGITS, one_line


class OptionParser(argparse.ArgumentParser):
    """Argument parser that raises `UsageError` instead of ending the process."""

    def __init__(self, options: Sequence[MagicOption], *, usage: str, words: bool = False) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._usage = usage
        if words:
            self.add_argument("words", nargs="*")

        for option in options:
            added: dict[str, Any] = {"dest": option.name}
            if option.takes:
                added |= {"metavar": option.takes, "choices": option.choices or None}

            if option.parse is not None:
                nargs: str | int | None = None
                if option.has_optional_value:
                    nargs = "?" if option.takes else 0
                added |= {"action": _AppendParsed, "parse": option.parse, "default": []}
                added["nargs"] = nargs
            elif not option.takes:
                added["action"] = "store_true"

            self.add_argument(*option.flags, **added)

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with the message and the usage line."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}. Usage: `{self._usage}`")


class _AppendParsed(argparse.Action):
    """Append the parsed value to a list that several options share, in their order."""

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


def parse_arguments(subcommand: Subcommand, text: str) -> argparse.Namespace:
    """Parse the options of `subcommand`, and other words as `words`, or raise `UsageError`."""
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
    """Return the error for wrong arguments `text` of `subcommand`."""
    expected = f"{subcommand.takes_description}{limit}"
    return UsageError(f"`%jp {subcommand.name}` takes {expected}, but got {text!r}.")


def _mark_assignments(words: Sequence[str], options: Sequence[MagicOption]) -> Iterator[str]:
    """Insert `-c` before each assignment, so that it has an order among the options."""
    from jp_nb.config.assignments import is_assignment  # loads the configuration tree

    takers = set[str]()
    for option in options:
        if option.takes:
            takers.update(option.flags)

    previous = ""

    for word in words:
        if not word.startswith("-") and is_assignment(word) and previous not in takers:
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


@dataclass(frozen=True, slots=True)
class Invocation:
    """A parsed `%jp` line, with its session and shell.

    `text` is the line after the subcommand's name. `options` has the values of the options by name,
    and the other words as `words`.
    """

    shell: Any
    session: Session
    subcommand: Subcommand
    text: str
    options: Namespace

    @property
    def word(self) -> str | None:
        """The first word, if there is one."""
        return next(iter(self.options.words), None)

    def number(self, at_least: int = 0) -> int | None:
        """Return the first word as a number, or None if there is no word.

        Raises:
            UsageError: It is not a number, or less than `at_least`.
        """
        word = self.word
        if word is None:
            return None
        if word.isdecimal() and len(word) <= MAX_DIGITS and int(word) >= at_least:
            return int(word)

        limit = f", at least {at_least}" if at_least else ""
        raise make_usage_error(self.subcommand, self.text, limit)

    def show(self, content: report.Report) -> None:
        """Display `content` in the running cell."""
        display(self.shell, content)


CommandAction = Callable[[Invocation], None]
COMMANDS_HEAD: Final = ("%jp", "description")
NOT_A_NAME: Final = "`-o` takes a variable name. {!r} is not a valid Python name."
_TO_ASK: Final = "To ask the model, write a request below `%%jp`. `%%jp?` lists its options."


def run_subcommand(shell: Any, session: Session, name: str, text: str = "") -> None:
    """Run the subcommand `name` with the rest of the line, or raise `UsageError`.

    Without a name, list all subcommands.
    """
    described = SUBCOMMANDS.get(name.rstrip("?"))
    if not name.rstrip("?"):
        groups = [
            report.join_reports(
                [report.make_heading(title), report.make_table(COMMANDS_HEAD, rows)]
            )
            for title, rows in list_groups()
        ]
        display(shell, report.join_reports([*groups, _TO_ASK], between="\n\n"))
    elif described is not None and described.name != name and not text:  # `%jp config?`
        display(
            shell, report.join_reports([report.make_table(COMMANDS_HEAD, described.rows), _TO_ASK])
        )
    elif name not in SUBCOMMANDS:
        hint = suggest_name(name, SUBCOMMANDS)
        request = one_line(f"{name} {text}".strip(), limit=200) if text else "REQUEST"
        raise UsageError(
            f"There is no subcommand `%jp {one_line(name, limit=60)}`. {hint}To ask the model, "
            f"write the request below `%%jp`, or `%jp q {request}`. `%jp` lists the subcommands."
        )
    else:
        subcommand = SUBCOMMANDS[name]
        options = parse_arguments(subcommand, text)
        load_action(subcommand)(Invocation(shell, session, subcommand, text, options))


def display(shell: Any, content: report.Report) -> None:
    """Display `content` in the running cell."""
    bundle = {"text/markdown": content.markdown, "text/plain": content.text}
    shell.display_pub.publish(data=bundle, metadata={})


def load_action(subcommand: Subcommand) -> CommandAction:
    """Import the module of the subcommand's action, and return the action."""
    module, _, function = subcommand.action.partition(":")
    action: CommandAction = getattr(import_module(f"jp_nb.notebook.{module}"), function)
    return action


def send_request(shell: Any, session: Session, line: str, cell: str) -> None:
    """Run `%%jp`: send the request `cell` to the model, with the options in `line`."""
    options = parse_ask_options(line)
    if options.out is not None and not options.out.isidentifier():
        raise UsageError(NOT_A_NAME.format(options.out))
    if options.each is not None:
        from jp_nb.notebook.commands.each_row import ask_each_row  # few cells need it

        ask_each_row(shell, session, options, cell)
        return
    if options.cache is not None:
        raise UsageError("`--cache` keeps the answers of `--each`. A turn is in the record.")

    def keep(turn: Turn) -> None:
        if options.out is not None:
            shell.user_ns[options.out] = turn

    with report_cancellation():
        session.turns.run(
            cell,
            model=options.model,
            directives=options.directives,
            new=options.new,
            schema=options.schema,
            tool_choice=parse_tool_choice(*options.tool_uses),
            strict=options.strict,
            compact=options.compact,
            keep=keep,
        )


def ask_in_one_line(call: Invocation) -> None:
    """Run `%jp q`: send the rest of the line to the model."""
    if not call.text:
        raise UsageError(f"The request is empty. Usage: `{call.subcommand.usage}`")
    with report_cancellation():
        call.session.turns.run(call.text)


def explain_error(call: Invocation) -> None:
    """Run `%jp why`: ask the model to explain the last error."""
    from jp_nb.session.error_explanation import ErrorExplanation

    with report_cancellation():
        ErrorExplanation(call.session).run(call.text)


def retry_turn(call: Invocation) -> None:
    """Run `%jp retry`: ask the last request again, in a branch without the last turn."""
    from jp_nb.session.turn_retry import TurnRetry

    TurnRetry(call.session).run(model=call.options.model)


@contextmanager
def report_cancellation() -> Iterator[None]:
    """Print one line instead of an error if the user cancels a prompt."""
    try:
        yield
    except PromptCancelled as exc:
        print(f"jp_nb: {one_line(str(exc))}")


def suggest_name(word: str, known: Iterable[str], subcommand: str = "") -> str:
    """Return a question with the name in `known` that is closest to `word`, or ""."""
    near = difflib.get_close_matches(word, known, n=1)
    if not near:
        return ""

    command = " ".join(filter(None, ("%jp", subcommand, *near)))
    return f"Did you mean `{command}`? "
