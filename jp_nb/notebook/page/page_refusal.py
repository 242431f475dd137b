"""Reasons to write nothing to a page.

A `PageRefusal` is found when a page says `hello`. While there is one, the record is kept in memory
only, and the user reads the reason. A page is refused if it is read-only, uses another protocol, or
shows a text file. It is also refused if its record is unreadable, or has other entries of the same
conversation.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.protocol import PREVIOUS_PROTOCOL, PROTOCOL
from jp_nb.record.documents.document import Document, NewerVersionError
from jp_nb.record.documents.record_shape import find_shape, get_conversation_id
from jp_nb.record.entries.timestamps import utc_now

READ_ONLY = "this notebook is read-only"
OLDER_PROTOCOL = (
    "the page uses an older protocol: reload it. If that does not help, update jp_nb in the "
    "environment of JupyterLab, and restart JupyterLab"
)
NEWER_PROTOCOL = (
    "the page uses a newer protocol: update jp_nb in the environment of the kernel, and restart "
    "the kernel"
)
TEXT_FILE = "{} is a text notebook, which does not store conversations. Pair it with an .ipynb file"
DIVERGED = (
    "this notebook contains different entries of the same conversation: "
    "`%reload_ext jp_nb` continues with them"
)


@dataclass(frozen=True, slots=True)
class PageRefusal:
    """A reason to write nothing to the page.

    Attributes:
        reason: The reason, in words for the user.
        conversation: The conversation of the kernel that must not replace the page's record. None
            if nothing may be written, whichever conversation is active.
        preserved: The page's record. When another conversation is active and is written, the
            document must contain this record unchanged.
    """

    reason: str
    conversation: str | None = None
    preserved: JsonValue = None

    def is_ended_by(self, conversation: str) -> bool:
        """Return True if `conversation` may be written, because it is another one."""
        return self.conversation is not None and self.conversation != conversation


def is_text_notebook(hello: Hello) -> bool:
    """Return True if the file of the page's notebook is text, and keeps no metadata (Jupytext).

    An `.ipynb` file of the same name is paired with it, and keeps them. Call it in the folder of
    the notebook.

    Source: https://jupytext.readthedocs.io/en/latest/formats-scripts.html
    """
    file = PurePosixPath(hello.path)
    if hello.has_document or file.suffix.lower() in ("", ".ipynb"):
        return False

    return not Path(f"{file.stem}.ipynb").is_file()


def find_refusal(hello: Hello, document: Document) -> PageRefusal | None:
    """Return the reason not to write `document` to the page that sent `hello`, if there is one.

    A readable record with another conversation is no reason: `RecordComparison` adds the
    conversations of that record to `document`, so that nothing is overwritten. It also compares the
    entries of the same conversation.
    """
    if hello.protocol != PROTOCOL:
        is_older = hello.protocol == PREVIOUS_PROTOCOL
        reason = OLDER_PROTOCOL if is_older else NEWER_PROTOCOL
        return PageRefusal(reason)
    if hello.read_only:
        return PageRefusal(READ_ONLY)
    if is_text_notebook(hello):
        return PageRefusal(TEXT_FILE.format(PurePosixPath(hello.path).name))

    stored = hello.document
    if not hello.has_document or stored in document.others:  # kept unchanged, even if damaged
        return None
    if find_shape(stored) == "readable" and get_conversation_id(stored) == document.conversation.id:
        return None

    try:
        Document.load(stored, clock=utc_now)  # only to find out if the record can be read
    except NewerVersionError as exc:
        return PageRefusal(str(exc))
    except StorageError as exc:
        reason = (
            f"the record in this notebook is damaged ({exc}); `%jp new` keeps it, and starts a new "
            "conversation"
        )
        return PageRefusal(reason, document.conversation.id, stored)

    return None
