"""Port of storage backends, and the backend of headless runs, which uses the state of a widget.

`jp_nb/record/merge.py` describes the shape of that state, and reads it.

Source: `docs/record.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, storable, storable_and_size
from jp_nb.notebook.page.protocol import CellContext
from jp_nb.record.clock import Clock, PositionClock, utc_now
from jp_nb.record.document import Document
from jp_nb.record.merge import MODEL, MODULE

IN_NOTEBOOK = "kept in this notebook"
IN_RUN = "kept in the notebook that the runner writes, if it writes one"


def in_memory(reason: str) -> str:
    """Return the phrase for a record that no notebook takes."""
    return f"kept in memory only: {reason}"


def not_saved(reason: str) -> StorageError:
    """Return the error for a record that could not be saved."""
    return StorageError(f"The record is not saved: {reason}")


class MemoryStore:
    """Keeps nothing: there is no notebook, or it must not be written."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def where(self) -> str:
        """`kept in memory only`, and why."""
        return in_memory(self._reason)

    @property
    def why_not_kept(self) -> str | None:
        """Why no notebook keeps the record."""
        return self._reason

    def changed(self) -> None:
        """Nothing to do."""

    def replaced(self) -> None:
        """Nothing to do."""

    def flush(self, timeout: float) -> bool:
        """Return False: no home has anything."""
        return False

    def cell_ends(self) -> None:
        """Nothing to wait for."""

    def can_be_read_again(self, timeout: float) -> bool:
        """Return False: there is nothing to read."""
        return False

    def save(self, timeout: float = 10.0) -> str:
        """Raise `StorageError`: there is no file to save."""
        raise not_saved(f"it is {self.where}")

    def saved_entries(self, conversation: str) -> int:
        """Return 0: there is no file."""
        return 0

    def take_notices(self) -> list[str]:
        """Return none: `where` says it all."""
        return []

    def close(self) -> None:
        """Nothing to do."""


CHUNK_BYTES = 32 * 1024
"""An append sends its whole chunk again, so chunks are small."""
BURST = 200
"""After so many messages in one cell a socket may have dropped some on their way."""

Send = Callable[[JsonObject], None]
OpenWidget = Callable[[JsonObject], Send]
"""Opens a widget with this state; the result updates it."""


_OPENED = count()
"""The carriers of this kernel: one that is opened later sorts behind those before."""


def _open_widget(state: JsonObject, cell: CellContext, clock: Clock) -> Send:
    """Open a widget as ipywidgets does, without importing it."""
    from comm import create_comm

    comm = cell.run(
        create_comm,
        comm_id=clock.widget_id(next(_OPENED)) if isinstance(clock, PositionClock) else None,
        target_name="jupyter.widget",
        data={"state": state, "buffer_paths": []},
        metadata={"version": "2.1.0"},
    )

    def send(update: JsonObject) -> None:
        cell.run(comm.send, data={"method": "update", "state": update, "buffer_paths": []})

    return send


class CarrierStore:
    """Keeps the record in a carrier, entry by entry and at once: a cell's end may be the last.

    `seen` is `entry_counts` of what was read from the notebook, and `named` whether it is known
    which notebook this is. Make it in the cell's thread.
    """

    why_not_kept = None

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
        self.where = IN_NOTEBOOK if named else IN_RUN
        self._document = document
        self._seen = dict(seen or {})
        self._cell = CellContext(shell)
        self._open_widget = open_widget or partial(_open_widget, cell=self._cell, clock=clock)
        self._send: Send | None = None
        self._lock = Lock()
        self._head = ""
        self._stored = 0
        self._chunks: list[list[JsonValue]] = []
        self._room = 0
        self._messages = 0
        self._first = 0  # of the chunks that the running cell has touched

    def changed(self) -> None:
        """Send what was appended, and the head if it is another one."""
        with self._lock:
            touched = self._append()
            if (head := self._head_text()) != self._head:
                self._head = head
                touched["jp"] = self._without_events()
            self._publish(touched)

    def replaced(self) -> None:
        """Send everything anew."""
        with self._lock:
            before = len(self._chunks)
            self._stored, self._room, self._chunks, self._first = 0, 0, [], 0
            touched = self._append()
            touched["length"] = self._stored
            # States are merged key by key: what is not overwritten would stay.
            touched.update({f"events.{i}": [] for i in range(len(self._chunks), before)})
            self._chunks += [[] for _ in range(len(self._chunks), before)]
            self._head = self._head_text()
            touched["jp"] = self._without_events()
            self._publish(touched)

    def _append(self) -> JsonObject:
        touched: JsonObject = {}
        raw = self._document.conversation.raw
        for entry in raw[self._stored :]:
            clean, size = storable_and_size(entry)
            if not self._chunks or size > self._room:
                self._chunks.append([])
                self._room = CHUNK_BYTES
            self._room -= size
            self._chunks[-1].append(clean)
            touched[f"events.{len(self._chunks) - 1}"] = self._chunks[-1]
            self._stored += 1
        if touched:
            touched["length"] = self._stored
        return touched

    def _publish(self, touched: JsonObject) -> None:
        if not touched:
            return
        self._messages += 1
        if self._send is not None:
            self._send(touched)
            return
        state: JsonObject = {
            "_model_module": MODULE,
            "_model_module_version": "1",
            "_model_name": MODEL,
            "seen": dict(self._seen),
            "jp": self._without_events(),
        }
        self._send = self._open_widget(state | touched)

    def _without_events(self) -> JsonObject:
        document = self._document.to_json()
        return {key: storable(item) for key, item in document.items() if key != "events"}

    def _head_text(self) -> str:
        document = self._document.to_json()
        return json.dumps({k: v for k, v in document.items() if k not in ("events", "others")})

    def flush(self, timeout: float) -> bool:
        """Return whether everything was sent: the executor takes it without an answer."""
        with self._lock:
            return self._stored == len(self._document.conversation)

    def cell_ends(self) -> None:
        """Send once more what came in a burst; there is no answer to wait for."""
        with self._lock:
            if self._messages > BURST:
                for number in range(self._first, len(self._chunks)):
                    self._publish({f"events.{number}": self._chunks[number]})
                self._publish({"jp": self._without_events(), "length": self._stored})
            self._messages, self._first = 0, max(0, len(self._chunks) - 1)

    def can_be_read_again(self, timeout: float) -> bool:
        """Return False: what is here is newer than the file."""
        return False

    def save(self, timeout: float = 10.0) -> str:
        """Return that the executor writes the file when the run ends."""
        return f"{self.where}, at the end of the run"

    def saved_entries(self, conversation: str) -> int:
        """Return 0: the runner writes the file when this kernel is gone."""
        return 0

    def take_notices(self) -> list[str]:
        """Return none."""
        return []

    def close(self) -> None:
        """Follow the run no longer. The state stays with the executor."""
        self._cell.close()
