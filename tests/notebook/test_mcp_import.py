"""`%jp mcp import`: servers of other applications, added after the user chose them."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.questions import answered, not_answered
from tests.support.sessions import AskedNotebook, Notebook, configure

KEY = "hunter2-hunter2"
BOOKS: dict[str, Any] = {
    "command": "npx",
    "args": ["-y", "@books/mcp", "--token", "${BOOKS_TOKEN}"],
    "env": {"NODE_OPTIONS": "--inspect"},
    "autoApprove": ["delete"],
}
MAPS: dict[str, Any] = {
    "type": "http",
    "url": "https://maps.example/mcp",
    "headers": {"Authorization": f"Bearer {KEY}", "X-Level": "3"},
}


@pytest.fixture(autouse=True)
def home(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without files of other applications."""
    home = bare_folder.parent / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(home / "jupyter"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return home


def put(path: Path, servers: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


@pytest.fixture
def user(bare_folder: Path) -> Any:
    """Opens a notebook whose user gives these answers."""
    opened: list[AskedNotebook] = []

    def open_(*ends: Any) -> AskedNotebook:
        notebook = AskedNotebook(bare_folder)
        notebook.ends.extend(ends)
        opened.append(notebook)
        return notebook

    yield open_
    for each in opened:
        each.session.close()


User = Callable[..., AskedNotebook]


def choose(*servers: str, file: str = "user", keys: str = "") -> list[Any]:
    """Return the answers to the questions of the form."""
    answers: list[Any] = [answered(list(servers), "form"), answered(file, "form")]
    return [*answers, answered(keys, "form")] if keys else answers


@pytest.mark.req("R-MCP-65")
def test_chosen_servers_are_written_with_their_references(
    bare_folder: Path, home: Path, user: User
) -> None:
    put(bare_folder / ".mcp.json", {"books": BOOKS, "other": {"command": "other"}})
    notebook = user(*choose("books"))
    shown = notebook.jp("mcp import")
    for text in (
        "project file: .mcp.json",
        "npx -y @books/mcp --token ${BOOKS_TOKEN}",
        "ignored: autoApprove (it grants nothing here)",
        "`NODE_OPTIONS` changes which code the program loads",
        "does not pin the server",
    ):
        assert text in shown, text

    text = (home / "config.toml").read_text()
    assert "${BOOKS_TOKEN}" in text
    assert "autoApprove" not in text
    servers = notebook.session.config.providers.mcp
    assert list(servers) == ["books"]
    assert servers["books"].arguments == ["-y", "@books/mcp", "--token", "${BOOKS_TOKEN}"]
    assert notebook.session.config.conversation.tools.get("*") is None


@pytest.mark.req("R-MCP-65")
@pytest.mark.parametrize("ends", [[not_answered("cancelled", "form")], choose()])
def test_nothing_is_written_without_a_choice(
    bare_folder: Path, home: Path, user: User, ends: list[Any]
) -> None:
    put(bare_folder / ".mcp.json", {"books": BOOKS})
    notebook = user(*ends)
    with pytest.raises(jp.PromptCancelled):
        notebook.jp("mcp import")
    assert not (home / "config.toml").exists()
    assert not (bare_folder / ".jp").exists()


@pytest.mark.req("R-MCP-65")
def test_without_a_user_the_servers_are_shown_and_nothing_is_written(
    bare_folder: Path, home: Path, open_session: Any
) -> None:
    put(bare_folder / ".mcp.json", {"books": BOOKS})
    notebook = open_session()
    with pytest.raises(jp.PromptUnavailable):
        notebook.jp("mcp import")
    assert "npx -y @books/mcp" in notebook.shown[0]
    assert not (home / "config.toml").exists()


@pytest.mark.req("R-MCP-65", "R-MCP-79")
def test_key_is_named_and_not_shown_and_becomes_a_variable(
    bare_folder: Path, home: Path, user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    put(home / ".cursor/mcp.json", {"maps": MAPS})
    notebook = user(*choose("maps", file="workspace", keys="variables"))
    shown = notebook.jp("mcp import")
    assert "contains a key as text: headers.Authorization" in shown
    text = (bare_folder / ".jp" / "config.toml").read_text()
    assert "Bearer ${MAPS_AUTHORIZATION}" in text
    assert 'X-Level = "3"' in text
    printed = capsys.readouterr().out
    assert "Set these environment variables" in printed
    assert "MAPS_AUTHORIZATION" in printed
    assert KEY not in shown + text + printed
    assert list(notebook.session.config.providers.mcp) == ["maps"]


def test_key_is_copied_only_into_the_users_own_private_file(
    bare_folder: Path, home: Path, user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    put(home / ".cursor/mcp.json", {"maps": MAPS})
    with pytest.raises(jp.UsageError, match="gets no keys"):
        user(*choose("maps", file="workspace", keys="copy")).jp("mcp import")
    assert not (bare_folder / ".jp").exists()

    notebook = user(*choose("maps", keys="copy"))
    shown = notebook.jp("mcp import")
    file = home / "config.toml"
    assert KEY in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KEY not in shown + capsys.readouterr().out
    assert KEY not in notebook.jp("config providers.mcp")


def test_configured_server_is_replaced_as_a_whole(
    bare_folder: Path, home: Path, user: User
) -> None:
    (home / "config.toml").write_text(
        '# mine\n[providers.mcp.books]\ncommand = "old"\narguments = ["x"]\noptional = true\n'
    )
    put(bare_folder / ".mcp.json", {"books": BOOKS})
    notebook = user(*choose("books"))
    assert "already configured: it would be replaced" in notebook.jp("mcp import")
    server = notebook.session.config.providers.mcp["books"]
    assert (server.command, len(server.arguments), server.optional) == ("npx", 4, False)
    assert (home / "config.toml").read_text().startswith("# mine\n")


def test_named_file_or_folder_is_read(bare_folder: Path, user: User) -> None:
    elsewhere = bare_folder.parent / "elsewhere"
    put(elsewhere / ".vscode/mcp.json", {"maps": {"url": "https://maps.example/mcp"}})
    file = put(elsewhere / "any.json", {"time": {"command": "time-server"}})
    assert "https://maps.example/mcp" in user(*choose("maps")).jp(f"mcp import {elsewhere}")
    assert "time-server" in user(*choose("time")).jp(f"mcp import {file}")
    for wrong in ("nothing.json", "a\0b"):
        with pytest.raises(jp.UsageError):
            user().jp(f"mcp import '{wrong}'")


def test_servers_that_cannot_be_used_are_shown_with_the_reason(
    bare_folder: Path, user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    put(
        bare_folder / ".mcp.json",
        {"a\u202eb": {}, "long": {"command": "x", "args": ["y" * 30_000]}},
    )
    (bare_folder / ".vscode").mkdir()
    (bare_folder / ".vscode/mcp.json").write_text("{")
    shown = user().jp("mcp import")
    assert "neither a command nor an address" in shown
    assert "more than 20,000 characters" in shown
    assert "mcp.json was not read: Expecting" in shown
    assert "\u202e" not in shown
    assert "None of these servers can be added" in capsys.readouterr().out


def test_without_files_the_command_says_so(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    user().jp("mcp import")
    assert "No MCP servers were found" in capsys.readouterr().out
    with pytest.raises(jp.UsageError, match="Usage: `%jp mcp"):
        user().jp("mcp imprt")


def test_two_servers_of_one_name_are_refused(bare_folder: Path, home: Path, user: User) -> None:
    put(bare_folder / ".mcp.json", {"books": BOOKS})
    file = put(home / ".cursor/mcp.json", {"books": {"command": "another"}})
    with pytest.raises(jp.UsageError, match="Chosen twice: books"):
        user(*choose("books", f"books ({file})")).jp("mcp import")


@pytest.mark.parametrize(
    ("settings", "replaced", "variables"),
    [
        ({"env": {"API_KEY": KEY}}, {"env": {"API_KEY": "${API_KEY}"}}, ["API_KEY"]),
        (
            {"headers": {"X-Api-Key": KEY}},
            {"headers": {"X-Api-Key": "${BOOKS_X_API_KEY}"}},
            ["BOOKS_X_API_KEY"],
        ),
        (
            {"arguments": ["--token", KEY, "--api-key=" + KEY, "-v"]},
            {"arguments": ["--token", "${BOOKS_TOKEN}", "--api-key=${BOOKS_API_KEY}", "-v"]},
            ["BOOKS_TOKEN", "BOOKS_API_KEY"],
        ),
        (
            {"arguments": ["-H", f"Authorization: Bearer {KEY}"]},
            {"arguments": ["-H", "Authorization: Bearer ${BOOKS_AUTHORIZATION}"]},
            ["BOOKS_AUTHORIZATION"],
        ),
        (
            {"arguments": [f"https://u:{KEY}@h/x"]},
            {"arguments": ["${BOOKS_ARGUMENT_1}"]},
            ["BOOKS_ARGUMENT_1"],
        ),
        ({"url": f"https://h/mcp?key={KEY}&token={KEY}"}, {"url": "${BOOKS_URL}"}, ["BOOKS_URL"]),
        ({"env": {"A": "1"}, "url": "https://h"}, {"env": {"A": "1"}, "url": "https://h"}, []),
    ],
)
def test_each_key_is_replaced(
    home: Path,
    user: User,
    settings: dict[str, Any],
    replaced: dict[str, Any],
    variables: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = {("args" if key == "arguments" else key): value for key, value in settings.items()}
    if "url" not in given:
        given["command"] = "serve-books"
    put(home / ".cursor/mcp.json", {"books": given})
    keys = "variables" if variables else ""
    user(*choose("books", keys=keys)).jp("mcp import")

    text = (home / "config.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)["providers"]["mcp"]["books"]
    assert {key: written[key] for key in replaced} == replaced
    assert KEY not in text
    printed = capsys.readouterr().out
    assert [name for name in variables if name not in printed] == []


def test_servers_with_different_keys_of_one_name_get_different_variables(
    home: Path, user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(key: str) -> dict[str, Any]:
        return {"command": "serve", "env": {"API_KEY": key, "SHARED_KEY": KEY}}

    put(home / ".cursor/mcp.json", {"books": serve(KEY + "1"), "films": serve(KEY + "2")})
    user(*choose("books", "films", keys="variables")).jp("mcp import")

    written = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))["providers"]["mcp"]
    shared = {"SHARED_KEY": "${SHARED_KEY}"}
    assert written["books"]["env"] == {"API_KEY": "${BOOKS_API_KEY}"} | shared
    assert written["films"]["env"] == {"API_KEY": "${FILMS_API_KEY}"} | shared
    printed = capsys.readouterr().out
    assert "BOOKS_API_KEY" in printed
    assert "FILMS_API_KEY" in printed


def test_import_into_a_folder_that_awaits_consent_stays_pending(
    bare_folder: Path, user: User
) -> None:
    configure(bare_folder, 'providers.mcp.evil.command = "evil"\n')
    put(bare_folder / ".mcp.json", {"books": BOOKS})
    notebook = user(*choose("books", file="workspace"))
    notebook.jp("mcp import")
    assert notebook.session.config.providers.mcp == {}
    assert isinstance(notebook, Notebook)
