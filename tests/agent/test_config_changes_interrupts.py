"""Interrupts of a batch in which tools propose configuration changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.proposers import (
    APPLY,
    FULL,
    NAMED,
    REJECT,
    SURE,
    TO_GPT,
    UNATTENDED,
    Proposer,
    make_bench,
    notices,
    responses,
    shown_texts,
)
from tests.agent.turn_bench import call, reply, say
from tests.kit.models import EventProvider
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, forever, until, yes
from tests.support.partials import merge

DISCARDED = (
    "⟳ The turn ended before these tool calls finished, so their approved configuration"
    " changes are not applied"
)
INTERRUPT_FIRST = "an interrupt came first"
UNDELIVERED = "The tool ran. Its result is not delivered: {}."


MENU: dict[str, Any] = {"interrupt": {"escalation_cooldown_secs": 0}}


def two_tools(*ends: Any, **more: Any) -> tuple[TurnBench, Proposer, list[bool]]:
    """Two tools: one changes the name, the other waits forever. An interrupt comes in between."""
    gone = [False]

    async def wait(_: jp.ToolContext) -> jp.Success:
        if gone[0]:
            return jp.Success("Waited.")
        await forever()
        raise AssertionError

    first = Proposer(jp.Success("It is Bo.", config=NAMED), name="first")
    second = Proposer(wait, name="second")
    bench = make_bench(first, second, person=FakePrompter(*ends), config=MENU, **more)
    return bench, first, gone


async def interrupted_when_applied(bench: TurnBench) -> Any:
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown_of("change_ends"))
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        return (await task).status


@pytest.mark.req("R078-117")
async def test_continue_keeps_approved_changes() -> None:
    gate = asyncio.Event()

    async def later(_: jp.ToolContext) -> jp.Success:
        await gate.wait()
        return jp.Success("No tools.", config={"assistant": {"tool_choice": "none"}})

    async def go_on() -> Any:
        gate.set()
        return yes("continue")

    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED), name="first"),
        Proposer(later, name="second"),
        person=FakePrompter(APPLY, go_on, APPLY),
        config=MENU,
    )
    assert await interrupted_when_applied(bench) == "completed"
    [delta] = bench.of("config_delta")
    assert delta.delta == {"assistant": {"name": "Bo", "tool_choice": "none"}}


@pytest.mark.req("R078-118", "R078-119", "R078-129")
async def test_reply_commits_approved_changes_and_asks_the_model_again() -> None:
    other = EventProvider(reply(say("Hello from gpt.")))
    bench, first, _ = two_tools(APPLY, yes("reply"), yes("Enough."), models={"openai/gpt-x": other})
    first._outcomes[0] = jp.Success("Switched.", config=TO_GPT)
    assert await interrupted_when_applied(bench) == "completed"
    said = "Tool run cancelled by user with a custom message:\n\nEnough."
    assert responses(bench) == {"c0": "Switched.", "c1": said}
    assert len(bench.of("config_delta")) == 1
    assert len(bench.of("chat_request")) == 1
    [(_, thread)] = other.requests
    assert [entry.type for entry in thread][-2:] == ["tool_call_response"] * 2


async def test_stop_commits_approved_changes() -> None:
    bench, _, _ = two_tools(APPLY, yes("stop"))
    assert await interrupted_when_applied(bench) == "interrupted"
    assert bench.kinds()[-1] == "config_delta"
    assert bench.app_config().assistant.name == "Bo"


@pytest.mark.req("R078-120", "R078-121")
async def test_restart_discards_approved_changes_and_runs_their_calls_again() -> None:
    """The finished call runs again, because its response describes the discarded change."""
    bench, first, gone = two_tools(APPLY, yes("restart"), REJECT)
    first._outcomes.append(jp.Success("It is Bo.", config=NAMED))
    first._outcomes.append(jp.Success("It stays Ada."))
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown_of("change_ends"))
    gone[0] = True
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "completed"
    assert responses(bench) == {"c0": "It stays Ada.", "c1": "Waited."}
    assert not bench.of("config_delta")
    assert bench.app_config().assistant.name == "Ada"
    assert DISCARDED in notices(bench)
    assert [r and r.reason for r in first.rejections] == [None, None, "user_rejected"]


async def test_restart_resets_the_count_of_rejections() -> None:
    bench, first, gone = two_tools(REJECT, REJECT, REJECT, APPLY, yes("restart"), *[REJECT] * 3)
    task = asyncio.create_task(bench.run())
    await until(lambda: any(ends.applied for ends in bench.shown_of("change_ends")))
    gone[0] = True
    first._outcomes[:] = [jp.Success("Bo.", config=NAMED)] * 7 + [jp.Success("It stays.")]
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        await task
    assert responses(bench)["c0"] == "It stays."
    reasons = [r and r.reason for r in first.rejections]
    assert reasons == [None, *["user_rejected"] * 3, None, *["user_rejected"] * 3]


@pytest.mark.req("R078-122", "R078-123")
async def test_interrupted_answer_keeps_changes_of_earlier_batches() -> None:
    gate = asyncio.Event()

    async def stall() -> None:
        gate.set()
        await forever()

    scripts = [reply(call("change", "c0")), [*say("Half")[:1], stall]]
    bench = make_bench(
        Proposer(jp.Success("Bo.", config=NAMED)),
        person=FakePrompter(APPLY, yes("abort")),
        config=MENU,
        scripts=scripts,
    )
    task = asyncio.create_task(bench.run())
    await gate.wait()
    bench.loop.interrupt()
    assert (await task).status == "interrupted"
    assert len(bench.of("config_delta")) == 1
    assert bench.app_config().assistant.name == "Bo"


async def test_escalated_stop_discards_approved_changes() -> None:
    async def again() -> Any:
        bench.loop.interrupt()
        await forever()
        raise AssertionError

    bench, _, _ = two_tools(APPLY, again)
    assert await interrupted_when_applied(bench) == "interrupted"
    assert not bench.of("config_delta")
    assert DISCARDED in notices(bench)
    assert set(responses(bench)) == {"c0", "c1"}


async def test_cancelled_turn_discards_approved_changes() -> None:
    bench, _, _ = two_tools(APPLY)
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown_of("change_ends"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not bench.of("config_delta")
    assert set(responses(bench)) == {"c0", "c1"}
    assert not bench.reload().deltas
    assert DISCARDED in notices(bench)


async def test_internal_error_leaves_a_response_for_every_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("ours")

    monkeypatch.setattr("jp_nb.agent.call_steps.change_review.review_proposal", fail)
    change = jp.Success("Bo.", config=NAMED)
    bench = make_bench(Proposer(change, name="first"), Proposer(change, name="second"))
    with pytest.raises(LookupError):
        await bench.run()
    assert set(responses(bench)) == {"c0", "c1"}
    assert not bench.reload().repair()


def asking_while_first_waits(*ends: Any) -> tuple[TurnBench, Proposer]:
    """The first one's change is applied and its result waits behind a question of the second."""

    async def ask(ctx: jp.ToolContext) -> jp.Outcome:
        if ctx.answers:
            return jp.Success("Asked.")
        await until(lambda: bench.person.asked)
        return jp.NeedsInput(SURE)

    async def interrupted() -> Any:
        bench.loop.interrupt()
        await forever()
        raise AssertionError

    first = Proposer(jp.Success("It is Bo.", config=NAMED), name="first")
    person = FakePrompter(APPLY, interrupted, *ends)
    bench = make_bench(
        first,
        Proposer(ask, name="second"),
        person=person,
        config=merge(MENU, for_tool("first", result="ask")),
    )
    return bench, first


@pytest.mark.req("R078-120")
async def test_restart_runs_a_call_with_a_waiting_result_once() -> None:
    bench, first = asking_while_first_waits()
    ends: list[Any] = [yes("restart"), APPLY, yes(), yes("deliver")]
    bench.person._ends += ends
    await bench.run()
    assert len(first.told) == 2
    [delta] = bench.of("config_delta")
    assert len(delta.metadata["proposed_by"]) == 1
    assert set(responses(bench)) == {"c0", "c1"}


async def test_call_with_an_approved_change_is_not_reported_as_cancelled() -> None:
    bench, _ = asking_while_first_waits()
    bench.person._ends += [yes("stop")]
    await bench.run()
    assert responses(bench)["c0"] == UNDELIVERED.format(INTERRUPT_FIRST)
    assert bench.app_config().assistant.name == "Bo"


async def test_interrupted_change_prompt_returns_before_later_questions() -> None:
    async def open_prompt() -> Any:
        await until(lambda: len(bench.of("inquiry_request")) == 1)
        bench.loop.interrupt()
        await forever()
        raise AssertionError

    async def ask(ctx: jp.ToolContext) -> jp.Outcome:
        if ctx.answers:
            return jp.Success("Asked.")
        await until(lambda: bench.person.asked)
        return jp.NeedsInput(SURE)

    person = FakePrompter(open_prompt, yes("continue"), APPLY, yes())
    change = Proposer(jp.Success("Bo.", config=NAMED), name="first")
    bench = make_bench(change, Proposer(ask, name="second"), person=person, config=MENU)
    await bench.run()
    texts = shown_texts(person)
    assert ["delta" in text for text in texts] == [True, False, True, False]
    assert texts[1] == "Interrupted: first and second"


@pytest.mark.parametrize("rule", [FULL, UNATTENDED], ids=["ask", "unattended"])
async def test_proposal_made_during_cancellation_is_dropped(rule: Any) -> None:
    """The tool cannot run again, and the user cannot approve."""
    begun = asyncio.Event()

    async def stubborn(_: jp.ToolContext) -> jp.Success:
        begun.set()
        try:
            await forever()
        except asyncio.CancelledError:
            return jp.Success("Bo.", config=NAMED)
        raise AssertionError

    tool = Proposer(stubborn)
    bench = make_bench(tool, person=FakePrompter(yes("stop")), rule=rule, config=MENU)
    task = asyncio.create_task(bench.run())
    await begun.wait()
    bench.loop.interrupt()
    assert (await task).status == "interrupted"
    assert not bench.of("config_delta")
    assert notices(bench) == []
    assert responses(bench)["c0"] != "Bo."


@pytest.mark.parametrize("choice", ["stop", "restart"])
async def test_change_prompt_is_dropped_when_the_batch_is_canceled(choice: str) -> None:
    async def open_prompt() -> Any:
        bench.loop.interrupt()
        await forever()
        raise AssertionError

    ends: list[Any] = [open_prompt, yes(choice), *([APPLY] if choice == "restart" else [])]
    person = FakePrompter(*ends)
    bench = make_bench(Proposer(jp.Success("Bo.", config=NAMED)), person=person, config=MENU)
    await bench.run()
    assert len(bench.of("config_delta")) == (choice == "restart")
