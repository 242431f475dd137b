"""The display of the turn in the running cell, from its beginning to its end.

A turn's display begins when the turn does, or earlier if its tools take long to start: then it
shows that the turn waits (`begin_early`), and the turn continues in the same display. A front end
implements the display (`TurnOutput`).

Source: `docs/architecture.md`, `docs/mcp.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from jp_nb.agent.display import DisplayEvent, InterruptReceived
from jp_nb.config.tree.app import AppConfig
from jp_nb.session.host import FrontEnd, TurnOutput
from jp_nb.session.threads.deferred_interrupts import DeferredInterrupts

_SHOWS_TURNS: Final = ContextVar[bool]("shows_turns", default=True)


@contextmanager
def showing_turns(shows: bool) -> Iterator[None]:
    """Show the turns of the `with` block, or only their questions."""
    token = _SHOWS_TURNS.set(shows)
    try:
        yield
    finally:
        _SHOWS_TURNS.reset(token)


class ActiveOutput:
    """Begins and ends the display of each turn. Use it on the cell's thread.

    Attributes:
        current: Display of the running turn, or of the last one; None before the first turn.
        early: Display of a turn that has not begun; None if there is none.
    """

    def __init__(self, front_end: FrontEnd, interrupts: DeferredInterrupts) -> None:
        self._front_end = front_end
        self._interrupts = interrupts
        self.current: TurnOutput | None = None
        self.early: TurnOutput | None = None

    def begin_early(self, config: AppConfig) -> None:
        """Show the turn before it begins, if it is not shown yet: its tools are not ready."""
        if self.early is None and _SHOWS_TURNS.get():
            self.early = self._front_end.begin_turn(config)
            self.early.begin()

    @contextmanager
    def ending_early(self) -> Iterator[None]:
        """End the early display if the turn of the `with` block does not begin."""
        try:
            yield
        finally:
            self.end_early()

    def end_early(self) -> None:
        """End the display of a turn that does not begin."""
        if self.early is not None:
            self._front_end.end()
            self.early.finish()
            self.early = None

    def choose(self, config: AppConfig) -> TurnOutput:
        """Return the display of a turn in the running cell; later prompts appear in that cell.

        It is the early one, if there is one. `showing_current` begins and ends it.
        """
        if self.early is not None:
            self.current = self.early
            self.early = None
            return self.current

        if _SHOWS_TURNS.get():
            self.current = self._front_end.begin_turn(config)
        else:
            self._front_end.begin_question(config)
            self.current = HiddenTurn()

        return self.current

    @contextmanager
    def showing_current(self) -> Iterator[TurnOutput]:
        """Show the events of the `with` block. Interrupts can end only `CellLoop.serve` in it."""
        output = self.current
        assert output is not None  # `choose` was called

        with self._interrupts.defer():
            try:
                self._interrupts.on_interrupt = lambda: output(InterruptReceived())
                output.begin()  # an early display was begun before: it now shows the turn
                yield output
            finally:
                self._interrupts.on_interrupt = None
                self._front_end.end()
                output.finish()


class HiddenTurn:
    """Display of a turn that shows nothing; it implements `TurnOutput` (`session/host.py`).

    Its questions have their own outputs.
    """

    def begin(self) -> None:
        """Show nothing."""

    def __call__(self, event: DisplayEvent) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Show nothing."""
