"""Run `%jp trust`: trust the settings of a record, or the configuration files of a folder.

Source: `docs/record.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.errors import PromptCancelled, UsageError
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.notebook.commands import Invocation
from jp_nb.record.changes.stored_changes import NOT_FOLLOWED, is_note
from jp_nb.rendering.prompt_texts.consent_text import (
    PENDING_HEAD,
    format_consent_value,
    list_pending_rows,
)
from jp_nb.rendering.report import make_table
from jp_nb.storage import trust as trust_module
from jp_nb.text import MAX_PATH_LINE_CHARS, one_line
from jp_nb.toolkit.question import Question


def run_trust_command(call: Invocation) -> None:
    """Run `%jp trust`: trust the record or the files of its folder, or withdraw the trust."""
    call.session.active.refuse_while_running()
    if call.options.workspace:
        _trust_workspace(call)
    elif call.options.revoke:
        _revoke_record(call)
    else:
        _trust_record(call)


def _revoke_record(call: Invocation) -> None:
    was_trusted = call.session.active.revoke()
    state = "is no longer" if was_trusted else "was not"
    print(f"jp_nb: This conversation {state} trusted")


def _trust_record(call: Invocation) -> None:
    """Show the settings of the record that are ignored so far, and ask the user to trust them."""
    session = call.session
    if session.active.trust.trusted:
        print("jp_nb: This conversation is already trusted")
        return

    # Values by paths. A key in parentheses is no path but a note, such as NOT_FOLLOWED: the record
    # has more changes than are read.
    ignored = session.settings.list_changes_if_trusted()
    unread_note = next((path for path in ignored if path.startswith(NOT_FOLLOWED)), None)
    if unread_note is not None:
        reason = unread_note.removeprefix("(").removesuffix(")")
        raise UsageError(
            "This conversation cannot be trusted: not all of its settings can be shown to you "
            f"({reason}). `%jp new` starts a new conversation."
        )

    rows = _list_setting_rows(ignored)
    if rows and not call.options.yes and not _ask_for_trust(call, ("path", "value"), rows):
        raise PromptCancelled("This conversation remains untrusted", end="declined")

    session.active.accept()
    print("jp_nb: This conversation and its settings are trusted, and signed with your key")

    # Only a trusted conversation imports the question table of earlier versions.
    for line in session.active.questions.migrate_table():
        print(f"jp_nb: {one_line(line, limit=MAX_PATH_LINE_CHARS)}")


def _list_setting_rows(ignored: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """Return the settings that a record would set if it were trusted: path and value."""
    rows = []
    for path, value in sorted(ignored.items()):
        shown = escape_invisible(path) if is_note(path) else format_consent_value(path, value)
        rows.append((spell_invisible(path), shown))

    return rows


def _list_moved_rows(call: Invocation) -> list[tuple[str, str, str]]:
    """Return the rows about a moved folder: settings of this notebook, and all conversations."""
    settings = _list_setting_rows(call.session.settings.list_changes_if_trusted())
    folder = spell_invisible(str(call.session.active.signed_here.folder))
    everything = ("(all conversations)", "those that you signed, from any folder", folder)
    return [*((path, value, "(this notebook)") for path, value in settings), everything]


def _trust_workspace(call: Invocation) -> None:
    """Run `%jp trust --workspace`: ask about its files, and about a folder that was moved.

    A signature that was made in another folder does not count here if the conversation has settings
    with authority, because a copy may be anywhere. After the consent, all signatures of the user
    count in this workspace.
    """
    files = call.session.files
    if call.options.revoke:
        for line in trust_module.revoke_consent(files.folder):
            print(f"jp_nb: {one_line(line, limit=MAX_PATH_LINE_CHARS)}")
        return

    pending = call.session.list_pending_consents()
    is_moved = call.session.active.trust.is_moved
    if not pending and not is_moved:
        print(
            f"jp_nb: {one_line(files.consents.explain_none_pending(), limit=MAX_PATH_LINE_CHARS)}"
        )
        return

    rows = list_pending_rows(pending)
    if is_moved:
        rows += _list_moved_rows(call)

    with files.notices.discard():  # no notices about ignored files: the user is about to decide
        agrees = call.options.yes or _ask_for_trust(call, PENDING_HEAD, rows)

    if not agrees:
        raise PromptCancelled("The files of this folder remain untrusted", end="declined")

    if is_moved:
        call.session.active.accept_moved()
        print("jp_nb: All conversations of this workspace that you signed are trusted here")

    if pending:
        call.session.active.consent(pending)
        print("jp_nb: These files and their settings are trusted until their content changes")


def _ask_for_trust(call: Invocation, head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Show a table of settings, and return True if the user trusts them."""
    call.show(make_table(head, rows, limit=sys.maxsize))  # the user must see everything
    text = "Trust the settings above? They can run code and send data to other hosts."
    questions = [Question.boolean("trust", text)]
    answers = call.session.turns.cell_questions.ask(questions, label="Trust", tool=None)
    return answers["trust"] is True
