"""Subcommands of `%jp` that start, fork, undo, switch, or drop conversations.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.notebook.commands import Invocation
from jp_nb.record.documents.conversation_info import ConversationInfo, make_title
from jp_nb.record.documents.conversation_list import list_conversations
from jp_nb.record.entries.events import ChatRequest, read_words
from jp_nb.record.entries.turn_numbers import to_stored_turn
from jp_nb.rendering.transcripts.conversation_table import render_conversations
from jp_nb.rendering.transcripts.edit_text import count_applied_edits
from jp_nb.text import one_line, plain, pluralize

TAKE_EDITS_BACK = (
    "Take them back with Edit > Undo Cell Operation, or `Z` in command mode; or go back to that "
    "turn, and run `%jp revert`"
)


def start_conversation(call: Invocation) -> None:
    """Run `%jp new`: start a conversation."""
    previous = get_active(call)
    call.session.conversations.new(keep_config=call.options.keep_config)
    print_change(call, f"Left {describe_conversation(previous)}", previous)


def fork_at_turn(call: Invocation) -> None:
    """Run `%jp fork`: continue in a copy that ends with a turn."""
    previous = get_active(call)
    number = call.number(at_least=1)
    if number is None:  # after the last turn
        call.session.conversations.fork(None)
    else:
        call.session.conversations.fork(to_stored_turn(number))

    last = number or previous.turns
    done = f"Forked after turn {last}" if previous.turns else "Forked"
    print_change(call, done, previous)


def undo_turn(call: Invocation) -> None:
    """Run `%jp undo`: continue without the last turn."""
    previous = get_active(call)
    last = call.session.document.conversation.last_turn()
    entries = last.entries if last else ()
    requests = (read_words(entry) for entry in entries if isinstance(entry, ChatRequest))
    request = next(requests, "")
    edit_count = count_applied_edits(entries)
    call.session.conversations.undo()
    done = f"Undid turn {previous.turns}"
    if title := _quote(make_title(request)):
        done += f", {title}"

    print_change(call, done, previous)
    if edit_count:
        edits = f"{edit_count} {pluralize('edit', edit_count)} of cells"
        print(f"jp_nb: The notebook keeps {edits} of this turn. {TAKE_EDITS_BACK}")


def switch_to_conversation(call: Invocation) -> None:
    """Run `%jp switch`: activate another conversation, or list all."""
    if call.word is None:
        call.show(render_conversations(call.session.document, with_active=True))
        return

    previous = get_active(call)
    if call.session.conversations.switch(call.word):
        print_change(call, f"Switched from {describe_conversation(previous)}", previous)
    else:
        print(f"jp_nb: Already active: {describe_conversation(previous)}")


def drop_stored_conversation(call: Invocation) -> None:
    """Run `%jp drop`: delete a conversation."""
    dropped = call.session.conversations.drop(call.options.words[0])
    print(
        f"jp_nb: Dropped {describe_conversation(dropped)} from this notebook. This cannot be undone"
    )
    _print_active(call)


def print_change(call: Invocation, done: str, previous: ConversationInfo) -> None:
    """Print the change, how to return to the `previous` conversation, and the active one."""
    hint = f". Go back: `%jp switch {previous.id}`"
    if previous.id not in call.session.document.ids():
        hint = ""  # empty conversations are not kept
    elif call.session.active.headless:
        # Ids are random, and the output of a headless run should be the same in each run.
        hint = ". Go back: `%jp switch` lists the conversations"

    print(f"jp_nb: {done}{hint}")
    _print_active(call)


def _print_active(call: Invocation) -> None:
    words = plain(call.session.format_status())
    if title := _quote(get_active(call).title):
        words = f"{title} · {words}"

    print(f"jp_nb: Active: {words}")


def get_active(call: Invocation) -> ConversationInfo:
    """Return the active conversation as the list of conversations has it."""
    return list_conversations(call.session.document)[0]  # the active one is the first


def describe_conversation(listed: ConversationInfo) -> str:
    """Return the quoted title of a conversation, with the number of its turns."""
    if listed.damaged:
        return f"the damaged conversation {one_line(listed.id, limit=80)}"
    if not listed.turns:
        return "an empty conversation"
    title = _quote(listed.title) or "a conversation"
    return f"{title} ({format_turn_count(listed.turns)})"


def format_turn_count(count: int) -> str:
    """Return the number of turns with its noun."""
    return "1 turn" if count == 1 else f"{count} turns"


def _quote(title: str | None) -> str:
    return f"“{one_line(title, limit=80)}”" if title else ""
