"""What options say about the configuration, in the order they were written.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jp_nb.errors import UsageError

Kind = Literal["cfg", "no_cfg", "unset", "tool", "no_tool", "attach"]


@dataclass(frozen=True, slots=True)
class Directive:
    """One change that somebody asks for.

    Attributes:
        kind: `cfg` (`-c`), `no_cfg` (`-C`), `unset`, `tool` (`-t`), `no_tool` (`-T`) or `attach`
            (`-a`).
        text: An assignment, a JSON object, or the name of a configuration file; for `unset` a
            path; for tools a name, or "" for all; what to attach.
    """

    kind: Kind
    text: str


class Collect(argparse.Action):
    """Keeps options of several kinds in one list, so that their order is not lost."""

    def __init__(self, *args: Any, kind: Kind, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._kind = kind

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Add what one option says.

        Raises:
            UsageError: If it names a tool, and the name is empty.
        """
        if self._kind in ("tool", "no_tool") and values is not None and not str(values).strip():
            raise UsageError(f"{option_string} takes the name of a tool, or nothing for all tools")
        before = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*before, Directive(self._kind, str(values or ""))])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take `-c` and `-C`; they come as `directives`, left to right."""
    for flags, kind in ((("-c", "--cfg"), "cfg"), (("-C", "--no-cfg"), "no_cfg")):
        parser.add_argument(
            *flags, dest="directives", metavar="X", action=Collect, kind=kind, default=[]
        )


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take `-t [NAME]` and `-T [NAME]`, in one order with `-c` and `-C` (D20)."""
    for flags, kind in ((("-t", "--tool"), "tool"), (("-T", "--no-tool"), "no_tool")):
        parser.add_argument(
            *flags, dest="directives", metavar="NAME", nargs="?", action=Collect, kind=kind
        )


def add_attachment_option(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take `-a FILE`, in one order with the others."""
    parser.add_argument(
        "-a", "--attachment", dest="directives", metavar="FILE", action=Collect, kind="attach"
    )


def add_tool_choice(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take `-u [NAME]` and `-U`; they come as `tool_uses`, for `tool_choice`."""
    parser.add_argument(
        "-u", "--tool-use", dest="tool_uses", metavar="NAME", nargs="?", action="append",
        const=True, default=[],
    )  # fmt: skip
    parser.add_argument("-U", "--no-tool-use", dest="tool_uses", action="append_const", const=False)


def tool_choice(*uses: str | bool | None) -> str | None:
    """The `ToolChoice` that `uses` ask for; None: the configured one.

    Args:
        uses: The name of the tool that the model has to call first, True for any, False for none.

    Raises:
        UsageError: If they are more than one, or a name is empty.
    """
    match [use for use in uses if use is not None]:
        case []:
            return None
        case [True]:
            return "required"
        case [False]:
            return "none"
        case [str(name)] if name.strip():
            return f"tool:{name}"
        case [str()]:
            raise UsageError("-u takes the name of a tool, or nothing for any of them")
    raise UsageError("one request takes one of -u, -u NAME and -U: leave the others out")
