"""The tools of a server as a source gives them: their permissions, and the user's settings."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("mcp")

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.servers import McpServer
from tests.kit.tools import configured

SEARCH = make("server_tool", "search", None, "Search.", {"type": "object"}, None, {})
NAME = "books__search"


class RunningServer:
    """A connection to a server with `tools`, which change whenever they are set."""

    state = "running"
    needs_sign_in = False
    announced_changes = True
    is_list_outdated = True
    instructions = "Search first. " * 1000

    def __init__(self, tool: Any) -> None:
        self.launch = make("stdio_launch", "serve")
        self.name = "books"
        self.tools: tuple[Any, ...] = (tool,)

    async def list_tools(self, refresh: bool = False) -> tuple[Any, ...]:
        return self.tools


def make_source(tool: Any = SEARCH, **settings: Any) -> tuple[Any, RunningServer]:
    running = RunningServer(tool)
    return McpServer({"command": "serve", **settings}).source(running), running


async def offer(source: Any) -> Any:
    config = configured({"conversation": {"tools": {NAME: {"source": "mcp.books.search"}}}})
    tools = await source.list({NAME: config.conversation.tools[NAME]})
    return tools[NAME]


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


async def test_unchanged_and_removed_tools_have_no_notice() -> None:
    source, server = make_source()
    await offer(source)
    await offer(source)
    server.tools = ()
    await source.list({})
    assert source.take_notices() == []


@pytest.mark.req("R-MCP-22")
def test_instructions_are_marked_and_cut_and_only_sent_if_they_are_configured() -> None:
    source, server = make_source(instructions=True)
    assert source.instructions.startswith(
        "The MCP server books describes the use of its tools as follows."
    )
    assert len(source.instructions) < len(server.instructions)
    assert source.instructions.count("Search first.") <= 2000 / len("Search first. ")
    without, _ = make_source()
    assert without.instructions == ""


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
    with pytest.raises(jp.JpNbError, match=r"within 0\.01 s \(startup_timeout_secs\)"):
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
