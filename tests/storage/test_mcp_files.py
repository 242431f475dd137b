"""Files of other applications that list MCP servers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.servers import McpServer

MAX_FILE_SERVERS = 200


STDIO: dict[str, Any] = {
    "command": "npx",
    "args": ["-y", "@books/mcp"],
    "env": {"TOKEN": "${TOKEN}"},
}
AS_STDIO: dict[str, Any] = {
    "command": "npx",
    "arguments": ["-y", "@books/mcp"],
    "env": {"TOKEN": "${TOKEN}"},
}
HTTP: dict[str, Any] = {
    "type": "http",
    "url": "https://h/mcp",
    "headers": {"Authorization": "Bearer ${TOKEN}"},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, without files."""
    home = tmp_path / "home"
    (tmp_path / "work").mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(home / "jupyter"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    for name in ("CODEX_HOME", "JUPYTER_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def put(path: Path, content: object) -> Path:
    """Write a file with this content: a text, or JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def read(path: Path) -> dict[str, Any]:
    """Return the settings of the servers of one file, by their names."""
    entries = McpServer.read_file(path)
    assert not [entry.problem for entry in entries if entry.problem]
    return {entry.name: entry.settings for entry in entries}


# --- forms of the files ------------------------------------------------------------------------


@pytest.mark.req("R-MCP-65")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".mcp.json", {"mcpServers": {"books": STDIO}}),
        ("mcp.json", {"servers": {"books": STDIO}}),
        ("config.json", {"mcpServers": [{"name": "books", **STDIO}]}),
        ("settings.json", {"editor": {}, "mcp": {"servers": {"books": STDIO}}}),
        (
            "mcp_servers.json",
            {
                "mcp_servers": [
                    {**STDIO, "name": "books", "env": [{"name": "TOKEN", "value": "${TOKEN}"}]}
                ]
            },
        ),
        (
            "config.toml",
            '[mcp_servers.books]\ncommand = "npx"\nargs = ["-y", "@books/mcp"]\n'
            'env = { TOKEN = "${TOKEN}" }\n',
        ),
        (
            "mcp.json",
            '\ufeff// servers\n{"servers": {"books": {"command": "npx", /* a */\n'
            '"args": ["-y", "@books/mcp",], "env": {"TOKEN": "${TOKEN}"},},},}',
        ),
    ],
)
def test_both_containers_and_both_forms_of_tables_are_read(
    work: Path, name: str, content: object
) -> None:
    assert read(put(work / name, content)) == {"books": AS_STDIO}


def test_remote_servers_in_each_spelling() -> None:
    as_http = {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    listed = [{"name": "Authorization", "value": "Bearer ${TOKEN}"}]
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (HTTP, {"type": "http", **as_http}),
        ({**HTTP, "type": "streamableHttp"}, {"type": "http", **as_http}),
        ({**HTTP, "type": "remote"}, {"type": "http", **as_http}),
        ({"serverUrl": "https://h/mcp"}, {"url": "https://h/mcp"}),
        ({"httpUrl": "https://h/mcp"}, {"url": "https://h/mcp"}),
        ({"url": "https://h/mcp", "headers": listed}, as_http),
        ({"url": "https://h/mcp", "bearer_token_env_var": "TOKEN"}, as_http),
        (
            {
                "url": "https://h/mcp",
                "http_headers": {"X-A": "1"},
                "env_http_headers": {"X-B": "B"},
            },
            {"url": "https://h/mcp", "headers": {"X-A": "1", "X-B": "${B}"}},
        ),
    ]
    for entry, settings in rows:
        found = McpServer.read_entry("books", entry)
        assert (found.settings, found.problem) == (settings, "")


def test_further_keys_of_local_servers() -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"cwd": "/x", "envFile": ".env"}, {"cwd": "/x", "env_file": ".env"}),
        ({"env_vars": ["A"]}, {"variables": ["A"]}),
        ({"env": {"A": 1, "B": True, "C": None}}, {"env": {"A": "1", "B": "true"}}),
        ({"args": [1, "a"]}, {"arguments": ["1", "a"]}),
        ({"args": []}, {}),
        ({"timeout": 60000}, {"call_timeout_secs": 60}),
        ({"timeout": 60}, {"call_timeout_secs": 60}),
        ({"startup_timeout_sec": 20.5}, {"startup_timeout_secs": 20}),
        ({"startup_timeout_ms": 500}, {"startup_timeout_secs": 1}),
        ({"tool_timeout_sec": 9}, {"call_timeout_secs": 9}),
        ({"type": "local"}, {"type": "stdio"}),
    ]
    for more, settings in rows:
        found = McpServer.read_entry("books", {"command": "serve", **more})
        assert (found.settings, found.problem) == ({"command": "serve", **settings}, ""), more

    words = McpServer.read_entry(
        "books", {"command": ["npx", "-y", "b"], "environment": {"A": "1"}}
    )
    assert words.settings == {"command": "npx", "arguments": ["-y", "b"], "env": {"A": "1"}}


def test_labels_of_used_inputs_are_kept(work: Path) -> None:
    inputs = [
        {"type": "promptString", "id": "key", "description": "Your\nkey", "password": True},
        {"type": "promptString", "id": "unused", "description": "x"},
        {"id": 3}, "x",
    ]  # fmt: skip
    server = {"command": "serve", "env": {"KEY": "${input:key}"}}
    content = {"inputs": inputs, "servers": {"books": server}}
    assert read(put(work / "mcp.json", content)) == {
        "books": {**server, "inputs": {"key": "Your key"}}
    }


@pytest.mark.req("R-MCP-65", "R-MCP-26")
def test_grants_and_limits_of_other_applications_are_named_and_ignored() -> None:
    found = McpServer.read_entry(
        "books",
        {
            **STDIO,
            "autoApprove": ["delete_everything"],
            "alwaysAllow": ["*"],
            "trust": True,
            "disabledTools": ["delete"],
            "headersHelper": "/bin/helper",
            "run": "unattended",
            "description": "x",
            "sandboxEnabled": False,
        },
    )
    assert found.settings == AS_STDIO
    notes = "\n".join(found.notes)
    for key in ("autoApprove", "alwaysAllow", "trust"):
        assert f"ignored: {key} (it grants nothing here)" in notes
    assert "ignored: disabledTools (its limits do not apply here" in notes
    assert "ignored: headersHelper (a program that prints headers is not run)" in notes
    assert "ignored: run" in notes


def test_switched_off_server_is_marked() -> None:
    for switch in ({"disabled": True}, {"enabled": False}):
        assert McpServer.read_entry("books", {**STDIO, **switch}).is_disabled
    for switch in ({"disabled": False}, {"enabled": True}, {}):
        assert not McpServer.read_entry("books", {**STDIO, **switch}).is_disabled


@pytest.mark.req("R-MCP-72")
def test_name_becomes_a_valid_one() -> None:
    for original, name in [
        ("books", "books"),
        ("My Books", "My-Books"),
        ("io.github.jane/books", "io-github-jane-books"),
    ]:
        assert McpServer.read_entry(original, STDIO).name == name

    odd_names = ("x" * 40, "x" * 41, "日本", "日", "", "a\x1b[31m", "../..")
    made = [McpServer.read_entry(original, STDIO).name for original in odd_names]
    assert len(set(made)) == len(made)
    assert all(McpServer.read_entry(name, STDIO).name == name for name in made)
    assert McpServer.read_entry("My Books", STDIO).notes == ("the name becomes My-Books",)


# --- where files are found ---------------------------------------------------------------------


@pytest.mark.req("R-MCP-65")
def test_files_of_all_applications_are_found_by_priority(work: Path, home: Path) -> None:
    def table(name: str, key: str = "mcpServers") -> dict[str, Any]:
        return {key: {name: STDIO}}

    project = {"projects": {str(work): table("local"), "/elsewhere": table("other")}}
    toml = '[mcp_servers.{}]\ncommand = "npx"\n'
    put(work / ".mcp.json", table("project"))
    put(work / ".vscode/mcp.json", table("vscode", "servers"))
    put(work / ".cursor/mcp.json", table("cursor"))
    put(work / ".github/mcp.json", table("github"))
    put(work / ".codex/config.toml", toml.format("codex"))
    put(home / ".claude.json", {**table("claude"), **project})
    put(home / ".cursor/mcp.json", table("cursor-user"))
    put(home / ".codeium/windsurf/mcp_config.json", table("windsurf"))
    put(home / ".copilot/mcp-config.json", table("copilot"))
    put(home / ".codex/config.toml", toml.format("codex-user"))
    put(home / ".jupyter/nbi/mcp.json", table("nbi"))
    put(home / ".config/Claude/claude_desktop_config.json", table("desktop"))
    put(home / ".config/Code/User/mcp.json", table("code", "servers"))
    put(home / "jupyter/mcp_servers.json", {"mcp_servers": [{"name": "jupyter", **STDIO}]})

    found = McpServer.find_listed(work)
    assert found.problems == ()
    assert [each.entry.name for each in found.servers] == [
        "local", "project", "vscode", "cursor", "github", "codex", "claude", "cursor-user",
        "windsurf", "copilot", "nbi", "codex-user", "desktop", "code", "jupyter",
    ]  # fmt: skip
    scopes = {each.file.scope for each in found.servers if each.entry.name in ("local", "claude")}
    assert scopes == {"user"}


def test_equal_names_count_in_the_order_local_project_user(work: Path, home: Path) -> None:
    def server(word: str) -> dict[str, Any]:
        return {"mcpServers": {"books": {"command": word}}}

    put(home / ".claude.json", {**server("user"), "projects": {str(work): server("local")}})
    put(work / ".mcp.json", server("project"))
    put(work / ".cursor/mcp.json", server("project"))
    found = McpServer.find_listed(work).servers
    assert [each.entry.settings["command"] for each in found] == [
        "local",
        "project",
        "project",
        "user",
    ]
    assert [each.shadowed_by is not None for each in found] == [False, True, True, True]


def test_server_that_is_off_or_unusable_hides_no_other_one(work: Path) -> None:
    put(work / ".mcp.json", {"mcpServers": {"a": {"disabled": True, **STDIO}, "b": {}}})
    put(work / ".cursor/mcp.json", {"mcpServers": {"a": STDIO, "b": STDIO}})
    found = [
        each for each in McpServer.find_listed(work).servers if each.file.application == "Cursor"
    ]
    assert [(each.entry.name, each.shadowed_by) for each in found] == [("a", None), ("b", None)]


def test_only_the_users_own_file_has_servers_of_projects(work: Path) -> None:
    local = {"projects": {str(work): {"mcpServers": {"books": STDIO}}}}
    assert read(put(work / ".mcp.json", local)) == {}


# --- hostile files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Expecting value"),
        ("nothing", "Expecting value"),
        ('{"mcpServers": {}', "Expecting"),
        ("[1, 2]", "it contains no table"),
        ('"text"', "it contains no table"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ('{"mcpServers": {"x": {"command": "good"}, "x": {"command": "evil"}}}', "occurs twice"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 50 + "1" + "}" * 50, "nested too deeply"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": ' + "9" * 10_000 + "}", "digits"),
        ("{'a': 1}", "Expecting"),
        ("// " * 100_000, "Expecting value"),
    ],
)
def test_damaged_file_is_named_with_a_reason(work: Path, content: str, reason: str) -> None:
    path = put(work / ".mcp.json", content)
    found = McpServer.find_listed(work)
    assert found.servers == ()
    [problem] = found.problems
    assert problem.startswith(f"{path} was not read: ")
    assert reason in problem
    assert len(problem) < 600


@pytest.mark.parametrize("value", ["inf", "nan"])
def test_timeout_that_is_no_finite_number_is_ignored(work: Path, value: str) -> None:
    text = f'[mcp_servers.books]\ncommand = "npx"\ntool_timeout_sec = {value}\n'
    put(work / ".codex/config.toml", text)
    [server] = McpServer.read_file(work / ".codex/config.toml")
    assert server.settings == {"command": "npx"}
    assert server.notes == ("ignored: tool_timeout_sec",)


@pytest.mark.parametrize("content", ["a =", '[mcp_servers]\nx = "a"\n[mcp_servers]\n', "a = [[1]"])
def test_damaged_toml_is_named(work: Path, content: str) -> None:
    put(work / ".codex/config.toml", content)
    [problem] = McpServer.find_listed(work).problems
    assert "config.toml was not read: " in problem


def test_special_files_and_links_out_of_the_workspace_are_not_read(work: Path, home: Path) -> None:
    secret = put(home / "secret.json", {"mcpServers": {"books": STDIO}})
    (work / ".vscode").mkdir()
    (work / ".cursor").mkdir()
    (work / ".github").mkdir()
    (work / ".mcp.json").symlink_to(secret)
    os.mkfifo(work / ".vscode/real")
    (work / ".vscode/mcp.json").symlink_to("real")
    (work / ".cursor/mcp.json").symlink_to("mcp.json")
    (work / ".github/mcp.json").symlink_to("/dev/zero")
    found = McpServer.find_listed(work)
    assert found.servers == ()
    assert len(found.problems) == 4
    assert "leads out of the workspace" in found.problems[0]


def test_file_that_others_can_change_is_not_read(work: Path) -> None:
    put(work / ".mcp.json", {"mcpServers": {"books": STDIO}}).chmod(0o666)
    [problem] = McpServer.find_listed(work).problems
    assert "writable for everyone" in problem


def test_too_large_file_is_not_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = work / ".mcp.json"
    with path.open("wb") as file:
        file.truncate(40_000_000)
    [problem] = McpServer.find_listed(work).problems
    assert "more than 32000000 bytes" in problem


def test_number_of_servers_is_bounded(work: Path) -> None:
    servers = {f"s{number}": STDIO for number in range(MAX_FILE_SERVERS + 50)}
    put(work / ".mcp.json", {"mcpServers": servers})
    found = McpServer.find_listed(work)
    assert len(found.servers) == MAX_FILE_SERVERS
    assert "more than 200 servers" in found.problems[0]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (None, "expected a table"),
        ("npx -y books", "expected a table"),
        ([], "expected a table"),
        ({}, "neither a command nor an address"),
        ({"command": 1}, "command: expected a text"),
        ({"command": []}, "found an empty list"),
        ({"command": ""}, "command: expected a program"),
        ({"command": "a\0b"}, "null characters"),
        ({"command": "x", "args": "-y"}, "args: expected a list"),
        ({"command": "x", "args": [["a"]]}, "args: expected a text"),
        ({"command": "x", "env": ["A=1"]}, "expected items with a name"),
        ({"command": "x", "env": {"A": {}}}, "env: expected a text"),
        ({"command": "x", "env": {"A B": "1"}}, "is not the name of an environment variable"),
        ({"command": "x", "url": "https://h"}, "its kind is unclear"),
        ({"url": "https://h", "headers": {"A": "1\nB: 2"}}, "without control characters"),
        ({"url": "https://h", "type": "sse"}, "`sse` is outdated"),
        ({"url": "https://h", "type": "carrier-pigeon"}, "expected stdio or http"),
    ],
)
def test_wrong_entry_is_a_problem_of_its_own(work: Path, entry: Any, words: str) -> None:
    put(work / ".mcp.json", {"mcpServers": {"wrong": entry, "books": STDIO}})
    wrong, books = McpServer.find_listed(work).servers
    assert words in wrong.entry.problem
    assert wrong.entry.settings == {}
    assert (books.entry.settings, books.entry.problem) == (AS_STDIO, "")


def test_no_key_is_in_a_problem(work: Path) -> None:
    key = "ghp_" + "a1" * 18
    entries: list[Any] = [
        key,
        {"command": "x", "env": [key]},
        {"command": "x", "args": key},
        {"url": "https://h", "type": key},
    ]
    for entry in entries:
        assert key not in McpServer.read_entry("books", entry).problem
    put(work / ".mcp.json", f'{{"a": "{key}" "b"}}')
    assert key not in McpServer.find_listed(work).problems[0]


def test_missing_file_is_an_error_that_names_it(work: Path) -> None:
    with pytest.raises(jp.StorageError, match=r"none\.json was not read: No such file"):
        McpServer.read_file(work / "none.json")


def test_comments_and_commas_in_texts_are_kept(work: Path) -> None:
    server = '{"command": "x // y /* z */ ,}", "cwd": "\\"// ,]", // c\n"args": ["1", /* , */ ],\n}'
    path = put(work / "mcp.json", f'{{"mcpServers": {{"books": {server}}}}}')
    settings = {"command": "x // y /* z */ ,}", "cwd": '"// ,]', "arguments": ["1"]}
    assert read(path) == {"books": settings}

    for wrong in ("[1,,]", "[,1]", '{"a": 1 /* }', '"', "{/*}"):
        put(path, wrong)
        with pytest.raises(jp.StorageError, match=r"Expecting|Unterminated|Illegal"):
            McpServer.read_file(path)
