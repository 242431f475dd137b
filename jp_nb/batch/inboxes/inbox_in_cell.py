"""The inbox in a cell: `jp.inbox` asks about the open decisions of a batch.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os

from jp_nb.batch.inboxes.decision_dialogue import AskPrompt
from jp_nb.batch.inboxes.inbox import Inbox
from jp_nb.batch.inboxes.inbox_dialogue import InboxDialogue
from jp_nb.batch.inboxes.inbox_printing import print_inbox_lines, print_inbox_result
from jp_nb.batch.inboxes.inbox_text import format_inbox_heading, list_inbox_lines
from jp_nb.errors import PromptUnavailable


def ask_about_batch(folder: str | os.PathLike[str], ask: AskPrompt) -> None:
    """Ask about the batch in `folder` with `ask`, and print the result.

    Raises:
        PromptUnavailable: No user is available. The decisions are printed before.
    """
    inbox = Inbox(folder)
    if not inbox.groups:
        print_inbox_lines([format_inbox_heading(inbox)])
        return

    try:
        InboxDialogue(inbox, ask).run()
    except PromptUnavailable:
        print_inbox_lines(list_inbox_lines(inbox))
        raise
    except BaseException:  # an interrupt, or a full disk: earlier answers are in the file
        print_inbox_result(inbox)
        raise
    print_inbox_result(inbox)
