"""Let the model explain the last exception of a cell, or fix it: `%jp why`, `%jp fix`.

The explanation is a turn like that of a `%%jp` cell. Only its request is written by the program:
the model gets the failing cell, the traceback, and values. The record also keeps the request as the
user knows it, for example `why: KeyError: 'age'`.

`%jp fix` also switches the toolset `cells` on for the turn, and asks for an edit of the cell.

Source: `docs/guide.md`, `docs/cells.md`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from jp_nb.config.directives import Directive
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.events import TYPED, ChatRequest
from jp_nb.record.reading.marks import EXPLAINS_ERROR
from jp_nb.record.reading.turn_view import Turn
from jp_nb.session.session import Session
from jp_nb.session.turns.cell_requests import TurnRequest
from jp_nb.session.turns.error_request import ErrorRequest
from jp_nb.session.turns.turn_tools import (
    TURN_TOOLSET,
    list_tools_for_turn,
    mark_turn_tools,
    switch_turn_tools_off,
)


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
        make_turn_request = partial(self._make_turn_request, question)
        run_turn = partial(self._turns.run_request, make_turn_request)

        # Turns of other threads that came earlier run first.
        turn_line = self._session.active.line
        return turn_line.run(run_turn)

    def fix(self, question: str = "") -> Turn:
        """Let the model explain the last exception, and propose an edit of the cell.

        The toolset `cells` is on in this turn. `question` is a hint for the model. Raises the
        errors of `run`.
        """
        return self._session.active.line.run(partial(self._run_fix, question))

    def _run_fix(self, question: str) -> Turn:
        """Run the turn of `%jp fix` with the toolset `cells`, and switch it off after the turn."""
        active = self._session.active

        def make_turn_request() -> TurnRequest:
            asked = self._make_turn_request(question, fixes=True)
            off_tools = list_tools_for_turn(active)
            if not off_tools:  # all tools of the toolset are on already, and stay on
                return asked

            # The request names the tools, so that a later kernel can switch them off.
            request = asked.request.with_metadata(**mark_turn_tools(off_tools))
            directives = [Directive("tool", TURN_TOOLSET)]  # it switches them on
            return replace(asked, request=request, directives=directives)

        try:
            return self._turns.run_request(make_turn_request)
        finally:
            switch_turn_tools_off(active)  # does nothing if the request names none

    def _make_turn_request(self, question: str, *, fixes: bool = False) -> TurnRequest:
        """Return the request about the last exception; with `fixes`, it asks for an edit."""
        max_chars = self._session.config.interpolation.max_chars
        error = ErrorRequest(self._host.find_last_error(), self._host.namespace)
        hide = self._turns.runner.secrets.hide
        content = hide(error.write_for_model(question, room=max_chars, fixes=fixes))
        command = "fix" if fixes else "why"
        typed = hide(error.write_for_user(question, command=command))

        cell = self._host.get_cell_run()
        metadata: JsonObject = {**cell.make_metadata(), EXPLAINS_ERROR: True, TYPED: typed}

        # A cell that explained the same error before runs again: the user may choose a branch, and
        # the turn then runs in the conversation of this branch.
        next_conversation = self._turns.reruns.find_next_conversation(
            content, cell, self._turns.cell_questions.ask_action, same_text=True
        )
        return TurnRequest(
            request=ChatRequest(content=content, metadata=metadata),
            cell=cell,
            next_conversation=next_conversation,
            shows_request=True,
        )
