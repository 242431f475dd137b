"""Servers that break the protocol, flood the connection, or end: only a call or server is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

pytest.importorskip("mcp")

import jp_nb as jp
from jp_nb.mcp.connections.connection import Connection
from tests.kit.kinds import is_kind, make
from tests.mcp.helpers import (
    FORM,
    connected,
    error_of,
    list_group,
    scripted,
    start_fails,
    text_of,
    wait_until,
)
from tests.mcp.scripted_server import Json

MAX_CALL_ROUNDS = 10
MAX_RESTARTS = 3
MAX_GREETING_BYTES = 65_536
MAX_STDERR_BYTES = 65_536


ERAS = pytest.mark.parametrize("era", ["2025", "2026"])
HI: list[Json] = [{"result": "hi"}]


# --- start -----------------------------------------------------------------------------------


async def test_missing_program_is_named_at_once() -> None:
    connection = Connection(
        "files", make("stdio_launch", "no-such-program", ("--token", "sk-12345678"))
    )
    with start_fails("no-such-program was not found") as info:
        await connection.start()
    assert error_of(info).server == "files"
    assert "sk-12345678" not in str(info.value)
    assert connection.state == "failed"


async def test_missing_folder_is_named(tmp_path: Path) -> None:
    launch = make("stdio_launch", "python3", folder=tmp_path / "gone")
    with start_fails(r"its folder .*gone does not exist"):
        await Connection("test", launch).start()


async def test_server_that_exits_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(30)]
    server = scripted(tmp_path, stderr="\n".join(lines), exit_at="start")
    connection = Connection("test", server.launch)
    with start_fails("its process ended with exit code 3") as info:
        await connection.start()
    assert list(error_of(info).stderr) == lines[-20:]
    assert "line 29" in str(info.value)


@pytest.mark.req("R-MCP-4")
async def test_silent_server_ends_after_the_time_to_start(tmp_path: Path) -> None:
    server = scripted(tmp_path, silent=["server/discover", "initialize"], calls={})
    limits = make("connection_limits", startup_timeout_secs=1)
    connection = Connection("test", server.launch, limits)
    began = monotonic()
    with start_fails("no answer within 1 s"):
        await connection.start()
    assert monotonic() - began < 20
    assert connection.pid is None


async def test_interrupted_start_leaves_no_process_and_can_be_repeated(tmp_path: Path) -> None:
    server = scripted(tmp_path, calls={"greet": HI}, start_delay=0.3)
    connection = Connection("test", server.launch)
    starting = asyncio.create_task(connection.start())
    await wait_until(lambda: connection.pid)
    pid = connection.pid
    assert pid is not None
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_alive(pid)

    await connection.start()
    assert text_of(await connection.call("1", "greet", {})) == "hi"
    await connection.aclose()


async def test_start_ends_with_an_error_if_the_connection_is_closed(tmp_path: Path) -> None:
    server = scripted(tmp_path, silent=["server/discover", "initialize"], calls={})
    connection = Connection("test", server.launch)
    starting = asyncio.create_task(connection.start())
    await wait_until(lambda: server.logged())
    pid = connection.pid
    assert pid is not None
    await connection.aclose()
    with start_fails("it was closed"):
        await starting
    assert not is_alive(pid)


async def test_missing_library_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with start_fails(r"pip install 'jp-nb\[mcp\]'"):
        await Connection("test", scripted(tmp_path, calls={}).launch).start()


def test_library_is_not_imported_before_a_server_starts() -> None:
    program = (
        "import sys, jp_nb.mcp.connections.connection\n"
        "print({'mcp', 'mcp_types'} & sys.modules.keys())"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert shown.stdout == b"set()\n"


@pytest.mark.parametrize("greeting", ["Server ready.\nListening\n", "Server ready: "])
async def test_greeting_on_stdout_is_skipped(tmp_path: Path, greeting: str) -> None:
    server = scripted(tmp_path, greeting=greeting, calls={"greet": HI})
    began = monotonic()
    async with connected(server.launch) as connection:
        assert text_of(await connection.call("1", "greet", {})) == "hi"
        assert connection.discarded_lines == max(greeting.count("\n"), 1)
    assert monotonic() - began < 9  # the library waits 10 s for a swallowed answer


async def test_long_greeting_ends_the_start(tmp_path: Path) -> None:
    greeting = ("x" * 99 + "\n") * (MAX_GREETING_BYTES // 99 + 10)
    server = scripted(tmp_path, greeting=greeting, calls={})
    with start_fails("to stdout that are no messages"):
        await Connection("test", server.launch).start()


async def test_servers_inherit_only_a_short_list_of_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("SHELL", "() { evil; }")
    program = "import json, os, sys; print(json.dumps(dict(os.environ)), file=sys.stderr)"
    launch = make(
        "stdio_launch", sys.executable, ("-S", "-c", program), {"TOKEN": "t0p-s3cret-value"}
    )
    with start_fails() as info:
        await Connection("test", launch).start()
    environment = json.loads(error_of(info).stderr[-1])
    assert "ANTHROPIC_API_KEY" not in environment
    assert "SHELL" not in environment
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["TOKEN"] == "(set, not shown)"  # hidden in the error only


# --- messages --------------------------------------------------------------------------------


@ERAS
@pytest.mark.req("R-MCP-32")
async def test_large_message_ends_the_connection_and_the_next_start_works(
    tmp_path: Path, era: str
) -> None:
    server = scripted(tmp_path, era=era, calls={"big": [{"big": 3_000_000}], "greet": HI})
    limits = make("connection_limits", max_response_bytes=1_000_000)
    async with connected(server.launch, limits=limits) as connection:
        with pytest.raises(jp.JpNbError, match="a message of more than 1,000,000 bytes"):
            await connection.call("1", "big", {})
        await wait_until(lambda: connection.state == "ended")
        await connection.start()
        assert text_of(await connection.call("2", "greet", {})) == "hi"


@pytest.mark.req("R-MCP-32")
async def test_line_without_an_end_is_read_in_linear_time(tmp_path: Path) -> None:
    server = scripted(tmp_path, calls={"big": [{"unended": 60_000_000}]})
    async with connected(server.launch) as connection:
        began = monotonic()
        with pytest.raises(jp.JpNbError, match="a message of more than 16,777,216 bytes"):
            await connection.call("1", "big", {})
        assert monotonic() - began < 10  # the reader of the library needs minutes


async def test_other_text_in_a_session_is_counted(tmp_path: Path) -> None:
    rubbish = 'debug: x\n[1, 2]\n"text"\n{"jsonrpc": "1.0"}\n\n\x1b[31m\n'
    server = scripted(tmp_path, calls={"greet": [{"raw": rubbish}, *HI]})
    async with connected(server.launch) as connection:
        assert text_of(await connection.call("1", "greet", {})) == "hi"
        assert connection.discarded_lines == 5


@ERAS
async def test_library_writes_nothing_about_messages_to_the_log(
    tmp_path: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    wrong = {"notify": {"method": "notifications/message", "params": {"level": 7}}}
    server = scripted(tmp_path, era=era, calls={"greet": [wrong, {"raw": "x\n"}, *HI]})
    async with connected(server.launch) as connection:
        await connection.call("1", "greet", {"secret": "s3cret"})
    assert [record.name for record in caplog.records if record.name != "asyncio"] == []


async def test_message_with_spaces_is_read_before_any_other(tmp_path: Path) -> None:
    result = '{"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "ttlMs": 0}'
    program = f"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    result = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
              "serverInfo": {{"name": "x", "version": "1"}}}}
    if method == "tools/list":
        result = {result}
    if method == "server/discover":
        print('{{ "id": %d, "jsonrpc" : "2.0", "error": {{"code": -32601, "message": ""}} }}'
              % message["id"], flush=True)
    elif "id" in message:
        print(json.dumps(dict(jsonrpc="2.0", id=message["id"], result=result)), flush=True)
"""
    launch = make("stdio_launch", sys.executable, ("-c", program))
    async with connected(launch) as connection:
        assert connection.version == "2025-06-18"
        assert [tool.name for tool in await connection.list_tools()] == ["a"]
        assert connection.discarded_lines == 0


@pytest.mark.req("R-MCP-38")
async def test_unreadable_answer_ends_its_call_only(tmp_path: Path) -> None:
    number = "9" * 5000
    answer = f'{{"jsonrpc": "2.0", "id": 3, "result": {{"content": [], "x": {number}}}}}\n'
    calls = {"bad": [{"raw": answer}, {"hang": True}], "greet": HI}
    server = scripted(tmp_path, era="2026", calls=calls)
    async with connected(server.launch) as connection:
        with pytest.raises(jp.JpNbError, match="its answer is not valid JSON-RPC"):
            await connection.call("1", "bad", {})
        assert text_of(await connection.call("2", "greet", {})) == "hi"


LAST_ANSWER = (
    '{"jsonrpc": "2.0", "id": 3, "result":'
    ' {"content": [{"type": "text", "text": "bye"}], "resultType": "complete"}}'
)


async def test_last_answer_counts_without_the_end_of_its_line(tmp_path: Path) -> None:
    calls: dict[str, list[Json]] = {"bye": [{"raw": LAST_ANSWER}, {"exit": 0}]}
    server = scripted(tmp_path, era="2026", calls=calls)
    async with connected(server.launch) as connection:
        assert text_of(await connection.call("1", "bye", {})) == "bye"


@pytest.mark.parametrize("size", [10, 60, len(LAST_ANSWER) - 1])
async def test_end_of_the_server_is_the_reason_for_an_answer_that_is_cut(
    tmp_path: Path, size: int
) -> None:
    calls: dict[str, list[Json]] = {"bye": [{"raw": LAST_ANSWER[:size]}, {"exit": 7}]}
    server = scripted(tmp_path, era="2026", calls=calls)
    async with connected(server.launch) as connection:
        with pytest.raises(jp.JpNbError, match="its process ended with exit code 7"):
            await connection.call("1", "bye", {})


UNKNOWN: list[tuple[Any, str]] = [
    ({"type": "hologram", "data": 1}, "'hologram'"),
    ({"type": "image"}, "'image'"),
    ({"type": ["text"]}, "cannot be read"),
    (7, "'int'"),
    (None, "'NoneType'"),
]


@ERAS
@pytest.mark.parametrize(("block", "named"), UNKNOWN)
@pytest.mark.req("R-MCP-34")
async def test_unknown_content_costs_only_its_block(
    tmp_path: Path, era: str, block: object, named: str
) -> None:
    good = {"type": "text", "text": "good"}
    server = scripted(tmp_path, era=era, calls={"mixed": [{"result": [good, block, good]}]})
    async with connected(server.launch) as connection:
        result = await connection.call("1", "mixed", {})
    assert is_kind(result, "server_result")
    first, replaced, last = result.content
    assert first == last == good
    assert named in str(replaced["text"])


RESULTS: list[tuple[Json, Any]] = [
    ({"structuredContent": [1]}, make("server_result", (), [1])),
    ({"content": None, "structuredContent": {"a": 1}}, make("server_result", (), {"a": 1})),
    ({"content": [], "isError": "yes"}, make("server_result", ())),
    ({"content": [], "isError": True}, make("server_result", (), is_error=True)),
    ({"content": [], "structuredContent": {"b": 2}}, make("server_result", (), {"b": 2})),
]


@ERAS
@pytest.mark.parametrize(("sent", "expected"), RESULTS)
async def test_result_against_the_protocol_or_its_schema_is_kept(
    tmp_path: Path, era: str, sent: Json, expected: Any
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tool = {"name": "odd", "inputSchema": {"type": "object"}, "outputSchema": schema}
    server = scripted(tmp_path, era=era, tools=[tool], calls={"odd": [{"result": sent}]})
    async with connected(server.launch) as connection:
        assert await connection.call("1", "odd", {}) == expected


@ERAS
async def test_result_that_is_none_is_an_error_of_its_call(tmp_path: Path, era: str) -> None:
    wrong = scripted(tmp_path, era=era, calls={"odd": [{"result": {"resultType": "no"}}]})
    async with connected(wrong.launch) as connection:
        with pytest.raises(jp.JpNbError, match="odd of the MCP server test: its answer does not"):
            await connection.call("1", "odd", {})


@ERAS
@pytest.mark.req("R-MCP-38")
async def test_error_of_the_server_reaches_the_caller(tmp_path: Path, era: str) -> None:
    error = {"code": -32042, "message": "open \x1b[31mthis", "data": {"elicitations": []}}
    server = scripted(tmp_path, era=era, calls={"bad": [{"error": error}], "greet": HI})
    async with connected(server.launch) as connection:
        with pytest.raises(jp.JpNbError, match="bad of the MCP server test: open this") as info:
            await connection.call("1", "bad", {})
        assert text_of(await connection.call("2", "greet", {})) == "hi"
    assert (error_of(info).server, error_of(info).tool) == ("test", "bad")
    assert (error_of(info).code, error_of(info).data) == (-32042, {"elicitations": []})
    assert error_of(info).message == "open this"


# --- tools -----------------------------------------------------------------------------------


@ERAS
async def test_malformed_tools_cost_only_themselves(tmp_path: Path, era: str) -> None:
    schema = {"type": "object"}
    tools = [
        {"name": "good", "inputSchema": schema, "annotations": {"readOnlyHint": True, "x": 1}},
        {"name": "no-schema"},
        {"name": "list", "inputSchema": {"type": "array"}},
        {"inputSchema": schema},
        "text",
        {"name": "odd", "title": 3, "inputSchema": {}, "outputSchema": [], "icons": 9},
    ]
    server = scripted(tmp_path, era=era, tools=tools, calls={})
    async with connected(server.launch) as connection:
        listed = await connection.list_tools()
        assert [tool.name for tool in listed] == ["good", "odd"]
        assert listed[0].hints == {"readOnlyHint": True}
        assert len(connection.list_notes) == 4
        assert "'no-schema' has no schema" in connection.list_notes[0]


@ERAS
@pytest.mark.parametrize("levels", [150, 250, 3000])
async def test_deeply_nested_schema_does_not_lose_the_list(
    tmp_path: Path, era: str, levels: int
) -> None:
    nested = '{"properties":' * levels + "{}" + "}" * levels
    definition = f'{{"name":"deep","inputSchema":{nested}}}'
    good = '{"name":"good","inputSchema":{"type":"object"}}'
    cache = '"resultType":"complete","cacheScope":"private","ttlMs":0'
    answer = f'{{"jsonrpc":"2.0","id":2,"result":{{{cache},"tools":[{definition},{good}]}}}}\n'
    server = scripted(tmp_path, era=era, calls={}, list_raw=answer)
    async with connected(server.launch) as connection:
        assert [tool.name for tool in await connection.list_tools()] == ["deep", "good"]


@pytest.mark.req("R-MCP-17")
async def test_thousand_tools_in_a_hundred_pages(tmp_path: Path) -> None:
    tools = [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(1000)]
    server = scripted(tmp_path, tools=tools, page_size=10, calls={})
    async with connected(server.launch) as connection:
        assert len(await connection.list_tools()) == 1000


@pytest.mark.parametrize("count", [1, 400])
@pytest.mark.req("R-MCP-17")
async def test_endless_list_is_an_error(tmp_path: Path, count: int) -> None:
    tools = [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(count)]
    server = scripted(tmp_path, tools=tools, page_size=-1, calls={})
    with start_fails(r"more than 1(,000 tools|00 pages)"):
        await Connection("test", server.launch).start()


# --- calls -----------------------------------------------------------------------------------


@ERAS
@pytest.mark.req("R-MCP-94")
async def test_cancelled_call_is_cancelled_at_the_server_which_serves_the_next(
    tmp_path: Path, era: str
) -> None:
    server = scripted(tmp_path, era=era, calls={"slow": [{"hang": True}], "greet": HI})
    async with connected(server.launch) as connection:
        pid = connection.pid
        call = asyncio.create_task(connection.call("1", "slow", {}))
        await wait_until(lambda: server.received("tools/call"))
        for _ in range(3):  # a turn cancels its tasks, and then closes their calls
            call.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await call
        await wait_until(lambda: any("cancelled" in entry for entry in server.logged()), seconds=1)
        assert text_of(await connection.call("2", "greet", {})) == "hi"
        assert connection.pid == pid


async def test_server_that_reads_nothing_does_not_delay_a_cancellation(tmp_path: Path) -> None:
    server = scripted(tmp_path, calls={"stop": [{"signal": "SIGSTOP"}]})
    async with connected(server.launch) as connection:
        call = asyncio.create_task(connection.call("1", "stop", {}))
        await wait_until(lambda: server.received("tools/call"))
        blocked = asyncio.create_task(connection.call("2", "stop", {"x": "y" * 1_000_000}))
        await asyncio.sleep(0.2)
        began = monotonic()
        for task in (call, blocked):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert monotonic() - began < 1


@ERAS
@pytest.mark.req("R-MCP-28")
async def test_calls_run_at_the_same_time(tmp_path: Path, era: str) -> None:
    calls = {"a": [{"sleep": 0.5}, {"result": "a"}], "b": [{"result": "b"}]}
    server = scripted(tmp_path, era=era, calls=calls)
    async with connected(server.launch) as connection:
        first = asyncio.create_task(connection.call("1", "a", {}))
        await wait_until(lambda: server.received("tools/call"))
        assert text_of(await connection.call("2", "b", {})) == "b"
        assert not first.done()
        assert text_of(await first) == "a"


@ERAS
async def test_time_of_a_call_is_limited_and_progress_restarts_it(tmp_path: Path, era: str) -> None:
    step: list[Json] = [{"sleep": 0.3}, {"progress": {"progress": 1, "total": 4, "message": "m"}}]
    calls = {"slow": [{"hang": True}], "steady": [*(4 * step), *HI], "endless": 100 * step}
    server = scripted(tmp_path, era=era, calls=calls)
    limits = make("connection_limits", call_timeout_secs=0.6)
    reports: list[Any] = []
    async with connected(server.launch, limits=limits) as connection:
        with pytest.raises(jp.JpNbError, match=r"no answer within 0.6 s \(call_timeout_secs\)"):
            await connection.call("1", "slow", {})
        assert text_of(await connection.call("2", "steady", {}, on_progress=reports.append)) == "hi"
        began = monotonic()
        with pytest.raises(jp.JpNbError, match="no answer"):
            await connection.call("3", "endless", {})
        assert 5 < monotonic() - began < 15
    assert reports == 4 * [make("server_progress", "m", 1.0, 4.0)]


async def test_clock_of_a_call_stands_still_while_a_question_is_open(tmp_path: Path) -> None:
    server = scripted(tmp_path, era="2025", calls={"trip": [{"ask": {"who": FORM}}, *HI]})

    async def answer(*_: object) -> Any:
        await asyncio.sleep(2)
        return make("server_answer", "accept", {"city": "Delft"})

    limits = make("connection_limits", call_timeout_secs=0.6)
    async with connected(
        server.launch, limits=limits, asks_users=True, on_question=answer
    ) as connection:
        assert text_of(await connection.call("1", "trip", {})) == "hi"


@pytest.mark.req("R-MCP-4")
async def test_call_without_a_limit_waits(tmp_path: Path) -> None:
    server = scripted(tmp_path, calls={"slow": [{"sleep": 0.5}, *HI]})
    limits = make("connection_limits", startup_timeout_secs=0, call_timeout_secs=0)
    async with connected(server.launch, limits=limits) as connection:
        assert text_of(await connection.call("1", "slow", {})) == "hi"


# --- questions -------------------------------------------------------------------------------


async def test_server_of_2025_that_asks_nobody_gets_cancel(tmp_path: Path) -> None:
    server = scripted(
        tmp_path, era="2025", calls={"trip": [{"ask": {"who": FORM}}, {"answers": True}]}
    )
    async with connected(server.launch) as connection:
        result = await connection.call("1", "trip", {})
    assert text_of(result) == '{"who": {"action": "cancel"}}'
    [request] = server.received("initialize")
    assert "elicitation" not in request["params"]["capabilities"]


@pytest.mark.parametrize("asks_users", [True, False])
async def test_capability_is_declared_only_with_a_user(tmp_path: Path, asks_users: bool) -> None:
    server = scripted(tmp_path, era="2026", calls={"greet": HI})
    async with connected(server.launch, asks_users=asks_users) as connection:
        await connection.call("1", "greet", {})
    for request in [*server.received("tools/list"), *server.received("tools/call")]:
        declared = request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert ("elicitation" in declared) == asks_users
        assert not {"sampling", "roots"} & declared.keys()


@pytest.mark.parametrize("method", ["sampling/createMessage", "roots/list"])
async def test_server_of_2025_is_refused_other_requests_and_the_call_continues(
    tmp_path: Path, method: str
) -> None:
    params = {"messages": [], "maxTokens": 1} if "sampling" in method else {}
    steps = [{"request": {"method": method, "params": params}}, {"answers": True}]
    server = scripted(tmp_path, era="2025", calls={"ask": steps})
    async with connected(server.launch) as connection:
        answers = json.loads(text_of(await connection.call("1", "ask", {})))
    assert answers[method]["error"]["code"] == -32600


@pytest.mark.parametrize("method", ["sampling/createMessage", "roots/list"])
async def test_call_of_2026_ends_if_the_server_requires_other_input(
    tmp_path: Path, method: str
) -> None:
    params = {"messages": [], "maxTokens": 1} if "sampling" in method else {}
    steps = [{"ask": {"x": {"method": method, "params": params}}}]
    server = scripted(tmp_path, era="2026", calls={"ask": steps})
    async with connected(server.launch) as connection:
        with pytest.raises(
            jp.JpNbError, match=f"server test: it sent a request of the kind {method}"
        ):
            await connection.call("1", "ask", {})


@pytest.mark.req("R-MCP-50")
async def test_rounds_of_a_call_are_limited(tmp_path: Path) -> None:
    server = scripted(tmp_path, era="2026", calls={"ask": 30 * [{"ask": {"who": FORM}}]})
    async with connected(server.launch, asks_users=True) as connection:
        state = None
        for _ in range(MAX_CALL_ROUNDS):
            asked = await connection.call("1", "ask", {}, state=state)
            assert is_kind(asked, "input_required")
            state = asked.state
        with pytest.raises(jp.JpNbError, match=f"more than {MAX_CALL_ROUNDS} rounds"):
            await connection.call("1", "ask", {}, state=state)
        assert len(server.received("tools/call")) == MAX_CALL_ROUNDS + 1


async def test_states_only_are_repeated_until_the_result(tmp_path: Path) -> None:
    calls = {"poll": [*(3 * [{"state": "later"}]), *HI]}
    server = scripted(tmp_path, era="2026", calls=calls)
    async with connected(server.launch) as connection:
        assert text_of(await connection.call("1", "poll", {})) == "hi"


# --- end -------------------------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    """Return True if the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@ERAS
async def test_server_that_dies_ends_its_calls_and_starts_again_at_most_three_times(
    tmp_path: Path, era: str
) -> None:
    server = scripted(tmp_path, era=era, calls={"die": [{"exit": 7}], "greet": HI})
    async with connected(server.launch) as connection:
        for _ in range(MAX_RESTARTS + 1):
            await connection.start()
            with pytest.raises(jp.JpNbError, match="its process ended with exit code 7"):
                await connection.call("1", "die", {})
            await wait_until(lambda: connection.state == "ended")
            with pytest.raises(jp.JpNbError, match="it does not run"):
                await connection.call("2", "greet", {})
        with start_fails("%jp mcp restart test"):
            await connection.start()
        await connection.restart()
        assert text_of(await connection.call("3", "greet", {})) == "hi"
    handshakes = len(server.received("initialize")) + len(server.received("server/discover"))
    assert handshakes == MAX_RESTARTS + 2 + (era == "2025")  # the era is probed once


async def test_killed_server_is_reported(tmp_path: Path) -> None:
    server = scripted(tmp_path, child=True, calls={"die": [{"exit": None}]})
    async with connected(server.launch) as connection:
        with pytest.raises(jp.JpNbError, match="was ended by signal 9"):
            await connection.call("1", "die", {})
        await wait_until(lambda: connection.state == "ended")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("stubborn", [{}, {"ignores_end": True}, {"ignores_signals": True}])
@pytest.mark.req("R-MCP-7")
async def test_closing_leaves_no_process_of_the_group(tmp_path: Path, stubborn: Json) -> None:
    server = scripted(tmp_path, child=True, calls={}, **stubborn)
    async with connected(server.launch) as connection:
        group = connection.pid
        assert group is not None
        assert list_group(group)
        began = monotonic()
    assert monotonic() - began < 5
    assert not list_group(group)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
async def test_cancelled_end_sends_no_signal_to_a_group_that_may_be_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[int] = []
    kill_group = os.killpg

    def note(group: int, number: int) -> None:
        signals.append(number)
        kill_group(group, number)

    server = scripted(tmp_path, calls={}, ignores_end=True, ignores_signals=True)
    others = asyncio.all_tasks()
    async with connected(server.launch) as connection:
        monkeypatch.setattr(os, "killpg", note)
        tasks = asyncio.all_tasks() - others
        closing = asyncio.create_task(connection.aclose())
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()  # as at the end of an event loop
        await closing

    assert signals[-1] == signal.SIGKILL
    assert signals.count(signal.SIGKILL) == 1
    assert signal.SIGTERM not in signals


async def test_stderr_is_kept_in_a_bounded_buffer(tmp_path: Path) -> None:
    calls = {"log": [{"stderr": "x" * 200_000}, {"stderr": "last \x1b[31mline"}, *HI]}
    server = scripted(tmp_path, calls=calls)
    async with connected(server.launch) as connection:
        await connection.call("1", "log", {})
        await wait_until(lambda: connection.stderr_lines()[-1:] == ("last line",))
        assert sum(map(len, connection.stderr_lines())) <= MAX_STDERR_BYTES


async def test_changed_tools_are_noticed(tmp_path: Path) -> None:
    notice = {"notify": {"method": "notifications/tools/list_changed"}}
    server = scripted(tmp_path, era="2025", calls={"change": [notice, *HI]})
    async with connected(server.launch) as connection:
        assert not connection.is_list_outdated
        await connection.call("1", "change", {})
        await wait_until(lambda: connection.is_list_outdated)
        await connection.list_tools(refresh=True)
        assert not connection.is_list_outdated


async def test_list_of_2026_expires(tmp_path: Path) -> None:
    server = scripted(tmp_path, era="2026", ttl_ms=300, calls={})
    async with connected(server.launch) as connection:
        assert not connection.is_list_outdated
        await wait_until(lambda: connection.is_list_outdated, seconds=2)
