"""Interrupts while a structured answer is checked, and while the model gives another one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.agent.interrupted_turns import interrupt_config, one_interrupt
from tests.agent.turn_bench import reply
from tests.kit.kinds import make
from tests.kit.models import model_event
from tests.kit.turn_bench import TurnBench

MISFIT = reply([model_event("text", 0, "structured", "1"), model_event("flush", 0)])


def reject(entries: Sequence[Any]) -> Sequence[str]:
    return ["$: expected object"]


@pytest.mark.parametrize("action", ["stop", "abort"])
async def test_interrupt_while_the_model_answers_again_ends_the_turn(action: str) -> None:
    asked = asyncio.Event()

    async def wait() -> None:
        asked.set()
        await asyncio.sleep(60)

    bench = TurnBench([MISFIT, [wait]], config=interrupt_config(streaming=action))
    bench.loop.check_answer = reject
    end = await one_interrupt(bench, asked.is_set)
    assert end.status == "interrupted"
    assert bench.turn.json == 1
    assert bench.entries[-1].metadata["schema_retry"] is True
    assert bench.is_well_formed


async def test_interrupt_of_a_validator_ends_the_turn() -> None:
    def interrupted(entries: Sequence[Any]) -> Sequence[str]:
        bench.loop.interrupt()
        raise make("call_interrupted", "KeyboardInterrupt")

    bench = TurnBench([MISFIT])
    bench.loop.check_answer = interrupted
    end = await bench.run()
    assert end.status == "interrupted"
    assert bench.turn.json == 1
    assert not any("schema_retry" in entry.metadata for entry in bench.of("chat_request"))
