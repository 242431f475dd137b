"""`%jp new`, `fork`, `undo`, `switch`, `drop`, `save`, `export`, `import`: conversations.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from jp_nb.interop.jp_directories import folder_at, load_directory, save_directory
from jp_nb.interop.jp_files import Dialect
from jp_nb.notebook.commands import Invocation
from jp_nb.record.document import Document
from jp_nb.record.timestamps import utc_now
from jp_nb.safe_text import one_line, plain


def new(call: Invocation) -> None:
    """Begin a conversation."""
    call.session.conversations.new(keep_config=call.options.keep_config)
    call.say_summary()


def fork(call: Invocation) -> None:
    """Go on from a turn in a conversation of its own."""
    call.session.conversations.fork(call.number())
    call.say_summary()


def undo(call: Invocation) -> None:
    """Go on without the last turn."""
    call.session.conversations.undo()
    call.say_summary()


def switch(call: Invocation) -> None:
    """Go to another conversation."""
    if call.session.conversations.switch(call.options.words[0]):
        call.say_summary()
    else:
        print("jp_nb: that is the active conversation already")


def drop(call: Invocation) -> None:
    """Take a conversation out of the notebook."""
    dropped = call.session.conversations.drop(call.options.words[0])
    print(f"jp_nb: {one_line(dropped)} is no longer in this notebook")


def save(call: Invocation) -> None:
    """Store the record now."""
    print(f"jp_nb: {plain(call.session.store.save())}")


def export_directory(call: Invocation) -> None:
    """Write the active conversation as a directory of JP."""
    session = call.session
    dialect: Dialect = call.options.dialect or "native"
    folder = folder_at(call.options.words[0], session.files.folder)
    saved = save_directory(session.document.to_json(), folder, dialect)
    for line in saved.dropped:
        print(f"jp_nb: dropped: {one_line(line, limit=1000)}")
    for name in saved.others:
        print(f"jp_nb: also written, as it was imported: {one_line(name)}")
    print(f"jp_nb: written to {plain(str(folder))}")


def import_directory(call: Invocation) -> None:
    """Make a conversation of JP's the active one."""
    folder = folder_at(call.options.words[0], call.session.files.folder)
    loaded = Document.load(load_directory(folder, clock=utc_now), clock=utc_now)
    call.session.conversations.adopt_imported(loaded)
    call.say_summary()
