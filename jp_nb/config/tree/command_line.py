"""A command line in the configuration: one text, or program and arguments.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from jp_nb.config.tree.node import Flag, ShortTable, found, shortened
from jp_nb.config.tree.strategy import APPEND


def _a_program(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a program, found nothing")
    return value


class Command(ShortTable):
    """A program and its arguments. A plain text is split as in a shell.

    Attributes:
        program: The program.
        args: Its arguments.
        shell: `true` to run the command in a shell.
    """

    program: Annotated[str, AfterValidator(_a_program)]
    args: Annotated[list[str], APPEND] = Field([])
    shell: Flag = False

    @classmethod
    def expand(cls, value: Any) -> Any:
        """`a b` is the program `a` with the argument `b`."""
        if value is None or isinstance(value, (dict, Command)):
            return value
        if not isinstance(value, str):
            raise ValueError(
                f"expected a command line, or a table of program, args and shell, {found(value)}"
            )
        import shlex

        try:
            words = shlex.split(value)
        except ValueError as exc:
            raise ValueError(
                f"invalid shell quoting in command string: {shortened(value)}"
            ) from exc
        if not words:
            raise ValueError("expected a command line, found nothing")
        program, *args = words
        return {"program": program, "args": args, "shell": False}
