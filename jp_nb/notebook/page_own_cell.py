"""A cell of the open page whose code runs inside of a turn, and which gets the outputs.

A tool can run a cell of the notebook while the cell with the user's request (`%%jp`) runs. The
outputs then appear in the turn, which is the output of the `%%jp` cell. When the code has ended,
the page stores them in the cell of the code, and they disappear from the turn.

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
    """A cell of the open page that runs inside of a turn.

    Implements `OwnCell` (`code_runs.py`): `run_own_cell` calls `begin`, runs `source`, and calls
    `end` with the outputs. Outputs for which `end` returns False stay in the turn.

    Attributes:
        store: The connection with the page.
        shows_in_turn: True: the turn shows the outputs while the code runs.
    """

    store: LiveStore
    cell_id: str
    source: str
    shows_in_turn: bool = True

    def begin(self) -> None:
        """Let the page clear the cell, and show that it runs."""
        self.store.requests.show_run(self.cell_id, self.source)

    def end(self, count: int, outputs: RunOutputs) -> bool:
        """Let the page store the outputs and the execution `count`, and wait for its answer.

        Return False if the outputs stay in the turn: the page has not stored them, or they are too
        long. Then the cell gets a note in their place.
        """
        stored: list[Any] = [_make_note(OUTPUTS_ELSEWHERE)]
        if outputs.is_complete:  # within `MAX_STORED_CHARS`
            stored = outputs.to_json()

        try:
            reply = self.store.requests.ask_to_store_run(self.cell_id, self.source, count, stored)
            answer = read_answer_object(reply.result(STORE_TIMEOUT_S))
        except (StorageError, TimeoutError):
            return False

        return answer.get("outcome") == "stored" and outputs.is_complete


def _make_note(text: str) -> JsonObject:
    return {"output_type": "stream", "name": "stderr", "text": text}
