"""Settings of MCP servers: `providers.mcp`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.settings import Settings, setting, value_at

BOOKS = "providers.mcp.books"


def read_server(settings: dict[str, Any], name: str = "books") -> Any:
    """Return the server `name` of a configuration with these settings."""
    return Settings(setting(f"providers.mcp.{name}", settings)).whole()["providers"]["mcp"][name]


@pytest.mark.req("R-MCP-64")
def test_server_has_the_settings_of_jp_and_of_other_applications() -> None:
    of_jp = read_server(
        {
            "type": "stdio",
            "command": "serve",
            "arguments": ["--all"],
            "variables": ["BOOKS_TOKEN"],
            "checksum": {"algorithm": "sha1", "value": "0" * 40},
            "optional": True,
            "startup_timeout_secs": 0,
        }
    )
    remote = read_server(
        {"url": "https://books.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    )
    local = read_server({"command": "serve", "env": {"TOKEN": "${TOKEN}"}, "cwd": "~/books"})

    assert (of_jp["type"], of_jp["variables"], of_jp["optional"]) == (
        "stdio",
        ["BOOKS_TOKEN"],
        True,
    )
    assert remote["headers"] == {"Authorization": "Bearer ${TOKEN}"}
    assert local["env"] == {"TOKEN": "${TOKEN}"}


def test_defaults_of_a_server() -> None:
    server = read_server({"command": "serve"})
    assert (server["startup_timeout_secs"], server["call_timeout_secs"]) == (60, 300)
    assert server["max_response_bytes"] == 16 * 1024 * 1024
    for flag in (
        "optional",
        "instructions",
        "insecure",
        "repeat_lost_calls",
        "trust_read_only_hint",
    ):
        assert server[flag] is False


def test_transport_has_the_spellings_of_other_applications() -> None:
    for word in ("http", "streamable-http", "streamableHttp", "HTTP"):
        assert read_server({"type": word, "url": "https://h/mcp"})["type"] == "http"
    assert read_server({"type": "stdio", "command": "x"})["type"] == "stdio"


@pytest.mark.req("R-MCP-72")
def test_name_of_a_server_has_only_letters_digits_and_dashes() -> None:
    for name in ("a", "Git-Hub_2", "x" * 32):
        assert read_server({"command": "serve"}, name)["command"] == "serve"
    for name in ("", "x" * 33, "a b", "a/b", "ä", "a\n", "\x1b[31m"):
        servers: JsonValue = {name: {"command": "serve"}}
        with pytest.raises(jp.ConfigError, match="cannot be the name of an MCP server"):
            Settings(setting("providers.mcp", servers)).whole()


@pytest.mark.parametrize(
    ("settings", "at"),
    [
        ({"type": "sse", "url": "https://h"}, "type"),
        ({"type": "websocket"}, "type"),
        ({"command": " "}, "command"),
        ({"command": "a\0b"}, "command"),
        ({"arguments": "a b"}, "arguments"),
        ({"arguments": [1]}, "arguments"),
        ({"variables": ["A=1"]}, "variables"),
        ({"env": {"A=B": "1"}}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"env": {"A": "x\0"}}, "env"),
        ({"headers": {"A b": "1"}}, "headers"),
        ({"headers": {"A": "1\r\nHost: evil"}}, "headers"),
        ({"startup_timeout_secs": -1}, "startup_timeout_secs"),
        ({"max_response_bytes": 0}, "max_response_bytes"),
        ({"checksum": {"algorithm": "md5", "value": "0"}}, "checksum"),
        ({"checksum": {"algorithm": "sha1"}}, "checksum"),
        ({"args": ["x"]}, "args"),
        ({"insecure": "yes"}, "insecure"),
    ],
)
def test_invalid_setting_is_an_error_that_names_it(settings: dict[str, Any], at: str) -> None:
    with pytest.raises(jp.ConfigError) as caught:
        read_server({"command": "serve", **settings})
    assert caught.value.path.startswith(f"providers.mcp.books.{at}")


def test_error_shows_no_value_that_may_be_a_key() -> None:
    key = "ghp_" + "a1" * 18
    wrong: list[dict[str, Any]] = [{"type": key}, {"variables": [f"{key} "]}, {"checksum": key}]
    for settings in wrong:
        with pytest.raises(jp.ConfigError) as caught:
            read_server(settings)
        assert key not in str(caught.value.problems)


def test_layers_add_to_a_server() -> None:
    weaker = setting(BOOKS, {"command": "serve", "arguments": ["a"], "env": {"A": "1"}})
    stronger = setting(BOOKS, {"arguments": ["b"], "env": {"B": "2"}, "optional": True})
    server = value_at(Settings(weaker, stronger).whole(), BOOKS)
    assert (server["command"], server["arguments"]) == ("serve", ["a", "b"])
    assert (server["env"], server["optional"]) == ({"A": "1", "B": "2"}, True)


def test_server_is_set_by_assignments_and_variables() -> None:
    delta, _ = Settings.assign(f'{BOOKS}:={{"command": "serve"}}')
    assert value_at(Settings(delta).whole(), f"{BOOKS}.command") == "serve"

    variables = {"JP_CFG_PROVIDERS__MCP__BOOKS__ARGUMENTS": "a,b"}
    whole = Settings(Settings.read(variables, "environment")).whole()
    assert value_at(whole, f"{BOOKS}.arguments") == ["a", "b"]


def test_settings_beside_the_servers() -> None:
    whole = Settings({"providers": {"mcp_files": [".mcp.json"]}}).whole()
    assert value_at(whole, "providers.mcp_files") == [".mcp.json"]
    assert value_at(whole, "style.mcp_startup.show") is True
    assert value_at(whole, "style.mcp_startup.delay_secs") == 4
