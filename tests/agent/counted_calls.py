"""Calls of a tool that counts how often it runs."""

from __future__ import annotations

from typing import Any

from tests.agent.turn_bench import call
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench


def calls(count: int, name: str = "t") -> list[Any]:
    """Events of `count` calls of one tool."""
    return [event for n in range(count) for event in call(name, f"c{n}", index=n + 1)]


def make_counting_tool() -> tuple[Any, list[int]]:
    """Return a tool, and a list with one item for each of its runs."""
    ran: list[int] = []

    async def t() -> str:
        ran.append(1)
        return "x"

    return new_tool(t), ran


def contents_of(bench: TurnBench) -> list[str]:
    """The results of all calls."""
    return [response.content for response in bench.of("tool_call_response")]
