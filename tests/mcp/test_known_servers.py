"""Reference servers of npm and PyPI. The tests are skipped if the servers are not installed.

Install those of PyPI into this environment (`pip install mcp-server-time mcp-server-git
mcp-server-fetch`), and those of npm into any folder, with its `node_modules/.bin` in the variable
`MCP_SERVERS_PATH`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from typing import Any

from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import make
from tests.mcp.helpers import connected, error_of, list_group, text_of

PATH = os.pathsep.join(
    (os.environ.get("MCP_SERVERS_PATH", ""), str(Path(sys.executable).parent), os.environ["PATH"])
)


@dataclass(frozen=True, slots=True)
class Known:
    """A server, a call, and a part of its result."""

    program: str
    era: str
    tool: str
    expected: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.program


SERVERS = [
    Known("mcp-server-everything", "2025", "echo", "Echo: hi", {"message": "hi"}, ("stdio",)),
    Known("mcp-server-filesystem", "2025", "list_allowed_directories", "Allowed", {}, (".",)),
    Known("mcp-server-memory", "2025", "read_graph", "entities"),
    Known("mcp-server-time", "2026", "get_current_time", "timezone", {"timezone": "UTC"}),
    Known("mcp-server-git", "2026", "git_status", "branch", {"repo_path": str(Path.cwd())}),
    Known("mcp-server-fetch", "2026", "fetch", "Refused to fetch", {"url": "http://127.0.0.1:9/"}),
]


def launch(known: Known, folder: Path) -> Any:
    """Return the launch of a server, or skip the test."""
    program = shutil.which(known.program, path=PATH)
    if program is None:
        pytest.skip(f"{known.program} is not installed")
    return make("stdio_launch", program, known.options, folder=folder)


@pytest.mark.parametrize("known", SERVERS, ids=str)
async def test_reference_server(tmp_path: Path, known: Known) -> None:
    async with connected(launch(known, tmp_path)) as connection:
        group = connection.pid
        assert group is not None
        assert connection.era == known.era
        assert known.tool in [tool.name for tool in await connection.list_tools()]
        assert known.expected in text_of(await connection.call("1", known.tool, known.arguments))
        assert not connection.list_notes
    assert not list_group(group)


async def test_reference_server_asks_and_reports_progress(tmp_path: Path) -> None:
    asked: list[tuple[Any, Sequence[str]]] = []
    reports: list[Any] = []

    async def answer(question: Any, calls: Sequence[str]) -> Any:
        asked.append((question, calls))
        if question.mode == "url":
            return make("server_answer", "decline")
        return make("server_answer", "accept", {"name": "Ada"})

    async with connected(
        launch(SERVERS[0], tmp_path), asks_users=True, on_question=answer
    ) as connection:
        form = await connection.call("form", "trigger-elicitation-request", {})
        assert "Name: Ada" in text_of(form)
        url = await connection.call(
            "url", "trigger-url-elicitation", {"url": "https://example.com/sign-in"}
        )
        assert "decline" in text_of(url)
        with pytest.raises(jp.JpNbError) as info:
            await connection.call(
                "error",
                "trigger-url-elicitation",
                {"url": "https://example.com/sign-in", "errorPath": True},
            )
        await connection.call(
            "work", "trigger-long-running-operation", {"duration": 1, "steps": 2},
            on_progress=reports.append,
        )  # fmt: skip
    assert [(question.mode, calls) for question, calls in asked] == [
        ("form", ["form"]),
        ("url", ["url"]),
    ]
    assert asked[1][0].url == "https://example.com/sign-in"
    assert error_of(info).code == -32042
    assert isinstance(error_of(info).data, dict)
    assert [(report.done, report.total) for report in reports] == [(1.0, 2.0), (2.0, 2.0)]
