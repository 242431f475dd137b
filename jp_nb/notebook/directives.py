"""What options say about the configuration, in the order they were written.

Source: `design/interface.md` section 2, `spec/config.md` 6.5.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Directive:
    """One change that somebody asks for.

    Attributes:
        kind: `cfg` (`-c`), `no_cfg` (`-C`), or `unset`.
        text: An assignment, a JSON object, or the name of a configuration file; for `unset` a
            path.
    """

    kind: Literal["cfg", "no_cfg", "unset"]
    text: str


class Collect(argparse.Action):
    """Keeps options of several kinds in one list, so that their order is not lost."""

    def __init__(self, *args: Any, kind: Literal["cfg", "no_cfg", "unset"], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._kind = kind

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Add what one option says."""
        before = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*before, Directive(self._kind, str(values))])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take `-c` and `-C`; they come as `directives`, left to right."""
    for flags, kind in ((("-c", "--cfg"), "cfg"), (("-C", "--no-cfg"), "no_cfg")):
        parser.add_argument(
            *flags, dest="directives", metavar="X", action=Collect, kind=kind, default=[]
        )
