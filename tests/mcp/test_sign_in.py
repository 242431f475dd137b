"""Sign in to remote servers, and use the tokens. The authorization server is on this computer."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2

import jp_nb as jp
from jp_nb.mcp.connections.connection import Connection
from jp_nb.mcp.oauth.address_rules import AddressRules
from jp_nb.mcp.oauth.stored_tokens import make_auth
from jp_nb.storage.server_lists.mcp_credentials import StoredCredentials
from tests.kit.kinds import make
from tests.kit.servers import McpServer
from tests.mcp.authorization_server import GuardedServer, follow, guarded_server, press_sign_in
from tests.mcp.helpers import start_fails


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedServer]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with guarded_server() as server:
        yield server


def get_credentials_path() -> Path:
    """Return the path of the user's tokens."""
    return Path(os.environ["XDG_DATA_HOME"]) / "jp" / "mcp-credentials.json"


def make_launch(server: GuardedServer, **headers: str) -> Any:
    return make("http_launch", server.url, headers, credentials=StoredCredentials(server.url))


async def browse(page: Any) -> str:
    """Sign in with a browser on this computer, which returns to it."""
    address = await asyncio.to_thread(press_sign_in, page.url)
    assert "You can close this page" in await asyncio.to_thread(follow, address)
    return await asyncio.Future()


async def paste(page: Any) -> str:
    """Sign in with a browser on another computer, and paste the last address, with spaces."""
    return f" {await asyncio.to_thread(press_sign_in, page.url)} "


async def request(launch: Any) -> httpx2.Response:
    """Send one request to the server as a turn does."""
    auth = make_auth("books", launch)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(auth=auth, headers=launch.headers) as client:
        return await client.post(launch.url, json=message)


async def signed_in(server: GuardedServer) -> Any:
    launch = make_launch(server)
    await McpServer.sign_in(launch, paste)
    return launch


@pytest.mark.req("R-MCP-80")
@pytest.mark.parametrize("person", [browse, paste])
async def test_user_signs_in_and_requests_have_the_token(
    guarded: GuardedServer, person: Any
) -> None:
    launch = make_launch(guarded)
    await McpServer.sign_in(launch, person)
    assert (await request(launch)).status_code == 200
    stored = json.loads(get_credentials_path().read_text())["servers"][guarded.url]
    assert list(stored["issuers"]) == [guarded.base + "/"] or list(stored["issuers"]) == [
        guarded.base
    ]
    assert stat.S_IMODE(get_credentials_path().stat().st_mode) == 0o600


@pytest.mark.req("R-MCP-80")
async def test_connection_uses_the_token_and_without_one_names_the_command(
    guarded: GuardedServer,
) -> None:
    connection = Connection("books", make_launch(guarded))
    with start_fails(r"%jp mcp sign-in books"):
        await connection.start()
    assert "/authorize" not in guarded.paths()
    assert "/register" not in guarded.paths()
    await connection.aclose()

    connection = Connection("books", await signed_in(guarded))
    await connection.start()
    assert connection.state == "running"
    await connection.aclose()


@pytest.mark.req("R-MCP-80")
async def test_expired_token_is_renewed_silently(guarded: GuardedServer) -> None:
    guarded.expires_in = 1
    launch = await signed_in(guarded)
    guarded.requests.clear()
    guarded.expires_in = 3600
    assert (await request(launch)).status_code == 200
    assert guarded.paths() == ["/token", "/mcp"]
    assert (await request(launch)).status_code == 200
    assert guarded.paths() == ["/token", "/mcp", "/mcp"]
    form = guarded.requests[0][2]
    assert (form["grant_type"], form["resource"]) == ("refresh_token", guarded.url)


async def test_refused_token_is_renewed_once(guarded: GuardedServer) -> None:
    launch = await signed_in(guarded)
    guarded.tokens.clear()
    guarded.requests.clear()
    assert (await request(launch)).status_code == 200
    assert guarded.paths() == ["/mcp", "/token", "/mcp"]


@pytest.mark.req("R-MCP-80")
async def test_fault_of_stored_tokens_ends_its_request_only(guarded: GuardedServer) -> None:
    connection = Connection("books", await signed_in(guarded))
    await connection.start()
    get_credentials_path().chmod(0o644)
    with pytest.raises(jp.JpNbError, match="accessible to other users"):
        await connection.call("1", "find", {})

    get_credentials_path().chmod(0o600)
    stored = json.loads(get_credentials_path().read_text())
    [credentials] = stored["servers"][guarded.url]["issuers"].values()
    credentials |= {"expires_at": 0, "token_endpoint": "http://evil.example/token"}
    get_credentials_path().write_text(json.dumps(stored))
    with pytest.raises(jp.JpNbError, match="without HTTPS"):
        await connection.call("2", "find", {})

    credentials["expires_at"] = None
    get_credentials_path().write_text(json.dumps(stored))
    with pytest.raises(jp.JpNbError, match="No method"):
        await connection.call("3", "find", {})
    assert connection.state == "running"
    await connection.aclose()


@pytest.mark.req("R-MCP-80")
async def test_dead_token_is_an_error_that_names_the_command(guarded: GuardedServer) -> None:
    launch = await signed_in(guarded)
    guarded.tokens.clear()
    guarded.renews = False
    guarded.requests.clear()
    with pytest.raises(httpx2.TransportError, match=r"%jp mcp sign-in books") as caught:
        await request(launch)
    assert "secret" not in str(caught.value)
    assert "/authorize" not in guarded.paths()


async def test_token_is_sent_to_its_own_address_only(guarded: GuardedServer) -> None:
    await signed_in(guarded)
    with guarded_server() as other:
        launch = make("http_launch", other.url, credentials=StoredCredentials(other.url))
        with pytest.raises(httpx2.TransportError, match="sign-in"):
            await request(launch)
        assert not other.tokens


def test_header_of_the_configuration_replaces_the_sign_in(guarded: GuardedServer) -> None:
    assert make_auth("books", make_launch(guarded, authorization="Bearer x")) is None
    assert make_auth("books", make("http_launch", guarded.url)) is None


@pytest.mark.req("R-MCP-80")
async def test_user_who_closes_the_question_gets_no_token(guarded: GuardedServer) -> None:
    async def close(page: Any) -> str:
        raise jp.PromptCancelled("No.", end="cancelled")

    launch = make_launch(guarded)
    with pytest.raises(jp.PromptCancelled):
        await McpServer.sign_in(launch, close)
    assert not get_credentials_path().exists()


async def test_prompt_is_closed_before_the_sign_in_ends(guarded: GuardedServer) -> None:
    ends: list[str] = []

    async def close_slowly(page: Any) -> str:
        try:
            return await browse(page)
        finally:
            await asyncio.sleep(0.3)
            ends.append("closed")

    launch = make_launch(guarded)
    await McpServer.sign_in(launch, close_slowly)
    assert ends == ["closed"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("https://h/callback?error=access_denied&error_description=Not+you", "refused: Not you"),
        ("https://h/callback", "has no code"),
        ("nonsense", "has no code"),
        ("http://[", "has no code"),
        ("https://h/callback?code=the-code&state=wrong", "belongs to another sign-in"),
        ("https://h/callback?code=the-code", "belongs to another sign-in"),
    ],
)
async def test_wrong_return_is_an_error(guarded: GuardedServer, answer: str, reason: str) -> None:
    async def paste_wrong(page: Any) -> str:
        return answer

    launch = make_launch(guarded)
    with pytest.raises(jp.JpNbError, match=reason):
        await McpServer.sign_in(launch, paste_wrong)
    assert not get_credentials_path().exists()


@pytest.mark.req("R-MCP-80")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {"error": "invalid_grant", "error_description": "a-secret"}), "400, invalid_grant"),
        ((400, {"error": "a-secret"}), "no valid token (HTTP 400)"),
        ((200, {"access_token": ["a-secret"]}), "no valid token (HTTP 200)"),
        ((200, ["a-secret"]), "no valid token (HTTP 200)"),
        ((500, "a-secret"), "no valid token (HTTP 500)"),
    ],
)
async def test_errors_of_a_sign_in_quote_no_token(
    guarded: GuardedServer, caplog: pytest.LogCaptureFixture, answer: Any, reason: str
) -> None:
    caplog.set_level("DEBUG")
    guarded.token_answer = answer
    launch = make_launch(guarded)
    with pytest.raises(jp.JpNbError, match="Signing in to books failed") as caught:
        await McpServer.sign_in(launch, paste)

    shown = "".join(traceback.format_exception(caught.value))
    assert reason in shown
    assert "a-secret" not in shown
    assert "the-code" not in shown
    assert "a-secret" not in caplog.text
    assert "the-code" not in caplog.text


async def test_address_without_encryption_gets_no_request() -> None:
    launch = make(
        "http_launch", "http://books.example/mcp", credentials=StoredCredentials("http://b/mcp")
    )
    with pytest.raises(jp.JpNbError, match="insecure = true"):
        await McpServer.sign_in(launch, paste)


async def test_server_without_a_sign_in_is_an_error(guarded: GuardedServer) -> None:
    guarded.tokens = {""}  # also without a token
    launch = make_launch(guarded)
    with pytest.raises(jp.JpNbError, match="does not ask for a sign-in"):
        await McpServer.sign_in(launch, paste)


# --- addresses that the server names -----------------------------------------------------------


@pytest.mark.req("R-MCP-80")
@pytest.mark.parametrize(
    "url",
    [
        "http://auth.example/token", "https://127.0.0.1/token", "https://localhost/token",
        "https://10.0.0.1/token", "https://192.168.1.1/", "https://169.254.169.254/latest/",
        "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://[fd00::1]/", "https://0.0.0.0/",
        "file:///etc/passwd", "https://u:p@auth.example/", "https:///x", "http://localhost/",
        "https://100.64.0.1/",
    ],
)  # fmt: skip
async def test_server_of_the_internet_names_no_address_in_the_users_network(url: str) -> None:
    with pytest.raises(jp.JpNbError, match="named an authorization address"):
        await AddressRules("https://93.184.216.34/mcp").check(url)


async def test_allowed_addresses_of_a_sign_in() -> None:
    for server, url in [
        ("https://93.184.216.34/mcp", "https://1.1.1.1/token"),
        ("https://93.184.216.34/mcp", "https://93.184.216.34:8443/token"),
        ("http://127.0.0.1:3000/mcp", "http://localhost:4000/token"),
        ("https://10.0.0.1/mcp", "https://10.0.0.2/token"),
    ]:
        await AddressRules(server).check(url)
    for server, url in [
        ("https://10.0.0.1/mcp", "http://10.0.0.1/token"),
        ("https://10.0.0.1/mcp", "https://127.0.0.1/token"),
        ("https://10.0.0.1/mcp", "https://169.254.169.254/"),
    ]:
        with pytest.raises(jp.JpNbError, match="named an authorization address"):
            await AddressRules(server).check(url)


@pytest.mark.req("R-MCP-80")
async def test_flow_stops_at_an_address_that_is_not_allowed(guarded: GuardedServer) -> None:
    for member in ("token_endpoint", "registration_endpoint", "authorization_endpoint"):
        guarded.metadata = {member: "http://169.254.169.254/latest"}
        launch = make_launch(guarded)
        with pytest.raises(jp.JpNbError, match=r"169\.254\.169\.254"):
            await McpServer.sign_in(launch, paste)
    assert not get_credentials_path().exists()


async def test_endless_answer_of_the_authorization_server_is_an_error(
    guarded: GuardedServer,
) -> None:
    guarded.metadata = {"padding": "x" * 2_000_000}
    launch = make_launch(guarded)
    with pytest.raises(jp.JpNbError, match="sent too much"):
        await McpServer.sign_in(launch, paste)


# --- the file ----------------------------------------------------------------------------------


def test_credentials_are_kept_by_server_and_issuer(guarded: GuardedServer) -> None:
    one = StoredCredentials("https://a/mcp")
    two = StoredCredentials("https://b/mcp")
    assert one.load() is None
    one.save("https://issuer", {"x": 1})
    one.save("https://other", {"x": 2})
    two.save("https://issuer", {"x": 3})
    assert (one.load(), two.load()) == ({"x": 2}, {"x": 3})
    assert one.forget()
    assert not one.forget()
    assert (one.load(), two.load()) == (None, {"x": 3})


def test_file_that_others_can_read_is_not_used(guarded: GuardedServer) -> None:
    store = StoredCredentials("https://a/mcp")
    store.save("https://issuer", {"x": 1})
    get_credentials_path().chmod(0o644)
    with pytest.raises(jp.StorageError, match="accessible to other users"):
        store.load()


def test_damaged_file_needs_a_new_sign_in(guarded: GuardedServer) -> None:
    store = StoredCredentials("https://a/mcp")
    store.save("https://issuer", {"x": 1})
    for text in ("{", "[]", '{"servers": 1}', '{"servers": {"https://a/mcp": [1]}}', "[" * 100_000):
        get_credentials_path().write_text(text)
        assert store.load() is None
