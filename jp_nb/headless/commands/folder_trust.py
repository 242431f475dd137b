"""Command `jp-nb trust`: consent to the configuration files of a folder, or revoke the consent.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import sys

from jp_nb.config.layers import merge_layers
from jp_nb.config.validation import validate_config
from jp_nb.errors import UsageError
from jp_nb.rendering.prompt_texts.consent_text import PENDING_HEAD, list_pending_rows
from jp_nb.rendering.report import make_table
from jp_nb.session.resolution.project_texts import look_at_project
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.configuration.project_files import ProjectFiles
from jp_nb.storage.trust import FolderTrust, revoke_consent
from jp_nb.text import MAX_PATH_LINE_CHARS, one_line


def trust_folder(options: argparse.Namespace) -> int:
    """List the settings of a folder, ask for consent, and trust them; or revoke the trust."""
    if options.revoke:
        for line in revoke_consent(options.folder.resolve()):
            print(one_line(line, limit=MAX_PATH_LINE_CHARS))
        return 0

    if not options.folder.is_dir():
        raise UsageError(f"there is no folder {options.folder}")

    files = ConfigFiles(options.folder.resolve(), FolderTrust())
    config = validate_config(merge_layers(files.load_layers()))
    # Files count as pending once they were read: the settings above, instructions and skills here.
    look_at_project(config, ProjectFiles(files))
    pending = files.list_pending()
    if not pending:
        for line in files.notices.take():
            print(one_line(line, limit=MAX_PATH_LINE_CHARS))
        print(files.consents.explain_none_pending())
        return 0

    print(make_table(PENDING_HEAD, list_pending_rows(pending), limit=sys.maxsize).text)
    if not options.yes and not _confirm():
        print("nothing changed", file=sys.stderr)
        return 1

    files.consents.store(pending)
    print("these files are trusted now, until their content changes")
    return 0


def _confirm() -> bool:
    """Ask the user on the terminal. Return True for a yes.

    Raises:
        UsageError: There is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("no terminal is available for the question: `--yes` trusts the settings")
    try:
        answer = input("Trust these settings? They may run code and reach hosts. [y/N] ")
    except (EOFError, KeyboardInterrupt):
        return False
    return answer.strip().lower() in ("y", "yes")
