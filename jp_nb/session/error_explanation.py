"""Let the model explain the last exception of a cell: `%jp why`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from functools import partial

from jp_nb.json_values import JsonObject
from jp_nb.record.events import TYPED, ChatRequest
from jp_nb.record.marks import EXPLAINS_ERROR
from jp_nb.record.turn_view import Turn
from jp_nb.session.cell_requests import TurnRequest
from jp_nb.session.error_request import ErrorRequest
from jp_nb.session.session import Session


class ErrorExplanation:
    """Asks the model about the last exception of a cell."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._host = session.host
        self._turns = session.turns

    def run(self, question: str = "") -> Turn:
        """Let the model explain the last exception of a cell, and show that in the cell.

        The request has the failing cell, the traceback, and the values of its names. The user sees
        all of it. `question` replaces the default question. Raises the errors of `TurnRunner.run`.

        Raises:
            UsageError: No cell failed.
        """
        read_turn_request = partial(self._read_turn_request, question)
        return self._session.active.line.run(partial(self._turns.run_request, read_turn_request))

    def _read_turn_request(self, question: str) -> TurnRequest:
        max_chars = self._session.config.interpolation.max_chars
        error = ErrorRequest(self._host.last_error(), self._host.namespace)
        hide = self._turns.runner.secrets.hide
        content = hide(error.write(question, room=max_chars))
        typed = hide(error.words(question))

        cell = self._host.cell_run()
        metadata: JsonObject = {**cell.metadata(), EXPLAINS_ERROR: True, TYPED: typed}
        other = self._turns.reruns.next_conversation(
            content, cell, self._turns.cell_questions.ask_action, same_text=True
        )
        return TurnRequest(
            request=ChatRequest(content=content, metadata=metadata),
            cell=cell,
            other=other,
            shows_request=True,
        )
