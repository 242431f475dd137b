"""What processes of commands got and printed, for whoever looks on.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from jp_nb.tooling.process import FinishedProcess


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """One process that ran to its end.

    Attributes:
        stdin: All that it was given: one line of JSON as a rule.
        stdout: What it printed.
        stderr: What it printed beside that.
        exit_code: Its status; below zero the number of the signal that ended it.
        formats: True if it only wrote the arguments of a call for the person.
    """

    stdin: str
    stdout: str
    stderr: str
    exit_code: int
    formats: bool = False


PROCESS_LOG: ContextVar[list[ProcessRun] | None] = ContextVar("jp_nb_process_log", default=None)
"""Takes the processes of commands, in the order of their ends; None: nobody looks."""


def log_process(stdin: bytes, done: FinishedProcess, *, formats: bool) -> None:
    """Keep what a process got and printed, if somebody looks."""
    seen = PROCESS_LOG.get()
    if seen is not None:
        text = stdin.decode(errors="replace")
        seen.append(ProcessRun(text, done.stdout, done.stderr, done.exit_code, formats))
