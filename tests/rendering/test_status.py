"""The status line of a running turn."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.rendering.status import TurnWaits
from tests.kit.kinds import make
from tests.kit.screens import display_event

question_outcome = partial(make, "question_outcome")
"""The end of a question: `answered`, `declined`, `cancelled` …, and its channel."""

MODEL = display_event("waits", "model", "anthropic/opus")


def line_at(now: float, *events: Any | tuple[float, Any]) -> str:
    """Return the line at `now`, after `events` that happened at 0.0 or at their own time."""
    waiting = TurnWaits(0.0)
    for event in events:
        match event:
            case (float() as when, happened):
                waiting.apply(happened, when)
            case happened:
                waiting.apply(happened, 0.0)
    return waiting.format_line(now)


def test_model_is_named_and_seconds_are_counted() -> None:
    assert line_at(0.0) == "Waiting for the request to be prepared · 0 s"
    assert line_at(3.9, MODEL) == "Waiting for anthropic/opus · 3 s"
    assert line_at(9.0, MODEL, (5.0, display_event("waits", "model", ""))) == ""


def test_line_has_seconds_and_tokens_while_text_streams() -> None:
    spoke = (5.0, display_event("show_text", "message", "Once upon"))
    more = (5.9, display_event("show_text", "message", " a time" * 1000))
    assert line_at(5.5, MODEL, spoke) == "Answering … · 5 s · about 3 tokens"
    assert line_at(6.5, MODEL, spoke, more) == "Answering … · 6 s · about 1,753 tokens"
    assert line_at(8.0, MODEL, spoke) == "Waiting for anthropic/opus · 8 s"

    again = (
        (7.0, MODEL),
        (7.5, display_event("show_text", "message", "So")),
    )  # the next response of the turn
    ended = (6.0, display_event("waits", "model", ""))
    assert line_at(7.6, MODEL, spoke, more, ended, *again) == "Answering … · 0 s · about 1 token"


def test_line_names_tools_while_text_streams() -> None:
    spoke = (5.0, display_event("show_text", "message", "Once upon"))
    assert (
        line_at(5.5, MODEL, display_event("waits", "a", "look"), spoke) == "Waiting for look · 5 s"
    )


def test_hidden_reasoning_is_mentioned() -> None:
    thinks = (5.0, display_event("show_text", "reasoning", "hm"))
    assert line_at(5.1, MODEL, thinks) == "Waiting for anthropic/opus (reasoning) · 5 s"
    assert line_at(
        5.3, MODEL, thinks, (5.2, display_event("show_text", "message", "So"))
    ).startswith("Answering …")


def test_running_tools_are_named() -> None:
    quiet = display_event("waits", "model", "")
    both: list[Any | tuple[float, Any]]
    both = [quiet, display_event("waits", "a", "look"), (2.0, display_event("waits", "b", "wait"))]
    assert line_at(4.0, *both) == "Waiting for look, wait · 4 s"
    ended = (4.0, display_event("tool_ends", "a", "look", "fine", False, 4.0))
    assert line_at(4.0, *both, ended) == "Waiting for wait · 2 s"
    many = [quiet, *(display_event("waits", str(n), f"t{n}") for n in range(9))]
    assert line_at(0.0, *many) == "Waiting for t0, t1, t2 and 6 more · 0 s"


def test_retry_counts_down() -> None:
    again = display_event(
        "waits", "model", "anthropic/opus: 429 rate limit, attempt 2 of 5", until=10.0
    )
    line = "anthropic/opus: 429 rate limit, attempt 2 of 5, retrying"
    assert line_at(7.5, MODEL, again) == f"{line} in 3 s"
    assert line_at(11.0, MODEL, again) == f"{line} now"


def test_queued_questions_are_counted_until_they_end() -> None:
    quiet = display_event("waits", "model", "")
    answer = display_event("waits", "b", "your answer to a question from rename", person=True)
    waits = [quiet, display_event("waits", "a", "look"), answer]
    line = "Waiting for look; then 1 decision by you · 3 s"
    assert line_at(3.0, *waits) == line
    asked = jp.Question.boolean("q", "Sure?")
    assert line_at(
        3.0,
        *waits,
        display_event(
            "question_ends",
            "b",
            "rename",
            asked,
            question_outcome("answered"),
            True,
        ),
    ).startswith("Waiting for look · ")
    assert line_at(3.0, quiet, answer) == "Waiting for your answer to a question from rename · 3 s"


def test_interrupt_is_confirmed_until_the_turn_continues() -> None:
    hold = display_event("function_begins", "a", "hold")
    assert line_at(1.0, MODEL, display_event("interrupt_received")) == "Interrupt received"
    assert (
        line_at(1.0, hold, display_event("interrupt_received"))
        == "Interrupt received: stopping hold"
    )
    menu = display_event("interrupt_received", "menu")
    assert line_at(1.0, menu) == "Interrupt received: a menu asks how to continue"
    assert (
        line_at(1.0, hold, menu) == "Interrupt received: stopping hold; a menu asks how to continue"
    )
    assert line_at(1.0, hold, menu, display_event("function_ends", "a")) == line_at(1.0, menu)
    stop = display_event("interrupt_received", "stop")
    line = "Interrupt received: stopping; the text received so far is kept"
    assert (
        line_at(
            9.0,
            stop,
            display_event("waits", "a", "look"),
            display_event("tool_ends", "a", "look", "", False, 1.0),
        )
        == line
    )
    for then in ("continue", "reply", "restart"):
        heard = display_event("interrupt_received", then)
        assert line_at(1.0, heard).startswith("Interrupt received: ")
        assert line_at(1.0, heard, MODEL) == "Waiting for anthropic/opus · 1 s"
        assert not line_at(1.0, heard, display_event("tool_begins", "a", "look", {})).startswith(
            "Interrupt"
        )


def test_turn_that_continues_shows_its_waits() -> None:
    look = display_event("waits", "a", "look", progress="2 of 3")
    waits = "Waiting for look (2 of 3) · 3 s"
    by_setting = (
        QUIET,
        look,
        display_event("interrupt_received"),
        display_event("interrupt_received", "continue"),
    )
    assert line_at(3.0, *by_setting) == f"Interrupt received: continuing · {waits}"
    menu = display_event("interrupt_received", "menu")
    by_user = (
        QUIET,
        look,
        display_event("interrupt_received"),
        menu,
        display_event("interrupt_received", "continue"),
    )
    assert line_at(3.0, *by_user) == waits


PERMISSION = display_event("waits", "a", "your permission to run look", person=True)
RUNS = display_event("waits", "a", "look")
DONE = display_event("tool_ends", "a", "look", "fine", False, 1.0)
QUIET = display_event("waits", "model", "")


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([(2.0, QUIET), (2.0, PERMISSION), (30.0, RUNS), (34.0, DONE)], 12),
        ([(2.0, QUIET), (2.0, PERMISSION)], 2),  # the user stopped the turn there
        # Another tool works meanwhile, for 5 of the 28 seconds.
        (
            [
                (2.0, QUIET),
                (2.0, PERMISSION),
                (2.0, display_event("waits", "b", "wait")),
                (7.0, display_event("tool_ends", "b", "wait", "fine", False, 5.0)),
                (30.0, RUNS),
                (34.0, DONE),
            ],
            17,
        ),
        # The code of a tool asks with `jp.ask`, twice.
        (
            [
                (2.0, QUIET),
                (2.0, RUNS),
                (3.0, display_event("code_asks", "a", waits=True)),
                (13.0, display_event("code_asks", "a", waits=False)),
                (14.0, display_event("code_asks", "a", waits=True)),
                (24.0, display_event("code_asks", "a", waits=False)),
                (34.0, DONE),
            ],
            20,
        ),
        # The menu of an interrupt, during the answer of the model and during a tool.
        (
            [
                (5.0, display_event("interrupt_received", "menu")),
                (25.0, display_event("interrupt_received", "continue")),
            ],
            20,
        ),
        (
            [
                (2.0, QUIET),
                (2.0, RUNS),
                (4.0, display_event("interrupt_received", "menu")),
                (34.0, display_event("interrupt_received", "stop")),
                (34.0, DONE),
            ],
            10,
        ),
    ],
    ids=["permission", "stopped", "another tool", "code", "menu", "menu of a tool"],
)
def test_seconds_at_the_end_are_those_of_the_model_and_the_tools(
    events: list[tuple[float, Any]], seconds: int
) -> None:
    waiting = TurnWaits(0.0)
    waiting.apply(MODEL, 0.0)
    for when, event in events:
        waiting.apply(event, when)
    assert waiting.count_turn(40.0).seconds == seconds
