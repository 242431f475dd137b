"""Events of a batch: cancellation, and work that waits until the others are idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from jp_nb.agent.prompts import PromptEvent
from jp_nb.agent.tasks import BatchEvents


async def test_work_started_during_cancellation_does_not_run() -> None:
    events, ran = BatchEvents(), list[str]()

    async def work() -> PromptEvent:
        ran.append("begun")
        return lambda: ran.append("heard")

    def begin() -> None:
        events.spawn(work)

    events.post(begin)
    await events.cancel_all()
    await asyncio.sleep(0.01)
    assert (ran, events.has_events) == ([], False)


async def test_error_during_cancellation_is_logged_and_other_events_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, called = BatchEvents(), list[str]()

    def fail() -> None:
        raise ZeroDivisionError("a fault of ours")

    for event in (lambda: called.append("before"), fail, lambda: called.append("behind")):
        events.post(event)
    with caplog.at_level(logging.ERROR, "jp_nb.agent.tasks"):
        await events.cancel_all()
    assert called == ["before", "behind"]
    assert "a fault of ours" in caplog.text


async def test_idle_work_continues_one_by_one() -> None:
    events, done = BatchEvents(), list[str]()
    gate = asyncio.Event()

    def patient(name: str) -> Callable[[], Awaitable[PromptEvent]]:
        async def work() -> PromptEvent:
            await events.when_idle()
            done.append(f"{name} continues")
            await asyncio.sleep(0.01)
            return lambda: done.append(f"{name} is heard")

        return work

    async def slow() -> PromptEvent:
        await gate.wait()
        return lambda: done.append("slow")

    for work in (patient("a"), slow, patient("b")):
        events.spawn(work)
    asyncio.get_running_loop().call_later(0.02, gate.set)
    for _ in range(3):
        (await events.next())()
    assert done == ["slow", "a continues", "a is heard", "b continues", "b is heard"]


async def test_idle_work_is_canceled_with_the_batch() -> None:
    events = BatchEvents()

    async def work() -> PromptEvent:
        await events.when_idle()
        raise AssertionError("the batch is cut")

    events.spawn(work)
    await asyncio.sleep(0)
    await events.cancel_all()
    assert not events.has_events
