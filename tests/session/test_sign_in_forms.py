"""A user signs in to a remote server: with `%jp mcp sign-in`, and in a turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")


import jp_nb as jp
from jp_nb.session.mcp_servers import sign_in_forms
from tests.kit.kinds import is_kind
from tests.kit.questions import answered, not_answered
from tests.mcp.authorization_server import GuardedServer, follow, guarded_server, press_sign_in
from tests.session.servers import configure, remove_configuration, sent_tools, turn_on
from tests.support.sessions import SCRIPT, AskedNotebook

FIND = {"name": "find", "inputSchema": {"type": "object"}}
Open = Callable[..., AskedNotebook]


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedServer]:
    """A server that needs a sign-in, as `books` in the user's configuration."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sign_in_forms, "RETURN_SECONDS", 0.01)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.toml").write_text(SCRIPT * 3)
    with guarded_server() as server:
        server.tools = [FIND]
        configure({"books": {"url": server.url}}, {"books__find": {"run": "unattended"}})
        yield server
    remove_configuration()


@pytest.fixture
def open_notebook(tmp_path: Path) -> Iterator[Open]:
    opened: list[AskedNotebook] = []

    def open_one(**options: Any) -> AskedNotebook:
        opened.append(AskedNotebook(tmp_path, **options))
        return opened[-1]

    yield open_one
    for notebook in opened:
        notebook.session.close()


class Browser:
    """A user's browser, which opens the page of the form that is shown.

    Attributes:
        address: The address to which it was sent.
    """

    def __init__(self, notebook: AskedNotebook) -> None:
        self._notebook = notebook
        self.address = ""

    async def visit(self) -> None:
        kind = self._notebook.person.asked[-1].question.answer_type
        assert is_kind(kind, "url_answer")
        self.address = await asyncio.to_thread(press_sign_in, kind.url)

    async def sign_in_here(self) -> Any:
        """Sign in on the computer of the kernel: the form closes by itself."""
        await self.visit()
        await asyncio.to_thread(follow, self.address)
        return await asyncio.Future()

    async def sign_in_elsewhere(self) -> Any:
        """Sign in on another computer, and press Done."""
        await self.visit()
        return answered(True, "form")

    async def paste(self) -> Any:
        kind = self._notebook.person.asked[-1].question.answer_type
        assert is_kind(kind, "secret_answer")
        return answered(self.address, "form")


def credentials_path(folder: Path) -> Path:
    return folder / "data" / "jp" / "mcp-credentials.json"


def find_tokens(folder: Path) -> list[Path]:
    """Return the files below `folder` that contain a token or the code of the sign-in."""
    found = []
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if b"-secret" in content or b"the-code" in content:
            found.append(path)
    return found


@pytest.mark.req("R-MCP-80")
def test_user_on_another_computer_signs_in_with_the_command(
    guarded: GuardedServer,
    open_notebook: Open,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    notebook = open_notebook()
    browser = Browser(notebook)
    notebook.ends += [browser.sign_in_elsewhere, browser.paste]
    shown = notebook.jp("mcp sign-in books")
    notebook.jp("cassette record story.jsonl")
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    assert list(sent_tools(notebook)) == ["books__find"]
    assert "No method: Bearer" in (notebook.call("books__find").content or "")
    shown += notebook.jp("mcp") + notebook.jp("log") + notebook.jp("config")

    printed = capsys.readouterr().out
    assert "You are signed in to the MCP server books" in printed
    for text in (shown, printed, caplog.text, json.dumps(notebook.stored)):
        assert "-secret" not in text
        assert "the-code" not in text
    assert (tmp_path / "story.jsonl").exists()
    assert find_tokens(tmp_path) == [credentials_path(tmp_path)]


@pytest.mark.req("R-MCP-80")
def test_turn_asks_the_user_to_sign_in_and_continues(
    guarded: GuardedServer, open_notebook: Open
) -> None:
    notebook = open_notebook()
    notebook.ends.append(Browser(notebook).sign_in_here)
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    assert list(sent_tools(notebook)) == ["books__find"]
    [asked] = notebook.person.asked
    assert "books needs a sign-in" in asked.label
    assert "inquiry" not in json.dumps(notebook.stored)

    # The tokens end while the server runs: the next turn asks again.
    guarded.renews = False
    guarded.tokens.clear()
    turn = notebook.call("books__find")
    assert "%jp mcp sign-in books" in (turn.content or "")
    notebook.ends.append(Browser(notebook).sign_in_here)
    notebook.ask("Hello.", model="scripted/story")
    assert len([x for x in notebook.person.asked if "sign-in" in (x.label or "")]) == 2
    notebook.ask("Hello.", model="scripted/story")


@pytest.mark.req("R-MCP-80")
def test_unattended_turn_begins_no_sign_in_and_names_the_command(
    guarded: GuardedServer, open_notebook: Open
) -> None:
    notebook = open_notebook(headless=True)
    with pytest.raises(jp.JpNbError, match=r"`%jp mcp sign-in books`"):
        notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    with pytest.raises(jp.PromptUnavailable, match="No user is available to sign in"):
        notebook.jp("mcp sign-in books")
    assert set(guarded.paths()) == {"/mcp"}


@pytest.mark.req("R-MCP-80")
def test_user_who_closes_the_form_gets_the_command(
    guarded: GuardedServer, open_notebook: Open, tmp_path: Path
) -> None:
    notebook = open_notebook()
    notebook.ends.append(not_answered("cancelled", "form"))
    with pytest.raises(jp.JpNbError, match=r"did not finish.*`%jp mcp sign-in books`"):
        notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    notebook.ends.append(not_answered("cancelled", "form"))
    with pytest.raises(jp.PromptCancelled, match="did not finish"):
        notebook.jp("mcp sign-in books")
    assert not credentials_path(tmp_path).exists()


def test_signed_out_user_has_no_token(
    guarded: GuardedServer,
    open_notebook: Open,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    notebook = open_notebook()
    notebook.ends.append(Browser(notebook).sign_in_here)
    notebook.jp("mcp sign-in books")
    assert find_tokens(tmp_path) == [credentials_path(tmp_path)]
    notebook.jp("mcp sign-out books")
    assert "tokens of the MCP server books were deleted" in capsys.readouterr().out
    assert find_tokens(tmp_path) == []
    notebook.jp("mcp sign-out books")
    assert "There are no tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": "books"}, "is a program on this computer"),
        ({"url": "https://h/mcp", "headers": {"authorization": "Bearer x"}}, "have an `Authori"),
    ],
)
def test_server_that_needs_no_sign_in_is_an_error(
    guarded: GuardedServer, open_notebook: Open, settings: Any, reason: str
) -> None:
    configure({"books": settings})
    for verb in ("sign-in", "sign-out"):
        with pytest.raises(jp.UsageError, match=reason):
            open_notebook().jp(f"mcp {verb} books")
