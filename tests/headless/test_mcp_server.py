"""Our tools for other MCP clients, in both protocols: definitions, calls, questions, transports."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import nbformat
import psutil
import pytest

pytest.importorskip("mcp")

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

import jp_nb as jp
from jp_nb.cli import main
from tests.kit.tool_servers import ToolServer
from tests.support.fakes import until
from tests.support.tiers import mostly_deep

Mode = Literal["legacy", "2026-07-28"]
MODES: list[Mode] = ["legacy", "2026-07-28"]
Answer = Callable[[types.ElicitRequestFormParams], types.ElicitResult]

MODULE = '''
import subprocess
print("printed at the import")
subprocess.run(["echo", "printed by a child"])
import jp_nb as jp

@jp.tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first number.
    """
    print("printed by the tool")
    subprocess.run(["echo", "printed by the tool's child"])
    return a + b

@jp.tool(access=[jp.ConfigRule("assistant.name", write=True)])
def rename(name: str) -> jp.Outcome:
    """Rename the assistant."""
    return jp.Success("Renamed.", config={"assistant": {"name": name}})
'''


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield
    ToolServer.forget_tools()


@asynccontextmanager
async def connect(
    folder: Path, mode: Mode, answer: Answer | None = None
) -> AsyncIterator[tuple[Client, Any]]:
    """Connect a client to a server of the registered tools, in this process."""

    async def on_elicitation(context: Any, params: Any) -> types.ElicitResult:
        assert answer is not None
        return answer(params)

    server, host = await ToolServer.start(folder)
    callback = None if answer is None else on_elicitation
    async with Client(server, mode=mode, elicitation_callback=callback) as client:
        yield client, host


async def call(
    folder: Path, mode: Mode, name: str, answer: Answer | None = None, **arguments: Any
) -> tuple[str, bool]:
    """Call a tool, and return the text and whether it is an error."""
    async with connect(folder, mode, answer) as (client, _):
        result = await client.call_tool(name, arguments)
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return "\n".join(texts), result.is_error


def answers(**content: Any) -> Answer:
    """Return a user who accepts each question with its part of `content`."""

    def answer(params: types.ElicitRequestFormParams) -> types.ElicitResult:
        names = params.requested_schema["properties"]
        given = {name: content[name] for name in names if name in content}
        return types.ElicitResult(action="accept", content=given)

    return answer


def acts(action: Literal["decline", "cancel"]) -> Answer:
    return lambda _: types.ElicitResult(action=action)


# --- definitions -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.req("R-MCP-84")
async def test_definitions_are_those_for_models(tmp_path: Path, mode: Mode) -> None:
    @jp.tool
    def weather(city: str, days: int = 1) -> str:
        """Say the weather.

        Args:
            city: A city, such as Delft.
        """
        return city

    config = 'conversation.tools.weather.summary = "Weather — of a city"\n'
    (tmp_path / ".jp").mkdir()
    (tmp_path / ".jp" / "config.toml").write_text(config)
    async with connect(tmp_path, mode) as (client, host):
        [served] = (await client.list_tools()).tools

    [offered] = await host.load()
    assert served.name == offered.name == "weather"
    assert served.description == "Weather — of a city"
    assert json.dumps(served.input_schema) == json.dumps(dict(weather.schema or {}))
    assert json.dumps(dict(offered.schema)) == json.dumps(dict(weather.schema or {}))


async def test_tools_that_need_a_notebook_are_not_offered(tmp_path: Path) -> None:
    @jp.tool(access=[jp.ConfigRule("assistant.name", write=True)])
    def rename(name: str) -> str:
        return name

    @jp.tool(run="skip")
    def never() -> str:
        return "never"

    @jp.tool
    def kept() -> str:
        return "kept"

    async with connect(tmp_path, "legacy") as (client, host):
        assert [each.name for each in (await client.list_tools()).tools] == ["kept"]
        with pytest.raises(MCPError, match="Unknown tool: rename"):
            await client.session.call_tool("rename", {"name": "x"}, allow_input_required=True)
    assert set(host.refused) == {"rename", "never"}


# --- calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.req("R-MCP-83", "R-MCP-86")
async def test_results_and_errors_have_our_words(
    tmp_path: Path, mode: Mode, subtests: pytest.Subtests
) -> None:
    @jp.tool
    def works(a: int) -> str:
        return f"{a + 1}"

    @jp.tool
    def raises() -> str:
        raise ValueError("no luck")

    @jp.tool
    def explains() -> str:
        raise jp.ToolError("Try Delft.")

    @jp.tool
    async def leaves() -> str:
        raise SystemExit(3)

    @jp.tool
    def stops() -> str:
        raise KeyboardInterrupt

    rows: list[tuple[str, dict[str, Any], str, bool]] = [
        ("works", {"a": 1}, "2", False),
        ("works", {"a": "1"}, "2", False),
        ("works", {"a": "x"}, "Invalid arguments for works", True),
        ("raises", {}, "ValueError: no luck", True),
        ("explains", {}, "Try Delft.", True),
        ("leaves", {}, "SystemExit: 3", True),
        ("stops", {}, "KeyboardInterrupt", True),
        ("works", {"a": 2}, "3", False),
    ]
    for name, arguments, text, is_error in rows:
        with subtests.test(name=name, arguments=arguments):
            found = await call(tmp_path, mode, name, **arguments)
            assert (text in found[0], found[1]) == (True, is_error), found


# --- questions ---------------------------------------------------------------------------------


@pytest.fixture
def book() -> None:
    """A tool with two questions, one after the other, and an optional one."""

    @jp.tool
    def book(city: str, ctx: jp.ToolContext) -> jp.Outcome:
        if "nights" not in ctx.answers:
            note = jp.Question.text("note", "A note?").model_copy(update={"required": False})
            return jp.NeedsInput(jp.Question.integer("nights", "Nights?", minimum=1), note)
        if "size" not in ctx.answers:
            return jp.NeedsInput(jp.Question.select("size", "Size?", [1, 2], other=True))
        ends = {key: outcome.end for key, outcome in ctx.ends.items()}
        return jp.Success(f"{city}: {dict(ctx.answers)} {ends}")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("book")
@pytest.mark.req("R-MCP-83", "R-MCP-85")
async def test_questions_are_answered_by_the_client(tmp_path: Path, mode: Mode) -> None:
    text, is_error = await call(
        tmp_path, mode, "book", answers(nights=2, size="2", note="x"), city="Delft"
    )
    assert not is_error
    assert "{'nights': 2, 'note': 'x', 'size': 2}" in text

    text, _ = await call(tmp_path, mode, "book", answers(nights=2, size_other="huge"), city="D")
    assert "'note': None, 'size': {'selected': [], 'custom': 'huge'}" in text
    assert "'note': 'declined'" in text


async def test_own_text_and_a_question_with_a_similar_id_are_kept_apart(tmp_path: Path) -> None:
    sizes = {"type": "select", "options": ["S", "M"], "other": True}

    @jp.tool
    def order(ctx: jp.ToolContext) -> jp.Outcome:
        if "order" in ctx.answers:
            return jp.Success(str(ctx.answers["order"]))
        fields = [
            {"id": "size", "text": "Size?", "answer_type": sizes},
            {"id": "size_other", "text": "Other size?", "answer_type": "boolean"},
        ]
        form: Any = {"type": "form", "fields": fields}
        return jp.NeedsInput(jp.Question(id="order", text="Order?", answer_type=form))

    given = answers(size_other_="huge", size_other=True)
    text, is_error = await call(tmp_path, "legacy", "order", given)
    assert (text, is_error) == (
        "{'size': {'selected': [], 'custom': 'huge'}, 'size_other': True}",
        False,
    )


MIXED_OPTIONS: list[tuple[list[Any], list[str]]] = [
    ([1, "1"], ["1 (number)", "1"]),
    ([True, "true", 1], ["true (boolean)", "true", "1"]),
    (["1.5", 1.5, "1.5 (number)"], ["1.5", "1.5 (number) (number)", "1.5 (number)"]),
    ([2, "two"], ["2", "two"]),
]


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize(("options", "names"), MIXED_OPTIONS)
async def test_each_option_comes_back_as_its_own_value(
    tmp_path: Path, options: list[Any], names: list[str], is_list: bool
) -> None:
    question = jp.Question.select("size", "Size?", options, multi=is_list)

    @jp.tool
    def order(ctx: jp.ToolContext) -> jp.Outcome:
        if "size" in ctx.answers:
            return jp.Success(repr(ctx.answers["size"]))
        return jp.NeedsInput(question)

    for value, name in zip(options, names, strict=True):
        given = answers(size=[name]) if is_list else answers(size=name)
        expected = repr([value] if is_list else value)
        assert await call(tmp_path, "legacy", "order", given) == (expected, False)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("book")
@pytest.mark.req("R-MCP-85")
async def test_decline_cancel_and_misfits_have_the_words_of_our_forms(
    tmp_path: Path, mode: Mode, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[Answer | None, str, bool]] = [
        (acts("decline"), "Tool input declined by user.", False),
        (acts("cancel"), "Tool input cancelled by user.", False),
        (answers(nights=0), "does not fit", True),
        (answers(nights="many"), "does not fit", True),
        (answers(), "does not fit", True),
        (None, "book cannot run because no interactive terminal is available", True),
    ]
    for answer, text, is_error in rows:
        with subtests.test(text=text):
            found = await call(tmp_path, mode, "book", answer, city="Delft")
            assert (text in found[0], found[1]) == (True, is_error), found


@pytest.mark.parametrize("mode", MODES)
async def test_tool_that_accepts_partial_answers_gets_the_ends(tmp_path: Path, mode: Mode) -> None:
    @jp.tool
    def ask(ctx: jp.ToolContext) -> jp.Outcome:
        if not ctx.ends:
            return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"), partial=True)
        return jp.Success(f"{dict(ctx.answers)} {ctx.ends['sure'].end}")

    assert await call(tmp_path, mode, "ask", acts("decline")) == ("{} declined", False)
    assert await call(tmp_path, mode, "ask", acts("cancel")) == ("{} cancelled", False)
    assert await call(tmp_path, mode, "ask", answers(sure=False)) == (
        "{'sure': False} answered",
        False,
    )


@pytest.mark.parametrize("mode", MODES)
async def test_no_client_gets_secrets_or_questions_for_the_user_alone(
    tmp_path: Path, mode: Mode
) -> None:
    @jp.tool
    def key(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.NeedsInput(jp.Question.secret("key", "Key?"))

    @jp.tool
    def sure(ctx: jp.ToolContext) -> jp.Outcome:
        question = jp.Question.boolean("sure", "Sure?").model_copy(update={"exclusive": True})
        return jp.NeedsInput(question)

    for name in ("key", "sure"):
        text, is_error = await call(tmp_path, mode, name, acts("cancel"))
        assert (text.startswith(f"{name} cannot run because"), is_error) == (True, True)


@pytest.mark.parametrize("mode", MODES)
async def test_configured_answers_are_used(tmp_path: Path, mode: Mode) -> None:
    @jp.tool
    def ask(ctx: jp.ToolContext) -> jp.Outcome:
        if "city" in ctx.answers:
            return jp.Success(str(ctx.answers["city"]))
        return jp.NeedsInput(jp.Question.text("city", "City?"))

    (tmp_path / ".jp").mkdir()
    config = '[conversation.tools.ask.questions.city]\nanswer = "Delft"\n'
    (tmp_path / ".jp" / "config.toml").write_text(config)
    assert await call(tmp_path, mode, "ask") == ("Delft", False)


@pytest.mark.parametrize("mode", MODES)
async def test_tool_that_ignores_answers_ends(tmp_path: Path, mode: Mode) -> None:
    @jp.tool
    def ask(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.NeedsInput(jp.Question.text("city", "City?"))

    (tmp_path / ".jp").mkdir()
    config = '[conversation.tools.ask.questions.city]\nanswer = "Delft"\n'
    (tmp_path / ".jp" / "config.toml").write_text(config)
    text, is_error = await call(tmp_path, mode, "ask")
    assert (is_error, "does not use the answers" in text) == (True, True)


@pytest.mark.usefixtures("book")
async def test_state_of_a_question_is_sealed_and_bound_to_its_call(tmp_path: Path) -> None:
    async with connect(tmp_path, "2026-07-28", acts("cancel")) as (client, _):
        session = client.session
        asked = await session.call_tool("book", {"city": "Delft"}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        assert list(asked.input_requests or {}) == ["nights", "note"]
        assert "Delft" not in (asked.request_state or "")

        given: Any = {"nights": types.ElicitResult(action="accept", content={"nights": 2})}
        again = await session.call_tool(
            "book",
            {"city": "Delft"},
            input_responses=given,
            request_state=asked.request_state,
            allow_input_required=True,
        )
        assert isinstance(again, types.InputRequiredResult)
        assert list(again.input_requests or {}) == ["note"]

        for city, state in [("Gouda", asked.request_state), ("Delft", "v1.AAAA")]:
            with pytest.raises(MCPError, match="requestState"):
                await session.call_tool(
                    "book",
                    {"city": city},
                    input_responses=given,
                    request_state=state,
                    allow_input_required=True,
                )


# --- transports --------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "jp_nb.cli", "mcp", *arguments]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.req("R-MCP-83", "R-MCP-86")
async def test_prints_of_a_module_do_not_reach_the_protocol(tmp_path: Path, mode: Mode) -> None:
    (tmp_path / "house.py").write_text(MODULE)
    program, *arguments = command("house")
    server = StdioServerParameters(
        command=program, args=arguments, cwd=tmp_path, env=dict(os.environ)
    )
    async with Client(server, mode=mode) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["add"]
        result = await client.call_tool("add", {"a": 40})
    assert result.content == [types.TextContent(text="42")]


def test_bytes_on_stdout_are_messages_only(tmp_path: Path) -> None:
    (tmp_path / "house.py").write_text(MODULE)
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1}, "_meta": envelope},
    }
    with subprocess.Popen(
        command("house.py"),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        line = server.stdout.readline()
        rest, errors = server.communicate(timeout=60)

    assert json.loads(line)["result"]["content"][0]["text"] == "3"
    assert rest == b""
    for text in ("at the import", "by a child", "by the tool", "by the tool's child"):
        assert f"printed {text}".encode() in errors
    assert b"the tool rename is not offered" in errors
    assert server.returncode == 0


def read_start_errors(source: str, folder: Path, **variables: str) -> str:
    """Return the error output of a server of `source` that ends at once, with the status 2."""
    with subprocess.Popen(
        command(source),
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,  # stays open
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        errors = server.stderr.read()
        assert server.wait(60) == 2
    return errors


@pytest.mark.parametrize(
    ("source", "error"),
    mostly_deep(
        [
            ("no_such_module", "no_such_module cannot be imported: ModuleNotFoundError"),
            ("broken.py", "broken.py cannot be imported: ZeroDivisionError"),
            ("empty.py", "empty.py has no tool to offer"),
            ("no.ipynb", "there is no notebook no.ipynb"),
        ],
        quick=[("empty.py", "empty.py has no tool to offer")],
    ),
)
def test_source_without_tools_ends_at_once(tmp_path: Path, source: str, error: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "empty.py").write_text("")
    assert error in read_start_errors(source, tmp_path)


@pytest.mark.req("R-MCP-86")
async def test_http_serves_clients_of_both_protocols_and_no_other_site(tmp_path: Path) -> None:
    (tmp_path / "house.py").write_text(MODULE)
    server = await asyncio.create_subprocess_exec(
        *command("house", "--http", "0"), cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert server.stderr is not None
        url = ""
        while not url:
            line = (await server.stderr.readline()).decode()
            assert line, "the server ended"
            found = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)
            url = found[0] if found else ""
        for mode in MODES:
            async with Client(url, mode=mode) as client:
                result = await client.call_tool("add", {"a": 1})
                assert result.content == [types.TextContent(text="3")]
        assert await _status(url, Host="127.0.0.1") == 421
        assert await _status(url, Host="evil.example:80") == 421
        assert await _status(url, Origin="http://evil.example") == 403
        assert await _status(url, Origin="null") == 403
    finally:
        server.send_signal(signal.SIGINT)
        await server.wait()


async def test_http_address_of_ipv6_is_a_url(tmp_path: Path) -> None:
    (tmp_path / "house.py").write_text(MODULE)
    server = await asyncio.create_subprocess_exec(
        *command("house", "--http", "[::1]:0"), cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert server.stderr is not None
        text = ""
        while "listens on" not in text:
            text = (await server.stderr.readline()).decode()
            assert text, "the server ended"
        assert re.search(r"http://\[::1\]:\d+/mcp", text)
    finally:
        server.send_signal(signal.SIGINT)
        await server.wait()


async def _status(url: str, **headers: str) -> int:
    import httpx2

    async with httpx2.AsyncClient() as client:
        accepted = {"Accept": "application/json, text/event-stream"}
        response = await client.post(url, json={}, headers=accepted | headers)
    return int(response.status_code)


@pytest.mark.parametrize("address", ["x", "8000:x", "localhost:", "127.0.0.1:99999"])
def test_wrong_address_is_an_error(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "house", "--http", address]) == 2
    assert "--http takes [HOST:]PORT" in capsys.readouterr().err


@pytest.mark.kernel
def test_kernel_that_does_not_start_is_named(tmp_path: Path) -> None:
    spec = tmp_path / "kernels" / "ends" / "kernel.json"
    spec.parent.mkdir(parents=True)
    arguments = [sys.executable, "-c", "raise SystemExit(1)", "{connection_file}"]
    spec.write_text(json.dumps({"argv": arguments, "display_name": "E", "language": "python"}))
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("@jp.tool\ndef one() -> int:\n    return 1")],
        metadata={"kernelspec": {"name": "ends", "display_name": "E", "language": "python"}},
    )
    nbformat.write(notebook, tmp_path / "tools.ipynb")
    errors = read_start_errors("tools.ipynb", tmp_path, JUPYTER_PATH=str(tmp_path))
    assert "the kernel 'ends' of tools.ipynb does not start" in errors
    assert "Traceback" not in errors


@pytest.mark.kernel
async def test_notebook_serves_its_tools_from_a_kernel(tmp_path: Path) -> None:
    cells = [
        "%load_ext jp_nb\nopen('other', 'w').close()",
        "import os\n\n@jp.tool\ndef shout(text: str) -> str:\n    print('shouting')\n"
        "    return text.upper() + str(os.getpid())",
        "@jp.tool\nasync def pick(ctx: jp.ToolContext) -> jp.Outcome:\n"
        "    if 'color' in ctx.answers:\n        return jp.Success(ctx.answers['color'])\n"
        "    return jp.NeedsInput(jp.Question.text('color', 'Which color?'))",
        "%%jp\nHello",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(x) for x in cells])
    nbformat.write(notebook, tmp_path / "tools.ipynb")

    async def red(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"color": "red"})

    program, *arguments = command("tools.ipynb")
    server = StdioServerParameters(
        command=program, args=arguments, cwd=tmp_path, env=dict(os.environ)
    )
    async with Client(server, elicitation_callback=red) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["shout", "pick"]
        shouted = (await client.call_tool("shout", {"text": "ü\n'x' "})).content[0]
        assert isinstance(shouted, types.TextContent)
        assert shouted.text.startswith("Ü\n'X' ")
        assert (await client.call_tool("pick", {})).content == [types.TextContent(text="red")]
    assert not (tmp_path / "other").exists()

    pid = int(shouted.text.split()[-1])
    await until(lambda: not psutil.pid_exists(pid))
