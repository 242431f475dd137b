"""The interrupt menus in a real kernel, on forms and on stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil
import pytest

from tests.support.cells import (
    asked,
    calls,
    contents,
    error,
    events,
    interrupted,
    kernel_with,
    run,
    start,
    static,
    well_formed,
)
from tests.support.kernel_client import PATIENCE, FrontEnd, Message

STOPPED = "Interrupted before it finished. Its effects up to then may remain."
NOT_KEPT = " Its options, such as `-m`, were not kept."
REQUEST_INTERRUPTED = "⚠ Interrupted before an answer. Run the cell again, or `%jp resume`."
CANCELLATION = (
    "The user cancelled this tool call on purpose. Find out why from the conversation, or"
    " ask, before you call it again."
)


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

TOOLS = """
import asyncio, time
from pathlib import Path
import jp_nb as jp

def passed(gate: str) -> bool:
    time.sleep(0.02)
    return Path(gate).exists()

@jp.tool
def hold(gate: str) -> str:
    print("hold begins", flush=True)
    Path("hold.begun").touch()
    while not passed(gate):
        pass
    return "held"

@jp.tool
async def wait(gate: str) -> str:
    print("wait begins", flush=True)
    Path("wait.begun").touch()
    while not Path(gate).exists():
        await asyncio.sleep(0.02)
    return "waited"

@jp.tool(thread=True)
def work(gate: str) -> str:
    print("work begins", flush=True)
    while not passed(gate):
        pass
    return "worked"

@jp.tool
def look(place: str) -> str:
    print("looking at", place, flush=True)
    return f"{place} is fine"

@jp.tool
def rename(ctx: jp.ToolContext, name: str) -> jp.Outcome:
    if "sure" not in ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("sure", f"Rename {name}?"))
    return jp.Success(f"{name}: {ctx.answers['sure']}")
"""

SPY = """
from jp_nb.agent.display import ShowText
from jp_nb.notebook.display.turn_display import TurnDisplay

def spy(display, event, take=TurnDisplay.__call__):
    take(display, event)
    if isinstance(event, ShowText):
        print("said", event.text)

TurnDisplay.__call__, unspied = spy, TurnDisplay.__call__
"""

SPAWN = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open("new-pids", "w") as pids:
    print(os.getpid(), child.pid, file=pids)
os.rename("new-pids", "pids")
time.sleep(600)
"""

WORDS = " ".join(f"word{number}" for number in range(15))
INTERRUPTED = "The tool's question was not answered: an interrupt closed it."
GATE = {"gate": "gate"}
DONE = '[[replies]]\ntext = "Done."\n'


def expecting(*texts: str) -> str:
    return f'[[replies]]\nexpect = {json.dumps(texts)}\ntext = "Understood."\n'


SCRIPTS = {
    "slow": f'[[replies]]\ntext = "{WORDS}"\nchunk_ms = 120\n' + expecting("word1", "Shorter!"),
    "endless": f'[[replies]]\ntext = "{WORDS * 200}"\nchunk_ms = 100\n'
    + expecting("word1", "Shorter!"),
    "three": calls(("hold", GATE), ("wait", GATE), ("work", GATE)) + DONE,
    "hold": calls(("look", {"place": "Delft"}), ("wait", GATE), ("hold", GATE))
    + expecting("custom message", "Use another."),
    "alone": calls(("hold", GATE)) + DONE,
    "queued": calls(("hold", GATE), ("look", {"place": "Delft"})) + DONE,
    "questions": calls(("rename", {"name": "a"}), ("rename", {"name": "b"})) + DONE,
    "spawn": calls(("spawn", {})) + DONE,
    "echo": '[[replies]]\ntext = "ok"\n' * 5,
}
CANCELLED = CANCELLATION
WENT_ON = f"{STOPPED} The user chose to continue."
ALL = "hold begins, wait begins, work begins"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("menus")
    (folder / "spawn.py").write_text(SPAWN, encoding="utf-8")
    (folder / ".jp").mkdir()
    (folder / ".jp" / "config.toml").write_text(
        '[conversation.tools.spawn]\nsource = "local"\nrun = "unattended"\n'
        f"command = {{ program = {json.dumps(sys.executable)}, args = ['spawn.py'] }}\n",
        encoding="utf-8",
    )
    with kernel_with(folder, SCRIPTS, TOOLS) as user:
        yield user


@pytest.fixture
def folder(kernel: FrontEnd) -> Path:
    return Path(kernel.manager.connection_file).parent


@pytest.fixture
def user(kernel: FrontEnd, folder: Path) -> Iterator[FrontEnd]:
    """The front end; whatever the test did, the next cells work."""
    for left in ("gate", "pids"):
        (folder / left).unlink(missing_ok=True)
    kernel.forget()
    yield kernel
    assert kernel.run("print(1 + 1)") == "2\n"
    again = run(kernel, "echo")
    assert error(kernel, again) is None
    assert kernel.displays(again)[-1]["text/plain"] == "ok"


def begun(user: FrontEnd, script: str, seen: str, options: str = "", **fields: Any) -> str:
    """Start a turn and wait until all of `seen` was shown or printed."""
    request = start(user, script, options, **fields)
    for text in seen.split(", "):
        user.wait(partial(message_contains, text))
    return request


def message_contains(text: str, message: Message) -> bool:
    content = message["content"]
    return text in str(content.get("data", "")) + content.get("text", "")


def labels(user: FrontEnd) -> list[str]:
    """Return the labels of all buttons so far."""
    buttons = (m for m in user.models.values() if m.get("_model_name") == "ButtonModel")
    return [str(button["description"]) for button in buttons]


def say(user: FrontEnd, question: str, text: str) -> None:
    """Answer a question for a text."""
    user.send(user.form(question), {"type": "submit", "value": text})


def text_of(user: FrontEnd) -> list[str]:
    return [e["message"] for e in events(user) if e["type"] == "chat_response"]


def assert_interrupted(user: FrontEnd, request: str) -> None:
    failure = error(user, request)
    assert failure is not None
    assert failure["ename"] == "KeyboardInterrupt"
    assert failure["traceback"] == ["Interrupted. Everything received so far is in the record."]


# --- while the model answers -------------------------------------------------------------------


@pytest.mark.parametrize("how", ["click", pytest.param("escape", marks=pytest.mark.deep)])
def test_text_continues_behind_the_menu_and_nothing_is_lost(user: FrontEnd, how: str) -> None:
    request = begun(user, "slow", "word1")
    beacon = interrupted(user)
    user.wait(lambda m: "word14" in str(m["content"].get("data", "")))  # in the form itself
    if how == "click":
        user.click("Continue")
    else:
        user.send(beacon, {"type": "cancel"})
    user.finish(request)
    assert error(user, request) is None
    assert static(user, request) == WORDS
    assert text_of(user) == [WORDS]


def test_reply_is_sent_to_the_model(user: FrontEnd) -> None:
    request = begun(user, "endless", "word1")
    interrupted(user)
    user.click("Tell the model something …")
    say(user, "Your message:", "Shorter!")
    user.finish(request)
    assert error(user, request) is None
    partial, answer = text_of(user)
    assert partial.startswith("word0 word1")
    assert answer == "Understood."
    assert static(user, request) == f"{partial}\n> Shorter!\nUnderstood."
    asked = [e["content"] for e in events(user) if e["type"] == "chat_request"]
    assert asked == ["Continue.", "Shorter!"]


@pytest.mark.kernel
def test_abort_discards_the_answer_so_far(user: FrontEnd) -> None:
    request = begun(user, "endless", "word1")
    interrupted(user)
    user.click("End the turn and discard the answer so far")
    user.finish(request)
    failure = error(user, request)
    assert failure is not None
    assert failure["ename"] == "KeyboardInterrupt"
    assert text_of(user) == []
    shown = static(user, request)
    assert shown.splitlines() == [
        "⚠ Aborted. The text of this answer is discarded.",
        REQUEST_INTERRUPTED + NOT_KEPT,
    ]


@pytest.mark.deep
def test_two_interrupts_in_quick_succession_end_the_turn(user: FrontEnd) -> None:
    request = begun(user, "three", ALL)
    user.manager.interrupt_kernel()
    user.interrupt(request)  # again, if both were one signal
    assert_interrupted(user, request)
    assert well_formed(events(user))


@pytest.mark.kernel
def test_configured_action_opens_no_menu(user: FrontEnd) -> None:
    request = begun(user, "endless", "word1", "-c interrupt.streaming.action=abort")
    user.forget(widgets=False)
    user.manager.interrupt_kernel()
    user.finish(request)
    assert error(user, request) is not None
    assert static(user, request).startswith("⚠ Aborted")
    assert text_of(user) == []
    assert "Interrupted: the answer" not in str(user.messages)


@pytest.mark.kernel
def test_unattended_interrupt_keeps_the_answer_so_far(user: FrontEnd) -> None:
    user.run(SPY)
    try:
        request = begun(user, "endless", "said  word1", allow_stdin=False)
        user.interrupt(request)
    finally:
        user.run("TurnDisplay.__call__ = unspied")
    assert_interrupted(user, request)
    (kept,) = text_of(user)
    assert static(user, request) == kept
    assert not user.models


# --- while tools run ---------------------------------------------------------------------------


def test_continue_waits_for_tools_and_reports_the_interrupted_function(
    user: FrontEnd, folder: Path
) -> None:
    request = begun(user, "three", ALL)
    interrupted(user)
    (folder / "gate").touch()
    user.click("Continue")
    user.finish(request)
    assert error(user, request) is None
    cut, *others = contents(user)
    assert cut == WENT_ON
    assert others == ["waited", "worked"]
    assert static(user, request).splitlines() == [
        f'⊘ hold(gate="gate") — {WENT_ON}',
        '✓ wait(gate="gate")',
        "    wait begins",
        '✓ work(gate="gate")',
        "    work begins",
        "Done.",
    ]


@pytest.mark.kernel
def test_menu_offers_to_run_an_interrupted_function_again_and_not_to_continue(
    user: FrontEnd, folder: Path
) -> None:
    request = begun(user, "alone", "hold begins")
    interrupted(user)
    assert labels(user) == ["Tell the model something …", "Run hold again", "End the turn"]
    (folder / "gate").touch()
    user.click("Run hold again")
    user.finish(request)
    assert error(user, request) is None
    assert contents(user) == ["held"]


@pytest.mark.kernel
def test_reply_while_tools_run_is_the_result_of_the_calls(user: FrontEnd) -> None:
    request = begun(user, "hold", "hold begins, wait begins")
    interrupted(user)
    user.click("Tell the model something …")
    say(user, "Your message to the model", "Use another.")
    user.finish(request)
    assert error(user, request) is None
    why = "Tool run cancelled by user with a custom message:\n\nUse another."
    assert contents(user) == ["Delft is fine", why, why]
    assert static(user, request).endswith("Understood.")


def test_restart_runs_only_calls_without_a_result(user: FrontEnd, folder: Path) -> None:
    request = begun(
        user, "hold", "hold begins, wait begins", "-c conversation.tools.look.run=unattended"
    )
    interrupted(user)
    (folder / "gate").touch()
    user.click("Run these 2 calls again")
    user.finish(request)
    printed = user.printed(request)
    assert "hold begins" in printed  # for the second time: earlier output was discarded
    assert "looking" not in printed
    assert contents(user) == ["Delft is fine", "waited", "held"]


@pytest.mark.kernel
def test_open_question_is_closed_before_the_menu_and_the_next_one_follows(
    user: FrontEnd,
) -> None:
    request = start(user, "questions")
    user.form("Rename a?")
    beacon = interrupted(user)
    assert "Rename b?" not in str(user.messages)
    user.forget(widgets=False)
    user.send(beacon, {"type": "cancel"})
    user.form("Rename b?")
    user.click("Yes")
    user.finish(request)
    assert error(user, request) is None
    assert contents(user) == [INTERRUPTED, "b: True"]
    ends = [e["metadata"]["end"] for e in events(user) if e["type"] == "inquiry_response"]
    assert ends == ["interrupted", "answered"]
    assert "? Rename a? — no answer: interrupted" in static(user, request).splitlines()


@pytest.mark.kernel
def test_no_tool_starts_while_the_menu_is_open(user: FrontEnd) -> None:
    request = begun(user, "queued", "hold begins")
    interrupted(user)
    for _ in range(3):  # rounds of the cell's thread, in which it could
        user.client.kernel_info(reply=True, timeout=PATIENCE)
    assert "looking" not in user.printed(request)
    user.click("Continue")
    user.finish(request)
    assert "looking" in user.printed(request)
    assert error(user, request) is None
    assert contents(user) == [WENT_ON, "Delft is fine"]


@pytest.mark.kernel
def test_configured_restart_runs_the_calls_again_without_a_menu(
    user: FrontEnd, folder: Path
) -> None:
    request = begun(
        user, "three", "hold begins, wait begins", "-c interrupt.tool_call.action=restart"
    )
    user.forget(widgets=False)
    user.manager.interrupt_kernel()
    user.wait(lambda m: "hold begins" in m["content"].get("text", ""))
    (folder / "gate").touch()
    user.finish(request)
    assert error(user, request) is None
    assert contents(user) == ["held", "waited", "worked"]


@pytest.mark.kernel
def test_unattended_interrupt_stops_tools(user: FrontEnd, folder: Path) -> None:
    marks = [folder / "hold.begun", folder / "wait.begun"]
    for mark in marks:
        mark.unlink(missing_ok=True)
    request = start(user, "hold", allow_stdin=False)
    until = monotonic() + PATIENCE
    while not all(mark.exists() for mark in marks):  # what they print comes when they have ended
        assert monotonic() < until
        sleep(0.02)
    user.interrupt(request)
    assert_interrupted(user, request)
    shown = str(user.outputs(request))
    for text in ("hold begins", "wait begins"):
        assert text in shown
    assert contents(user) == ["Delft is fine", *[f"{STOPPED} The turn was ended."] * 2]
    assert not user.models


@pytest.mark.kernel
def test_stop_ends_a_command_and_its_child_processes(user: FrontEnd, folder: Path) -> None:
    request = start(user, "spawn")
    until = monotonic() + PATIENCE
    while not (folder / "pids").exists():
        assert monotonic() < until
        sleep(0.02)
    family = [psutil.Process(int(pid)) for pid in (folder / "pids").read_text().split()]
    interrupted(user)
    assert all(process.is_running() for process in family)
    user.click("End the turn")
    user.finish(request)
    assert_interrupted(user, request)
    assert contents(user) == [CANCELLED]
    _, alive = psutil.wait_procs(family, timeout=PATIENCE)
    # No process may reap an orphan.
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


# --- over stdin --------------------------------------------------------------------------------

STDIN = "-c prompt.channel=stdin"


@pytest.mark.kernel
def test_key_on_stdin_chooses_while_the_model_answers(user: FrontEnd) -> None:
    request = begun(user, "endless", "word1", STDIN)
    user.forget(widgets=False)
    user.manager.interrupt_kernel()
    asked(user, "[c/r/s/a/?] ")
    user.type("?")
    asked(user, "[c/r/s/a/?] ")
    user.type("r")
    asked(user, "Text: ")
    user.type("Shorter!")
    user.finish(request)
    assert error(user, request) is None
    assert "Interrupted: the answer to “Continue.”\n" in user.printed(request)
    assert "  s  End the turn and keep the answer so far\n" in user.printed(request)
    assert len(text_of(user)) == 2


@pytest.mark.kernel
def test_key_on_stdin_chooses_while_tools_run(user: FrontEnd, folder: Path) -> None:
    request = begun(user, "three", ALL, STDIN)
    user.forget(widgets=False)
    user.manager.interrupt_kernel()
    asked(user, "[c/r/t/s/?] ")
    (folder / "gate").touch()
    user.type("t")
    user.finish(request)
    assert error(user, request) is None
    assert contents(user) == ["held", "waited", "worked"]


@pytest.mark.kernel
def test_interrupt_of_a_menu_on_stdin_ends_the_turn(user: FrontEnd) -> None:
    request = begun(user, "three", ALL, STDIN)
    user.forget(widgets=False)
    user.manager.interrupt_kernel()
    user.input_request()
    user.interrupt(request)
    assert_interrupted(user, request)
    assert well_formed(events(user))


@pytest.mark.kernel
def test_interrupt_of_a_question_on_stdin_opens_the_menu(user: FrontEnd) -> None:
    request = start(user, "questions", STDIN)
    asked(user, "[y/Y/n/N/?] ")
    user.manager.interrupt_kernel()
    asked(user, "[c/r/t/s/?] ")
    user.type("c")
    asked(user, "[y/Y/n/N/?] ")
    user.type("n")
    user.finish(request)
    assert error(user, request) is None
    assert contents(user) == [INTERRUPTED, "b: False"]
