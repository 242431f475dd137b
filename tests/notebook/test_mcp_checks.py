"""`%jp doctor` reports the MCP servers of a configuration, and starts none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jp_nb.mcp import server_start
from tests.session.servers import configure, make_books, remove_configuration, settings_of, turn_on
from tests.support.sessions import SCRIPT, AskedNotebook, Notebook
from tests.support.sessions import configure as configure_folder

KEY = "sk-ant-api03-" + "aB3dE6gH9" * 4


@pytest.fixture(autouse=True)
def _remove_the_configuration() -> Iterator[None]:
    yield
    remove_configuration()


def check(folder: Path, servers: dict[str, Any]) -> dict[str, str]:
    """Return the results of the checks of `servers`, by name of the server."""
    configure(servers)
    return read_checks(AskedNotebook(folder))


def read_checks(notebook: Notebook) -> dict[str, str]:
    prefix = "MCP server "
    results = run_doctor(notebook).items()
    return {key.removeprefix(prefix): text for key, text in results if key.startswith(prefix)}


def run_doctor(notebook: Notebook) -> dict[str, str]:
    """Return the rows of `%jp doctor`."""
    rows = [line.split("  ", 1) for line in notebook.jp("doctor").splitlines()]
    return {row[0]: row[1].strip() for row in rows if len(row) == 2}


def test_without_servers_nothing_is_checked(tmp_path: Path) -> None:
    assert check(tmp_path, {}) == {}


def test_program_that_can_start_is_named_and_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKS_TOKEN", "hunter2-hunter2")
    server = make_books(tmp_path)
    settings = settings_of(server, env={"TOKEN": "${BOOKS_TOKEN}", "LEVEL": "${LEVEL_UNSET:-low}"})
    found = check(tmp_path, {"books": settings})
    assert found["books"].startswith("not started: ")
    assert Path(sys.executable).name in found["books"]
    assert "hunter2" not in found["books"]
    assert not server.log.exists()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"command": "no-such-program"}, "'no-such-program' was not found on the PATH"),
        ({"command": "./serve.sh"}, "serve.sh' was not found"),
        ({"command": "sh", "url": "https://a.example/mcp"}, "remove one of them"),
        ({"command": "sh", "cwd": "no-such-folder"}, "no-such-folder does not exist"),
        ({"command": "sh", "env": {"A": "${UNSET_A}"}}, "variable UNSET_A is not set"),
        (
            {"command": "sh", "arguments": ["${UNSET_A}"], "env": {"B": "x ${env:UNSET_B}"}},
            "variables UNSET_A, UNSET_B are not set",
        ),
        ({"url": "http://books.example/mcp"}, "plain HTTP to books.example"),
        (
            {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${UNSET_A}"}},
            "variable UNSET_A is not set",
        ),
        ({"command": "sh", "checksum": {"value": "0" * 64}}, "not the configured one"),
        ({"command": "sh", "env": {"A": "${"}}, "a reference begins with"),
    ],
)
def test_server_that_cannot_start_has_the_reason(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    found = check(tmp_path, {"books": settings, "maps": {"command": "sh"}})
    assert found["books"].startswith("error: ")
    assert problem in found["books"]
    assert found["maps"].startswith("not started: ")


@pytest.mark.req("R-MCP-66")
def test_variable_that_is_passed_by_name_and_unset_is_named(tmp_path: Path) -> None:
    found = check(tmp_path, {"books": {"command": "sh", "variables": ["UNSET_A", "PATH"]}})
    assert "it gets no UNSET_A: not set in this kernel" in found["books"]


def test_inputs_are_not_asked(tmp_path: Path) -> None:
    found = check(
        tmp_path,
        {
            "books": {"command": "sh", "env": {"TOKEN": "${input:token}"}},
            "maps": {"url": "https://${input:host}/mcp"},
        },
    )
    assert found["books"].startswith("not started: ")
    assert found["maps"] == "not started: it asks for its inputs when it starts"


@pytest.mark.req("R-MCP-79")
@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ({"command": "sh", "env": {"API_KEY": KEY, "LEVEL": "low"}}, "env.API_KEY"),
        ({"command": "sh", "arguments": ["--token", KEY]}, "arguments"),
        (
            {"url": "https://a.example/mcp", "headers": {"Authorization": f"Bearer {KEY}"}},
            "headers.Authorization",
        ),
        ({"url": f"https://a.example/mcp?token={KEY}"}, "url"),
    ],
)
def test_place_of_a_literal_key_is_named_and_the_key_is_not_shown(
    tmp_path: Path, settings: dict[str, Any], places: str
) -> None:
    found = check(tmp_path, {"books": settings})
    assert f"a key is written as text in {places}: use a reference" in found["books"]
    assert KEY not in str(found)


@pytest.mark.req("R-MCP-68")
def test_server_of_a_folder_needs_consent_before_it_is_checked(
    bare_folder: Path, open_session: Any
) -> None:
    configure_folder(
        bare_folder, f'[providers.mcp.books]\ncommand = "no-such"\nenv = {{ API_KEY = "{KEY}" }}\n'
    )
    found = open_session()
    result = read_checks(found)["books"]
    assert "`%jp trust --workspace` shows the entry" in result
    assert "no-such" not in result

    found.jp("trust --workspace --yes")
    assert "'no-such' was not found" in read_checks(found)["books"]


def test_missing_library_is_an_error_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_start, "find_spec", lambda name: None)
    configure({"books": {"command": "sh"}})
    results = run_doctor(AskedNotebook(tmp_path))
    assert "pip install 'jp-nb[mcp]'" in results["MCP servers"]


def test_invalid_configuration_is_reported_by_the_other_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = AskedNotebook(tmp_path)
    monkeypatch.setenv("JP_CFG_ASSISTANT__REQUEST__MAX_RETRIES", "::1")
    assert any(text.startswith("error: ") for text in run_doctor(found).values())
    assert read_checks(found) == {}


@pytest.mark.req("R-MCP-10", "R-MCP-33")
def test_running_server_has_its_protocol_and_the_count_of_ignored_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.toml").write_text(SCRIPT)
    books = make_books(tmp_path, greeting="no message\nneither this\n")
    ended = make_books(tmp_path, exit_at="server/discover")
    configure({"books": settings_of(books), "maps": settings_of(ended, optional=True)})
    notebook = AskedNotebook(tmp_path)
    notebook.ask("Hello.", *turn_on("mcp.books", "mcp.maps"), model="scripted/story")
    found = read_checks(notebook)
    assert found["books"].startswith("running, protocol 202")
    assert "2 tools" in found["books"]
    assert "2 lines on its stdout were no messages" in found["books"]
    assert "last error: the MCP server maps did not start" in found["maps"]
    notebook.session.close()
