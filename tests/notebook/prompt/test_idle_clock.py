"""The clock of a form: it begins anew with each change, and waits for who is writing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jp_nb.notebook.prompt.deadlines import IdleClock
from tests.notebook.prompt.paged_forms import ManualLoop


@pytest.fixture
def hours() -> ManualLoop:
    return ManualLoop()


def clock(
    hours: ManualLoop, seconds: float, busy: Callable[[], bool] = lambda: False
) -> list[float]:
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
def test_clock_expires_once_and_never_without_a_time(hours: ManualLoop) -> None:
    expired = clock(hours, 10)
    never = clock(hours, 0)
    hours.pass_(9.9)
    assert expired == []
    hours.pass_(100)
    assert (expired, never) == ([10], [])


@pytest.mark.req("RPI-73", "HB-2")
def test_each_change_begins_the_time_anew_without_a_timer_for_each(hours: ManualLoop) -> None:
    expired = clock(hours, 10)
    for _ in range(1000):
        hours.pass_(1)
        hours.restart()  # type: ignore[attr-defined]
    assert expired == []
    hours.pass_(10)
    assert expired == [1010]
    assert hours.made < 120


@pytest.mark.req("RPI-71", "HB-2")
def test_clock_waits_while_a_text_is_written(hours: ManualLoop) -> None:
    writing = [True]
    expired = clock(hours, 10, busy=lambda: writing[0])
    hours.pass_(95)
    assert expired == []
    writing[0] = False
    hours.pass_(5)  # since it looked last there were five seconds of writing
    assert expired == [100]


def test_stopped_clock_does_not_expire(hours: ManualLoop) -> None:
    expired = clock(hours, 10)
    hours.stop()  # type: ignore[attr-defined]
    hours.pass_(100)
    assert expired == []
