"""Subcommands of `%jp` that start, change, save, or exchange conversations.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.errors import StorageError
from jp_nb.interop.directories import find_folder, load_directory
from jp_nb.interop.directory_saving import save_directory
from jp_nb.interop.directory_writer import Dialect
from jp_nb.notebook.commands import Invocation, report_cancellation
from jp_nb.record.documents.conversation_list import (
    ConversationInfo,
    list_conversations,
    make_title,
)
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.events import ChatRequest, read_words
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.entries.turn_numbers import to_stored_turn
from jp_nb.rendering.transcripts.conversation_table import render_conversations
from jp_nb.rendering.transcripts.edit_text import count_applied_edits
from jp_nb.session.past_turns.resume import TurnResumption
from jp_nb.text import one_line, plain, pluralize

TAKE_EDITS_BACK = (
    "Take them back with Edit > Undo Cell Operation, or `Z` in command mode; or go back to that "
    "turn, and run `%jp revert`"
)


def resume_turn(call: Invocation) -> None:
    """Run `%jp resume`: continue the last turn, or recover a conversation from a journal."""
    with report_cancellation():
        resumed = TurnResumption(call.session).run(call.word or "")
        if resumed is None:  # no turn was continued, but a conversation of the journal is active
            print(f"jp_nb: {plain(call.session.format_status())}")


def start_conversation(call: Invocation) -> None:
    """Run `%jp new`: start a conversation."""
    previous = _get_active(call)
    call.session.conversations.new(keep_config=call.options.keep_config)
    _print_change(call, f"Left {_describe(previous)}", previous)


def fork_at_turn(call: Invocation) -> None:
    """Run `%jp fork`: continue in a copy that ends with a turn."""
    previous = _get_active(call)
    number = call.number(at_least=1)
    if number is None:  # after the last turn
        call.session.conversations.fork(None)
    else:
        call.session.conversations.fork(to_stored_turn(number))

    last = number or previous.turns
    done = f"Forked after turn {last}" if previous.turns else "Forked"
    _print_change(call, done, previous)


def undo_turn(call: Invocation) -> None:
    """Run `%jp undo`: continue without the last turn."""
    previous = _get_active(call)
    last = call.session.document.conversation.last_turn()
    entries = last.entries if last else ()
    requests = (read_words(entry) for entry in entries if isinstance(entry, ChatRequest))
    request = next(requests, "")
    edit_count = count_applied_edits(entries)
    call.session.conversations.undo()
    done = f"Undid turn {previous.turns}"
    if title := _quote(make_title(request)):
        done += f", {title}"

    _print_change(call, done, previous)
    if edit_count:
        edits = f"{edit_count} {pluralize('edit', edit_count)} of cells"
        print(f"jp_nb: The notebook keeps {edits} of this turn. {TAKE_EDITS_BACK}")


def switch_to_conversation(call: Invocation) -> None:
    """Run `%jp switch`: activate another conversation, or list all."""
    if call.word is None:
        call.show(render_conversations(call.session.document, with_active=True))
        return

    previous = _get_active(call)
    if call.session.conversations.switch(call.word):
        _print_change(call, f"Switched from {_describe(previous)}", previous)
    else:
        print(f"jp_nb: Already active: {_describe(previous)}")


def drop_stored_conversation(call: Invocation) -> None:
    """Run `%jp drop`: delete a conversation."""
    dropped = call.session.conversations.drop(call.options.words[0])
    print(f"jp_nb: Dropped {_describe(dropped)} from this notebook. This cannot be undone")
    _print_active(call)


def _print_change(call: Invocation, done: str, previous: ConversationInfo) -> None:
    """Print the change, how to return to the `previous` conversation, and the active one."""
    hint = f". Go back: `%jp switch {previous.id}`"
    if previous.id not in call.session.document.ids():
        hint = ""  # empty conversations are not kept
    elif call.session.active.headless:  # the output is the same in each run
        hint = ". Go back: `%jp switch` lists the conversations"

    print(f"jp_nb: {done}{hint}")
    _print_active(call)


def _print_active(call: Invocation) -> None:
    words = plain(call.session.format_status())
    if title := _quote(_get_active(call).title):
        words = f"{title} · {words}"

    print(f"jp_nb: Active: {words}")


def _get_active(call: Invocation) -> ConversationInfo:
    return list_conversations(call.session.document)[0]  # the active one is the first


def _describe(listed: ConversationInfo) -> str:
    if listed.damaged:
        return f"the damaged conversation {one_line(listed.id, limit=80)}"
    if not listed.turns:
        return "an empty conversation"
    title = _quote(listed.title) or "a conversation"
    return f"{title} ({count_turns(listed.turns)})"


def count_turns(count: int) -> str:
    """Return the number of turns with its noun."""
    return "1 turn" if count == 1 else f"{count} turns"


def _quote(title: str | None) -> str:
    return f"“{one_line(title, limit=80)}”" if title else ""


def save_record(call: Invocation) -> None:
    """Run `%jp save`: save the record now."""
    store = call.session.store
    where = call.session.active.journal_use.location
    if store.unsaved_reason is not None:
        raise StorageError(
            f"The record cannot be saved here. It is {where}. `%jp export DIR` writes the "
            "conversation to a directory. `jp-nb import DIR NOTEBOOK` adds it to a notebook."
        )

    print(f"jp_nb: {plain(store.save())}")


def export_to_directory(call: Invocation) -> None:
    """Run `%jp export`: write the active conversation to a JP directory."""
    session = call.session
    dialect: Dialect = call.options.dialect or "native"
    folder = find_folder(call.options.words[0], session.files.folder)
    saved = save_directory(session.document.to_json(), folder, dialect)

    for line in saved.dropped:
        print(f"jp_nb: Omitted: {one_line(line, limit=1000)}")

    for name in saved.others:
        print(f"jp_nb: Also written, unchanged from the import: {one_line(name)}")

    print(f"jp_nb: Written to {plain(str(folder))}")


def import_from_directory(call: Invocation) -> None:
    """Run `%jp import`: continue with a conversation from a JP directory."""
    previous = _get_active(call)
    folder = find_folder(call.options.words[0], call.session.files.folder)
    loaded = Document.load(load_directory(folder, clock=utc_now), clock=utc_now)
    call.session.conversations.adopt_imported(loaded)
    _print_change(call, f"Imported {_describe(_get_active(call))}", previous)
