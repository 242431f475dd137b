"""Interrupts while the model answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.interrupted_turns import (
    CuttingCell,
    gated_reply,
    has_said,
    interrupt_config,
    interrupt_twice,
    menus,
    one_interrupt,
)
from tests.agent.turn_bench import DONE, call, reply, say
from tests.kit.models import model_event
from tests.kit.screens import display_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, forever, until, yes

STREAMING = [
    "Continue",
    "Tell the model something …",
    "End the turn and keep the answer so far",
    "End the turn and discard the answer so far",
]


async def test_continue_keeps_the_same_stream() -> None:
    gate = asyncio.Event()
    person = FakePrompter(yes("continue"))
    bench = TurnBench([gated_reply(gate)], person=person, config=interrupt_config())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(lambda: display_event("interrupt_received", "continue") in bench.passing)
    gate.set()
    assert (await task).status == "completed"
    assert bench.turn.text == "So far and more"
    assert menus(person) == [STREAMING]
    assert len(bench.provider.requests) == 1


async def test_answer_that_completes_under_the_menu_waits_for_the_decision() -> None:
    gate = asyncio.Event()
    chosen = asyncio.Event()

    async def choose() -> Any:
        gate.set()
        await until(lambda: display_event("show_text", "message", " and more") in bench.shown)
        for _ in range(5):
            await asyncio.sleep(0)
        assert bench.kinds() == ["turn_start", "chat_request"]
        chosen.set()
        return yes("abort")

    bench = TurnBench([gated_reply(gate)], person=FakePrompter(choose), config=interrupt_config())
    end = await one_interrupt(bench, has_said(bench))
    assert (end.status, chosen.is_set()) == ("interrupted", True)
    assert bench.kinds() == ["turn_start", "chat_request", "config_delta"]
    assert bench.entries[-1].metadata["no_answer"]["ended"] == "interrupted"


async def test_interrupt_at_the_moment_of_a_decision_opens_another_menu() -> None:
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()
    heard: list[Any] = []

    async def choose() -> Any:
        gate.set()
        await until(lambda: display_event("show_text", "message", " and more") in bench.shown)
        for _ in range(5):
            await asyncio.sleep(0)
        return yes("continue")

    def show(event: Any) -> None:
        bench.show(event)
        if event == display_event("interrupt_received", "continue") and not heard:
            heard.append(event)
            loop.call_soon(bench.loop.interrupt)  # before the answer may continue

    person = FakePrompter(choose, yes("abort"))
    bench = TurnBench([gated_reply(gate)], person=person, config=interrupt_config())
    bench.use(display=show)
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "interrupted"
    assert menus(person) == [STREAMING, STREAMING]
    assert bench.kinds() == ["turn_start", "chat_request", "config_delta"]


async def test_stream_that_breaks_under_the_menu_is_retried_after_continue() -> None:
    gate = asyncio.Event()
    response = gated_reply(gate)
    response[2:] = [jp.ProviderError("reset", kind="transient")]

    async def choose() -> Any:
        gate.set()
        await until(lambda: bench.provider.closed)
        for _ in range(5):
            await asyncio.sleep(0)
        assert bench.kinds() == ["turn_start", "chat_request"], "nothing is decided yet"
        return yes("continue")

    scripts = [response, reply(say(" the rest"))]
    bench = TurnBench(scripts, person=FakePrompter(choose), config=interrupt_config())
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "completed"
    assert bench.turn.text == "So far\n\n the rest"
    assert len(bench.provider.requests) == 2


async def test_reply_is_sent_with_the_partial_answer() -> None:
    person = FakePrompter(yes("reply"), yes("Shorter, please."))
    bench = TurnBench(
        [[*say("So far")[:1], forever], DONE], person=person, config=interrupt_config()
    )
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "completed"
    assert bench.kinds() == [
        "turn_start",
        "chat_request",
        "chat_response",
        "chat_request",
        "chat_response",
    ]
    assert bench.of("chat_request")[1].content == "Shorter, please."
    _, seen = bench.provider.requests[1]
    assert [getattr(entry, "content", None) or entry.message for entry in seen] == [
        "Go.",
        "So far",
        "Shorter, please.",
    ]
    assert bench.shown_of("user_message") == [display_event("user_message", "Shorter, please.")]
    assert bench.provider.closed == 2


async def test_cancelled_or_blank_reply_returns_to_the_menu() -> None:
    person = FakePrompter(yes("reply"), CANCELLED, yes("reply"), yes("  "), yes("stop"))
    bench = TurnBench([[*say("So far")[:1], forever]], person=person, config=interrupt_config())
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "interrupted"
    assert menus(person) == [STREAMING] * 3


async def test_abort_discards_the_answer_and_keeps_earlier_cycles() -> None:
    tool = new_tool(lambda: "x", name="t")
    scripts: list[Any] = [reply(say("Before."), call("t")), [*say("So far")[:1], forever]]
    bench = TurnBench(
        scripts, tools=[tool], person=FakePrompter(yes("abort")), config=interrupt_config()
    )
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "interrupted"
    assert bench.turn.text == "Before."
    assert bench.kinds()[-1] == "tool_call_response"
    assert display_event("discard_text") in bench.shown
    assert "discarded" in bench.shown_of("notice")[-1].text


async def test_interrupt_of_the_stream_menu_ends_the_turn() -> None:
    person = FakePrompter(forever)
    bench = TurnBench([[*say("So far")[:1], forever]], person=person, config=interrupt_config())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(lambda: person.asked)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert bench.turn.text == "So far"
    assert len(person.asked) == 1


@pytest.mark.parametrize(
    ("action", "status", "text"),
    [
        ("stop", "interrupted", "So far"),
        ("abort", "interrupted", ""),
        ("reply", "completed", "So far\n\nDone."),
        ("continue", "completed", "So far and more"),
    ],
)
async def test_configured_action_for_streaming_needs_no_menu(
    action: str, status: str, text: str
) -> None:
    gate = asyncio.Event()
    person = FakePrompter(*([yes("Hm.")] if action == "reply" else []))
    bench = TurnBench(
        [gated_reply(gate), DONE], person=person, config=interrupt_config(streaming=action)
    )
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    if action == "continue":
        gate.set()
    async with asyncio.timeout(5):
        end = await task
    assert (end.status, bench.turn.text) == (status, text)
    assert menus(person) == []


async def test_wait_for_a_retry_can_be_interrupted_and_continued() -> None:
    waiting = asyncio.Event()
    gate = asyncio.Event()

    async def wait(seconds: float) -> None:
        waiting.set()
        await gate.wait()

    async def choose() -> Any:
        gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(bench.provider.requests) == 1, "nothing is sent while the menu is open"
        return yes("continue")

    broken: list[Any] = [*say("So far")[:1], jp.ProviderError("reset", kind="transient")]
    bench = TurnBench([broken, DONE], person=FakePrompter(choose), config=interrupt_config())
    bench.use(sleep=wait)
    end = await one_interrupt(bench, waiting.is_set)
    assert (end.status, bench.turn.text) == ("completed", "So far\n\nDone.")


async def test_next_turn_works_after_every_choice() -> None:
    for choice in ("continue", "stop", "abort"):
        gate = asyncio.Event()
        gate.set()
        hold = asyncio.Event()
        response: list[Any] = [*say("So far")[:1], hold.wait, *reply(say("", index=9))]
        bench = TurnBench([response], person=FakePrompter(yes(choice)), config=interrupt_config())
        task = asyncio.create_task(bench.run())
        await until(has_said(bench))
        bench.loop.interrupt()
        await until(lambda b=bench: b.person.asked)  # type: ignore[misc]
        hold.set()
        await task
        again = TurnBench([DONE], stream=bench.stream)
        assert (await again.run("And now?")).status == "completed"
        assert again.turn.text == "Done."


async def test_abort_during_the_wait_for_a_retry_keeps_the_partial_answer() -> None:
    waiting = asyncio.Event()

    async def wait(seconds: float) -> None:
        waiting.set()
        await forever()

    broken: list[Any] = [*say("So far")[:1], jp.ProviderError("reset", kind="transient")]
    bench = TurnBench([broken], person=FakePrompter(yes("abort")), config=interrupt_config())
    bench.use(sleep=wait)
    end = await one_interrupt(bench, waiting.is_set)
    assert (end.status, bench.turn.text) == ("interrupted", "So far")
    assert display_event("discard_text") not in bench.shown
    assert "before the retry." in bench.shown_of("notice")[-1].text


async def test_second_interrupt_before_a_reply_is_sent_stops_the_turn() -> None:
    ending = asyncio.Event()

    async def lingers() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.Event().wait()

    person = FakePrompter(yes("reply"), yes("Shorter, please."))
    script: list[Any] = [*say("So far")[:1], lingers]
    bench = TurnBench([script, DONE], person=person, config=interrupt_config())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(ending.is_set)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert len(bench.provider.requests) == 1
    assert bench.turn.text == "So far"


async def test_second_interrupt_ends_a_stream_that_does_not_close() -> None:
    async def stubborn() -> None:
        try:
            await forever()
        finally:
            await forever()  # a connection that does not close

    person = FakePrompter(yes("stop"))
    bench = TurnBench([[*say("So far")[:1], stubborn]], person=person, config=interrupt_config())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(lambda: display_event("interrupt_received", "stop") in bench.passing)
    await asyncio.sleep(0.01)
    assert not task.done()
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert menus(person) == [STREAMING]
    assert bench.turn.text == "So far"


async def test_interrupted_answer_keeps_its_texts_and_no_calls() -> None:
    arrived: list[Any] = [
        *say("All of it"),
        model_event("text", 1, "reasoning", "Hm"),
        *call("t", index=2),
    ]
    bench = TurnBench(
        [[model_event("usage", output_tokens=4), *arrived, *say("and mo", index=3)[:1], forever]]
    )
    await interrupt_twice(
        bench,
        lambda: (
            bench.shown_of("show_text")[-1:] == [display_event("show_text", "message", "and mo")]
        ),
    )
    texts = [r.message or r.reasoning for r in bench.of("chat_response")]
    assert texts == ["All of it", "Hm", "and mo"]
    assert bench.of("tool_call_request") == []
    assert bench.loop.turn.tokens.usage.output_tokens == 4
    assert bench.provider.closed == 1
    assert bench.shown[-1] == display_event("end_of_text")


async def test_interrupt_before_any_content_marks_the_request_as_unanswered() -> None:
    bench = TurnBench([[forever]])
    await interrupt_twice(bench, lambda: bench.provider.requests)
    assert bench.kinds() == ["turn_start", "chat_request", "config_delta"]
    assert bench.entries[-1].metadata["no_answer"]["ended"] == "interrupted"


@pytest.mark.parametrize("choice", ["continue", "reply"])
async def test_continue_and_reply_release_the_cell_while_the_model_answers(choice: str) -> None:
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    async def choose() -> Any:
        gate.set()
        return yes(choice)

    first: list[Any] = [*say("So far")[:1], wait, *reply(say("", index=9))]
    person = FakePrompter(choose, *([yes("Hm.")] if choice == "reply" else []))
    bench = TurnBench([first, DONE], person=person)
    cell = CuttingCell()
    bench.use(cell=cell)
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "completed"
    assert cell.released == 1


async def test_interrupt_at_the_end_of_the_last_answer_stops_the_turn() -> None:
    bench = TurnBench([DONE])
    loop = asyncio.get_running_loop()

    def on_change() -> None:
        if bench.entries[-1].type == "chat_response":
            loop.call_soon(bench.loop.interrupt)  # the answer is complete by then

    bench.stream.on_change = on_change
    assert (await bench.run()).status == "interrupted"
    assert bench.turn.text == "Done."
