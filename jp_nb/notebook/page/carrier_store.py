"""Storage backend of headless runs: the record is the state of a widget, a *carrier*.

`CarrierStore` implements `RecordStore` (`session/host.py`): the session calls `changed` after it
has appended entries, `replaced` when another conversation is active, and `flush_after_cell` at the
end of each cell. The *head* of the record is all of it except the entries of the active
conversation.

A runner such as nbclient saves the states of widgets in the notebook. The record is cut into chunks
(`events.0`, `events.1`, …), because each update of a state sends the whole value of a key.
`jp_nb/record/documents/carrier.py` describes the shape of the carrier, and reads it.

Source: `docs/record.md`, `docs/decisions.md` D33.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.cell_context import CellContext
from jp_nb.notebook.page.pageless_stores import PagelessStore
from jp_nb.notebook.page.record_location import IN_NOTEBOOK
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.clock import Clock, ReproducibleClock
from jp_nb.record.entries.new_ids import derive_widget_id
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.storable_json import make_storable, make_storable_with_size

IN_RUN = "kept in the notebook that the runner writes, if it writes one"

CARRIER_CHUNK_BYTES = 32 * 1024
"""An append sends its whole chunk again, so chunks are small."""

BURST = 200
"""After this many messages in one cell, a ZeroMQ socket may have dropped some."""

SendState = Callable[[JsonObject], None]

OpenWidget = Callable[[JsonObject], SendState]
"""Opens a widget with a state, and returns a function that updates it."""

_WIDGET_NUMBERS = count()


def _open_widget(state: JsonObject, cell: CellContext, clock: Clock) -> SendState:
    """Open a widget as ipywidgets does, without importing it."""
    from comm import create_comm

    comm_id = None
    if isinstance(clock, ReproducibleClock):
        comm_id = derive_widget_id(clock, next(_WIDGET_NUMBERS))

    comm = cell.run(
        create_comm,
        comm_id=comm_id,
        target_name="jupyter.widget",
        data={"state": state, "buffer_paths": []},
        metadata={"version": "2.1.0"},
    )

    def send(update: JsonObject) -> None:
        cell.run(comm.send, data={"method": "update", "state": update, "buffer_paths": []})

    return send


class CarrierStore(PagelessStore):
    """Storage backend of a headless run: the state of a widget, which the runner saves.

    Each entry is sent at once, because the runner may end after any cell. Create it in the cell's
    thread. The lock guards the state of the widget, which several threads change. `CellContext`
    sends messages from any thread as those of the running cell: nbclient drops others.

    Args:
        seen: Number of entries of each conversation that the notebook file had before the run
            (`count_entries`). So a reader of the file knows which entries the run has added.
        named: True if the path of the notebook file is known.
        shell: The shell whose cells the messages belong to.
        open_widget: Replaces the comm in a test.
    """

    unsaved_reason = None

    def __init__(
        self,
        document: Document,
        *,
        seen: Mapping[str, int] | None = None,
        named: bool = True,
        shell: Any = None,
        clock: Clock = utc_now,
        open_widget: OpenWidget | None = None,
    ) -> None:
        self.location = IN_NOTEBOOK if named else IN_RUN
        self._document = document
        self._seen = dict(seen or {})
        self._cell = CellContext(shell)
        self._open_widget = open_widget or partial(_open_widget, cell=self._cell, clock=clock)
        self._send: SendState | None = None
        self._lock = Lock()

        # The state of the widget: the head that was sent last, as JSON, and the entries in chunks.
        self._head = ""
        self._chunks: list[list[JsonValue]] = []
        self._stored_count = 0  # number of entries in all chunks
        self._room_bytes = 0  # bytes left in the last chunk

        # The messages of the running cell, some of which may be lost: their number, and the index
        # of the first chunk that they have changed.
        self._message_count = 0
        self._first_chunk = 0

    def changed(self) -> None:
        """Send the appended entries, and the head if it changed."""
        with self._lock:
            update = self._append()
            if (head := self._format_head()) != self._head:
                self._head = head
                update["jp"] = self._read_head()
            self._publish(update)

    def replaced(self) -> None:
        """Send the whole document."""
        with self._lock:
            previous_count = len(self._chunks)
            self._stored_count = 0
            self._room_bytes = 0
            self._chunks = []
            self._first_chunk = 0
            update = self._append()
            update["length"] = self._stored_count

            # The runner merges widget states by key: chunks that are not overwritten would remain.
            # So they are emptied. Later entries follow in the last of them or in new chunks.
            unused = range(len(self._chunks), previous_count)
            update.update({f"events.{number}": [] for number in unused})
            self._chunks += [[] for _ in unused]
            self._head = self._format_head()
            update["jp"] = self._read_head()
            self._publish(update)

    def _append(self) -> JsonObject:
        """Put the new entries into chunks, and return the changed chunks and the length."""
        update: JsonObject = {}
        raw = self._document.conversation.raw

        for entry in raw[self._stored_count :]:
            clean, size = make_storable_with_size(entry)
            if not self._chunks or size > self._room_bytes:
                self._chunks.append([])
                self._room_bytes = CARRIER_CHUNK_BYTES

            self._room_bytes -= size
            self._chunks[-1].append(clean)
            update[f"events.{len(self._chunks) - 1}"] = self._chunks[-1]
            self._stored_count += 1

        if update:
            update["length"] = self._stored_count

        return update

    def _publish(self, update: JsonObject) -> None:
        """Send the changed keys of the state. The first message opens the widget."""
        if not update:
            return

        self._message_count += 1
        if self._send is not None:
            self._send(update)
            return

        state: JsonObject = {
            "_model_module": carrier.CARRIER_MODULE,
            "_model_module_version": "1",
            "_model_name": carrier.CARRIER_MODEL,
            "seen": dict(self._seen),
            "jp": self._read_head(),
        }
        self._send = self._open_widget(state | update)

    def _read_head(self) -> JsonObject:
        """Return the document without the entries of its active conversation."""
        document = self._document.to_json()
        return {key: make_storable(item) for key, item in document.items() if key != "events"}

    def _format_head(self) -> str:
        """Return the head as JSON, to compare it with the one that was sent last.

        The other conversations are not compared: `replaced` sends them.
        """
        document = self._document.to_json()
        return json.dumps({k: v for k, v in document.items() if k not in ("events", "others")})

    def flush(self, timeout: float) -> bool:
        """Return True if everything was sent. The runner sends no answer."""
        with self._lock:
            return self._stored_count == len(self._document.conversation)

    def flush_after_cell(self) -> None:
        """Repeat the chunks of the cell if it sent a burst of messages."""
        with self._lock:
            if self._message_count > BURST:
                for number in range(self._first_chunk, len(self._chunks)):
                    self._publish({f"events.{number}": self._chunks[number]})
                self._publish({"jp": self._read_head(), "length": self._stored_count})
            self._message_count = 0
            self._first_chunk = max(0, len(self._chunks) - 1)

    def save(self, timeout: float = 10.0) -> str:
        """Return words that say when the runner writes the file."""
        return f"{self.location}, at the end of the run"

    def close(self) -> None:
        """Stop following the cells. The runner keeps the widget state."""
        self._cell.close()
