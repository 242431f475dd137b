"""The process of a guard, which outlives the process that has started it."""

from __future__ import annotations

import subprocess


class GuardProcess(subprocess.Popen[bytes]):
    """A child process that still runs when this interpreter ends.

    `Popen` warns about such a process (`ResourceWarning`), because nothing waits for its end. The
    guard must notice the end of the interpreter, so nothing can wait for it.
    """

    def __del__(self) -> None:
        """Leave the process alone."""
