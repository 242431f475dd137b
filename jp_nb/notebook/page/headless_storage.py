"""The storage of a notebook that a runner executes: its record, and a conversation for the run.

Source: `docs/record.md`, `docs/decisions.md` D18 and D33.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.json_values import JsonObject, as_object
from jp_nb.notebook.page.carrier_store import CarrierStore
from jp_nb.notebook.page.pageless_stores import MemoryStore
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import Document, NewerVersionError
from jp_nb.record.documents.record_shape import (
    count_entries,
    get_conversation_id,
    is_headless_conversation,
    split_damaged,
)
from jp_nb.record.entries.clock import Clock, ReproducibleClock
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.session.host import OpenedConversation
from jp_nb.storage import environment

StoredBase = Mapping[str, JsonValue] | None
"""The base configuration of a new conversation, as it is stored."""


class HeadlessStorage:
    """A notebook that a runner executes; `path` is None if the runner does not say which.

    Implements `NotebookStorage` (`session/host.py`). The record is kept by a `CarrierStore`: it
    sends each entry to the runner in the state of a widget, as a message of a cell of `shell`.
    """

    headless = True

    def __init__(self, path: Path | None, shell: Any = None) -> None:
        self.path = path
        self.shell = shell

    def open(
        self, *, clock: Clock = utc_now, base_config: StoredBase = None, continues: bool = False
    ) -> OpenedConversation:
        """Start a conversation, or continue the notebook's if `continues` or JP_NB_CONTINUE=1.

        A damaged record is kept beside the new conversation. The record of a newer version of jp_nb
        must not be replaced: then the conversation is in memory only.
        """
        continues = continues or os.environ.get(environment.CONTINUE_VARIABLE) == "1"
        stored, damaged, notices = _read_record(self.path)
        loaded: Document | None = None
        refusal = ""  # the reason why the record of the notebook must not be replaced

        if stored is not None:
            try:
                loaded = Document.load(stored, clock=clock)
            except NewerVersionError as exc:
                refusal = str(exc)
            except StorageError as exc:
                notices.append(
                    f"The record is damaged ({exc}). It is kept, and a new conversation starts."
                )
                damaged += split_damaged(stored)

        if continues and self.path is None:
            notices.append("No conversation is continued: the runner does not name the notebook.")

        # An empty conversation gets the base configuration of this run instead.
        restored = loaded is not None and continues and len(loaded.conversation) > 0
        if loaded is not None and restored:
            document = loaded
        else:
            document = begin_headless(loaded, clock=clock, base_config=base_config)

        if refusal:
            return OpenedConversation(document, MemoryStore(refusal), restored, notices)

        document.others += damaged
        seen = count_entries(stored)  # by conversation; the store saves them beside the entries
        named = self.path is not None
        store = CarrierStore(document, seen=seen, named=named, shell=self.shell, clock=clock)
        return OpenedConversation(document, store, restored, notices)


def begin_headless(
    loaded: Document | None, *, clock: Clock = utc_now, base_config: StoredBase = None
) -> Document:
    """Return a document with a new headless conversation.

    It replaces earlier headless conversations of `loaded`. All others are kept (D18).
    """
    made: Made = "headless"
    if loaded is None:
        return Document.new(clock=clock, made=made, base_config=base_config)

    used_ids = loaded.ids()
    if loaded.conversation.properties.get("made") != made:
        loaded.archive_active()

    others = [other for other in loaded.others if not is_headless_conversation(other)]
    # With the clock of `--reproducible`, a repeated run reuses the id of the replaced conversation.
    if isinstance(clock, ReproducibleClock):
        used_ids = set(map(get_conversation_id, others))

    # `extra` has the other keys of the record. Its signature is for the replaced conversation.
    extra = {key: item for key, item in loaded.extra.items() if key != "signature"}
    stream = ConversationStream.new(
        clock=clock, made=made, base_config=base_config, taken_ids=used_ids
    )
    return Document(stream, others, extra)


class _StoredRecord(NamedTuple):
    """The record in a notebook file, its damaged carriers, and notices for the user.

    A *carrier* is the state of a widget in which an earlier run has kept the record.
    """

    record: JsonValue
    damaged: list[JsonValue]
    notices: list[str]


def _read_record(path: Path | None) -> _StoredRecord:
    """Return the record of the notebook at `path`; None as record without one."""
    if path is None:
        return _StoredRecord(None, [], [])

    try:
        notebook = json.loads(read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES))
    except (OSError, ValueError) as exc:
        return _StoredRecord(None, [], [f"{path.name} cannot be read: {exc}"])

    metadata: JsonObject = as_object(as_object(notebook).get("metadata"))
    damaged = carrier.find_unreadable_carriers(metadata)
    notices = []
    if damaged:
        notices.append("The notebook has a damaged copy of the record, which is kept unchanged.")

    return _StoredRecord(carrier.read_carrier(metadata), damaged, notices)
