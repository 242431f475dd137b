"""Complete the record of a turn at its end, however the turn ends.

Each tool call has a response, a turn without an answer is marked, and no tokens are lost.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jp_nb.agent.call_steps.batch import NEVER_RAN_TEXT
from jp_nb.agent.calls.call_response import RAN_BEFORE_TEXT
from jp_nb.agent.display import Notice
from jp_nb.agent.turn_state import TurnContext
from jp_nb.record.entries.events import (
    ChatResponse,
    ConfigDelta,
    ToolCallResponse,
    is_usage_mark,
)
from jp_nb.record.entries.unanswered_turns import Ended, NoAnswer, is_unanswered, make_no_answer
from jp_nb.record.unfinished_calls import OpenCall

RUN_AGAIN_HINT = "Run the cell again, or `%jp resume`."
REQUEST_FAILED_NOTICE = f"⚠ The request failed. {RUN_AGAIN_HINT}"
REQUEST_INTERRUPTED_NOTICE = f"⚠ Interrupted before an answer. {RUN_AGAIN_HINT}"
OPTIONS_NOT_KEPT_NOTICE = " Its options, such as `-m`, were not kept."

TurnCompletion = Literal["completed", "interrupted", "stopped"]
"""The end of a turn without an error. `stopped`: the user stopped it at a question of a tool."""
TurnStatus = TurnCompletion | Literal["failed"]


@dataclass(frozen=True, slots=True)
class UnfinishedTurn:
    """A turn that has ended, and whose record is not complete.

    Attributes:
        turn: Ports and state of the turn.
        status: How the turn ended; `failed` after an error.
        has_begun: True if the request of the turn is in the record.
        resumed_calls: The calls of an interrupted turn that this one continued.
        config_change_count: Number of trailing configuration changes that belong to the turn.
    """

    turn: TurnContext
    status: TurnStatus
    has_begun: bool
    resumed_calls: Sequence[OpenCall]
    config_change_count: int

    def close(self) -> bool:
        """Complete the record, and return True if the request of the turn got no answer.

        Reasoning alone is no answer. A turn that ends without an answer reverts the changes of its
        options, such as `-m`, unless the model has written reasoning.
        """
        if not self.has_begun:
            self._close_without_request()
            return False

        self._respond_to_open_calls()
        entries = self.turn.record.stream.current_turn()
        has_no_answer = is_unanswered(entries)

        # A completed turn needs no mark, even if the model refused or returned nothing.
        if self.status == "completed" or not has_no_answer:
            self._record_remaining_usage()
            return has_no_answer

        has_reasoning = any(isinstance(entry, ChatResponse) for entry in entries)
        reverted_count = 0 if has_reasoning else self.config_change_count
        self._record_no_answer(reverted_count)
        self._tell_user(reverted_count)
        return True

    def _close_without_request(self) -> None:
        """Revert the options of a turn that ended before its request was recorded."""
        if self.status != "completed" and self.config_change_count:
            self._record_no_answer(self.config_change_count)
        else:
            self._record_remaining_usage()

    def _respond_to_open_calls(self) -> None:
        """Add a response to each call that has none."""
        record = self.turn.record
        may_have_run = [call.request for call in self.resumed_calls if call.may_have_run]

        for call in record.stream.list_open_tool_calls():
            content = NEVER_RAN_TEXT
            if call in may_have_run:
                content = RAN_BEFORE_TEXT.format(NEVER_RAN_TEXT)
            record.add(ToolCallResponse(id=call.id, content=content, is_error=True))

    def _record_no_answer(self, reverted_count: int) -> None:
        """Mark the turn as one without an answer, which reverts so many configuration changes."""
        ended: Ended = "failed" if self.status == "failed" else "interrupted"
        no_answer = make_no_answer(NoAnswer(ended, reverted_count))
        with_usage = self.turn.tokens.attach_usage(no_answer)
        self.turn.record.add(self.turn.times.attach(with_usage))

    def _record_remaining_usage(self) -> None:
        """Record the tokens of a response that left no entry, such as a refusal.

        An empty configuration change carries them.
        """
        mark = self.turn.tokens.attach_usage(ConfigDelta())
        if is_usage_mark(mark):
            self.turn.record.add(self.turn.times.attach(mark))

    def _tell_user(self, reverted_count: int) -> None:
        """Display how to get an answer after all."""
        notice = REQUEST_INTERRUPTED_NOTICE
        if self.status == "failed":
            notice = REQUEST_FAILED_NOTICE
        if reverted_count:
            notice += OPTIONS_NOT_KEPT_NOTICE
        self.turn.display(Notice(notice))
