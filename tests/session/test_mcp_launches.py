"""MCP servers are resolved in the kernel's environment, and inputs are asked once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.questions import answered
from tests.session.servers import configure, remove_configuration, turn_on
from tests.support.sessions import SCRIPT, AskedNotebook

pytest.importorskip("mcp")


def make_server(folder: Path, **settings: Any) -> dict[str, Any]:
    """Return the settings of a program that appends its variables to `starts`, and ends at once."""
    program = f'echo "A=$A, level=$BOOKS_LEVEL, key=$ANTHROPIC_API_KEY" >> {folder}/starts'
    return {
        "command": "sh",
        "arguments": ["-c", program],
        "inputs": {"key": "Your key"},
        **settings,
    }


@pytest.fixture
def notebook(bare_folder: Path) -> Iterator[AskedNotebook]:
    (bare_folder / "story.toml").write_text(SCRIPT * 9)
    opened = AskedNotebook(bare_folder)
    yield opened
    opened.session.close()
    remove_configuration()


def start(notebook: AskedNotebook, server: str) -> list[str]:
    """Start a server with a turn; return the lines of all starts."""
    with pytest.raises(jp.JpNbError):  # it is no server
        notebook.ask("Hello.", *turn_on(f"mcp.{server}"), model="scripted/story")
    file = notebook.folder / "starts"
    return file.read_text().splitlines() if file.exists() else []


def give(notebook: AskedNotebook, answer: str) -> None:
    """Prepare the user's answer to the next form of inputs."""
    notebook.ends.append(make("form_end", [answered(answer)]))


@pytest.mark.req("R-MCP-66")
def test_input_is_asked_once_until_the_server_changes(
    notebook: AskedNotebook, bare_folder: Path
) -> None:
    server = make_server(bare_folder, env={"A": "${input:key}"})
    configure({"books": server, "other": server, "plain": make_server(bare_folder)})
    for number in range(1, 4):
        give(notebook, f"answer {number}")

    assert len(start(notebook, "books")) == 1
    started = start(notebook, "books")
    assert started == ["A=answer 1, level=, key="] * 2
    [form] = notebook.person.asked
    assert [page.question.text for page in form.pages] == ["Your key"]

    started = start(notebook, "other")
    assert started[2:] == ["A=answer 2, level=, key="]
    configure({"books": {**server, "arguments": [*server["arguments"], "more"]}})
    started = start(notebook, "books")
    assert started[3:] == ["A=answer 3, level=, key="]
    configure({"plain": make_server(bare_folder)})
    started = start(notebook, "plain")
    assert started[4:] == ["A=, level=, key="]
    assert len(notebook.person.asked) == 3


def test_input_without_a_user_is_an_error(bare_folder: Path) -> None:
    configure({"books": make_server(bare_folder, env={"A": "${input:key}"})})
    notebook = AskedNotebook(bare_folder, headless=True)
    with pytest.raises(jp.JpNbError, match="no user is available"):
        notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    notebook.session.close()
    assert not (bare_folder / "starts").exists()


@pytest.mark.req("R-MCP-67")
def test_variables_of_the_kernel_are_passed_by_name_and_missing_ones_are_named(
    notebook: AskedNotebook, bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKS_LEVEL", "3")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hunter2-hunter2")
    variables = ["BOOKS_LEVEL", "BOOKS_MISSING"]
    configure({"books": make_server(bare_folder, variables=variables)})
    for _ in range(2):
        started = start(notebook, "books")
    assert started == ["A=, level=3, key="] * 2
    [notice] = [each for each in notebook.take_notices() if "BOOKS_" in each]
    assert "MCP server books: the environment variable BOOKS_MISSING" in notice


def test_file_of_variables_that_others_can_change_is_not_read(
    notebook: AskedNotebook, bare_folder: Path
) -> None:
    (bare_folder / ".env").write_text("A=1\n")
    configure({"books": make_server(bare_folder, env_file=".env")})
    assert start(notebook, "books") == ["A=1, level=, key="]
    (bare_folder / ".env").chmod(0o666)
    with pytest.raises(jp.JpNbError, match="is writable for everyone"):
        notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    assert (bare_folder / "starts").read_text() == "A=1, level=, key=\n"
