"""MCP servers are resolved in the kernel's environment, and inputs are asked once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import jp_nb as jp
from jp_nb.config.tree.server_settings import McpServer
from jp_nb.session.mcp_launches import ServerLaunches
from jp_nb.storage.config_files import ConfigFiles
from tests.kit.kinds import is_kind


def make_server(**settings: object) -> McpServer:
    return McpServer.model_validate({"command": "sh", "inputs": {"key": "Your key"}, **settings})


async def find_environment(launches: ServerLaunches, name: str, server: McpServer) -> object:
    launch = await launches.resolve(name, server)
    assert is_kind(launch, "stdio_launch")
    return dict(launch.environment)


@pytest.mark.req("R-MCP-66")
async def test_input_is_asked_once_until_the_server_changes(tmp_path: Path) -> None:
    asked: list[tuple[str, Mapping[str, str]]] = []

    async def ask(name: str, inputs: Mapping[str, str]) -> Mapping[str, str]:
        asked.append((name, inputs))
        return {each: f"answer {len(asked)}" for each in inputs}

    launches = ServerLaunches(ConfigFiles(tmp_path), ask)
    server = make_server(env={"A": "${input:key}"})
    assert await find_environment(launches, "books", server) == {"A": "answer 1"}
    assert await find_environment(launches, "books", server) == {"A": "answer 1"}
    assert asked == [("books", {"key": "Your key"})]

    changed = make_server(env={"A": "${input:key}"}, arguments=["--to", "elsewhere"])
    assert await find_environment(launches, "books", changed) == {"A": "answer 2"}
    assert await find_environment(launches, "other", server) == {"A": "answer 3"}
    await launches.resolve("plain", make_server())
    assert len(asked) == 3


async def test_input_without_a_user_is_an_error(tmp_path: Path) -> None:
    launches = ServerLaunches(ConfigFiles(tmp_path))
    with pytest.raises(jp.ConfigError, match="no user is available"):
        await launches.resolve("books", make_server(env={"A": "${input:key}"}))


@pytest.mark.req("R-MCP-67")
async def test_variables_of_the_kernel_are_passed_by_name_and_missing_ones_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKS_LEVEL", "3")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2-hunter2")
    files = ConfigFiles(tmp_path)
    server = make_server(variables=["BOOKS_LEVEL", "BOOKS_MISSING"])
    for _ in range(2):
        found = await find_environment(ServerLaunches(files), "books", server)
        assert found == {"BOOKS_LEVEL": "3"}
    [notice] = files.take_notices()
    assert "MCP server books: the environment variable BOOKS_MISSING" in notice


async def test_file_of_variables_that_others_can_change_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    launches = ServerLaunches(ConfigFiles(tmp_path))
    server = make_server(env_file=".env")
    assert await find_environment(launches, "books", server) == {"A": "1"}
    (tmp_path / ".env").chmod(0o666)
    with pytest.raises(jp.ConfigError, match="is writable for everyone"):
        await launches.resolve("books", server)
