"""The message `hello`, in which a page says its state and its record.

A page sends `hello` when it opens, when its path changes, as the answer to `pull`, and if a write
does not fit its content. `hello_reader.py` reads it, and waits for a record that follows in pieces.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue

from jp_nb.exact_form import MAX_USER_NAME_CHARS, spell_invisible
from jp_nb.json_values import as_object
from jp_nb.notebook.page.page_copy import PageCopy
from jp_nb.notebook.page.protocol import PREVIOUS_PROTOCOL, PROTOCOL
from jp_nb.notebook.page.stored_keys import StoredKeys, read_stored_record
from jp_nb.record.documents.record_shape import RECORD_KEY


@dataclass(frozen=True, slots=True)
class Hello:
    """State of a page: its message `hello`. Several pages may show the same notebook.

    Attributes:
        page: The id of the page, which it chooses when it opens.
        path: The server's path of the notebook.
        read_only: True if the page cannot write the notebook.
        collaborative: True if the page may share its document with pages of other users.
        has_document: True if the notebook's metadata has the key `jp` or a carrier.
        document: The record, merged with its carriers, not validated.
        state: The page's name for the content of its keys.
        keys: The keys of the metadata that keep the record, without their entries.
        supports_cells: True if the page can send its cells.
        supports_input: True if it answers the question about an input box.
        supports_ended: True if it can show the end of a turn below its cell.
        supports_printed: True if it can show the text that user code has printed (`show`).
        supports_edits: True if it can edit cells.
        supports_runs: True if it can show a cell that runs inside of a turn, and store its outputs.
        session: Jupyter session in the header of all messages of the page (`client`). "" if a page
            of an earlier version does not say it.
        shared_session: The same session if the page shares its document, else "" (`session`).
        user: Name of the page's user if the document is shared, cleaned by `read_user_name`.
        protocol: The version of the protocol that the page uses, `v` of the message.
    """

    page: str
    path: str
    read_only: bool = False
    collaborative: bool = False
    has_document: bool = False
    document: JsonValue = None
    state: str = ""
    keys: StoredKeys = field(default_factory=StoredKeys)
    supports_cells: bool = False
    supports_input: bool = False
    supports_ended: bool = False
    supports_printed: bool = False
    supports_edits: bool = False
    supports_runs: bool = False
    session: str = ""
    shared_session: str = ""
    user: str | None = None
    protocol: JsonValue = PROTOCOL

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Hello:
        """Parse `data`. A document that follows in pieces is added later."""
        supported = data.get("tells")  # the names of messages that the page understands
        if not isinstance(supported, list):
            supported = []

        return cls(
            page=str(data.get("page", "")),
            path=str(data.get("path", "")),
            read_only=bool(data.get("readOnly")),
            collaborative=bool(data.get("collaborative")),
            state=str(data.get("state", "")),
            supports_cells="cells" in supported,
            supports_input="input" in supported,
            supports_ended="ended" in supported,
            supports_printed="printed" in supported,
            supports_edits="edits" in supported,
            supports_runs="runs" in supported,
            session=str(data.get("client", "")),
            shared_session=str(data.get("session", "")),
            user=read_user_name(data.get("user")),
            protocol=data.get("v"),
        ).with_content(data)

    def with_content(self, content: Any) -> Hello:
        """Return a copy with the record in `content`: `keys` and `carriers`.

        `keys` are the keys of the notebook's metadata with the record, and `carriers` the states of
        widgets in which headless runs have kept it, by their ids. Both together are the record.

        A page of version 1 sends the record itself, as `doc`. It is read, and never written.
        """
        fields = as_object(content)
        if self.protocol == PREVIOUS_PROTOCOL:
            return replace(self, has_document="doc" in fields, document=fields.get("doc"))

        keys = as_object(fields.get("keys"))
        carriers = as_object(fields.get("carriers"))
        document = read_stored_record(keys, carriers)
        return replace(
            self,
            has_document=RECORD_KEY in keys or document is not None,
            document=document,
            keys=StoredKeys.read(keys, carriers),
        )

    def make_copy(self) -> PageCopy:
        """Return the content of the page, whose entries are not compared yet."""
        return PageCopy(self.state, self.keys)


def read_user_name(value: Any) -> str | None:
    """Return a user name from a page, bounded and escaped; None if it is empty."""
    text = ""
    if isinstance(value, str):
        text = value[: 4 * MAX_USER_NAME_CHARS].strip()

    return spell_invisible(text[:MAX_USER_NAME_CHARS])[: 2 * MAX_USER_NAME_CHARS] or None
