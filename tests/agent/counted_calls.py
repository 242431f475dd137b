"""Calls of a tool that counts how often it runs."""

from __future__ import annotations

from typing import Any

from jp_nb.toolkit.python import PythonTool
from tests.agent.turn_bench import Bench, call


def calls(count: int, name: str = "t") -> list[Any]:
    """Events of `count` calls of one tool."""
    return [event for n in range(count) for event in call(name, f"c{n}", index=n + 1)]


def make_counting_tool() -> tuple[PythonTool, list[int]]:
    """Return a tool, and a list with one item for each of its runs."""
    ran: list[int] = []

    async def t() -> str:
        ran.append(1)
        return "x"

    return PythonTool(t), ran


def contents_of(bench: Bench) -> list[str]:
    """The results of all calls."""
    return [response.content for response in bench.of("tool_call_response")]
