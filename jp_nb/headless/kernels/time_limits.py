"""Time limits of a headless run: for each cell, and for the whole run.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import dataclass
from math import isfinite
from typing import Literal


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits in seconds; None: no limit."""

    cell_s: float | None = None
    run_s: float | None = None


@dataclass(frozen=True, slots=True)
class Overrun:
    """A limit that was exceeded.

    Attributes:
        limit: The limit that was exceeded: that of each cell, or that of the run.
        seconds: Its length.
        tools: The names of the tools that ran at that time.
    """

    limit: Literal["cell", "run"]
    seconds: float
    tools: tuple[str, ...] = ()

    def __str__(self) -> str:
        tools = format_running_tools(self.tools)
        if self.limit == "cell":
            return f"the cell did not end within {self.seconds:g} s, the limit of each cell{tools}"
        return f"the run did not end within {self.seconds:g} s, the limit of the run{tools}"


def format_running_tools(tools: Collection[str]) -> str:
    """Return the end of a sentence with the names of running tools; "" without any."""
    # Here, because it loads pydantic, which `jp-nb --help` does not need.
    from jp_nb.text import MAX_ITEMS_IN_LINE, one_line

    if not tools:
        return ""

    names = [one_line(name, limit=80) for name in tools]
    shown = ", ".join(names[:MAX_ITEMS_IN_LINE])
    if len(names) > MAX_ITEMS_IN_LINE:
        shown += f" and {len(names) - MAX_ITEMS_IN_LINE} more"

    noun = "tool" if len(names) == 1 else "tools"
    return f"; running {noun}: {shown}"


def read_seconds(text: str) -> float:
    """Return the limit that an option gives, in seconds.

    Raises:
        argparse.ArgumentTypeError: It is not a number above 0.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not isfinite(seconds) or seconds <= 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {text!a}")
    return seconds
