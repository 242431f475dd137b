"""`jp-nb trust`: lets what the files of a folder configure count.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import sys

from jp_nb.errors import UsageError
from jp_nb.rendering.pending_table import PENDING_HEAD, pending_rows
from jp_nb.rendering.report import table
from jp_nb.safe_text import one_line
from jp_nb.workspace import folder_trust
from jp_nb.workspace.config_files import ConfigFiles

MAX_LINE = 5000
"""Characters of a line about a folder: names and paths may be anybody's."""


def trust(options: argparse.Namespace) -> int:
    """List what would count, ask, and have it count; or take that back."""
    if options.revoke:
        for line in folder_trust.revoked(options.folder.resolve()):
            print(one_line(line, limit=MAX_LINE))
        return 0
    if not options.folder.is_dir():
        raise UsageError(f"there is no folder {options.folder}")
    files = ConfigFiles(options.folder.resolve(), folder_trust.FolderTrust())
    pending = files.pending()
    for line in files.take_notices() if not pending else ():
        print(one_line(line, limit=MAX_LINE))
    if not pending:
        print(files.why_nothing_waits())
        return 0
    print(table(PENDING_HEAD, pending_rows(pending), limit=sys.maxsize).text)
    if not options.yes and not _agrees():
        print("nothing changed", file=sys.stderr)
        return 1
    files.agree(pending)
    print("these files are trusted now, until their content changes")
    return 0


def _agrees() -> bool:
    """Ask the person at the terminal; return True if they agree.

    Raises:
        UsageError: If nobody is at it.
    """
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask in: `--yes` trusts the listed settings")
    try:
        answer = input("Trust these settings? They may run code and reach hosts. [y/N] ")
    except (EOFError, KeyboardInterrupt):
        return False
    return answer.strip().lower() in ("y", "yes")
