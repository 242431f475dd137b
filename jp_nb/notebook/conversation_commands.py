"""`%jp new`, `fork`, `undo`, `switch`, `drop`, `save`, `export`, `import`: conversations.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from jp_nb.errors import StorageError
from jp_nb.interop.jp_directories import folder_at, load_directory, save_directory
from jp_nb.interop.jp_files import Dialect
from jp_nb.notebook.commands import Invocation
from jp_nb.record.conversations import Listed, first_words, listing
from jp_nb.record.document import Document
from jp_nb.record.events import ChatRequest
from jp_nb.record.timestamps import utc_now
from jp_nb.rendering.conversation_log import conversations_table
from jp_nb.safe_text import one_line, plain


def new(call: Invocation) -> None:
    """Begin a conversation."""
    left = _active(call)
    call.session.conversations.new(keep_config=call.options.keep_config)
    _report(call, f"Left {_name(left)}", left)


def fork(call: Invocation) -> None:
    """Continue from a turn in another conversation."""
    left, number = _active(call), call.number()
    call.session.conversations.fork(number)
    kept = left.turns - 1 if number is None else number
    _report(call, f"Forked after turn {kept}" if left.turns else "Forked", left)


def undo(call: Invocation) -> None:
    """Continue without the last turn."""
    left = _active(call)
    last = call.session.document.conversation.last_turn()
    asked = (each.content for each in last.entries if isinstance(each, ChatRequest)) if last else ()
    call.session.conversations.undo()
    title = _quoted(first_words(next(iter(asked), "")))
    _report(call, f"Undid turn {left.turns - 1}{title and f', {title}'}", left)


def switch(call: Invocation) -> None:
    """Go to another conversation, or list all."""
    if call.word is None:
        call.show(conversations_table(call.session.document, with_active=True))
        return
    left = _active(call)
    if call.session.conversations.switch(call.word):
        _report(call, f"Switched from {_name(left)}", left)
    else:
        print(f"jp_nb: Already active: {_name(left)}")


def drop(call: Invocation) -> None:
    """Take a conversation out of the notebook."""
    dropped = call.session.conversations.drop(call.options.words[0])
    print(f"jp_nb: Dropped {_name(dropped)} from this notebook. This cannot be undone")
    _say_active(call)


def _report(call: Invocation, done: str, left: Listed) -> None:
    """Print what was done, how to go back to the conversation `left`, and the active one."""
    print(f"jp_nb: {done}{_way_back(call, left)}")
    _say_active(call)


def _way_back(call: Invocation, left: Listed) -> str:
    if left.id not in call.session.document.ids():
        return ""  # it was empty
    if call.session.active.headless:  # the output is the same in each run
        return ". Go back: `%jp switch` lists the conversations"
    return f". Go back: `%jp switch {left.id}`"


def _say_active(call: Invocation) -> None:
    title = _quoted(_active(call).title)
    print(f"jp_nb: Active: {title and f'{title} · '}{plain(call.session.summary())}")


def _active(call: Invocation) -> Listed:
    return listing(call.session.document)[0]


def _name(listed: Listed) -> str:
    if listed.damaged:
        return f"the damaged conversation {one_line(listed.id, limit=80)}"
    if not listed.turns:
        return "an empty conversation"
    counted = f"({listed.turns} turn{'' if listed.turns == 1 else 's'})"
    return " ".join(filter(None, (_quoted(listed.title) or "a conversation", counted)))


def _quoted(title: str | None) -> str:
    return f"“{one_line(title, limit=80)}”" if title else ""


def save(call: Invocation) -> None:
    """Store the record now."""
    store, where = call.session.store, call.session.active.where
    if store.why_not_kept is not None:
        raise StorageError(
            f"The record cannot be saved here. It is {where}. `%jp export DIR` writes the "
            "conversation to a directory. `jp-nb import DIR NOTEBOOK` adds it to a notebook."
        )
    print(f"jp_nb: {plain(store.save())}")


def export_directory(call: Invocation) -> None:
    """Write the active conversation as a directory of JP."""
    session = call.session
    dialect: Dialect = call.options.dialect or "native"
    folder = folder_at(call.options.words[0], session.files.folder)
    saved = save_directory(session.document.to_json(), folder, dialect)
    for line in saved.dropped:
        print(f"jp_nb: Omitted: {one_line(line, limit=1000)}")
    for name in saved.others:
        print(f"jp_nb: Also written, unchanged from the import: {one_line(name)}")
    print(f"jp_nb: Written to {plain(str(folder))}")


def import_directory(call: Invocation) -> None:
    """Make a conversation of JP's the active one."""
    left, folder = _active(call), folder_at(call.options.words[0], call.session.files.folder)
    loaded = Document.load(load_directory(folder, clock=utc_now), clock=utc_now)
    call.session.conversations.adopt_imported(loaded)
    _report(call, f"Imported {_name(_active(call))}", left)
