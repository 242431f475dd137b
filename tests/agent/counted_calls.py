"""Calls of a tool that counts how often it runs."""

from __future__ import annotations

from typing import Any

from jp_nb.record.events import ToolCallResponse
from jp_nb.tools.python import PythonTool
from tests.agent.turn_bench import Bench, call


def calls(count: int, name: str = "t") -> list[Any]:
    """Events of `count` calls of one tool."""
    return [event for n in range(count) for event in call(name, f"c{n}", index=n + 1)]


def counting() -> tuple[PythonTool, list[int]]:
    """A tool, and a list that has an item for each time it ran."""
    ran: list[int] = []

    async def t() -> str:
        ran.append(1)
        return "x"

    return PythonTool(t), ran


def contents_of(bench: Bench) -> list[str]:
    """The results of all calls."""
    return [response.content for response in bench.of(ToolCallResponse)]
