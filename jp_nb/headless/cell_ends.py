"""How each cell of a run ended, and how far the record had come by then.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from nbclient import NotebookClient

from jp_nb.record.carrier import MODULE, read
from jp_nb.record.jp_object import conversation_id, events_of, others_of

CellStatus = Literal["passed", "failed", "not run"]
RAISES: Final = "raises-exception"
"""The tag of a cell that may fail, as Jupyter's runners have it."""


@dataclass(frozen=True, slots=True)
class CellEnd:
    """How one cell of code ended.

    Attributes:
        cell: Its number among all cells, from 0.
        status: `failed` is also said of a cell in which the kernel died, or which took too long.
        seconds: How long it ran.
        conversation: The id of the active conversation when it ended; "" if there was none.
        entries: How many entries that had.
    """

    cell: int
    status: CellStatus
    seconds: float = 0.0
    conversation: str = ""
    entries: int = 0


@dataclass(frozen=True, slots=True)
class CellEnds:
    """The ends of all cells of code that are not blank.

    Attributes:
        cells: In the notebook's order, which is that of the run.
        taken_over: How many entries each conversation had in the notebook before, by id.
        continued: Whether the run was to go on with the conversation that it found there.
    """

    cells: tuple[CellEnd, ...] = ()
    taken_over: Mapping[str, int] = field(default_factory=dict)
    continued: bool = False


@dataclass(slots=True)
class CellWatch:
    """Follows a run by `client`, which collects the states of widgets."""

    client: NotebookClient
    _ends: dict[int, CellEnd] = field(default_factory=dict)
    _running: int | None = None
    _since: float = 0.0

    def begins(self, number: int) -> None:
        """Take note that the cell begins to run."""
        self._running, self._since = number, time.monotonic()

    def ends(self, cell: Any, reply: Mapping[str, Any]) -> None:
        """Take note of the end of the running cell; `reply` is the kernel's."""
        # Not by its outputs: what cannot be written as UTF-8 fails without one.
        is_error = reply["content"]["status"] == "error"
        self._end("failed" if is_error and not _may_fail(cell) else "passed")

    def of(self, cells: list[Any], taken_over: Mapping[str, int], *, continued: bool) -> CellEnds:
        """Return the ends of all `cells`, once the run is over; one that still runs has failed."""
        self._end("failed")
        numbers = [n for n, cell in enumerate(cells) if is_run(cell)]
        ends = tuple(self._ends.get(n) or CellEnd(n, "not run") for n in numbers)
        return CellEnds(ends, taken_over, continued)

    def _end(self, status: CellStatus) -> None:
        if self._running is None:
            return
        number, self._running = self._running, None
        state = self._state()
        entries = state.get("length")
        self._ends[number] = CellEnd(
            number,
            status,
            time.monotonic() - self._since,
            conversation_id(state.get("jp")),
            entries if isinstance(entries, int) else 0,
        )

    def _state(self) -> Mapping[str, Any]:
        """Return what the widget that was opened last to carry the record says; {} without any."""
        states: Iterable[Mapping[str, Any]] = reversed(self.client.widget_state.values())
        return next((each for each in states if each.get("_model_module") == MODULE), {})


def lengths(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Return how many entries each conversation in a notebook's `metadata` has, by id."""
    stored = read(metadata)
    found = [stored, *others_of(stored)]
    return {identifier: len(events_of(x)) for x in found if (identifier := conversation_id(x))}


def is_run(cell: Any) -> bool:
    """Return True if `cell` is code, and not blank."""
    return cell.cell_type == "code" and bool(cell.source.strip())


def _may_fail(cell: Any) -> bool:
    tags = cell.metadata.get("tags", [])
    return isinstance(tags, list) and RAISES in tags
