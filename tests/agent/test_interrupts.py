"""Interrupts: escalation, menus, replies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.kinds import is_kind, make
from tests.kit.questions import not_answered
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, yes

PHASES: list[Any] = ["streaming", "tool_call"]
STOPPED = {
    "choice": "stop",
    "text": "",
    "escalated": False,
    "by": "unattended",
    "by_interrupt": True,
}
ESCALATED = {**STOPPED, "escalated": True, "by": "person"}
CONTINUED = {**STOPPED, "choice": "continue", "by": "person"}


def test_interrupt_within_the_cool_down_or_the_menu_escalates() -> None:
    now = 0.0
    bench = TurnBench([], config={"interrupt": {"escalation_cooldown_secs": 2}})
    bench.use(clock=lambda: now)
    assert bench.decide_interrupt("streaming") is None
    now = 1.5
    assert bench.decide_interrupt("tool_call") == ESCALATED
    now = 3.5
    assert bench.decide_interrupt("tool_call") is None
    now = 40.0
    assert bench.decide_interrupt("tool_call", is_second=True) == ESCALATED

    alone = TurnBench([], person=FakePrompter(away="headless"))
    assert alone.decide_interrupt("streaming") == STOPPED


MENUS: list[tuple[list[str], str, str]] = [
    (["slow"], "Interrupted: slow", "Run slow again"),
    (["a", "b"], "Interrupted: a and b", "Run these 2 calls again"),
    (["a", "b", "c"], "Interrupted: a, b and c", "Run these 3 calls again"),
    (["a"] * 5, "Interrupted: a, a, a and 2 more", "Run these 5 calls again"),
    (["a\u202eb"], "Interrupted: a⟨U+202E⟩b", "Run a⟨U+202E⟩b again"),
    ([], "Interrupted", "Run the calls again"),
]


def test_menu_names_the_interrupted_calls() -> None:
    for tools, text, again in MENUS:
        menu = TurnBench.make_interrupt_menu(*tools)
        assert menu.text == text
        assert [action.label for action in menu.actions if action.value == "restart"] == [again]


ENDS: list[tuple[Any, dict[str, Any]]] = [
    (CANCELLED, CONTINUED),
    (not_answered("declined", "form"), CONTINUED),
    (not_answered("timed_out", "form"), STOPPED),
    (make("unavailable", "gone"), STOPPED),
    (not_answered("interrupted", "form"), ESCALATED),
]


async def test_unanswered_menu_continues_only_if_the_user_closed_it() -> None:
    menu = TurnBench.make_interrupt_menu("slow")
    for phase in PHASES:
        for end, decision in ENDS:
            bench = TurnBench([], person=FakePrompter(end))
            assert await bench.ask_about_interrupt(phase, menu) == decision
            assert bench.person.asked == [menu]


def test_menu_names_the_interrupted_request() -> None:
    short = TurnBench.make_interrupt_menu(request="Count\nthem.")
    assert short.text == "Interrupted: the answer to “Count them.”"
    long = TurnBench.make_interrupt_menu(request="x" * 10_000)
    assert long.text == f"Interrupted: the answer to “{'x' * 60}…”"


def test_menu_shows_that_a_request_with_many_blanks_was_cut(subtests: pytest.Subtests) -> None:
    for blanks in ("\n" * 300, " " * 300, "\t \n" * 100):
        with subtests.test(blanks=blanks):
            menu = TurnBench.make_interrupt_menu(request=f"Count{blanks}them.")
            assert menu.text == "Interrupted: the answer to “Count…”"
            whole = TurnBench.make_interrupt_menu(request=f"Count{blanks}")
            assert whole.text == "Interrupted: the answer to “Count”"


async def test_reply_is_asked_for_as_text() -> None:
    bench = TurnBench([], person=FakePrompter(yes("reply"), yes("Go left.")))
    menu = TurnBench.make_interrupt_menu("slow")
    decision = await bench.ask_about_interrupt("tool_call", menu)
    assert decision == {**STOPPED, "choice": "reply", "text": "Go left.", "by": "person"}

    question = bench.person.asked[1]
    assert is_kind(question, "question_prompt")
    assert question.question.answer_type.type == "text"
