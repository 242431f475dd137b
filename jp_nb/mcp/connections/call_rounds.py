"""Send the requests of a call until the server has a result, or asks the user.

A server of 2026 may answer a request with questions instead of a result. The next request of the
call has the answers. Each such answer is a *round*, and a server that never ends is stopped. If an
answer has no question, the server is only not ready yet, and is asked again.

Source: `docs/mcp.md`, Questions of servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from jp_nb.mcp.errors import ServerError
from jp_nb.mcp.exchange import CallRequest, InputRequired, ServerResult

MAX_CALL_ROUNDS = 10
"""Rounds of a call in which the server asks; a further one is an error."""
MAX_ROUNDS_S = 3600.0
"""Seconds from the first to the last round of a call."""
_FIRST_DELAY_S: Final = 0.05
"""Pause before a server that is not ready is asked again. Each further pause is twice as long."""
_LONGEST_DELAY_S: Final = 0.25

SendRequest = Callable[[CallRequest], Awaitable[ServerResult | InputRequired]]


@dataclass(slots=True)
class _Rounds:
    """The rounds of one call: when they began, and how many there were."""

    began: float
    count: int = 0


class CallRounds:
    """Counts the rounds of the calls of one server, over all requests of each call."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._rounds: dict[str, _Rounds] = {}  # by id of the call

    async def run(
        self, call_id: str, request: CallRequest, send: SendRequest
    ) -> ServerResult | InputRequired:
        """Send `request` until there is a result, or a question for the user.

        The rounds are remembered only if there is a question: the call then continues.

        Raises:
            ServerError: The server asks without end.
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

            self._count_round(rounds, request.tool)
            if outcome.questions:
                return outcome

            # Only a state, without questions: the server is not ready yet, and is asked again.
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY_S)
            request = replace(request, answers=None, state=outcome.state)

    def _count_round(self, rounds: _Rounds, tool: str) -> None:
        """Count a round, and raise `ServerError` if the server asks without end."""
        rounds.count += 1
        elapsed = asyncio.get_running_loop().time() - rounds.began
        if rounds.count > MAX_CALL_ROUNDS:
            raise ServerError(self._server, tool, f"it asked in more than {MAX_CALL_ROUNDS} rounds")
        if elapsed > MAX_ROUNDS_S:
            raise ServerError(self._server, tool, "its rounds of questions took more than an hour")
