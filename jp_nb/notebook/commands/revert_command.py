"""Subcommand `%jp revert`: take back the edits of cells that a turn has applied.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from jp_nb.notebook.commands import Invocation, report_cancellation
from jp_nb.session.past_turns.turn_revert import TurnRevert


def revert_edits(call: Invocation) -> None:
    """Run `%jp revert`: propose the inverse of the edits that a turn has applied."""
    number = call.number(at_least=1)
    with report_cancellation():
        TurnRevert(call.session.bench).run(number)
