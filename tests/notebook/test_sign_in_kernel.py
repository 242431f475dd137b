"""The form of a sign-in to an MCP server, in a real kernel that is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mcp")

from tests.mcp.authorization_server import guarded_server
from tests.support.cells import error, kernel_with
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]


@pytest.mark.req("R-MCP-80")
def test_interrupt_removes_the_form_and_the_next_sign_in_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    settings = tmp_path / "config" / "jp" / "config.toml"
    settings.parent.mkdir(parents=True)
    folder = tmp_path / "work"
    folder.mkdir()

    with guarded_server() as server:
        settings.write_text(f'[providers.mcp.guard]\nurl = "{server.url}"\n')
        with kernel_with(folder, {}) as user:
            for _ in range(2):
                interrupt_sign_in(user)


def interrupt_sign_in(user: FrontEnd) -> None:
    user.forget()
    request = user.start("%jp mcp sign-in guard")
    form = user.form("Sign in to guard")
    user.interrupt(request)

    failure = error(user, request)
    assert failure is not None
    assert failure["evalue"] == "Interrupted. Nothing was sent to a model."
    closed = [m["content"]["comm_id"] for m in user.messages if m["msg_type"] == "comm_close"]
    assert form in closed
