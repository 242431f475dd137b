"""A cell of the open page whose code runs inside of a turn, and which gets the outputs.

Source: `docs/cells.md`, `docs/protocol.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.display.run_outputs import MAX_STORED_CHARS, RunOutputs
from jp_nb.notebook.document_answers import read_answer_object
from jp_nb.notebook.page.live_store import LiveStore

STORE_TIMEOUT_S: Final = 10.0
"""Time that the page has to store outputs."""
OUTPUTS_ELSEWHERE: Final = (
    f"jp_nb: The outputs have more than {MAX_STORED_CHARS:,} characters. They are in the cell "
    "with the request.\n"
)


@dataclass(frozen=True, slots=True)
class CellOfPage:
    """A cell of the open page that runs inside of a turn. Implements `OwnCell` (`code_runs.py`)."""

    store: LiveStore
    cell_id: str
    source: str
    shows_in_turn: bool = True

    def begin(self) -> None:
        """Let the page clear the cell, and show that it runs."""
        self.store.requests.show_run(self.cell_id, self.source)

    def end(self, count: int, outputs: RunOutputs) -> bool:
        """Let the page store the outputs, and wait for its answer; return False if they stay here.

        If they are too long, the cell gets a note in their place, and they stay in the turn.
        """
        stored: list[Any] = [_make_note(OUTPUTS_ELSEWHERE)]
        if outputs.is_complete:
            stored = outputs.to_json()

        try:
            reply = self.store.requests.ask_to_store_run(self.cell_id, self.source, count, stored)
            answer = read_answer_object(reply.result(STORE_TIMEOUT_S))
        except (StorageError, TimeoutError):
            return False
        return answer.get("outcome") == "stored" and outputs.is_complete


def _make_note(text: str) -> JsonObject:
    return {"output_type": "stream", "name": "stderr", "text": text}
