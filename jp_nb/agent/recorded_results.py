"""Results of tool calls that a cassette has: the tools do not run then.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jp_nb.record.thread import Thread


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """What a model read of a tool call.

    Attributes:
        content: The words.
        is_error: True if the call failed.
    """

    content: str
    is_error: bool


RecordedResults = Callable[[Thread], Sequence[RecordedResult] | None]
"""Returns the results of the calls that a thread ends in, in their order; None: they run."""
