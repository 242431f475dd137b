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
        print(f"jp_nb: this conversation {'is no longer' if had else 'was not'} trusted")
        return
    if session.active.trust.trusted:
        print("jp_nb: this conversation is trusted already")
        return
    ignored = session.settings.if_trusted()
    if unseen := next((path for path in ignored if path.startswith(NOT_FOLLOWED)), None):
        raise UsageError(
            f"this conversation asks for {unseen[1:-1]}: what is not followed cannot be shown, "
            "nor agreed to. `%jp new` begins a conversation of your own"
        )
    rows = [
        (
            spell_unseen(path),
            escape_unseen(path if path.startswith("(") else shown_value(path, value)),
        )
        for path, value in sorted(ignored.items())
    ]
    if rows and not options.yes and not _may_count(call, ("path", "value"), rows):
        raise PromptCancelled("this conversation stays untrusted", end="declined")
    session.active.accept()
    print("jp_nb: what this conversation configures counts from here on; it is signed")
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
    if not call.options.yes and not _may_count(call, PENDING_HEAD, rows):
        raise PromptCancelled("the files of this folder stay as they are", end="declined")
    call.session.active.agree(pending)
    print("jp_nb: what these files set counts from here on, until their content changes")


def _may_count(call: Invocation, head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Show what would count, and ask."""
    call.show(table(head, rows, limit=sys.maxsize))  # nothing unseen
    question = Question.boolean(
        "trust", "Does what is listed above count from here on? It may run code, reach hosts."
    )
    return call.session.turns.ask_person(question, label="Trust", tool=None) is True
