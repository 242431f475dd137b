"""Runs what the magics are asked for, by the table of subcommands.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import difflib
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from jp_nb.config.directives import tool_choice
from jp_nb.errors import PromptCancelled, UsageError
from jp_nb.notebook.options import read_ask_options, read_words, refusal
from jp_nb.notebook.subcommands import SUBCOMMANDS, Subcommand, subcommand_groups
from jp_nb.rendering import report
from jp_nb.safe_text import one_line, plain
from jp_nb.session.session import Session

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
        print(f"jp_nb: {plain(self.session.summary())}")


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
    before = session.last
    try:  # a turn that failed has a result, too
        with unless_cancelled():
            session.run_turn(
                cell,
                model=options.model,
                directives=options.directives,
                new=options.new,
                schema=options.schema,
                tool_choice=tool_choice(*options.tool_uses),
                strict=options.strict,
                compact=options.compact,
            )
    finally:
        turn = session.last
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
