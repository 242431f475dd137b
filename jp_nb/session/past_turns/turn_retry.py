"""Send the last request again: `%jp retry`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from jp_nb.record.entries.events import BY, TYPED, ChatRequest
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.marks import find_turn_to_repeat
from jp_nb.record.reading.plan_marks import begins_with_plan, read_content_without_note
from jp_nb.record.reading.turn_view import Turn
from jp_nb.session.next_conversation import branch_before
from jp_nb.session.past_turns.own_tool_choice import find_own_tool_choice
from jp_nb.session.session import Session
from jp_nb.session.turns.cell_requests import TurnRequest

KEPT_MARKS: Final = ("cell_id", BY, TYPED)
"""Metadata of a request that `%jp retry` repeats. All other metadata is made again or omitted."""


class TurnRetry:
    """Repeats the last turn in a branch without it."""

    def __init__(self, session: Session) -> None:
        self._host = session.host
        self._active = session.active
        self._turns = session.turns

    def run(self, *, model: str | None = None) -> Turn:
        """Send the last request again, in a branch without its turn, and show it in the cell.

        A turn that explains an error (`%jp why`, `%jp fix`) does not count as the last one. Later
        settings of the user apply, changes by the tools of the turn do not. Raises the errors of
        `TurnRunner.run`.

        Raises:
            UsageError: There is no last turn.
        """
        # The line waits for turns of other threads, which may change the record. So the request is
        # read only when this turn runs.
        read_turn_request = partial(self._read_turn_request, model)
        run_turn = partial(self._turns.run_request, read_turn_request)
        return self._active.line.run(run_turn)

    def _read_turn_request(self, model: str | None) -> TurnRequest:
        """Return the request of the last turn again, with the branch in which it is sent."""
        stream = self._active.document.conversation
        turn = find_turn_to_repeat(stream.turns(), "there is no turn to ask again")
        request = next(entry for entry in turn.entries if isinstance(entry, ChatRequest))
        metadata = {key: mark for key, mark in request.metadata.items() if key in KEPT_MARKS}

        # It also has the user's settings for the `skipped` turns, which are those after this one.
        branch = branch_before(
            self._active,
            turn.number,
            skipped=range(turn.number + 1, stream.turn_count),
            why=f"turn {to_shown_turn(turn.number)} is asked again",
        )

        # Without the note about a plan, which a turn that begins with one adds again.
        repeated = ChatRequest(
            content=read_content_without_note(request),
            schema=request.response_schema,
            metadata=metadata,
        )
        return TurnRequest(
            request=repeated,
            cell=self._host.get_cell_run(),
            next_conversation=branch,
            images=stream.images.images_of(request).images,
            model=model,
            tool_choice=find_own_tool_choice(self._active, request, self._turns.own_requests),
            plan_first=begins_with_plan(request),
            shows_request=True,
        )
