"""Run a prepared turn to its end: its loop on the agent's thread, and its display in the cell.

`turn_runner.py` prepares turns. Here they run, and what later turns and the user need is kept,
however the turn ends: an answer, an error, or an interrupt.

Source: `docs/architecture.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from jp_nb.agent.display import ShowRequest
from jp_nb.agent.turn import TurnEnd, TurnLoop
from jp_nb.errors import ProviderError
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.reading.turn_view import UNTYPED, Turn
from jp_nb.record.request_context.context import RequestContext
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.conversations import ConversationList
from jp_nb.session.model_access.host_notices import HostNotices
from jp_nb.session.turns.request_contexts import RequestContexts

if TYPE_CHECKING:  # most turns have no schema
    from jp_nb.session.turns.answer_reader import AnswerReader


def keep_nothing(turn: Turn) -> None:
    """Do nothing with `turn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTurn:
    """A turn of the active conversation that is ready to run.

    Attributes:
        number: Number of the turn, from 0.
        loop: The loop of the turn. It gets the interrupts of the kernel.
        start: Starts it on the agent's thread, from a new request or where it was interrupted.
        context: The context of its first request.
        answer: Checks the structured answer; None if the request has no schema.
        shown_request: The text that is shown above the answer.
    """

    number: int
    loop: TurnLoop
    start: Callable[[], Coroutine[Any, Any, TurnEnd]]
    context: RequestContext
    answer: AnswerReader | None
    shown_request: str = ""


class _RunEnd(NamedTuple):
    """The end of the loop of a turn.

    Attributes:
        status: Status of the turn, such as `interrupted`.
        reason: Why it ended early without the user, such as a limit; "" otherwise.
    """

    status: str
    reason: str = ""


class TurnExecution:
    """Runs prepared turns, one at a time, on the cell's thread.

    Args:
        runner: Runs the loop of a turn on the agent's thread.
        conversations: Keeps the statuses of turns.
        host_notices: Tells the user of requests to another host.
        contexts: The contexts of requests, for the next turn.
        on_end: Called with each turn that has ended, also if it failed.
    """

    def __init__(
        self,
        runner: AgentRunner,
        conversations: ConversationList,
        host_notices: HostNotices,
        contexts: RequestContexts,
        *,
        on_end: Callable[[Turn], None],
    ) -> None:
        self._runner = runner
        self._conversations = conversations
        self._host_notices = host_notices
        self._contexts = contexts
        self._on_end = on_end

    def run(self, prepared: PreparedTurn, keep: Callable[[Turn], object] = keep_nothing) -> Turn:
        """Run a turn, show it in the cell meanwhile, and return it when it has ended.

        `keep` is called with the turn, also if it fails.

        Raises:
            AnswerError: The structured answer is missing or does not fit.
            KeyboardInterrupt: The turn was interrupted, or the user stopped it in a prompt.
        """
        answer = prepared.answer
        result: Turn | None = None
        end = _RunEnd("failed")
        failed_retry: ProviderError | None = None

        self._host_notices.begin_turn(prepared.loop.turn.record)
        # An interrupt must not prevent that the turn is kept.
        with self._runner.cell.interrupts.defer():
            try:
                end = self._show_run(prepared)
            except ProviderError as exc:
                # The model was asked for another answer, because the first one did not fit, and
                # that request failed. `raise_problem` below reports both.
                if answer is None or not answer.is_rejected:
                    raise
                failed_retry = exc
            finally:
                self._keep_requests(prepared)
                result = self._read_last_turn(prepared, end.status)
                if result is not None:
                    self._on_end(result)
                    keep(result)

        if end.status == "stopped":
            raise KeyboardInterrupt("You stopped the turn")
        if end.status == "interrupted":
            message = [end.reason] if end.reason else []
            raise KeyboardInterrupt(*message)

        assert result is not None  # a turn that completed has begun
        if answer is not None:
            answer.raise_problem(text=result.text, failed_request=failed_retry)
        return result

    def _show_run(self, prepared: PreparedTurn) -> _RunEnd:
        """Run the loop of a turn on the agent's thread, and show its events in the cell."""
        with self._runner.output.showing_current() as output:
            if prepared.shown_request:
                output(ShowRequest(prepared.shown_request))

            end = self._runner.run(prepared.start(), prepared.loop)
            if end is None:  # the user interrupted the cell
                return _RunEnd("interrupted")
            return _RunEnd(end.status, end.why)

    def _keep_requests(self, prepared: PreparedTurn) -> None:
        """Keep the host and the requests of the turn that ends, for the next turn."""
        loop = prepared.loop
        self._host_notices.end_turn(loop.turn.record)
        self._contexts.end_turn(
            loop.turn.record, prepared.context, is_answered=not loop.is_unanswered
        )

    def _read_last_turn(self, prepared: PreparedTurn, status: str) -> Turn | None:
        """Return the turn that ended with `status`; None if it never began."""
        stream = prepared.loop.turn.record.stream
        last = stream.last_turn()
        if last is None or last.number < prepared.number:
            return None

        self._conversations.turn_statuses[stream.id, prepared.number] = status
        result = read_turn(prepared.number, last.entries, status=status, images=stream.images)
        value = UNTYPED if prepared.answer is None else prepared.answer.value
        return replace(result, value=value)
