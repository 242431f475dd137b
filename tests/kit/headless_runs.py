"""Headless runs, which keep their record in the state of a widget that the runner stores."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jp_nb.notebook.page.carrier_store import CarrierStore
from jp_nb.record.documents import carrier
from jp_nb.record.documents.conversation_list import drop_conversation, switch_conversation
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import count_entries
from jp_nb.record.documents.record_trust import Trust
from jp_nb.record.stream import ConversationStream
from jp_nb.storable_json import make_storable
from jp_nb.storage.key_file import KeyFile
from tests.kit.records import new_event


def _read_clock() -> datetime:
    return datetime.now(UTC)


class HeadlessRun:
    """A run of the notebook with the `metadata`, by a runner that stores the states of widgets.

    With a `key` file, the record is signed.

    Attributes:
        state: The stored state of the widget: each message's keys over the earlier ones.
        sizes: The length of each message, as JSON.
        is_deaf: True while the runner misses the messages.
        trust: The trust in the record; None without a `key`.
    """

    def __init__(
        self, metadata: Mapping[str, Any] | None = None, *, key: Path | None = None
    ) -> None:
        self.state: Any = {}
        self.sizes: list[int] = []
        self.is_deaf = False
        self.trust: Any = None
        self._metadata = dict(metadata or {})
        loaded = carrier.read_carrier(self._metadata)
        if loaded is None:
            self._document = Document.new(clock=_read_clock, made="headless")
        else:
            self._document = Document.load(loaded, clock=_read_clock)

        seen = count_entries(loaded)
        self._store = CarrierStore(self._document, seen=seen, open_widget=self._open_widget)
        if key is not None:
            self.trust = Trust(self._document, KeyFile(key), is_trusted=loaded is None)
        self._connect()

    # --- what the run does -----------------------------------------------------------------------

    def ask(self, text: str = "q", delta: Mapping[str, Any] | None = None) -> None:
        """Start a turn with a request, and change the configuration by `delta`."""
        self._document.conversation.start_turn(new_event("chat_request", content=text))
        if delta is not None:
            self._document.conversation.append(new_event("config_delta", delta=dict(delta)))

    def set_title(self, title: str) -> None:
        """Set the title of the conversation."""
        self._document.conversation.properties["title"] = title
        self._store.changed()

    def begin(self) -> None:
        """Begin another conversation, as `%jp new` does."""
        taken = self._document.ids()
        self._document.archive_active()
        self._document.conversation = ConversationStream.new(
            clock=_read_clock, made="headless", taken_ids=taken
        )
        self._follow(is_local=True)

    def switch(self, name: str) -> None:
        """Activate the conversation `name`."""
        assert switch_conversation(self._document, name, clock=_read_clock)
        self._follow()

    def drop(self, name: str) -> None:
        """Remove the conversation `name`."""
        drop_conversation(self._document, name)
        self._store.replaced()

    def revoke(self) -> None:
        """Revoke the trust in the record."""
        self.trust.revoke()
        self._store.changed()

    def end_cell(self) -> None:
        """End the running cell."""
        self._store.flush_after_cell()

    # --- what the runner has ---------------------------------------------------------------------

    @property
    def location(self) -> str:
        """The place of the record, for messages."""
        return self._store.location

    @property
    def is_flushed(self) -> bool:
        """True if everything was sent."""
        return self._store.flush(0)

    @property
    def conversation(self) -> str:
        """The id of the active conversation."""
        return self._document.conversation.id

    @property
    def stored(self) -> Any:
        """The record as JSON."""
        return make_storable(self._document.to_json())

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the notebook that the runner writes."""
        metadata = copy.deepcopy(self._metadata)
        return {**metadata, **self.metadata_of(self.state)}

    def lifted(self) -> dict[str, Any]:
        """Return these metadata after the record was lifted from the widget."""
        metadata = self.metadata()
        carrier.lift_carrier(metadata)
        return metadata

    @staticmethod
    def metadata_of(*states: Any, **widgets: Any) -> dict[str, Any]:
        """Return metadata with a widget for each state of a record, and other `widgets`."""
        carriers = {f"carrier{number}": _make_carrier(state) for number, state in enumerate(states)}
        version = {"version_major": 2, "version_minor": 0}
        stored = {"state": {**carriers, **widgets}, **version}
        return {"widgets": {"application/vnd.jupyter.widget-state+json": stored}}

    @staticmethod
    def list_damaged(metadata: Mapping[str, Any]) -> list[Any]:
        """Return the damaged states of records in the widgets of a notebook."""
        return carrier.find_unreadable_carriers(metadata)

    @staticmethod
    def read_trust(stored: Any, key: Path) -> Any:
        """Return the trust of a new process in a stored record, by the user's `key` file."""
        document = Document.load(json.loads(json.dumps(stored)), clock=_read_clock)
        return Trust(document, KeyFile(key), is_trusted=False)

    def repeat_in(self, other: HeadlessRun) -> None:
        """Keep the record in the widget of another run, too, from now on."""
        self._store = CarrierStore(self._document, open_widget=other._open_widget)
        self._connect()

    def _open_widget(self, state: Any) -> Any:
        self._update(state)
        return self._update

    def _update(self, state: Any) -> None:
        if self.is_deaf:
            return
        text = json.dumps(state)
        self.sizes.append(len(text))
        self.state.update(json.loads(text))

    def _follow(self, *, is_local: bool = False) -> None:
        if self.trust is not None:
            self.trust.follow(is_trusted=is_local)
        self._connect()
        self._store.replaced()

    def _connect(self) -> None:
        self._document.conversation.on_change = self._note_change

    def _note_change(self) -> None:
        if self.trust is not None:
            self.trust.sign()
        self._store.changed()


def _make_carrier(state: Any) -> dict[str, Any]:
    return {"model_name": "RecordModel", "model_module": "jp-nb", "state": state}
