"""Text that concurrent tools print stands below the line of its call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import calls, kernel_with, run, start
from tests.support.kernel_client import FrontEnd

MAX_OUTPUT_TEXT_CHARS = 25_000


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.kernel,
]

END = '[[replies]]\ntext = "end"\n'
SCRIPTS = {
    "tasks": calls(("task", {"name": "north"}), ("task", {"name": "south"})) + END,
    "mixed": calls(
        ("task", {"name": "north"}), ("thread", {"name": "south"}), ("function", {"name": "west"})
    )
    + END,
    "clears": calls(("task", {"name": "north"}), ("clears", {"wait": True})) + END,
    "clears_now": calls(("clears", {"wait": False}), ("task", {"name": "north"})) + END,
    "flood": calls(("flood", {}), ("task", {"name": "north"})) + END,
    "returns": calls(("returns", {"name": "north"}), ("task", {"name": "south"})) + END,
    "slow": calls(("slow", {})) + END,
    "fails": calls(("fails", {}), ("task", {"name": "north"})) + END,
}
TOOLS = """
import asyncio, subprocess, sys, time
import jp_nb as jp
from IPython.display import clear_output

@jp.tool(run="unattended")
async def task(name: str) -> str:
    for number in range(3):
        print(name, number)
        await asyncio.sleep(0.02)
    print("```", name, file=sys.stderr)
    return "task done"

@jp.tool(run="unattended", thread=True)
def thread(name: str) -> str:
    for number in range(3):
        print(name, number, flush=True)
        time.sleep(0.02)
    return "thread done"

@jp.tool(run="unattended")
def function(name: str) -> str:
    for number in range(3):
        print(name, number)
        time.sleep(0.02)
    return "function done"

@jp.tool(run="unattended")
async def clears(wait: bool) -> str:
    for number in range(3):
        clear_output(wait=wait)
        print("step", number)
        await asyncio.sleep(0.02)
    return "cleared"

@jp.tool(run="unattended")
async def flood() -> str:
    print("first")
    for number in range(20_000):
        print("a line of a flood", number)
    print("last")
    return "flooded"

@jp.tool(run="unattended")
def returns(name: str):
    print(name, "in the cell")
    return task(name)

@jp.tool(run="unattended")
async def slow() -> str:
    print("now")
    await asyncio.sleep(2)
    return "slow"

@jp.tool(run="unattended")
async def fails() -> str:
    print("before")
    await asyncio.sleep(0.03)
    raise ValueError("no")
"""

NAMES = ("task", "thread", "function", "clears", "flood", "returns", "slow", "fails")
TOOL_OPTIONS = " ".join(f"-t {name}" for name in NAMES)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("printed"), SCRIPTS, TOOLS) as user:
        yield user


def shown(kernel: FrontEnd, script: str) -> str:
    """Run a turn; return the text of its outputs, in order, as the cell shows it at the end."""
    outputs = kernel.outputs(run(kernel, script, TOOL_OPTIONS))
    return "\n".join(map(text_of, outputs))


def text_of(output: dict[str, Any]) -> str:
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


def sections(text: str) -> dict[str, list[str]]:
    """Return the lines below the line of each call, by the name and the first argument."""
    found: dict[str, list[str]] = {}
    below: list[str] = []
    for line in text.split("\n"):
        if begins := re.match(r"[✓✗] (\w+)(?:\(\w+=[\"']?(\w+))?", line):
            below = found.setdefault(" ".join(filter(None, begins.groups())), [])
        elif line.strip() and line != "end":
            below.append(line.strip())
    return found


def steps(name: str) -> list[str]:
    return [f"{name} {number}" for number in range(3)]


def task_lines(name: str) -> list[str]:
    return [*steps(name), f"``` {name}"]


def test_interleaved_text_of_two_tasks_stands_below_the_line_of_each(kernel: FrontEnd) -> None:
    found = sections(shown(kernel, "tasks"))
    assert found == {"task north": task_lines("north"), "task south": task_lines("south")}


def test_text_of_tasks_threads_and_functions_stands_below_the_line_of_each(
    kernel: FrontEnd,
) -> None:
    found = sections(shown(kernel, "mixed"))
    assert found == {
        "task north": task_lines("north"),
        "thread south": steps("south"),
        "function west": steps("west"),
    }


@pytest.mark.parametrize("script", ["clears", "clears_now"])
def test_tool_clears_only_its_own_text(kernel: FrontEnd, script: str) -> None:
    found = sections(shown(kernel, script))
    [cleared] = (lines for name, lines in found.items() if name.startswith("clears"))
    assert cleared == ["step 2"]
    assert found["task north"] == task_lines("north")


def test_beginning_and_end_of_a_flood_are_kept(kernel: FrontEnd) -> None:
    text = shown(kernel, "flood")
    found = sections(text)
    assert (found["flood"][0], found["flood"][-1]) == ("first", "last")
    assert "characters omitted" in text
    assert len(text) < 3 * MAX_OUTPUT_TEXT_CHARS
    assert found["task north"] == task_lines("north")


def test_text_of_an_awaitable_is_below_the_text_of_the_function_that_returned_it(
    kernel: FrontEnd,
) -> None:
    text = shown(kernel, "returns")
    lines = [line.strip() for line in text.split("\n")]
    of_call = [line for line in lines if "north" in line and "returns" not in line]
    assert of_call == ["north in the cell", *task_lines("north")]
    assert sections(text)["task south"][:4] == task_lines("south")


def test_text_of_a_failed_call_stays_below_its_line(kernel: FrontEnd) -> None:
    found = sections(shown(kernel, "fails"))
    assert "before" in found["fails"]
    assert found["task north"] == task_lines("north")


def test_printed_text_is_shown_while_the_tool_runs(kernel: FrontEnd) -> None:
    request = start(kernel, "slow", TOOL_OPTIONS)
    kernel.wait(lambda message: "now" in str(message["content"].get("data")))
    running = "\n".join(map(text_of, kernel.outputs(request)))
    assert "⚙ slow" in running
    kernel.finish(request)
