"""Print the open decisions of a batch, and the result of answering them.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from jp_nb.batch.inboxes.inbox import Inbox
from jp_nb.batch.inboxes.inbox_text import format_inbox_heading, format_next_step
from jp_nb.text import plain


def print_inbox_result(inbox: Inbox) -> None:
    """Print how many decisions are answered, and the command that uses the answers."""
    step = format_next_step(inbox)
    lines = [format_inbox_heading(inbox)]
    if step:
        lines.append(step)
    print_inbox_lines(lines)


def print_inbox_lines(lines: Iterable[str]) -> None:
    """Print lines without their terminal escapes: their text may be from someone else."""
    for line in lines:
        print(plain(line))
    sys.stdout.flush()
