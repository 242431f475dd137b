"""Run `%jp`: find the action of a subcommand, and give it the parsed line.

`ask_commands.py` has `%%jp`, and the subcommands that ask the model. The other modules have one or
a few subcommands each.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import difflib
import keyword
import unicodedata
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from jp_nb.errors import PromptCancelled, UsageError
from jp_nb.notebook.commands.line_parser import make_usage_error, parse_subcommand
from jp_nb.notebook.magic_help import list_groups
from jp_nb.notebook.magic_options import Subcommand
from jp_nb.notebook.subcommands import SUBCOMMANDS
from jp_nb.rendering import report
from jp_nb.session.session import Session
from jp_nb.text import MAX_DIGITS, one_line


@dataclass(frozen=True, slots=True)
class Invocation:
    """A parsed `%jp` line, with its session and shell.

    Attributes:
        shell: The IPython shell.
        session: The session of this kernel.
        subcommand: The entry of the table in `subcommands.py`.
        text: The line after the subcommand's name.
        options: The values of the options by name (`MagicOption.name`), and the other words as
            `words`.
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


def read_variable_name(text: str | None) -> str | None:
    """Return the value of `-o` as the name of a variable; None without the option.

    Raises:
        UsageError: Python code cannot name a variable so.
    """
    if text is None:
        return None

    # Python normalizes the names in code: it reads the micro sign as the Greek letter mu.
    name = unicodedata.normalize("NFKC", text)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(NOT_A_NAME.format(text))
    return name


def run_subcommand(shell: Any, session: Session, name: str, text: str = "") -> None:
    """Run the subcommand `name` with the rest of the line.

    Without a name, list all subcommands. `%jp config?` shows the help of `config`.

    Raises:
        UsageError: There is no such subcommand, or the line is wrong.
    """
    name_of_help = name.rstrip("?")
    asks_for_help = name_of_help != name and not text
    if not name_of_help:
        _show_all_subcommands(shell)
    elif asks_for_help and name_of_help in SUBCOMMANDS:
        table = report.make_table(COMMANDS_HEAD, SUBCOMMANDS[name_of_help].rows)
        display(shell, report.join_reports([table, _TO_ASK]))
    elif name in SUBCOMMANDS:
        subcommand = SUBCOMMANDS[name]
        options = parse_subcommand(subcommand, text)
        load_action(subcommand)(Invocation(shell, session, subcommand, text, options))
    else:
        raise _make_unknown_name_error(name, text)


def _show_all_subcommands(shell: Any) -> None:
    groups = []
    for title, rows in list_groups():
        table = report.make_table(COMMANDS_HEAD, rows)
        groups.append(report.join_reports([report.make_heading(title), table]))

    display(shell, report.join_reports([*groups, _TO_ASK], between="\n\n"))


def _make_unknown_name_error(name: str, text: str) -> UsageError:
    """Return the error for an unknown subcommand, which may be the first word of a request."""
    hint = suggest_name(name, SUBCOMMANDS)
    request = one_line(f"{name} {text}".strip(), limit=200) if text else "REQUEST"
    return UsageError(
        f"There is no subcommand `%jp {one_line(name, limit=60)}`. {hint}To ask the model, "
        f"write the request below `%%jp`, or `%jp q {request}`. `%jp` lists the subcommands."
    )


def display(shell: Any, content: report.Report) -> None:
    """Display `content` in the running cell."""
    bundle = {"text/markdown": content.markdown, "text/plain": content.text}
    shell.display_pub.publish(data=bundle, metadata={})


def load_action(subcommand: Subcommand) -> CommandAction:
    """Import the module of the subcommand's action, such as `commands.mcp:run_mcp`; return it."""
    module, _, function = subcommand.action.partition(":")
    action: CommandAction = getattr(import_module(f"jp_nb.notebook.{module}"), function)
    return action


@contextmanager
def report_cancellation() -> Iterator[None]:
    """Print one line instead of an error if the user cancels a prompt."""
    try:
        yield
    except PromptCancelled as exc:
        print(f"jp_nb: {one_line(str(exc))}")


def suggest_name(word: str, known: Iterable[str], subcommand: str = "") -> str:
    """Return a question such as "Did you mean `%jp log`? ", or "" if no name is similar.

    It has the name in `known` that is closest to `word`, after `subcommand` if there is one.
    """
    near = difflib.get_close_matches(word, known, n=1)
    if not near:
        return ""

    command = " ".join(filter(None, ("%jp", subcommand, *near)))
    return f"Did you mean `{command}`? "
