"""The status line of a running turn in a kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cells import calls, error, kernel_with, run, start
from tests.support.kernel_client import FrontEnd, Message

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

TOOLS = """
import asyncio, time
from pathlib import Path
import jp_nb as jp

@jp.tool
def hold(gate: str) -> str:
    while not Path(gate).exists():
        time.sleep(0.02)
    return "held"

@jp.tool
async def wait(gate: str) -> str:
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    return "waited"

@jp.tool
def stubborn(gate: str) -> str:
    try:
        while True:
            time.sleep(0.02)
    finally:
        while not Path(gate).exists():  # cleans up until the gate opens
            time.sleep(0.02)
"""
GATE = {"gate": "gate"}
DONE = '[[replies]]\ntext = "Done."\n'
SCRIPTS = {
    "hold": calls(("hold", GATE)) + DONE,
    "wait": calls(("wait", GATE)) + DONE,
    "stubborn": calls(("stubborn", GATE)) + DONE,
    "think": f'[[replies]]\nreasoning = "{"hm " * 60}"\nchunk_ms = 50\ntext = "Done."\n',
    "retry": "[[replies]]\nerror = { status = 429, retry_after = 2 }\n" + DONE,
    "gone": "[[replies]]\nerror = { status = 429, retry_after = 600 }\n" + DONE,
    "slow": f'[[replies]]\ntext = "{"word " * 100}"\nchunk_ms = 30\n',
    "endless": f'[[replies]]\ntext = "word {"and so on " * 1000}"\nchunk_ms = 200\n',
    "quick": '[[replies]]\ntext = "Done."\n',
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("waiting")
    with kernel_with(folder, SCRIPTS, TOOLS) as user:
        yield user


@pytest.fixture
def folder(kernel: FrontEnd) -> Path:
    return Path(kernel.manager.connection_file).parent


@pytest.fixture
def user(kernel: FrontEnd, folder: Path) -> FrontEnd:
    kernel.forget()
    (folder / "gate").unlink(missing_ok=True)
    return kernel


def wait_until_shown(user: FrontEnd, text: str) -> Message:
    """Wait until the cell shows `text`."""
    return user.wait(lambda m: text in m["content"].get("data", {}).get("text/markdown", ""))


def no_trace(user: FrontEnd, request: str) -> None:
    """Assert that the finished cell shows nothing of the status line."""
    left = json.dumps(user.outputs(request), ensure_ascii=False)
    for word in ("Waiting", "Interrupt received", "attempt", "retrying in", '"jp_nb":'):
        assert word not in left


@pytest.mark.parametrize("script", ["hold", "wait"])
def test_status_line_names_the_running_tool_and_counts_seconds(
    user: FrontEnd, folder: Path, script: str
) -> None:
    request = start(user, script)
    for seconds in (1, 2):
        wait_until_shown(user, f"Waiting for {script} · {seconds} s")
    (folder / "gate").touch()
    user.finish(request)
    assert user.outputs(request)[-1]["data"]["text/plain"].endswith("Done.")
    no_trace(user, request)


def test_status_line_names_the_model_while_it_reasons(user: FrontEnd) -> None:
    request = start(user, "think", "-c style.reasoning.display=hidden")
    wait_until_shown(user, "Waiting for scripted/think (reasoning) · 1 s")
    user.finish(request)
    no_trace(user, request)


def test_retry_shows_reason_attempt_and_countdown(user: FrontEnd) -> None:
    request = start(user, "retry", "-c assistant.request.max_retries:=4")
    for seconds in (2, 1):
        wait_until_shown(
            user, f"scripted/retry: 429 rate limit, attempt 2 of 5, retrying in {seconds} s"
        )
    user.finish(request)
    no_trace(user, request)


def updates(user: FrontEnd, request: str) -> list[Message]:
    return [
        m
        for m in user.messages
        if "display_data" in m["header"]["msg_type"] and m["parent_header"]["msg_id"] == request
    ]


def test_status_line_is_hidden_while_text_streams(user: FrontEnd) -> None:
    request = run(user, "slow")
    shown = [m["content"]["data"]["text/markdown"] for m in updates(user, request)]
    begun = next(n for n, text in enumerate(shown) if "word" in text)
    assert not [text for text in shown[begun:] if "Waiting" in text]
    assert len(shown) < 60


def test_headless_cell_shows_no_status_line(user: FrontEnd) -> None:
    request = run(user, "retry", allow_stdin=False)
    assert [m["header"]["msg_type"] for m in updates(user, request)] == ["display_data"]
    no_trace(user, request)


@pytest.mark.parametrize("script", ["endless", "wait", "hold", "gone"])
def test_interrupt_is_confirmed_before_the_menu_opens(user: FrontEnd, script: str) -> None:
    request = start(user, script)
    shown = {"endless": "word", "gone": "retrying in"}.get(script, "Waiting for")
    wait_until_shown(user, shown)
    user.manager.interrupt_kernel()
    heard = user.messages.index(wait_until_shown(user, "Interrupt received"))
    user.form("Interrupted")
    opened = [n for n, m in enumerate(user.messages) if "Interrupted: " in str(m["content"])]
    assert heard < opened[0]
    kept = " and keep the answer so far" if script in ("endless", "gone") else ""
    user.click(f"End the turn{kept}")
    user.finish(request)
    assert error(user, request) is not None
    no_trace(user, request)


def test_interrupt_is_confirmed_while_a_tool_blocks_the_cell(user: FrontEnd, folder: Path) -> None:
    request = start(user, "stubborn")
    wait_until_shown(user, "Waiting for stubborn · 1 s")
    user.manager.interrupt_kernel()
    wait_until_shown(user, "Interrupt received: stopping stubborn")  # it is still cleaning up
    (folder / "gate").touch()
    user.form("Interrupted")
    user.click("End the turn")
    user.finish(request)
    no_trace(user, request)


def test_interrupt_with_a_configured_stop_is_confirmed(user: FrontEnd, folder: Path) -> None:
    request = start(user, "wait", "-c interrupt.tool_call.action=stop")
    wait_until_shown(user, "Waiting for wait")
    user.manager.interrupt_kernel()
    wait_until_shown(user, "Interrupt received")
    user.finish(request)
    assert error(user, request) is not None
    no_trace(user, request)
