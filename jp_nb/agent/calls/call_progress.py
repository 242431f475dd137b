"""Write the progress of a batch's tool calls to the journal.

A call reaches the stages `asked` (for a permission), `permitted`, `started`, and `finished`. After
a crash of the kernel, they tell the next one which calls may have run.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jp_nb.agent.calls.call import Call
from jp_nb.agent.turn_state import TurnContext
from jp_nb.record.entries.entry_images import make_image_entry
from jp_nb.record.entries.events import Entry, ToolCallResponse
from jp_nb.record.unfinished_calls import CallProgress, CallStage


class ProgressWriter:
    """Writes the progress of the calls of one batch. A result is written with the next progress.

    So the result of a function is in the journal before the next function starts. Both the agent's
    thread and the cell's thread use it. Of each call, only one of them does at a time, and the
    operations on `_results` are atomic.
    """

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._results: dict[str, CallProgress] = {}  # by event id, not yet written

    def write(self, *calls: Call, stage: CallStage) -> None:
        """Write that `calls` have reached `stage`."""
        progress: dict[str, CallProgress] = {}
        for call in calls:
            # A rerun must not hide that an earlier run may have had effects.
            reached: CallStage = "started" if call.may_have_run else stage
            # After a crash, the edits of cells tell if the call has applied them.
            progress[call.event_id] = CallProgress(reached, change=call.edits)
        self.write_results(progress)

    def write_results(self, progress: Mapping[str, CallProgress] = MappingProxyType({})) -> None:
        """Write the results that the journal does not have yet, and then more `progress`.

        `progress` is by event id. Without it, only the results are written.
        """
        results = self._results.copy()
        if self._turn.progress is not None and (results or progress):
            self._turn.progress({**results, **progress})
        for key in results:  # not before: an interrupt may end the write
            self._results.pop(key, None)

    def keep_result(self, call: Call, response: ToolCallResponse) -> None:
        """Keep the `response` to `call` for the next write."""
        entries: list[Entry] = [
            *map(make_image_entry, call.state.result.shown_images.images),
            response,
        ]
        # The record stamps its entries itself, but these go to the journal before.
        now = self._turn.record.stream.now()
        raw = tuple(entry.to_raw() | {"timestamp": now} for entry in entries)
        self._results[call.event_id] = CallProgress("finished", raw)

    def drop_result(self, call: Call) -> None:
        """Drop the result of `call`, if it is not written: the call gets another response."""
        self._results.pop(call.event_id, None)
