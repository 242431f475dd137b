"""Send the requests of a call until the server has a result, or asks the user.

A server of 2026 may respond to a request with questions. The next request of the call has the
user's answers. A response without questions and without a result means that the server is not ready
yet, and the request is sent again after a pause. Each response of both kinds is a *round*. A call
with too many rounds ends with an error.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from jp_nb.mcp.errors import ServerError
from jp_nb.mcp.exchange import CallRequest, InputRequired, ServerResult

MAX_CALL_ROUNDS: Final = 10
"""Rounds of a call; a further one is an error."""
MAX_ROUNDS_S: Final = 3600.0
"""Seconds from the first request of a call to its last round."""
_FIRST_DELAY_S: Final = 0.05
"""Pause before a server that is not ready gets the request again. Further pauses are each twice as
long, up to `_LONGEST_DELAY_S`: about 20 s for all rounds of a call."""
_LONGEST_DELAY_S: Final = 5.0

SendRequest = Callable[[CallRequest], Awaitable[ServerResult | InputRequired]]


@dataclass(slots=True)
class _Rounds:
    """The rounds of one call: when they began, how many there were, and if one had questions."""

    began: float
    count: int = 0
    has_asked: bool = False


class CallRounds:
    """Counts the rounds of the calls of one server, over all requests of each call."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._rounds: dict[str, _Rounds] = {}  # by id of the call

    async def run(
        self, call_id: str, request: CallRequest, send: SendRequest
    ) -> ServerResult | InputRequired:
        """Send `request` until there is a result, or a question for the user.

        After a question, run the call again with the user's answers: its earlier rounds count.

        Raises:
            ServerError: The server asks, or is not ready, too often or too long.
        """
        now = asyncio.get_running_loop().time()
        rounds = self._rounds.setdefault(call_id, _Rounds(now))
        outcome: ServerResult | InputRequired | None = None
        try:
            outcome = await self._send_until_answered(rounds, request, send)
        finally:
            if not isinstance(outcome, InputRequired):
                self.forget(call_id)
        return outcome

    def forget(self, call_id: str) -> None:
        """Forget the rounds of a call that is not continued."""
        self._rounds.pop(call_id, None)

    async def _send_until_answered(
        self, rounds: _Rounds, request: CallRequest, send: SendRequest
    ) -> ServerResult | InputRequired:
        delay = _FIRST_DELAY_S
        while True:
            outcome = await send(request)
            if isinstance(outcome, ServerResult):
                return outcome

            self._count_round(rounds, request.tool, outcome)
            if outcome.questions:
                return outcome

            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY_S)
            # The server has the answers already.
            request = replace(request, answers=None, state=outcome.state)

    def _count_round(self, rounds: _Rounds, tool: str, outcome: InputRequired) -> None:
        """Count a round, and raise `ServerError` if there are too many or they take too long."""
        rounds.count += 1
        if outcome.questions:
            rounds.has_asked = True

        if rounds.count > MAX_CALL_ROUNDS:
            reason = f"it was not ready after {rounds.count} attempts"
            if rounds.has_asked:
                reason = f"it asked, or was not ready, in more than {MAX_CALL_ROUNDS} rounds"
            raise ServerError(self._server, tool, reason)

        elapsed = asyncio.get_running_loop().time() - rounds.began
        if elapsed > MAX_ROUNDS_S:
            raise ServerError(self._server, tool, "it gave no result within an hour")
