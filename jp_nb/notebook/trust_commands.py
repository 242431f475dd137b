"""`%jp trust`: lets what a record or the files of a folder configure count.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jp_nb.config.masking import shown_value
from jp_nb.errors import PromptCancelled, UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.record.projection import NOT_FOLLOWED
from jp_nb.rendering.pending_table import PENDING_HEAD, pending_rows
from jp_nb.rendering.report import table
from jp_nb.safe_text import escape_unseen, one_line, spell_unseen
from jp_nb.tooling.question import Question
from jp_nb.workspace import folder_trust

MAX_LINE = 5000
"""Characters of a line about folders: their names may be long."""


def trust(call: Invocation) -> None:
    """Have the person agree to what is listed, or take that back."""
    options, session = call.options, call.session
    if options.workspace:
        _trust_workspace(call)
        return
    if options.revoke:
        had = session.active.revoke()
        print(f"jp_nb: This conversation {'is no longer' if had else 'was not'} trusted")
        return
    if session.active.trust.trusted:
        print("jp_nb: This conversation is already trusted")
        return
    ignored = session.settings.if_trusted()
    if unseen := next((path for path in ignored if path.startswith(NOT_FOLLOWED)), None):
        raise UsageError(
            "This conversation cannot be trusted: not all of its settings can be shown to you "
            f"({unseen[1:-1]}). `%jp new` starts a new conversation."
        )
    rows = [
        (
            spell_unseen(path),
            escape_unseen(path if path.startswith("(") else shown_value(path, value)),
        )
        for path, value in sorted(ignored.items())
    ]
    if rows and not options.yes and not _may_count(call, ("path", "value"), rows):
        raise PromptCancelled("This conversation remains untrusted", end="declined")
    session.active.accept()
    print("jp_nb: This conversation and its settings are trusted, and signed with your key")
    for line in session.active.questions.migrated():
        print(f"jp_nb: {one_line(line, limit=MAX_LINE)}")


def _trust_workspace(call: Invocation) -> None:
    files = call.session.files
    if call.options.revoke:
        for line in folder_trust.revoked(files.folder):
            print(f"jp_nb: {one_line(line, limit=MAX_LINE)}")
        return
    pending = call.session.pending()
    if not pending:
        print(f"jp_nb: {one_line(files.why_nothing_waits(), limit=MAX_LINE)}")
        return
    rows = pending_rows(pending)
    with files.unsaid():  # that an answers file is ignored until the user agrees, which happens now
        agrees = call.options.yes or _may_count(call, PENDING_HEAD, rows)
    if not agrees:
        raise PromptCancelled("The files of this folder remain untrusted", end="declined")
    call.session.active.agree(pending)
    print("jp_nb: These files and their settings are trusted until their content changes")


def _may_count(call: Invocation, head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Show what would count, and ask."""
    call.show(table(head, rows, limit=sys.maxsize))  # nothing unseen
    question = Question.boolean(
        "trust", "Trust the settings above? They can run code and send data to other hosts."
    )
    return call.session.turns.ask_person(question, label="Trust", tool=None) is True
