"""Calls that wait for one server, and the questions that a server of 2025 sends meanwhile.

A *server of 2025* speaks a version of MCP in which a question is a request of the server to us. In
later versions, a question is in the result of a call (`call_rounds.py`).

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jp_nb.mcp.connections.call_clock import CallClock
from jp_nb.mcp.exchange import CANCEL, QuestionHandler, ServerAnswer

MAX_OPEN_QUESTIONS = 20
"""Open questions of a server of 2025; further ones are answered with `cancel`."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _WaitingCall:
    """A call that waits for its result, and the number of questions since it was sent."""

    clock: CallClock
    question_count: int = 0


class OpenCalls:
    """The open calls of the server `name`.

    While the user answers a question, the clocks of all open calls stand still: any of them may be
    the one that asks.

    Args:
        on_question: Asks the user; with None, the server always gets `cancel`.
    """

    def __init__(self, name: str, on_question: QuestionHandler | None) -> None:
        self._name = name
        self._on_question = on_question
        self._calls: dict[str, _WaitingCall] = {}
        self._open_question_count = 0

    @contextmanager
    def opened(self, call_id: str, clock: CallClock) -> Iterator[None]:
        """Count the call as open in this block."""
        self._calls[call_id] = _WaitingCall(clock)
        try:
            yield
        finally:
            self._calls.pop(call_id, None)

    async def ask(self, params: Any) -> ServerAnswer:
        """Return the user's answer to a question with the `params` of the protocol.

        It is `cancel` if no user or no call is there, after an error, and for too many questions.
        """
        # It imports the library `mcp`, which takes about a second, only when a server starts.
        from jp_nb.mcp.connections import client as library

        call_ids = [*self._calls]
        has_too_many = self._open_question_count >= MAX_OPEN_QUESTIONS
        if self._on_question is None or not call_ids or has_too_many:
            return CANCEL

        # Each question has a key in its call, by which an answers file can prepare the answer. The
        # protocol of 2025 has no keys, and does not say which call asks: the oldest counts it.
        oldest = self._calls[call_ids[0]]
        oldest.question_count += 1
        key = "elicitation"
        if oldest.question_count > 1:
            key = f"elicitation-{oldest.question_count}"

        question = library.convert_question(key, params)

        with self._pause_clocks():
            try:
                return await self._on_question(question, call_ids)
            except Exception:
                _log.exception("A question of the MCP server %s failed", self._name)
                return CANCEL

    @contextmanager
    def _pause_clocks(self) -> Iterator[None]:
        """Pause the clocks of the calls that are open now, and count a question as open."""
        paused = [call.clock for call in self._calls.values()]
        for clock in paused:
            clock.pause()
        self._open_question_count += 1

        try:
            yield
        finally:
            self._open_question_count -= 1
            for clock in paused:
                clock.resume()
