"""A headless executor that keeps the states of widgets."""

from __future__ import annotations

import json
from typing import Any

from jp_nb.notebook.page import pageless_stores
from jp_nb.notebook.page.pageless_stores import CarrierStore
from jp_nb.record import merge
from jp_nb.record.clock import utc_now
from jp_nb.record.document import Document


class Executor:
    """Stores widget states as nbclient does: each message's keys over the earlier ones."""

    def __init__(self) -> None:
        self.state: Any = {}
        self.sizes: list[int] = []
        self.deaf = False

    def open(self, state: Any) -> pageless_stores.SendState:
        self.update(state)
        return self.update

    def update(self, state: Any) -> None:
        if self.deaf:
            return
        text = json.dumps(state)
        self.sizes.append(len(text))
        self.state.update(json.loads(text))

    def metadata(self, **jp: Any) -> dict[str, Any]:
        return {**jp, "widgets": widgets(mine=model(self.state))}


def model(state: Any, module: str = "jp-nb") -> dict[str, Any]:
    """The stored state of a widget."""
    return {"model_name": "RecordModel", "model_module": module, "state": state}


def widgets(**states: Any) -> dict[str, Any]:
    """The widget metadata of a notebook."""
    version = {"version_major": 2, "version_minor": 0}
    return {merge.WIDGET_STATE: {"state": states, **version}}


def begin(executor: Executor, **options: Any) -> tuple[Document, CarrierStore]:
    """A headless document and the store that keeps it in a widget."""
    document = Document.new(clock=utc_now, made="headless")
    store = CarrierStore(document, open_widget=executor.open, **options)
    document.conversation.on_change = store.changed
    return document, store
