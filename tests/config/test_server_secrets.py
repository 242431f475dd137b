"""Keys in the settings of MCP servers are not shown, references to variables are."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.secret_settings.server_secrets import find_literal_secrets

NOT_SHOWN = "(set, not shown)"


KEY = "ghp_" + "a1" * 18
SERVER = ("providers", "mcp", "books")


@pytest.mark.req("R-MCP-66", "R-MCP-79")
@pytest.mark.parametrize(
    "server",
    [
        {"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "TOKEN": "${env:T:-}"}},
        {"headers": {"Authorization": "Bearer ${TOKEN}", "X-Api-Key": "${input:api_key}"}},
        {"variables": ["GITHUB_TOKEN"], "inputs": {"api_key": "API key of the library"}},
        {"arguments": ["-y", "@books/mcp", "--token", "${TOKEN}", "--api-key=${KEY}"]},
        {"url": "https://books.example/mcp?api_key=${KEY}&page=2", "env_file": ".env.token"},
        {"env": {"LEVEL": "debug", "PORT": "3000"}, "startup_timeout_secs": 5},
        {"checksum": {"algorithm": "sha256", "value": "ab12" * 16}},
    ],
)
def test_reference_and_plain_values_are_shown(server: dict[str, JsonValue]) -> None:
    assert mask_secrets(server, SERVER) == server
    assert list(find_literal_secrets(server)) == []
    assert mask_secrets({"books": server}, SERVER[:2]) == {"books": server}


@pytest.mark.req("R-MCP-79")
@pytest.mark.parametrize(
    ("server", "at"),
    [
        ({"env": {"GITHUB_TOKEN": "hunter2!"}}, "env.GITHUB_TOKEN"),
        ({"env": {"ANY": KEY}}, "env.ANY"),
        ({"env": {"ANY": f"x {KEY}"}}, "env.ANY"),
        ({"env": {"GITHUB_TOKEN": "${TOKEN:-hunter2!}"}}, "env.GITHUB_TOKEN"),
        ({"env": {"GITHUB_TOKEN": "${TOKEN}hunter2!"}}, "env.GITHUB_TOKEN"),
        ({"env": {"DB": "postgres://u:hunter2!@h/d"}}, "env.DB"),
        ({"env": {"value": "x", "GITHUB_TOKEN": "hunter2!"}}, "env.GITHUB_TOKEN"),
        ({"headers": {"Authorization": "Bearer hunter2!"}}, "headers.Authorization"),
        ({"headers": {"value": "x", "Cookie": "id=hunter2!"}}, "headers.Cookie"),
        ({"headers": {"Cookie": "id=hunter2!"}}, "headers.Cookie"),
        ({"arguments": ["--token", "hunter2!"]}, "arguments"),
        ({"arguments": ["--api-key=hunter2!"]}, "arguments"),
        ({"arguments": ["-e", "GITHUB_TOKEN=hunter2!"]}, "arguments"),
        ({"arguments": ["--header", "Authorization: Bearer hunter2!"]}, "arguments"),
        ({"arguments": ["https://u:hunter2!@h"]}, "arguments"),
        ({"arguments": [KEY]}, "arguments"),
        ({"url": "https://u:hunter2!@h/mcp"}, "url"),
        ({"url": "https://h/mcp?x=1&api_key=hunter2!"}, "url"),
        ({"url": "https://h/mcp?token=hunter2!#a"}, "url"),
    ],
)
def test_key_is_hidden_and_named(server: dict[str, JsonValue], at: str) -> None:
    shown = str(mask_secrets(server, SERVER))
    assert "hunter2" not in shown
    assert KEY not in shown
    assert NOT_SHOWN in shown
    assert list(find_literal_secrets(server)) == [at]


def test_value_alone_is_hidden_by_its_path() -> None:
    assert mask_secrets("hunter2!", (*SERVER, "env", "TOKEN")) == NOT_SHOWN
    assert mask_secrets("${TOKEN}", (*SERVER, "env", "TOKEN")) == "${TOKEN}"
    assert mask_secrets(["--token", "hunter2!"], (*SERVER, "arguments")) == ["--token", NOT_SHOWN]
    wrapped: JsonValue = {"value": ["--token=hunter2!"], "strategy": "replace"}
    assert mask_secrets(wrapped, (*SERVER, "arguments")) == {
        "value": [f"--token={NOT_SHOWN}"],
        "strategy": "replace",
    }
