"""A command line as a setting: a tool of the user, or a formatter of arguments.

When a configuration is read, `ShortTable` calls `expand` for a value that is not a table.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from jp_nb.config.tree.base import ShortTable
from jp_nb.config.tree.merge_rules import APPEND_MERGE
from jp_nb.config.tree.value_checks import Flag, not_blank
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error


class Command(ShortTable):
    """A program and its arguments. A plain text is split as in a shell."""

    program: Annotated[str, not_blank("a program")]
    """The program."""
    args: Annotated[list[str], APPEND_MERGE] = Field(default_factory=list)
    """Its arguments."""
    shell: Flag = False
    """`true` to run the command in a shell."""

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Return the table of a command line: `a b` is the program `a` with the argument `b`."""
        if not isinstance(value, str):
            raise UnexpectedValueError(
                "a command line, or a table of program, args, and shell", value
            )
        import shlex  # most configurations have no command line

        try:
            words = shlex.split(value)
        except ValueError as exc:
            raise ValueError(
                f"invalid shell quoting in command string: {shorten_for_error(value)}"
            ) from exc

        if not words:
            raise ValueError("expected a command line, found nothing")
        program, *args = words
        return {"program": program, "args": args, "shell": False}
