"""`jp-nb show`, `import` and `export`: the conversation in a notebook, without running it.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from jp_nb.errors import StorageError
from jp_nb.headless.files import existing_notebook
from jp_nb.headless.import_export import export_directory, import_directory
from jp_nb.headless.show import load_conversation
from jp_nb.interop.jp_directories import folder_at
from jp_nb.record.notices import notices
from jp_nb.record.turn_view import read_turn
from jp_nb.rendering.conversation_log import log
from jp_nb.safe_text import one_line

MAX_LINE = 5000
"""Characters of a line about a directory: names and paths may be anybody's."""


def show(options: argparse.Namespace) -> int:
    """Print the conversation; return 1 if something of it is damaged."""
    document = load_conversation(existing_notebook(options.notebook), tolerant=True)
    stream = document.conversation
    if options.json:
        # In ASCII: what a terminal would act on is escaped, and half a character has no bytes.
        print(json.dumps(document.to_json(), indent=2))
    elif not len(stream) and not document.others:
        raise StorageError(f"{options.notebook} contains no conversation")
    else:
        title = f" · {stream.title}" if stream.title else ""
        print(one_line(f"{stream.id}{title}"))
        turns = [
            read_turn(t.number, t.entries, status="", images=stream.images) for t in stream.turns()
        ]
        print(log(document, turns).text)
    sys.stdout.flush()
    for line in notices(stream):
        print(f"jp-nb: {one_line(line)}", file=sys.stderr)
    return 1 if stream.damage else 0


def import_conversation(options: argparse.Namespace) -> int:
    """Put a conversation of JP into a notebook."""
    for line in import_directory(folder_at(options.folder, Path()), options.notebook):
        print(one_line(line, limit=MAX_LINE))
    return 0


def export_conversation(options: argparse.Namespace) -> int:
    """Write the conversation as a directory of JP, and say what that form has no place for."""
    notebook, folder = existing_notebook(options.notebook), folder_at(options.folder, Path())
    dropped, others = export_directory(
        notebook, folder, options.dialect, conversation=options.conversation
    )
    for line in dropped:
        print(one_line(line, limit=MAX_LINE), file=sys.stderr)
    print(one_line(f"{folder} written", limit=MAX_LINE))
    for name in others:
        print(
            one_line(
                f"{folder / name} written: not a file of JP, imported with the conversation",
                limit=MAX_LINE,
            )
        )
    return 0
