"""The time and the tokens of a turn for the user.

`TurnWaits` (`status.py`) counts them from the display events of the turn. A page gets them at the
end.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnCounts:
    """Time and tokens of a finished turn.

    Attributes:
        seconds: Seconds of the model and the tools, without the time in which the turn only waited
            for the user.
        sent: Tokens that it sent; None if the server did not report them.
        received: Tokens that it received.
    """

    seconds: int
    sent: int | None = None
    received: int | None = None


class UserTime:
    """Measures the time in which a turn waits only for the user."""

    def __init__(self) -> None:
        self._since: float | None = None  # start of the current such wait, if there is one
        self._earlier_s = 0.0  # the sum of the earlier ones

    def note(self, *, waits_for_user: bool, now: float) -> None:
        """Begin or end such a wait, if that has changed at `now`."""
        if waits_for_user and self._since is None:
            self._since = now
        elif not waits_for_user and self._since is not None:
            self._earlier_s += now - self._since
            self._since = None

    def sum_until(self, now: float) -> float:
        """Return the seconds of all such waits until `now`."""
        if self._since is None:
            return self._earlier_s
        return self._earlier_s + now - self._since


def format_tokens(sent: int | None, received: int | None) -> str:
    """Return the number of tokens of a turn so far; "" if it is unknown."""
    parts = []
    if sent is not None:
        parts.append(f"{sent:,} tokens in")
    if received is not None:
        noun = "out" if parts else "tokens out"
        parts.append(f"{received:,} {noun}")

    return ", ".join(parts)
