"""The reasons for which nothing may be written into a notebook that a page shows.

Source: `docs/protocol.md`, `docs/decisions.md` D33.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.notebook.document.wire import PROTOCOL, Hello
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.jp_object import conversation_id, shape_of
from jp_nb.record.timestamps import utc_now

NO_PAGE = "no page answered (in JupyterLab or Notebook, enable the jp-nb extension)"
NO_OPEN_PAGE = "no page is open that shows this notebook"
READ_ONLY = "this notebook is read-only"
OTHER_PROTOCOL = "the page uses another protocol: reload it, or update jp_nb"
DIVERGED = (
    "this notebook contains different entries of the same conversation: "
    "`%reload_ext jp_nb` continues with them"
)


@dataclass(frozen=True, slots=True)
class PageRefusal:
    """A reason to write nothing. `aside` is what the page holds and must keep.

    With `conversation` the refusal ends when another conversation becomes the active one.
    """

    reason: str
    conversation: str | None = None
    aside: JsonValue = None


def refusal_of(hello: Hello, document: Document) -> PageRefusal | None:
    """Return why `document` may not be written to the page that says `hello`; None if it may."""
    if hello.protocol != PROTOCOL:
        return PageRefusal(OTHER_PROTOCOL)
    if hello.read_only:
        return PageRefusal(READ_ONLY)
    stored = hello.document
    if not hello.has_document or stored in document.others:
        return None
    if shape_of(stored) == "readable" and conversation_id(stored) == document.conversation.id:
        return None  # it was read once
    try:
        Document.load(stored, clock=utc_now)
    except NewerVersionError as exc:
        return PageRefusal(str(exc))
    except StorageError as exc:
        reason = f"the record in this notebook is damaged ({exc}); `%jp new` keeps it aside"
        return PageRefusal(reason, document.conversation.id, stored)
    return None
