"""The bench in a real kernel: questions in the cell, interrupts, debuggers in a tool's frame."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.fresh_session import fresh_session
from tests.support.cells import calls, error, events, kernel_with, start, value
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

TOOLS = '''
import asyncio
import pdb
import time
import jp_nb as jp

@jp.tool
def fails(number: int) -> str:
    """Fail.

    Args:
        number: What it fails with.
    """
    local = number * 2
    raise LookupError("no such number")

@jp.tool(thread=True)
def fails_in_thread(number: int) -> str:
    """Fail.

    Args:
        number: What it fails with.
    """
    local = number * 4
    raise LookupError("no such number")

@jp.tool
def stops(number: int) -> str:
    """Stop in the debugger.

    Args:
        number: What is looked at.
    """
    pdb.set_trace()
    return "continued"

@jp.tool
def rename(ctx: jp.ToolContext) -> jp.Outcome:
    """Rename it."""
    if "sure" in ctx.answers:
        return jp.Success(f"sure: {ctx.answers['sure']}")
    return jp.NeedsInput(jp.Question.boolean("sure", "Are you sure?"))

@jp.tool
def slow() -> str:
    """Take a while."""
    print("be" + "gun", flush=True)
    time.sleep(60)
    return "done"
'''
SCRIPTS = {"fail": calls(("fails", {"number": 21})) + '[[replies]]\ntext = "It failed."\n'}


ANSI = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("bench"), SCRIPTS, TOOLS) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    return fresh_session(kernel)


def debug(user: FrontEnd, *commands: str) -> str:
    """Type `commands` into `%debug` and return what it printed."""
    request = user.start("%debug")
    for command in (*commands, "q"):
        user.input_request()
        user.type(command)
    user.finish(request)
    assert error(user, request) is None
    return ANSI.sub("", user.printed(request))


@pytest.mark.parametrize(("name", "local"), [("fails", "42"), ("fails_in_thread", "84")])
def test_debug_opens_in_the_frame_of_the_called_tool(user: FrontEnd, name: str, local: str) -> None:
    user.run("1 / 0")  # an earlier error of a cell is not what is looked at
    request = user.start(f"%jp call {name} number=21")
    user.finish(request)
    assert error(user, request) is None
    printed = debug(user, "p local", "ll", "where", "up")
    assert f"\n{local}\n" in f"\n{printed}"
    assert 'raise LookupError("no such number")' in printed
    assert "Oldest frame" in printed  # none of ours is above it
    assert "jp_nb/" not in printed


def test_breakpoint_in_a_tool_stops_in_the_cell(user: FrontEnd) -> None:
    request = user.start("%jp call stops number=7")
    user.input_request()
    user.type("p number + 1")
    user.input_request()
    user.type("c")
    user.finish(request)
    assert "8" in user.printed(request)
    assert "continued" in texts(user, request)


def test_post_mortem_does_not_hang_when_unattended(user: FrontEnd) -> None:
    user.run("%pdb on")
    request = user.start("%jp call fails number=1", allow_stdin=False)
    user.finish(request)
    assert error(user, request) is None
    request = start(user, "fail", allow_stdin=False)
    user.finish(request)
    assert error(user, request) is None
    user.run("%pdb off")


def texts(user: FrontEnd, request: str) -> str:
    return "\n".join(data["text/plain"] for data in user.displays(request))


def test_question_of_a_called_tool_is_asked_in_the_cell(user: FrontEnd) -> None:
    before = events(user)
    request = user.start("outcome = jp.call('rename')", cell_id=None)
    user.input_request()
    user.type("y")
    user.finish(request)
    assert "The model reads" in texts(user, request)
    assert "    sure: True" in texts(user, request)
    [asked] = value(user, "[[q.question, q.answer, q.channel] for q in outcome.questions]")
    assert asked == ["Are you sure?", True, "stdin"]
    assert events(user) == before


def test_interrupt_of_a_called_tool_opens_the_menu_and_stops_it(user: FrontEnd) -> None:
    request = user.start("%jp call slow", cell_id=None)
    user.wait(lambda m: "begun" in json.dumps(m["content"], default=str))
    user.manager.interrupt_kernel()
    user.input_request()
    user.type("s")
    user.finish(request)
    failed: Any = error(user, request)
    assert failed is not None
    assert "It is not part of the conversation" in "".join(failed["traceback"])
    assert events(user) == []


def test_outputs_of_two_headless_calls_are_equal(user: FrontEnd) -> None:
    shown = []
    for _ in range(2):
        request = user.start("%jp call fails number=3", allow_stdin=False)
        user.finish(request)
        shown.append(user.outputs(request))
    assert shown[0] == shown[1]
    assert "(27 characters)" in json.dumps(shown), "no time, which is another in each run"
