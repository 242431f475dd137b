"""The tools of a server as a source gives them: their permissions, and the user's settings."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

pytest.importorskip("mcp")

from jp_nb.config.tree.server_settings import McpServer
from jp_nb.config.tree.tool_settings import ToolConfig
from jp_nb.errors import ToolSourceError
from jp_nb.mcp.calls import McpTool
from jp_nb.mcp.source import McpSource, ServerHost
from tests.kit.servers import server_value

SEARCH = server_value("server_tool", "search", None, "Search.", {"type": "object"}, None, {})
NAME = "books__search"


class RunningServer:
    """A connection to a server with `tools`, which change whenever they are set."""

    state = "running"
    needs_sign_in = False
    announced_changes = True
    tools_changed = True

    def __init__(self, tool: Any) -> None:
        self.launch = server_value("stdio_launch", "serve")
        self.name = "books"
        self.tools = (tool,)

    async def list_tools(self, refresh: bool = False) -> tuple[Any, ...]:
        return self.tools


def make_source(tool: Any = SEARCH, **settings: Any) -> tuple[McpSource, RunningServer]:
    async def resolve(name: str, server: McpServer) -> Any:
        raise AssertionError("it runs")

    server = McpServer.model_validate({"command": "serve", **settings})
    source = McpSource("books", server, ServerHost(resolve))
    running = RunningServer(tool)
    source.connection = cast("Any", running)
    return source, running


async def offer(source: McpSource) -> McpTool:
    tools = await source.list({NAME: ToolConfig(source="mcp.books.search")})
    tool = tools[NAME]
    assert isinstance(tool, McpTool)
    return tool


@pytest.mark.req("R-MCP-19", "R-MCP-96")
@pytest.mark.parametrize(
    "change",
    [
        {"description": "Other."}, {"title": "Other"}, {"input_schema": {"type": "object", "x": 1}},
        {"output_schema": {"type": "object"}}, {"hints": {"destructiveHint": True}},
        {"hints": {"readOnlyHint": False}}, {"description": "Search." + " " * 5_000 + "Or delete."},
    ],
)  # fmt: skip
async def test_changed_tool_is_another_tool_for_permissions(change: dict[str, Any]) -> None:
    source, server = make_source()
    before = await offer(source)
    assert await offer(source) is before
    assert source.take_notices() == []

    server.tools = (replace(SEARCH, **change),)
    after = await offer(source)
    assert after is not before  # permissions of a turn are for the object
    assert after.server_entry != before.server_entry  # kept rules are for the digest
    [notice] = source.take_notices()
    assert "changed its tools books__search. Permissions for them have ended" in notice


@pytest.mark.req("R-MCP-96")
async def test_other_server_of_the_same_name_is_another_one_for_kept_rules() -> None:
    first, _ = make_source()
    same, _ = make_source()
    other, _ = make_source(command="other")
    entry = (await offer(first)).server_entry
    assert (await offer(same)).server_entry == entry
    assert (await offer(other)).server_entry != entry


async def test_list_that_takes_too_long_is_an_error_with_the_setting() -> None:
    source, server = make_source()
    limit = {"startup_timeout_secs": 0.01}
    source.settings = source.settings.model_copy(update=limit)

    async def hang(refresh: bool = False) -> tuple[Any, ...]:
        return await asyncio.Future()

    server.list_tools = hang  # type: ignore[method-assign]
    with pytest.raises(ToolSourceError, match=r"within 0\.01 s \(startup_timeout_secs\)"):
        await offer(source)
    assert source.start_timeout_s == 0  # else the time of a sign-in would count


@pytest.mark.req("R-MCP-37")
@pytest.mark.parametrize(
    ("setting", "hints", "is_repeatable"),
    [
        (True, {"idempotentHint": True}, True),
        (False, {"idempotentHint": True}, False),
        (True, {"idempotentHint": False}, False),
        (True, {"idempotentHint": "yes"}, False),
        (True, {"readOnlyHint": True}, False),
        (True, {}, False),
    ],
)
async def test_call_may_be_repeated_if_the_user_and_the_server_say_so(
    setting: bool, hints: dict[str, Any], is_repeatable: bool
) -> None:
    source, _ = make_source(replace(SEARCH, hints=hints), repeat_lost_calls=setting)
    assert (await offer(source)).is_repeatable == is_repeatable
