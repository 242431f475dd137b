"""Interrupts while a structured answer is checked, and while the model gives another one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from jp_nb.record.events import Entry
from jp_nb.record.marks import is_schema_retry
from jp_nb.toolkit.base import CallInterrupted
from tests.agent.interrupted_turns import interrupt_config, one_interrupt
from tests.agent.turn_bench import Bench, is_well_formed, reply
from tests.kit.models import model_event

MISFIT = reply([model_event("text", 0, "structured", "1"), model_event("flush", 0)])


def reject(entries: Sequence[Entry]) -> Sequence[str]:
    return ["$: expected object"]


@pytest.mark.parametrize("action", ["stop", "abort"])
async def test_interrupt_while_the_model_answers_again_ends_the_turn(action: str) -> None:
    asked = asyncio.Event()

    async def wait() -> None:
        asked.set()
        await asyncio.sleep(60)

    bench = Bench([MISFIT, [wait]], config=interrupt_config(streaming=action))
    bench.loop.check_answer = reject
    end = await one_interrupt(bench, asked.is_set)
    assert end.status == "interrupted"
    assert bench.turn.json == 1
    assert is_schema_retry(bench.entries[-1])
    assert is_well_formed(bench.stream)


async def test_interrupt_of_a_validator_ends_the_turn() -> None:
    def interrupted(entries: Sequence[Entry]) -> Sequence[str]:
        bench.loop.interrupt()
        raise CallInterrupted("KeyboardInterrupt")

    bench = Bench([MISFIT])
    bench.loop.check_answer = interrupted
    end = await bench.run()
    assert end.status == "interrupted"
    assert bench.turn.json == 1
    assert not any(is_schema_retry(entry) for entry in bench.of("chat_request"))
