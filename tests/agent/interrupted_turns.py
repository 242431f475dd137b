"""Turns that are interrupted once or twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.agent.turn_bench import reply, say
from tests.kit.kinds import is_kind, make
from tests.kit.models import model_event
from tests.kit.screens import display_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, until

MENU_TEXT = "Interrupted"


def interrupt_config(**actions: str) -> dict[str, Any]:
    """A configuration with these actions; a second interrupt never counts as one of the first."""
    interrupt: dict[str, Any] = {key: {"action": value} for key, value in actions.items()}
    return {"interrupt": {"escalation_cooldown_secs": 0, **interrupt}}


async def one_interrupt(bench: TurnBench, when: Callable[[], object]) -> Any:
    """Run the turn, interrupt it once when `when` holds, and return its end."""
    task = asyncio.create_task(bench.run())
    await until(when)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        return await task


def gated_reply(gate: asyncio.Event, text: str = "So far") -> list[Any]:
    """Return a response that begins with `text` and continues when `gate` is open."""

    async def wait() -> None:
        await gate.wait()

    return [
        model_event("text", 0, "message", text),
        wait,
        *say(" and more")[:1],
        *reply(say("", index=9)),
    ]


def has_said(bench: TurnBench, text: str = "So far") -> Callable[[], bool]:
    return lambda: display_event("show_text", "message", text) in bench.shown


def menus(person: FakePrompter) -> list[list[str]]:
    """The labels of each menu that was shown."""
    return [
        [action.label for action in prompt.actions]
        for prompt in person.asked
        if is_kind(prompt, "decision_prompt") and prompt.text.startswith(MENU_TEXT)
    ]


class Slow:
    """A tool that counts its runs and waits in each until `gate` is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.runs = 0
        self.cleaned = 0

        async def slow() -> str:
            self.runs += 1
            try:
                await self.gate.wait()
            finally:
                self.cleaned += 1
            return "slow is done"

        self.tool = new_tool(slow)


def contents(bench: TurnBench) -> list[tuple[str, str]]:
    return [(response.id, response.content) for response in bench.of("tool_call_response")]


async def interrupt_twice(bench: TurnBench, when: Callable[[], object]) -> None:
    """Run until `when` holds, interrupt twice, and check the end of the turn."""
    task = asyncio.create_task(bench.run())
    await until(when)
    bench.loop.interrupt()
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        end = await task
    assert end.status == "interrupted"
    assert bench.is_well_formed


class CuttingCell:
    """A cell's thread with an interrupt in its first function."""

    def __init__(self) -> None:
        self.bench: TurnBench | None = None
        self.runs = self.released = 0

    async def call(self, function: Any) -> Any:
        self.runs += 1
        if self.runs == 1:
            assert self.bench is not None
            self.bench.loop.interrupt()
            raise make("call_interrupted") from KeyboardInterrupt()
        return function()

    def release(self) -> None:
        self.released += 1


TWO_RUN = ["Continue", "Tell the model something …", "Run these 2 calls again", "End the turn"]
