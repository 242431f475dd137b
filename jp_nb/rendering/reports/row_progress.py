"""The progress of requests for many rows, as a line of text.

Source: `docs/rows.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from jp_nb.text import pluralize

MIN_RATE_S: Final = 2.0
"""Seconds after which the rate is known well enough to show it."""


@dataclass(slots=True)
class RowProgress:
    """Counts of rows so far.

    Attributes:
        total: Number of rows; None if it is not known yet.
        done: Rows with an answer or a failure.
        failed: Those without an answer.
        cached: Those whose answer is from the cache file.
        tokens: Tokens of the requests so far.
        paused_until: Time (`time.monotonic`) until which the server's limit lets no request begin.
        batches: State of the provider's batches, as text; "" if the rows are not sent in batches.
        stopped: The reason why the other rows were not asked; "" if all were.
        began: Time at which the first row began.
    """

    total: int | None = None
    done: int = 0
    failed: int = 0
    cached: int = 0
    tokens: int = 0
    paused_until: float = 0.0
    batches: str = ""
    stopped: str = ""
    began: float = field(default_factory=monotonic)

    def format_counts(self) -> str:
        """Return the counts, which do not depend on the time: `3 of 10 rows · 1 failed`."""
        of = "" if self.total is None else f" of {self.total:,}"
        known = self.done if self.total is None else self.total
        parts = [f"{self.done:,}{of} {pluralize('row', known)}"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.cached:
            parts.append(f"{self.cached:,} from the cache")
        if self.tokens:
            parts.append(f"{self.tokens:,} tokens")
        if self.stopped:
            parts.append(self.stopped)
        return " · ".join(parts)

    def format_line(self) -> str:
        """Return the counts, with the rate, the time left, and a pause."""
        parts = [self.format_counts()]
        now = monotonic()
        asked = self.done - self.cached  # answers from the cache do not tell how fast the model is
        seconds = now - self.began

        if self.batches:
            parts.append(self.batches)
        elif asked > 0 and seconds >= MIN_RATE_S:
            rate = asked / seconds
            parts.append(f"{rate:,.1f} rows/s")
            if self.total is not None and self.done < self.total:
                left = (self.total - self.done) / rate
                parts.append(f"about {_format_seconds(left)} left")

        if self.paused_until > now:
            pause = _format_seconds(self.paused_until - now)
            parts.append(f"the server asks to wait {pause}")
        return " · ".join(parts)


def _format_seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
