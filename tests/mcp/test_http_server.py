"""Servers over HTTP: both protocols, both forms of answers, refusals, limits, and addresses."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Literal

import pytest

pytest.importorskip("mcp")

from typing import Any

import jp_nb as jp
from jp_nb.mcp.connections.connection import Connection
from tests.kit.kinds import is_kind, make
from tests.mcp.helpers import (
    FORM,
    connected,
    error_of,
    scripted_http,
    start_fails,
    text_of,
    wait_until,
)
from tests.mcp.scripted_server import Json

ERAS = pytest.mark.parametrize("era", ["2025", "2026"])
FORMS = pytest.mark.parametrize("sse", [False, True])
HI: list[Json] = [{"result": "hi"}]


@ERAS
@FORMS
@pytest.mark.req("R-MCP-78")
async def test_call_over_http(tmp_path: Path, era: str, sse: bool) -> None:
    settings = {"sse": sse, "session": True}
    calls = {"echo": [{"arguments": True}], "bad": [{"error": {"code": -7, "message": "no"}}]}
    with scripted_http(tmp_path, era=era, http=settings, calls=calls) as server:
        async with connected(server.launch) as connection:
            assert (connection.era, connection.pid) == (era, None)
            assert text_of(await connection.call("1", "echo", {"ü": None})) == '{"\\u00fc": null}'
            with pytest.raises(jp.JpNbError, match="bad of the MCP server test: no"):
                await connection.call("2", "bad", {})
            assert text_of(await connection.call("3", "echo", {})) == "{}"
        assert any("deleted" in entry for entry in server.logged()) == (era == "2025")


async def test_progress_and_questions_of_2025_come_with_the_stream_of_a_call(
    tmp_path: Path,
) -> None:
    steps = [{"progress": {"progress": 1}}, {"ask": {"who": FORM}}, {"answers": True}]
    reports: list[Any] = []

    async def answer(*_: object) -> Any:
        return make("server_answer", "accept", {"city": "Delft"})

    with scripted_http(
        tmp_path, era="2025", http={"sse": True, "session": True}, calls={"trip": steps}
    ) as server:
        async with connected(server.launch, asks_users=True, on_question=answer) as connection:
            result = await connection.call("1", "trip", {}, on_progress=reports.append)
    assert text_of(result) == '{"who": {"action": "accept", "content": {"city": "Delft"}}}'
    assert reports == [make("server_progress", None, 1.0, None)]


@FORMS
async def test_rounds_of_2026_over_http(tmp_path: Path, sse: bool) -> None:
    steps = [{"ask": {"who": FORM}, "state": "x"}, {"answers": True}]
    with scripted_http(tmp_path, era="2026", http={"sse": sse}, calls={"trip": steps}) as server:
        async with connected(server.launch, asks_users=True) as connection:
            asked = await connection.call("1", "trip", {})
            assert is_kind(asked, "input_required")
            answers = {"who": make("server_answer", "cancel")}
            result = await connection.call("1", "trip", {}, answers=answers, state=asked.state)
    assert text_of(result) == '{"who": {"action": "cancel"}}'


@ERAS
async def test_cancelled_call_over_http_reaches_the_server(tmp_path: Path, era: str) -> None:
    settings = {"sse": True, "session": True}
    calls = {"slow": [{"hang": True}], "greet": HI}
    with scripted_http(tmp_path, era=era, http=settings, calls=calls) as server:
        async with connected(server.launch) as connection:
            call = asyncio.create_task(connection.call("1", "slow", {}))
            await wait_until(lambda: server.received("tools/call"))
            await asyncio.sleep(0.2)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await wait_until(
                lambda: any("cancelled" in entry for entry in server.logged()), seconds=2
            )
            assert text_of(await connection.call("2", "greet", {})) == "hi"


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-78")
async def test_refused_credentials_are_named_and_hidden(tmp_path: Path) -> None:
    settings = {"token": "Bearer right-token-123"}
    with scripted_http(tmp_path, http=settings, calls={"greet": HI}) as server:
        assert is_kind(server.launch, "http_launch")
        wrong = replace(server.launch, headers={"authorization": "Bearer wrong-token-123"})
        with start_fails("refused the credentials") as info:
            await Connection("test", wrong).start()
        assert "wrong-token" not in str(info.value) + repr(wrong)

        right = replace(server.launch, headers={"authorization": "Bearer right-token-123"})
        async with connected(right) as connection:
            assert text_of(await connection.call("1", "greet", {})) == "hi"


@ERAS
@pytest.mark.parametrize("status", [429, 503])
async def test_busy_server_is_asked_again_after_its_wait(
    tmp_path: Path, era: str, status: int
) -> None:
    refusal = {"status": status, "headers": {"retry-after": "0.3"}, "method": "tools/call"}
    with scripted_http(
        tmp_path, era=era, http={"refusals": [refusal, refusal]}, calls={"greet": HI}
    ) as server:
        async with connected(server.launch) as connection:
            began = monotonic()
            assert text_of(await connection.call("1", "greet", {})) == "hi"
            assert monotonic() - began >= 0.6


REFUSALS: list[tuple[Json, str]] = [
    ({"status": 503, "headers": {"retry-after": "7200"}}, "HTTP 503 .*asks to wait 7200 s"),
    (
        {"status": 503, "headers": {"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}},
        r"HTTP 503 .*asks to wait \d+ s",
    ),
    ({"status": 500, "body": "broken <b>"}, 'HTTP 500 Internal Server Error: "broken <b>"'),
    ({"status": 403}, "refused the request"),
    ({"status": 401}, "refused the credentials"),
    ({"status": 404}, "HTTP 404 Not Found"),
]


@pytest.mark.parametrize("wait", ["soon", "nan", "-1", "1e9999", "Fri, 99 Dec 2100", "9" * 5000])
async def test_wait_that_is_no_time_is_that_of_the_client(tmp_path: Path, wait: str) -> None:
    refusal = {"status": 503, "headers": {"retry-after": wait}, "method": "tools/call"}
    with scripted_http(
        tmp_path, era="2026", http={"refusals": [refusal]}, calls={"greet": HI}
    ) as server:
        async with connected(server.launch) as connection:
            assert text_of(await connection.call("1", "greet", {})) == "hi"


@ERAS
@pytest.mark.parametrize(("refusal", "message"), REFUSALS)
async def test_http_error_ends_its_call_only_and_is_not_repeated(
    tmp_path: Path, era: str, refusal: Json, message: str
) -> None:
    refusals = [{**refusal, "method": "tools/call"}]
    with scripted_http(
        tmp_path, era=era, http={"refusals": refusals}, calls={"greet": HI}
    ) as server:
        async with connected(server.launch) as connection:
            with pytest.raises(jp.JpNbError, match=message):
                await connection.call("1", "greet", {})
            assert text_of(await connection.call("2", "greet", {})) == "hi"
        assert len(server.received("tools/call")) == 1


@pytest.mark.req("R-MCP-78")
async def test_lost_session_is_opened_again_once(tmp_path: Path) -> None:
    settings = {"session": True, "forget": 2}
    with scripted_http(tmp_path, era="2025", http=settings, calls={"greet": HI}) as server:
        async with connected(server.launch) as connection:
            for number in range(3):
                assert text_of(await connection.call(str(number), "greet", {})) == "hi"
        assert len(server.received("initialize")) == 2
        assert len(server.received("tools/call")) == 3


async def test_wrong_header_lists_the_tools_again_and_repeats_once(tmp_path: Path) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "mismatch"}}
    refusal = {
        "status": 400,
        "body": error,
        "headers": {"content-type": "application/json"},
        "method": "tools/call",
    }
    settings = {"refusals": [refusal]}
    with scripted_http(tmp_path, era="2026", http=settings, calls={"greet": HI}) as server:
        async with connected(server.launch) as connection:
            assert text_of(await connection.call("1", "greet", {})) == "hi"
        assert len(server.received("tools/list")) == 2

    settings = {"refusals": [refusal, refusal]}
    with scripted_http(tmp_path, era="2026", http=settings, calls={"greet": HI}) as server:
        async with connected(server.launch) as connection:
            with pytest.raises(jp.JpNbError, match="mismatch"):
                await connection.call("1", "greet", {})


@pytest.mark.req("R-MCP-37")
@ERAS
@FORMS
async def test_lost_answer_is_not_repeated(tmp_path: Path, era: str, sse: bool) -> None:
    settings = {"cut": 1, "sse": sse}
    with scripted_http(tmp_path, era=era, http=settings, calls={"greet": HI}) as server:
        async with connected(server.launch) as connection:
            with pytest.raises(jp.JpNbError, match=r"the connection to it was lost|ended") as lost:
                await connection.call("1", "greet", {})
            assert error_of(lost).is_lost
            assert connection.state == "running"
            assert len(server.received("tools/call")) == 1
            assert text_of(await connection.call("2", "greet", {})) == "hi"
            with pytest.raises(jp.JpNbError) as answered:
                await connection.call("3", "unknown", {})
            assert not error_of(answered).is_lost


# --- limits ----------------------------------------------------------------------------------


@ERAS
@FORMS
@pytest.mark.req("R-MCP-32")
async def test_large_message_over_http_ends_the_connection(
    tmp_path: Path, era: str, sse: bool
) -> None:
    calls = {"big": [{"big": 3_000_000}], "greet": HI}
    limits = make("connection_limits", max_response_bytes=1_000_000)
    with scripted_http(tmp_path, era=era, http={"sse": sse}, calls=calls) as server:
        async with connected(server.launch, limits=limits) as connection:
            with pytest.raises(jp.JpNbError, match="a message of more than 1,000,000 bytes"):
                await connection.call("1", "big", {})
            await wait_until(lambda: connection.state == "ended")
            await connection.start()
            assert text_of(await connection.call("2", "greet", {})) == "hi"


@FORMS
async def test_large_message_within_the_limit_is_read(tmp_path: Path, sse: bool) -> None:
    with scripted_http(tmp_path, http={"sse": sse}, calls={"big": [{"big": 3_000_000}]}) as server:
        async with connected(server.launch) as connection:
            assert len(text_of(await connection.call("1", "big", {}))) == 3_000_000


@FORMS
@pytest.mark.parametrize("levels", [150, 3000])
async def test_deeply_nested_result_over_http(tmp_path: Path, sse: bool, levels: int) -> None:
    deep: Json = {}
    for _ in range(min(levels, 900)):
        deep = {"a": deep}
    calls = {"deep": [{"result": {"content": [], "structuredContent": deep}}]}
    with scripted_http(tmp_path, http={"sse": sse}, calls=calls) as server:
        async with connected(server.launch) as connection:
            result = await connection.call("1", "deep", {})
    assert "[nested too deeply]" in str(result)


async def test_compressed_answer_is_refused(tmp_path: Path) -> None:
    refused = start_fails("compressed its answer as 'gzip'")
    with scripted_http(tmp_path, http={"encoding": "gzip"}, calls={}) as server, refused:
        await Connection("test", server.launch).start()


# --- addresses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://example.com/mcp", "http://10.0.0.1:80/", "http://[fd00::1]/"]
)
async def test_plain_http_to_another_computer_needs_consent(url: str) -> None:
    with start_fails("insecure = true"):
        await Connection("test", make("http_launch", url)).start()


@pytest.mark.parametrize("url", ["http://localhost.:1/", "http://a.LOCALHOST:1/"])
async def test_plain_http_to_this_computer_needs_no_consent(url: str) -> None:
    with start_fails("cannot connect to it"):
        await Connection("test", make("http_launch", url)).start()


@pytest.mark.parametrize("url", ["ftp://localhost/", "localhost:80", "", "http://", "https://["])
async def test_other_addresses_are_refused(url: str) -> None:
    with start_fails("its url"):
        await Connection("test", make("http_launch", url)).start()


@pytest.mark.parametrize("where", ["other port", "other host"])
@pytest.mark.req("R-MCP-78")
async def test_redirect_to_another_origin_is_not_followed(
    tmp_path: Path, where: Literal["other port", "other host"]
) -> None:
    with scripted_http(tmp_path, calls={}) as other:
        assert is_kind(other.launch, "http_launch")
        address = other.launch.url
        if where == "other host":
            address = address.replace("127.0.0.1", "localhost")
        refused = start_fails("not followed")
        with scripted_http(tmp_path, http={"redirect": address}, calls={}) as server, refused:
            await Connection("test", server.launch).start()
        assert not other.logged()


@ERAS
@pytest.mark.req("R-MCP-78")
async def test_redirect_within_the_origin_is_followed(tmp_path: Path, era: str) -> None:
    with scripted_http(tmp_path, era=era, http={"moved": "/mcp/"}, calls={"greet": HI}) as server:
        async with connected(server.launch) as connection:
            assert text_of(await connection.call("1", "greet", {})) == "hi"


async def test_server_that_does_not_run_is_named_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    connection = Connection("test", make("http_launch", f"http://127.0.0.1:{port}/mcp"))
    with start_fails("cannot connect to it"):
        await connection.start()


@pytest.mark.req("R-MCP-82")
async def test_proxy_of_the_environment_is_used_except_for_this_computer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readline())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    async with proxy:
        with start_fails():
            await Connection("test", make("http_launch", "https://mcp.example.com/mcp")).start()
        assert requests[0].startswith(b"CONNECT mcp.example.com:443")

        requests.clear()
        with scripted_http(tmp_path, calls={"greet": HI}) as server:
            async with connected(server.launch) as connection:
                assert text_of(await connection.call("1", "greet", {})) == "hi"
        assert not requests
