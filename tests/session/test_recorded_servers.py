"""Servers in a replay: with recorded results, the cassette replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.session.servers import (
    configure,
    make_books,
    remove_configuration,
    sent_tools,
    settings_of,
    turn_on,
)
from tests.support.fakes import yes
from tests.support.sessions import AskedNotebook

pytest.importorskip("mcp")

READER = """
[[replies]]
tool_calls = [{name = "books__read", arguments = {path = "emma.txt"}}]
[[replies]]
text = "Read."
[[replies]]
text = "Nothing more."
"""


@pytest.fixture(autouse=True)
def _remove_the_configuration() -> Iterator[None]:
    yield
    remove_configuration()


def use_cassette(monkeypatch: pytest.MonkeyPatch, path: Path, mode: str, tools: str) -> None:
    for name, text in {"MODE": mode, "PATH": str(path), "TOOLS": tools}.items():
        monkeypatch.setenv(f"JP_CFG_PROVIDERS__CASSETTE__{name}", text)


@pytest.mark.req("R-MCP-27", "R-MCP-74")
def test_replay_with_recorded_results_starts_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reader.toml").write_text(READER)
    server = make_books(tmp_path)
    configure({"books": settings_of(server)})

    use_cassette(monkeypatch, tmp_path / "tape.jsonl", "record", "run")
    live = AskedNotebook(tmp_path, name="live")
    live.ends.append(yes("run"))
    live.ask("Read Emma.", *turn_on("mcp.books"), model="scripted/reader")
    live.session.close()
    assert server.log.exists()
    server.log.unlink()

    use_cassette(monkeypatch, tmp_path / "tape.jsonl", "replay", "recorded")
    replayed = AskedNotebook(tmp_path, name="replayed")
    replayed.ask("Read Emma.", *turn_on("mcp.books"), model="scripted/reader")
    assert not server.log.exists()
    assert sent_tools(replayed) == sent_tools(live)
    recorded = live.session.last_turn
    again = replayed.session.last_turn
    assert recorded is not None
    assert again is not None
    assert again.tool_calls[0].content == recorded.tool_calls[0].content
    assert not again.tool_calls[0].is_error
    assert again.text == "Read."
    replayed.session.close()


SHELF = READER.replace("books__read", "shelf")


@pytest.mark.req("R-MCP-13", "R-MCP-74")
def test_tool_under_a_name_of_the_configuration_is_described_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shelf.toml").write_text(SHELF)
    described = {"name": "read", "description": "Read a book.", "inputSchema": {"type": "object"}}
    server = make_books(tmp_path, tools=[described])
    shelf = {"source": "mcp.books.read", "run": "unattended", "enable": True}
    configure({"books": settings_of(server)}, {"shelf": shelf})

    use_cassette(monkeypatch, tmp_path / "tape.jsonl", "record", "run")
    live = AskedNotebook(tmp_path, name="live")
    live.ask("Read Emma.", model="scripted/shelf")
    live.session.close()
    server.log.unlink()
    assert shelf_description(live) == "[Tool of the MCP server books] Read a book."

    use_cassette(monkeypatch, tmp_path / "tape.jsonl", "replay", "recorded")
    replayed = AskedNotebook(tmp_path, name="replayed")
    replayed.ask("Read Emma.", model="scripted/shelf")
    replayed.session.close()
    assert shelf_description(replayed) == shelf_description(live)
    assert replayed.session.last_turn is not None
    assert replayed.session.last_turn.tool_calls[0].content == '{"path": "emma.txt"}'
    assert not server.log.exists()


def shelf_description(notebook: AskedNotebook) -> str:
    """Return the description of the tool `shelf` in the last request."""
    last = notebook.session.turns.contexts.last_request
    assert last is not None
    return next(tool.description for tool in last.request.tools if tool.name == "shelf")


@pytest.mark.req("R-MCP-27")
def test_call_by_the_user_in_such_a_replay_starts_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reader.toml").write_text(READER)
    server = make_books(tmp_path)
    configure({"books": settings_of(server)}, {"books__search": {"run": "unattended"}})
    use_cassette(monkeypatch, tmp_path / "tape.jsonl", "record", "run")
    live = AskedNotebook(tmp_path, name="live")
    live.ends.append(yes("run"))
    live.ask("Read Emma.", *turn_on("mcp.books"), model="scripted/reader")
    live.session.close()
    server.log.unlink()

    use_cassette(monkeypatch, tmp_path / "tape.jsonl", "replay", "recorded")
    replayed = AskedNotebook(tmp_path, name="replayed")
    bench = replayed.session.bench
    tools = bench.find_tools("books__search")
    outcome = bench.call(tools, tools.find("books__search"), {})
    assert outcome.is_error
    assert "starts no server" in outcome.content
    assert not server.log.exists()
    replayed.session.close()
