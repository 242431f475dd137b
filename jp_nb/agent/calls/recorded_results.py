"""Recorded results of tool calls, which a replay uses in place of the tools.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jp_nb.record.request_context.context import RequestContext


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """The recorded result of a tool call."""

    content: str
    is_error: bool


FindRecordedResults = Callable[[RequestContext], Sequence[RecordedResult] | None]
"""Returns the recorded results of the calls at the end of a context; None if the tools must run."""
