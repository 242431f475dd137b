"""Interrupts: escalation, menus, replies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jp_nb.agent.interrupts import (
    ESCALATED_VERDICT,
    STOP_VERDICT,
    USER_CONTINUED_VERDICT,
    Verdict,
    ask_menu,
    decide_without_menu,
    stream_menu,
    tool_menu,
)
from jp_nb.agent.prompt_queue import SafeAsk
from jp_nb.config.tree.app import Interrupt as InterruptConfig
from tests.kit.kinds import is_kind
from tests.kit.questions import not_answered, unavailable
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, yes

PHASES: list[Any] = ["streaming", "tool_call"]


def test_interrupt_within_the_cool_down_or_the_menu_escalates() -> None:
    now = 0.0
    turn = replace(TurnBench([]).loop.turn, clock=lambda: now)
    settings = InterruptConfig(escalation_cooldown_secs=2)
    assert decide_without_menu(turn, "streaming", settings) is None
    now = 1.5
    assert decide_without_menu(turn, "tool_call", settings) == ESCALATED_VERDICT
    now = 3.5
    assert decide_without_menu(turn, "tool_call", settings) is None
    now = 40.0
    assert decide_without_menu(turn, "tool_call", settings, in_menu=True) == ESCALATED_VERDICT
    alone = TurnBench([], person=FakePrompter(away="headless")).loop.turn
    assert decide_without_menu(alone, "streaming", settings) == STOP_VERDICT


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
        shown = tool_menu(tools)
        assert shown.text == text
        assert [action.label for action in shown.actions if action.value == "restart"] == [again]


ENDS: list[tuple[Any, Verdict]] = [
    (CANCELLED, USER_CONTINUED_VERDICT),
    (not_answered("declined", "form"), USER_CONTINUED_VERDICT),
    (not_answered("timed_out", "form"), STOP_VERDICT),
    (unavailable("gone"), STOP_VERDICT),
    (not_answered("interrupted", "form"), ESCALATED_VERDICT),
]


async def test_unanswered_menu_continues_only_if_the_user_closed_it() -> None:
    shown = tool_menu(["slow"])
    for phase in PHASES:
        for end, verdict in ENDS:
            user = FakePrompter(end)
            assert await ask_menu(SafeAsk(user), phase, InterruptConfig(), shown) == verdict
            assert user.asked == [shown]


def test_menu_names_the_interrupted_request() -> None:
    assert stream_menu("Count\nthem.").text == "Interrupted: the answer to “Count them.”"
    assert stream_menu("x" * 10_000).text == f"Interrupted: the answer to “{'x' * 60}…”"


async def test_reply_is_asked_for_as_text() -> None:
    user = FakePrompter(yes("reply"), yes("Go left."))
    words = Verdict("reply", "Go left.", by="person")
    menu = tool_menu(["slow"])
    assert await ask_menu(SafeAsk(user), "tool_call", InterruptConfig(), menu) == words
    assert is_kind(user.asked[1], "question_prompt")
    assert user.asked[1].question.answer_type.type == "text"
