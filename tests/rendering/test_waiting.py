"""What a running turn waits for is said in its cell, and leaves no trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.agent.display_events import (
    DisplayEvent,
    FunctionBegins,
    FunctionEnds,
    InterruptHeard,
    QuestionEnds,
    ShowText,
    ToolBegins,
    ToolEnds,
    Waits,
)
from jp_nb.rendering.waiting import Waiting
from jp_nb.tooling.question import Question
from tests.support.cells import calls, error, kernel_with, run, start
from tests.support.kernel_client import FrontEnd, Message

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

MODEL = Waits("model", "anthropic/opus")


def said(now: float, *events: DisplayEvent | tuple[float, DisplayEvent]) -> str:
    """The line at `now`, after `events` that happened at 0.0 or at their own time."""
    waiting = Waiting(0.0)
    for event in events:
        match event:
            case (float() as when, happened):
                waiting.apply(happened, when)
            case happened:
                waiting.apply(happened, 0.0)
    return waiting.line(now)


# --- the line --------------------------------------------------------------------------------


def test_the_model_is_named_and_the_seconds_are_counted() -> None:
    assert said(0.0) == "Waiting for the request to be made · 0 s"
    assert said(3.9, MODEL) == "Waiting for anthropic/opus · 3 s"
    assert said(9.0, MODEL, (5.0, Waits("model", ""))) == ""


def test_text_that_comes_is_its_own_sign_until_it_stops() -> None:
    spoke = (5.0, ShowText("message", "Once upon"))
    assert said(5.5, MODEL, spoke) == ""
    assert said(8.0, MODEL, spoke) == "Waiting for anthropic/opus · 8 s"


def test_reasoning_that_nobody_sees_is_told() -> None:
    thinks = (5.0, ShowText("reasoning", "hm"))
    assert said(5.1, MODEL, thinks) == "Waiting for anthropic/opus, which is reasoning · 5 s"
    assert said(5.3, MODEL, thinks, (5.2, ShowText("message", "So"))) == ""


def test_tools_are_named_as_long_as_they_run() -> None:
    quiet = Waits("model", "")
    both: list[DisplayEvent | tuple[float, DisplayEvent]]
    both = [quiet, Waits("a", "look"), (2.0, Waits("b", "wait"))]
    assert said(4.0, *both) == "Waiting for look, wait · 4 s"
    ended = (4.0, ToolEnds("a", "look", "fine", False, 4.0))
    assert said(4.0, *both, ended) == "Waiting for wait · 2 s"
    many = [quiet, *(Waits(str(n), f"t{n}") for n in range(9))]
    assert said(0.0, *many) == "Waiting for t0, t1, t2 and 6 more · 0 s"


def test_a_retry_counts_down() -> None:
    again = Waits("model", "anthropic/opus: 429 rate limit, attempt 2 of 5", until=10.0)
    line = "anthropic/opus: 429 rate limit, attempt 2 of 5, again"
    assert said(7.5, MODEL, again) == f"{line} in 3 s"
    assert said(11.0, MODEL, again) == f"{line} now"


def test_decisions_in_line_are_counted_and_end_with_their_question() -> None:
    quiet = Waits("model", "")
    answer = Waits("b", "your answer to a question of rename", person=True)
    waits = [quiet, Waits("a", "look"), answer]
    line = "Waiting for look; 1 to be decided by you in line behind that · 3 s"
    assert said(3.0, *waits) == line
    asked = Question.boolean("q", "Sure?")
    assert said(3.0, *waits, QuestionEnds("b", "rename", asked, "answered", True)).startswith(
        "Waiting for look · "
    )
    assert said(3.0, quiet, answer) == "Waiting for your answer to a question of rename · 3 s"


def test_an_interrupt_is_confirmed_with_what_comes_of_it_and_ends_as_the_turn_goes_on() -> None:
    hold = FunctionBegins("a", "hold")
    assert said(1.0, MODEL, InterruptHeard()) == "Interrupt heard"
    assert said(1.0, hold, InterruptHeard()) == "Interrupt heard: stopping hold"
    menu = InterruptHeard("menu")
    assert said(1.0, menu) == "Interrupt heard: how to go on is asked next"
    assert said(1.0, hold, menu) == "Interrupt heard: stopping hold; how to go on is asked next"
    assert said(1.0, hold, menu, FunctionEnds("a")) == said(1.0, menu)
    stop = InterruptHeard("stop")
    line = "Interrupt heard: stopping; what arrived so far is kept"
    assert said(9.0, stop, Waits("a", "look"), ToolEnds("a", "look", "", False, 1.0)) == line
    for then in ("continue", "reply", "restart"):
        heard = InterruptHeard(then)
        assert said(1.0, heard).startswith("Interrupt heard: ")
        assert said(1.0, heard, MODEL) == "Waiting for anthropic/opus · 1 s"
        assert not said(1.0, heard, ToolBegins("a", "look", {})).startswith("Interrupt")


# --- in a kernel -----------------------------------------------------------------------------

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
        while not Path(gate).exists():  # cleans up as long as it likes
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
    kernel.receive(0.0)
    kernel.messages.clear()
    kernel.models.clear()
    (folder / "gate").unlink(missing_ok=True)
    return kernel


def shows(user: FrontEnd, text: str) -> Message:
    """Wait until the cell shows `text`."""
    return user.wait(lambda m: text in m["content"].get("data", {}).get("text/markdown", ""))


def no_trace(user: FrontEnd, request: str) -> None:
    """Nothing of what was waited for is left."""
    left = json.dumps(user.outputs(request), ensure_ascii=False)
    for word in ("Waiting", "Interrupt heard", "attempt", "again in", '"jp_nb":'):
        assert word not in left


@pytest.mark.parametrize("script", ["hold", "wait"])
def test_a_tool_is_waited_for_by_name_second_by_second(
    user: FrontEnd, folder: Path, script: str
) -> None:
    request = start(user, script)
    for seconds in (1, 2):
        shows(user, f"Waiting for {script} · {seconds} s")
    (folder / "gate").touch()
    user.finish(request)
    assert user.outputs(request)[-1]["data"]["text/plain"].endswith("Done.")
    no_trace(user, request)


def test_the_model_is_waited_for_by_name_also_while_it_reasons(user: FrontEnd) -> None:
    request = start(user, "think", "-c style.reasoning.display=hidden")
    shows(user, "Waiting for scripted/think, which is reasoning · 1 s")
    user.finish(request)
    no_trace(user, request)


def test_a_retry_says_why_how_often_and_when(user: FrontEnd) -> None:
    request = start(user, "retry", "-c assistant.request.max_retries:=4")
    for seconds in (2, 1):
        shows(user, f"scripted/retry: 429 rate limit, attempt 2 of 5, again in {seconds} s")
    user.finish(request)
    no_trace(user, request)


def updates(user: FrontEnd, request: str) -> list[Message]:
    return [
        m
        for m in user.messages
        if "display_data" in m["header"]["msg_type"] and m["parent_header"]["msg_id"] == request
    ]


def test_while_text_comes_nothing_is_added(user: FrontEnd) -> None:
    request = run(user, "slow")
    shown = [m["content"]["data"]["text/markdown"] for m in updates(user, request)]
    begun = next(n for n, text in enumerate(shown) if "word" in text)
    assert not [text for text in shown[begun:] if "Waiting" in text]
    assert len(shown) < 60


def test_headless_nothing_of_it_is_shown(user: FrontEnd) -> None:
    request = run(user, "retry", allow_stdin=False)
    assert [m["header"]["msg_type"] for m in updates(user, request)] == ["display_data"]
    no_trace(user, request)


@pytest.mark.parametrize("script", ["endless", "wait", "hold", "gone"])
def test_an_interrupt_is_confirmed_before_the_menu_opens(user: FrontEnd, script: str) -> None:
    request = start(user, script)
    seen = {"endless": "word", "gone": "again in"}.get(script, "Waiting for")
    shows(user, seen)
    user.manager.interrupt_kernel()
    heard = user.messages.index(shows(user, "Interrupt heard"))
    user.form("Interrupted")
    opened = [n for n, m in enumerate(user.messages) if "Interrupted: " in str(m["content"])]
    assert heard < opened[0]
    kept = " and keep the answer so far" if script in ("endless", "gone") else ""
    user.click(f"End the turn{kept}")
    user.finish(request)
    assert error(user, request) is not None
    no_trace(user, request)


def test_an_interrupt_is_confirmed_while_a_tool_holds_the_cell(
    user: FrontEnd, folder: Path
) -> None:
    request = start(user, "stubborn")
    shows(user, "Waiting for stubborn · 1 s")
    user.manager.interrupt_kernel()
    shows(user, "Interrupt heard: stopping stubborn")  # it goes on cleaning up
    (folder / "gate").touch()
    user.form("Interrupted")
    user.click("End the turn")
    user.finish(request)
    no_trace(user, request)


def test_a_configured_stop_says_that_it_stops(user: FrontEnd, folder: Path) -> None:
    request = start(user, "wait", "-c interrupt.tool_call.action=stop")
    shows(user, "Waiting for wait")
    user.manager.interrupt_kernel()
    shows(user, "Interrupt heard")
    user.finish(request)
    assert error(user, request) is not None
    no_trace(user, request)
