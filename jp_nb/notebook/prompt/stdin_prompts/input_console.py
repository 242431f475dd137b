"""Write and read lines: in the input box of a front end, or in the terminal of IPython.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from typing import Protocol


class Console(Protocol):
    """Port for writing and reading lines."""

    def write(self, text: str) -> None:
        """Show `text` and a line break."""

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return one line typed after `prompt`, without echo if it is `secret`.

        Raises:
            EOFError: The user ended the input.
        """


class InputConsole:
    """The input box of the front end of `kernel`; without a kernel, the terminal of IPython."""

    def __init__(self, kernel: object | None) -> None:
        self._kernel = kernel

    def write(self, text: str) -> None:
        """Print `text`."""
        print(text, flush=True)

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the line typed, without echo if it is `secret`."""
        if self._kernel is not None:
            method = "getpass" if secret else "raw_input"
            return str(getattr(self._kernel, method)(prompt))

        try:
            return getpass.getpass(prompt) if secret else input(prompt)
        except KeyboardInterrupt:
            # Otherwise the text typed before the interrupt would start the next answer.
            with suppress(ImportError):  # Windows discards the text
                import termios

                with suppress(OSError, ValueError, termios.error):  # stdin is no terminal
                    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

            raise
