"""Command `jp-nb show`: print the conversation in a notebook.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import json
import sys

from jp_nb.errors import StorageError
from jp_nb.headless.commands.stored_records import read_record
from jp_nb.headless.files import require_notebook
from jp_nb.record.documents.entry_notices import list_notices
from jp_nb.record.reading.turn_reader import read_turns
from jp_nb.record.reading.turn_timeline import find_shown_turn, read_timeline
from jp_nb.rendering.reports.timeline_report import render_timeline
from jp_nb.rendering.transcripts.log import render_log
from jp_nb.text import one_line
from jp_nb.toolkit.builtin.notebook import NOTEBOOK_TOOLS, TOOLSET


def show(options: argparse.Namespace) -> int:
    """Print the conversation, and return 1 if it is damaged.

    A damaged conversation is also shown: malformed entries are kept, listed as its `damage`, and
    named on stderr. `others` are the notebook's conversations that are not active.
    """
    document = read_record(require_notebook(options.notebook), tolerant=True)
    stream = document.conversation

    if options.json:
        # ASCII escapes control characters and unpaired surrogates.
        print(json.dumps(document.to_json(), indent=2))
    elif not len(stream) and not document.others:
        raise StorageError(f"{options.notebook} contains no conversation")
    elif options.timeline is not None:
        # -1 stands for `--timeline` without a number, which shows the last turn.
        number = None if options.timeline == -1 else options.timeline
        timeline = read_timeline(find_shown_turn(stream, number))
        print(render_timeline(timeline).text)
    else:
        title = f" · {stream.title}" if stream.title else ""
        print(one_line(f"{stream.id}{title}"))
        # The log names a switch of all tools of a set by the set. The only toolset that is known
        # without a kernel is the built-in one.
        toolsets = {TOOLSET: tuple(NOTEBOOK_TOOLS)}
        print(render_log(document, read_turns(stream), toolsets=toolsets).text)

    sys.stdout.flush()
    for line in list_notices(stream):
        print(f"jp-nb: {one_line(line)}", file=sys.stderr)
    return 1 if stream.damage else 0
