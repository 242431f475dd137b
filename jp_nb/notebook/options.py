"""Options of magics, read as a shell's, with errors that a notebook can show."""

from __future__ import annotations

import argparse
from typing import NoReturn

from jp_nb.errors import UsageError


class OptionParser(argparse.ArgumentParser):
    """An argument parser that raises instead of ending the process; `usage` is what to say."""

    def __init__(self, usage: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._how = usage

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with the message and how it is done."""
        raise UsageError(f"{message}. Usage: {self._how}")
