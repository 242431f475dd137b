"""The clock of a form: it begins anew with each change, and waits for who is writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from jp_nb.notebook.prompt.timeout import IdleClock


@dataclass
class Hours:
    """A loop with a manual clock."""

    now: float = 0.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    made: int = 0

    @property
    def idle_s(self) -> float:
        return self.now

    def call_after_idle(self, seconds: float, job: Callable[[], None]) -> Hours:
        self.made += 1
        self.timers.append((self.now + seconds, job))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def pass_(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [each for each in self.timers if each[0] <= until]:
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = until


@pytest.fixture
def hours() -> Hours:
    return Hours()


def clock(hours: Hours, seconds: float, busy: Callable[[], bool] = lambda: False) -> list[float]:
    """Start a clock and return the times at which it expired."""
    expired: list[float] = []
    made = IdleClock(
        hours,  # type: ignore[arg-type]  # as much of a loop as it needs
        seconds,
        busy=busy,
        expired=lambda: expired.append(hours.now),
    )
    made.start()
    hours.restart = made.restart  # type: ignore[attr-defined]
    hours.stop = made.stop  # type: ignore[attr-defined]
    return expired


@pytest.mark.req("RPI-42", "RPI-72")
def test_clock_expires_once_and_never_without_a_time(hours: Hours) -> None:
    expired, never = clock(hours, 10), clock(hours, 0)
    hours.pass_(9.9)
    assert expired == []
    hours.pass_(100)
    assert (expired, never) == ([10], [])


@pytest.mark.req("RPI-73", "HB-2")
def test_each_change_begins_the_time_anew_without_a_timer_for_each(hours: Hours) -> None:
    expired = clock(hours, 10)
    for _ in range(1000):
        hours.pass_(1)
        hours.restart()  # type: ignore[attr-defined]
    assert expired == []
    hours.pass_(10)
    assert expired == [1010]
    assert hours.made < 120


@pytest.mark.req("RPI-71", "HB-2")
def test_clock_waits_while_a_text_is_written(hours: Hours) -> None:
    writing = [True]
    expired = clock(hours, 10, busy=lambda: writing[0])
    hours.pass_(95)
    assert expired == []
    writing[0] = False
    hours.pass_(5)  # since it looked last there were five seconds of writing
    assert expired == [100]


def test_stopped_clock_does_not_expire(hours: Hours) -> None:
    expired = clock(hours, 10)
    hours.stop()  # type: ignore[attr-defined]
    hours.pass_(100)
    assert expired == []
