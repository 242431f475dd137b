"""A session on a fake host: turns, questions, and conversations without Jupyter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from jp_nb.session.session import Session
from tests.kit.kinds import is_kind
from tests.kit.sessions import current_session, directive
from tests.kit.tool_sources import discovered_source
from tests.support.fake_host import FakeHome, FakeHost

TOOL_TURN = """
[[replies]]
tool_calls = [{name = "plan", arguments = {city = "Delft"}}]
[[replies]]
text = "Settled."
"""


@pytest.fixture
def folder(bare_folder: Path) -> Path:
    replies = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n'
    (bare_folder / "talk.toml").write_text(replies)
    (bare_folder / "tools.toml").write_text(TOOL_TURN)
    return bare_folder


def texts(host: FakeHost) -> list[str]:
    """Return the text that each turn showed."""
    shown = [[e.text for e in o.events if is_kind(e, "show_text")] for o in host.person.outputs]
    return ["".join(pieces) for pieces in shown]


def count_calls(work: Callable[[], object], *packages: str) -> int:
    """Return the number of function calls in these packages of `jp_nb` while `work` runs."""
    root = Path(jp_nb.__file__).parent
    folders = tuple(str(root / package) for package in packages)
    count = 0

    def note(frame: Any, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(folders):
            count += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_turn_in_a_new_conversation_resolves_the_configuration_once(folder: Path) -> None:
    (folder / ".jp").mkdir()
    (folder / ".jp" / "config.toml").write_text("[values]\nimage_side = 500\n")
    session = Session(FakeHost())
    options = [directive("cfg", f"user.name={name}") for name in ("one", "two", "three", "four")]

    def run(count: int) -> None:
        session.turns.run("Hi.", new=True, model="scripted/talk", directives=options[:count])

    run(1)
    one = count_calls(lambda: run(1), "config", "storage")
    four = count_calls(lambda: run(4), "config", "storage")
    files = count_calls(lambda: run(4), "storage/configuration")
    session.close()
    assert four - one < 1.5 * one  # three more options are only read
    assert files < 300  # about 100 if the files are read once; 780 if each step reads them


def test_turn_is_shown_recorded_and_stored(folder: Path) -> None:
    host = FakeHost()
    host.start_cell("cell-1", "run-1")
    host.namespace["city"] = "Delft"
    session = Session(host)
    turn = session.turns.run("About {{city}}.", model="scripted/talk")
    session.close()
    assert (turn.request, turn.text) == ("About Delft.", "one")
    assert session.last_turn is turn
    assert host.namespace["_jp"] is turn
    assert texts(host) == ["one"]
    assert host.person.outputs[0].done
    store: Any = session.store
    assert store.entries == session.document.conversation.raw
    asked = next(entry for entry in store.entries if entry["type"] == "chat_request")
    assert asked["metadata"] == {"cell_id": "cell-1", "typed": "About {{city}}."}


def test_closing_the_session_closes_providers_and_tool_sources(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def close_provider() -> None:
        closed.append("provider")

    with discovered_source("search") as source:
        session = Session(FakeHost())
        session.turns.run("Go.", model="scripted/talk", directives=[directive("tool", "mcp.books")])
        provider = session.turns.resolver.open_provider("scripted", session.config.providers.llm)
        monkeypatch.setattr(provider, "aclose", close_provider)
        assert source.happened == ["start"]
        session.close()
    assert closed == ["provider"]
    assert source.happened == ["start", "close"]


def test_running_the_first_cell_again_starts_a_conversation(folder: Path) -> None:
    host = FakeHost()
    session = Session(host)
    session.configure(directive("cfg", "assistant.model.id=scripted/talk"))
    host.start_cell("cell-1", "run-1")
    session.turns.run("Hello.")
    first = session.document.conversation.id
    host.start_cell("cell-1", "run-2")
    session.turns.run("Hello.")
    host.start_cell("cell-2", "run-3")
    session.turns.run("And?")
    session.close()
    assert session.document.conversation.id != first
    assert [turn.text for turn in session.conversations.log()] == ["one", "two"]
    assert f"Go back: `%jp switch {first}`" in session.notices[0]


def test_stored_conversation_continues(folder: Path) -> None:
    session = Session(FakeHost())
    session.turns.run("Hello.", model="scripted/talk")
    stored = session.document.to_json()
    session.close()
    again = Session(FakeHost(home=FakeHome(stored=stored)))
    again.configure(directive("cfg", "assistant.model.id=scripted/talk"))
    assert again.format_status().startswith("model scripted/talk · conversation restored (1 turn)")
    assert again.turns.run("And?").text == "two"
    again.close()


def test_loading_again_keeps_the_trust_of_a_record(folder: Path) -> None:
    made = Session(FakeHost())
    made.turns.run("Hello.", model="scripted/talk")
    ours = made.document.to_json()
    for stored, previous, trusted in (
        (ours, made, True),
        ({**ours, "signature": None}, made, True),  # this process made it
        ({**ours, "signature": None, "base_config": {}}, made, False),
        ({**ours, "signature": None}, None, False),
    ):
        found = Session(FakeHost(home=FakeHome(stored=stored)), previous=previous)
        again = Session(FakeHost(home=FakeHome(stored=stored)), previous=found)
        assert [found.active.trust.trusted, again.active.trust.trusted] == [trusted, trusted]
        found.close()
        again.close()
    made.close()


def test_configured_secret_in_a_tool_result_is_hidden(folder: Path) -> None:
    @jp_nb.tool
    def plan(city: str) -> str:
        return f"{city}: {jp_nb.ask(jp_nb.Question.secret('pass', 'Password?'))}"

    session = Session(FakeHost())
    secret = directive("cfg", "conversation.tools.*.questions.pass.answer=correct horse")
    with current_session(session):
        turn = session.turns.run("Plan.", model="scripted/tools", directives=[secret])
    session.close()
    jp_nb.remove_tool("plan")
    assert [call.content for call in turn.tool_calls] == ["Delft: (secret)"]


def test_errors_are_shown_before_notices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = FakeHost()
    session = Session(host)
    session.notices.append("by the way")
    with pytest.raises(jp_nb.UsageError), session.report_errors():
        session.turns.run(" ")
    session.close()
    assert [str(error)[:20] for error in host.errors] == ["the request is empty"]
    assert capsys.readouterr().out == "jp_nb: by the way\n"
    assert session.notices == []


@pytest.mark.req("R-MCP-1")
def test_turn_imports_neither_jupyter_nor_the_library_of_servers(folder: Path) -> None:
    code = """
import sys
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHost
host = FakeHost()
session = Session(host)
assert session.turns.run("Hello.", model="scripted/talk").text == "one"
session.conversations.new()
session.close()
loaded = {name.split(".")[0] for name in sys.modules}
print(*loaded & {"IPython", "ipykernel", "ipywidgets", "anywidget", "comm", "zmq", "traitlets"})
print(*[name for name in sys.modules if name.startswith("jp_nb.notebook")])
print(*loaded & {"mcp", "mcp_types", "anyio"})
print(*[name for name in sys.modules if name.startswith("jp_nb.mcp")])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(jp_nb.__file__).parents[1])},
    )
    assert done.stdout == "\n\n\n\n"


def test_notices_contain_no_absolute_path_of_the_workspace(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JP_NB_TRUST_FOLDERS", raising=False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    printed = []
    for name in ("one", "another"):
        place = folder / name / "notebooks"
        (place.parent / ".jp").mkdir(parents=True)
        place.mkdir()
        (place.parent / ".jp" / "config.toml").write_text(
            'extends = ["gone.toml"]\n[conversation.tools.t]\nsource = "local"\ncommand = "true"\n'
        )
        monkeypatch.chdir(place)
        session = Session(FakeHost())
        session.notices += [f"{place.parent} is the workspace", f"{folder}/home/x is yours"]
        session.print_notices()
        printed.append(capsys.readouterr().out)
        session.close()
    assert printed[0] == printed[1]
    assert str(folder) not in printed[0]
    assert "../.jp/config.toml includes 'gone.toml'" in printed[0]
    assert "settings in ../.jp/config.toml need your consent; ignored until" in printed[0]
    assert ".. is the workspace" in printed[0]
    assert "~/x is yours" in printed[0]
