"""The clock of a form: it starts again with each change, and waits for a user who writes."""

from __future__ import annotations

import pytest

import jp_nb as jp
from tests.kit.forms import FormUser
from tests.kit.kinds import make
from tests.kit.questions import answered, not_answered

WHY = make("question_prompt", jp.Question.text("q", "Why?"))
LATE = not_answered("timed_out", "form")


def show(timeout_s: float = 10.0) -> FormUser:
    """Return the user of a form that a page shows."""
    user = FormUser(prompt=WHY, timeout_s=timeout_s)
    user.send("rendered")
    return user


@pytest.mark.req("RPI-42", "RPI-72")
def test_clock_expires_once_and_never_without_a_time() -> None:
    user = show()
    user.pass_time(9.9)
    assert user.ends == []
    user.pass_time(100)
    assert user.ends == [LATE]

    untimed = show(timeout_s=0)
    untimed.pass_time(10_000)
    assert untimed.ends == []


@pytest.mark.req("RPI-73", "HB-2")
def test_each_change_begins_the_time_anew_without_a_timer_for_each() -> None:
    user = show()
    for number in range(1000):
        user.pass_time(1)
        user.boxes[0].value = " " * (number % 2)

    assert user.ends == []
    assert user.timer_count < 120
    user.pass_time(9.9)
    assert user.ends == []
    user.pass_time(0.1)
    assert user.ends == [LATE]


@pytest.mark.req("RPI-71", "HB-2")
def test_clock_waits_while_a_text_is_written() -> None:
    user = show()
    user.send("writing", value=True)
    user.pass_time(95)
    assert user.ends == []

    user.send("writing", value=False)
    user.pass_time(9.9)
    assert user.ends == []
    user.pass_time(0.1)
    assert user.ends == [LATE]


def test_clock_of_a_form_that_was_removed_does_not_expire() -> None:
    user = show()
    user.send("submit", value="so")
    user.close()
    user.pass_time(100)
    assert user.ends == [answered("so", "form")]
