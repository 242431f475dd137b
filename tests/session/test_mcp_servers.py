"""Servers in a session: their start, tools, permissions, changes, and end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from tests.kit.kinds import is_kind, kind_of
from tests.mcp.helpers import FORM
from tests.session.servers import (
    configure,
    is_alive,
    make_books,
    remove_configuration,
    sent_tools,
    settings_of,
    turn_on,
)
from tests.support.fakes import yes
from tests.support.sessions import SCRIPT, AskedNotebook

WAIT_KEY = "tool sources"


pytest.importorskip("mcp")

ON: dict[str, Any] = {"run": "unattended"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.toml").write_text(SCRIPT * 3)
    return tmp_path


@pytest.fixture
def open_notebook(folder: Path) -> Iterator[Callable[..., AskedNotebook]]:
    """Opens notebooks, and closes their sessions at the end."""
    opened: list[AskedNotebook] = []

    def open_one(**options: Any) -> AskedNotebook:
        opened.append(AskedNotebook(folder, name=f"nb{len(opened)}", **options))
        return opened[-1]

    yield open_one
    for notebook in opened:
        notebook.session.close()
    remove_configuration()


Open = Callable[..., AskedNotebook]


def notices(notebook: AskedNotebook) -> str:
    """Return the notices of all turns."""
    outputs = notebook.host.person.outputs
    events = [event for output in outputs for event in output.events]
    return "\n".join(event.text for event in events if is_kind(event, "notice"))


def connection_of(notebook: AskedNotebook, server: str = "books") -> Any:
    """Return the connection to a server that runs."""
    source: Any = notebook.session.turns.resolver.discovery.find_running_server(server)
    return source.connection


@pytest.mark.req("R-MCP-3", "R-MCP-13")
def test_server_starts_when_a_turn_offers_its_tools(folder: Path, open_notebook: Open) -> None:
    server = make_books(folder)
    configure({"books": settings_of(server)})
    notebook = open_notebook()
    notebook.ask("Hello.", model="scripted/story")
    assert sent_tools(notebook) == {}
    assert not server.log.exists()

    notebook.ask("Hello.", *turn_on("mcp.books.search"))
    assert list(sent_tools(notebook)) == ["books__search"]
    notebook.ask("Hello.", *turn_on("mcp.books"))
    assert list(sent_tools(notebook)) == ["books__search", "books__read"]
    assert len(server.received("initialize")) + len(server.received("server/discover")) == 1


def test_servers_start_at_the_same_time(folder: Path, open_notebook: Open) -> None:
    slow = {name: make_books(folder, start_delay=1.0) for name in ("books", "maps")}
    configure({name: settings_of(server) for name, server in slow.items()})
    notebook = open_notebook()
    notebook.ask("Warm up.", *turn_on("mcp.books"), model="scripted/story")
    pid = connection_of(notebook).pid
    began = time.monotonic()
    notebook.session.close()
    other = open_notebook()
    other.ask("Hello.", *turn_on("mcp.books", "mcp.maps"), model="scripted/story")
    assert len(sent_tools(other)) == 4
    assert not is_alive(pid)
    assert time.monotonic() - began < 10


@pytest.mark.req("R-MCP-24", "R-MCP-26")
def test_permission_names_tool_and_server_and_shows_all_arguments(
    folder: Path, open_notebook: Open
) -> None:
    tool = {
        "name": "read",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
    }
    configure({"books": settings_of(make_books(folder, tools=[tool]))})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    long = "x" * 5_000 + "\u202e"
    notebook.ends.append(yes("run"))
    made = notebook.call("books__read", path=long)
    [prompt] = notebook.person.asked
    assert is_kind(prompt, "decision_prompt")
    assert prompt.text == "Run the tool `books__read` of the server `books`?"
    shown = {each.caption: each.value for each in prompt.exhibits}
    assert shown["Arguments"] == {"path": long}
    assert shown["The server says about this tool (not checked)"] == (
        "read only: yes\ndestructive: no"
    )
    assert not made.is_error


@pytest.mark.req("R-MCP-23", "R-MCP-25")
def test_without_a_user_a_call_is_refused_whatever_its_hints_say(
    folder: Path, open_notebook: Open
) -> None:
    tool = {
        "name": "read",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    server = make_books(folder, tools=[tool, {"name": "search", "inputSchema": {"type": "object"}}])
    configure({"books": settings_of(server)}, {"books__search": ON})
    notebook = open_notebook(headless=True)
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    refused = notebook.call("books__read")
    assert refused.is_error
    assert "needs the user's permission" in (refused.content or "")
    assert server.received("tools/call") == []
    ran = notebook.call("books__search")
    assert (ran.content, ran.is_error) == ("Emma, 1815", False)


@pytest.mark.parametrize(
    ("trusts", "hint", "runs"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_hint_counts_before_a_plan_only_if_the_user_trusts_the_server(
    folder: Path, open_notebook: Open, trusts: bool, hint: bool, runs: bool
) -> None:
    tool = {
        "name": "read",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": hint},
    }
    server = make_books(folder, tools=[tool], calls={"read": [{"result": "Emma"}]})
    settings = settings_of(server, trust_read_only_hint=trusts)
    configure({"books": settings}, {"books__read": ON})
    (folder / "planned.toml").write_text(
        '[[replies]]\ntool_calls = [{name = "books__read"}]\n[[replies]]\ntext = "Done."\n'
    )
    turn = open_notebook().session.turns.run(
        "Go.", directives=turn_on("mcp.books"), model="scripted/planned", plan=True
    )
    assert bool(server.received("tools/call")) is runs
    assert (turn.tool_calls[0].content == "Emma") is runs


@pytest.mark.req("R-MCP-5")
def test_failed_server_ends_the_turn_with_its_command_and_last_words(
    folder: Path, open_notebook: Open
) -> None:
    broken = make_books(folder, stderr="no shelf\n", exit_at="server/discover")
    secret = {"TOKEN": "s3cret-s3cret-s3cret"}
    configure({"books": settings_of(broken, env=secret)})
    notebook = open_notebook()
    with pytest.raises(jp_nb.JpNbError) as caught:
        notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    text = str(caught.value)
    assert text.startswith("the MCP server books did not start: ")
    assert sys.executable in text
    assert "no shelf" in text
    assert "s3cret" not in text
    assert notebook.session.document.conversation.turn_count == 0
    assert notebook.session.turns.contexts.last_request is None


@pytest.mark.req("R-MCP-5")
def test_optional_server_that_fails_is_dropped(folder: Path, open_notebook: Open) -> None:
    broken = {"command": "no-such-program-of-jp-nb", "optional": True}
    configure({"books": settings_of(make_books(folder)), "maps": broken})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books", "mcp.maps"), model="scripted/story")
    assert list(sent_tools(notebook)) == ["books__search", "books__read"]
    assert "no-such-program-of-jp-nb" in notices(notebook)


@pytest.mark.req("R-MCP-2")
def test_without_the_library_one_line_names_the_command(
    folder: Path, open_notebook: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_books(folder)
    configure({"books": settings_of(server), "maps": settings_of(server)})
    monkeypatch.setitem(sys.modules, "mcp", None)  # an import raises `ImportError`
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books", "mcp.maps"), model="scripted/story")
    assert sent_tools(notebook) == {}
    assert notices(notebook).count("pip install 'jp-nb[mcp]'") == 1
    assert not server.log.exists()


@pytest.mark.req("R-MCP-8", "R-MCP-7")
def test_end_of_the_session_leaves_no_process(folder: Path, open_notebook: Open) -> None:
    configure({"books": settings_of(make_books(folder, child=True))})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    connection = connection_of(notebook)
    assert connection is not None
    pid = connection.pid
    assert is_alive(pid)
    notebook.session.close()
    assert not is_alive(pid)


@pytest.mark.req("R-MCP-73")
def test_record_of_a_call_has_server_and_tool_and_no_command_or_secret(
    folder: Path, open_notebook: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELF_TOKEN", "hunter2-hunter2")
    tool = {"name": "read.file", "inputSchema": {"type": "object"}}
    calls = {"read.file": [{"state": "secret-state"}, {"arguments": True}]}
    server = make_books(folder, era="2026", tools=[tool], calls=calls)
    settings = settings_of(server, env={"TOKEN": "${SHELF_TOKEN}", "LEVEL": "hidden-level"})
    configure({"books": settings}, {"books__read_file": ON})
    notebook = open_notebook()
    script = READ_SCRIPT.replace("NAME", "books__read_file")
    (folder / "reader.toml").write_text(script)
    notebook.ask("Read.", *turn_on("mcp.books"), model="scripted/reader")

    entries = notebook.session.document.conversation.raw
    [asked] = [each for each in entries if each["type"] == "tool_call_request"]
    [response] = [each for each in entries if each["type"] == "tool_call_response"]
    assert asked["name"] == "books__read_file"
    assert asked["arguments"] == {"path": "emma"}
    assert response["content"] == '{"path": "emma"}'
    marks: Any = response["metadata"]
    assert {key: marks[key] for key in marks if key != "times"} == {
        "server": "books",
        "server_tool": "read.file",
    }

    stored = str(entries)
    arguments = settings["arguments"][-1]
    for text in ("hunter2", "SHELF_TOKEN", "hidden-level", "secret-state", sys.executable):
        assert text not in stored
    assert arguments not in stored


READ_SCRIPT = """
[[replies]]
tool_calls = [{name = "NAME", arguments = {path = "emma"}}]
[[replies]]
text = "Read."
"""


@pytest.mark.req("R-MCP-43", "R-MCP-56")
@pytest.mark.parametrize("is_in_file", [True, False], ids=["file", "configured"])
def test_prepared_answer_reaches_the_server_while_another_of_its_calls_runs(
    folder: Path, open_notebook: Open, monkeypatch: pytest.MonkeyPatch, is_in_file: bool
) -> None:
    trip = [{"ask": {"elicitation": FORM}}, {"answers": True}]
    calls = {"search": [{"sleep": 1}, {"result": "Emma"}], "trip": trip}
    server = make_books(folder, era="2025", calls=calls)
    answers = folder / "nb0.answers.toml"
    asking: dict[str, Any] = dict(ON)
    if is_in_file:
        answers.write_text('[questions.books__trip]\nelicitation = { city = "Delft" }\n')
    else:
        answers.write_text("")
        asking["questions"] = {"elicitation": {"answer": {"city": "Delft"}}}
    monkeypatch.setenv("JP_NB_ANSWERS", str(answers))
    configure({"books": settings_of(server)}, {"books__search": ON, "books__trip": asking})
    (folder / "both.toml").write_text(BOTH)

    notebook = open_notebook(headless=True)
    notebook.ask("Go.", *turn_on("mcp.books"), model="scripted/both")
    last = notebook.session.last_turn
    assert last is not None
    search, asked = last.tool_calls
    assert search.content == "Emma"
    answered = asked.content or ""
    assert '"accept"' in answered
    assert "Delft" in answered


BOTH = """
[[replies]]
tool_calls = [{name = "books__search"}, {name = "books__trip"}]
[[replies]]
text = "Done."
"""


@pytest.mark.req("R-MCP-9")
def test_dead_server_is_started_again_by_the_next_turn(folder: Path, open_notebook: Open) -> None:
    server = make_books(folder, calls={"die": [{"exit": 3}], "search": [{"result": "Emma"}]})
    configure({"books": settings_of(server)}, {"books__die": ON, "books__search": ON})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    assert notebook.call("books__die").is_error
    assert notebook.call("books__search").content == "Emma"


@pytest.mark.req("R-MCP-15")
def test_definitions_are_equal_in_successive_requests(folder: Path, open_notebook: Open) -> None:
    configure({"books": settings_of(make_books(folder))})
    notebook = open_notebook()
    definitions = []
    for directives in (turn_on("mcp.books"), [], []):
        notebook.ask("Hello.", *directives, model="scripted/story")
        last = notebook.session.turns.contexts.last_request
        assert last is not None
        definitions.append(last.request.tools)
    assert definitions[0] == definitions[1] == definitions[2]


@pytest.mark.req("R-MCP-18")
def test_one_bad_schema_costs_only_its_own_tool(folder: Path, open_notebook: Open) -> None:
    bad = {"type": "object", "properties": {"x": {"$ref": "https://evil.example/x.json"}}}
    tools = [
        {"name": "search", "inputSchema": {"type": "object"}},
        {"name": "bad", "inputSchema": bad},
    ]
    configure({"books": settings_of(make_books(folder, tools=tools))})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    assert list(sent_tools(notebook)) == ["books__search"]
    assert "the tool 'bad' of the MCP server books is not offered" in notices(notebook)
    notebook.host.person.outputs.clear()
    notebook.ask("Hello.")
    assert "is not offered" not in notices(notebook)


@pytest.mark.req("R-MCP-22")
def test_instructions_are_sent_only_if_configured(folder: Path, open_notebook: Open) -> None:
    server = make_books(folder, instructions="Ask for the year.")
    for wanted in (False, True):
        configure({"books": settings_of(server, instructions=wanted)})
        notebook = open_notebook()
        notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
        last = notebook.session.turns.contexts.last_request
        assert last is not None
        texts = "\n".join(last.request.system)
        assert ("Ask for the year." in texts) is wanted
        assert ("The MCP server books describes" in texts) is wanted


@pytest.mark.req("R-MCP-20")
def test_tool_that_vanished_is_an_error_of_its_call(folder: Path, open_notebook: Open) -> None:
    configure({"books": settings_of(make_books(folder))}, {"books__gone": ON})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    gone = notebook.call("books__gone")
    assert gone.is_error
    assert "books__gone" in (gone.content or "")


@pytest.mark.req("R-MCP-19", "R-MCP-96")
def test_changed_tool_is_shown_and_its_permission_for_the_turn_ends(
    folder: Path, open_notebook: Open
) -> None:
    names = ("search", "read", "change")
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    changed = [{**tools[0], "description": "Also deletes."}, *tools[1:]]
    notice = {"notify": {"method": "notifications/tools/list_changed"}}
    steps = [{"tools": changed}, notice, {"sleep": 0.1}, {"result": "changed"}]
    calls = {"search": [{"result": "1"}], "read": [{"result": "2"}], "change": steps}
    server = make_books(folder, era="2025", tools=tools, calls=calls)
    configure({"books": settings_of(server)}, {"books__change": ON})
    replies = [
        f'[[replies]]\ntool_calls = [{{name = "books__{name}", arguments = {{}}}}]\n'
        for name in ("search", "read", "change", "read", "search")
    ]
    (folder / "calls.toml").write_text("".join(replies) + SCRIPT)

    notebook = open_notebook()
    notebook.ends += [yes("run_turn"), yes("run_turn"), yes("skip")]
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/calls")
    asked = [prompt.text.split("`")[1] for prompt in notebook.person.asked]
    assert asked == ["books__search", "books__read", "books__search"]
    assert "Also deletes." in sent_tools(notebook)["books__search"]
    assert "changed its tools books__search. Permissions for them have ended" in notices(notebook)


@pytest.mark.req("R-MCP-19")
def test_expired_list_is_renewed_with_the_next_turn(folder: Path, open_notebook: Open) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("search", "change")]
    changed = [{**tools[0], "description": "Also deletes."}, tools[1]]
    calls = {"search": [], "change": [{"tools": changed}, {"result": "changed"}]}
    server = make_books(folder, era="2026", tools=tools, calls=calls)
    configure({"books": settings_of(server)}, {"books__change": ON})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    notebook.call("books__change")
    assert "changed its tools" not in notices(notebook)
    notebook.ask("Hello.", model="scripted/story")
    assert "Also deletes." in sent_tools(notebook)["books__search"]
    assert "changed its tools books__search." in notices(notebook)


@pytest.mark.req("R-MCP-89")
@pytest.mark.parametrize(("ttl_ms", "count"), [(0, 3), (60_000, 0)])
def test_tools_of_a_running_server_are_listed_at_most_once_for_each_request(
    folder: Path, open_notebook: Open, ttl_ms: int, count: int
) -> None:
    server = make_books(folder, era="2026", ttl_ms=ttl_ms)
    configure({"books": settings_of(server)})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    before = len(server.received("tools/list"))
    for _ in range(3):
        notebook.ask("Hello.")
    assert len(server.received("tools/list")) - before == count


@pytest.mark.req("R-MCP-27")
def test_preview_of_a_request_starts_no_server(folder: Path, open_notebook: Open) -> None:
    server = make_books(folder)
    configure({"books": settings_of(server)})
    notebook = open_notebook()
    notebook.ask("Hello.", model="scripted/story")
    notebook.jp('config conversation.toolsets["mcp.books"]=true')
    notebook.jp("request next")
    assert not server.log.exists()


@pytest.mark.req("R-MCP-6")
@pytest.mark.parametrize("is_shown", [True, False])
def test_slow_start_is_shown_in_the_cell_while_it_lasts(
    folder: Path, open_notebook: Open, monkeypatch: pytest.MonkeyPatch, is_shown: bool
) -> None:
    monkeypatch.setenv("JP_CFG_STYLE__MCP_STARTUP__DELAY_SECS", "0")
    monkeypatch.setenv("JP_CFG_STYLE__MCP_STARTUP__SHOW", str(is_shown).lower())
    books = make_books(folder, start_delay=0.5)
    maps = make_books(folder, start_delay=2)
    configure({"books": settings_of(books), "maps": settings_of(maps)})
    notebook = open_notebook()
    notebook.ask("Hello.", *turn_on("mcp.books", "mcp.maps"), model="scripted/story")
    [output] = notebook.host.person.outputs
    waits = [event for event in output.events if is_kind(event, "waits")]
    texts = [event.text for event in waits if event.key == WAIT_KEY]
    both = "the server books and the server maps to start"
    assert (both in texts) is is_shown
    # The line names the servers that are still starting. In the end it is empty.
    assert ("the server maps to start" in texts) is is_shown
    assert texts[-1:] in ([], [""])
    assert "to start" not in str(notebook.session.document.conversation.raw)


@pytest.mark.parametrize("line", ["resume", "retry"])
def test_slow_start_of_a_turn_that_does_not_begin_ends_its_display(
    folder: Path, open_notebook: Open, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("JP_CFG_STYLE__MCP_STARTUP__DELAY_SECS", "0")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (folder / "fails.toml").write_text("[[replies]]\nerror = {status = 400}\n")
    configure({"books": settings_of(make_books(folder, start_delay=0.5))})
    notebook = open_notebook()
    notebook.jp("config assistant.model.id=scripted/fails")
    with pytest.raises(jp_nb.ProviderError):
        notebook.ask("Hello.")

    notebook.jp('config conversation.toolsets["mcp.books"]=true')
    notebook.jp("config assistant.model.id=openai/any")
    with pytest.raises(jp_nb.ProviderError, match="OPENAI_API_KEY"):
        notebook.jp(line)
    _, early = notebook.host.person.outputs
    assert [kind_of(event) for event in early.events] == ["waits", "waits"]
    assert early.done

    notebook.jp("config assistant.model.id=scripted/story")
    notebook.jp(line)
    assert [output.done for output in notebook.host.person.outputs] == [True, True, True]


@pytest.mark.req("R-MCP-12")
def test_interrupt_during_the_start_ends_it_and_the_next_turn_tries_again(
    folder: Path, open_notebook: Open
) -> None:
    import _thread
    import threading

    server = make_books(folder, start_delay=30)
    configure({"books": settings_of(server)})
    notebook = open_notebook()
    pids: list[int] = []

    def interrupt() -> None:
        source = None
        while not pids:
            time.sleep(0.05)
            source = notebook.session.turns.resolver.discovery.find_running_server("books")
            connection = getattr(source, "connection", None)
            if connection is not None and connection.pid is not None:
                pids.append(connection.pid)
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    thread.join()
    until = time.monotonic() + 5
    while is_alive(pids[0]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_alive(pids[0])
    configure({"books": settings_of(make_books(folder))})
    notebook.ask("Hello.", *turn_on("mcp.books"), model="scripted/story")
    assert list(sent_tools(notebook)) == ["books__search", "books__read"]
