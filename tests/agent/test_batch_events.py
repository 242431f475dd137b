"""The events of a batch as it is cut: nothing begins any more, and no event is lost."""

from __future__ import annotations

import asyncio
import logging

import pytest

from jp_nb.agent.batch_events import BatchEvents
from jp_nb.agent.prompt_queue import Event


async def test_what_an_event_begins_as_the_batch_is_cut_does_not_run() -> None:
    events, ran = BatchEvents(), list[str]()

    async def work() -> Event:
        ran.append("begun")
        return lambda: ran.append("heard")

    def begin() -> None:
        events.spawn(work)

    events.post(begin)
    await events.cut()
    await asyncio.sleep(0.01)
    assert (ran, events.waiting) == ([], False)


async def test_a_fault_as_the_batch_is_cut_is_logged_and_the_other_events_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, called = BatchEvents(), list[str]()

    def fail() -> None:
        raise ZeroDivisionError("a fault of ours")

    for event in (lambda: called.append("before"), fail, lambda: called.append("behind")):
        events.post(event)
    with caplog.at_level(logging.ERROR, "jp_nb.agent.batch_events"):
        await events.cut()
    assert called == ["before", "behind"]
    assert "a fault of ours" in caplog.text
