"""Output of running tools: functions, coroutines and threads show it in their cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import calls, error, kernel_with, start
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

TOOLS = """
import asyncio, time
import jp_nb as jp
import ipywidgets
from IPython.display import clear_output, display
from tqdm import tqdm
from tqdm.notebook import tqdm as notebook_tqdm

def steps():
    print("printed"); yield
    handle = display("first", display_id=True); yield
    handle.update("second"); yield
    bar = ipywidgets.IntProgress(value=1, max=3, description="bar"); display(bar); yield
    bar.value = 2; yield
    for _ in notebook_tqdm(range(2), desc="widget"): yield
    for _ in tqdm(range(2), desc="text"): yield

def clearing():
    for number in range(3):
        clear_output(wait=number != 1)
        print("step", number)
        yield

def tools(name, work):
    def function() -> str:
        for _ in work():
            time.sleep(0.02)
        return "ok"
    async def coroutine() -> str:
        for _ in work():
            await asyncio.sleep(0.02)
        return "ok"
    jp.tool(name=f"{name}_def")(function)
    jp.tool(name=f"{name}_async")(coroutine)
    jp.tool(name=f"{name}_thread", thread=True)(function)

tools("shows", steps)
tools("clears", clearing)
"""
WAYS = ("def", "async", "thread")
NAMES = [f"{name}_{way}" for name in ("shows", "clears") for way in WAYS]
SCRIPTS = {name: calls((name, {})) + '[[replies]]\ntext = "Done."\n' for name in NAMES}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("progress"), SCRIPTS, TOOLS) as user:
        yield user


def turn(user: FrontEnd, script: str, **fields: Any) -> str:
    user.forget(widgets=False)
    request = start(user, script, **fields)
    user.finish(request)
    assert error(user, request) is None
    return request


def texts(user: FrontEnd, request: str) -> list[str]:
    """The outputs of the cell as they stay."""
    shown = user.outputs(request)
    return [(o.get("text") or o["data"].get("text/plain", "")).strip() for o in shown]


def test_progress_of_every_kind_of_tool_is_shown_in_its_cell(kernel: FrontEnd) -> None:
    for way in WAYS:
        check_progress(kernel, way)


def check_progress(kernel: FrontEnd, way: str) -> None:
    """Run a tool of this kind, and look at its output."""
    request = turn(kernel, f"shows_{way}")
    shown = [m for m in kernel.messages if m["header"]["msg_type"] not in ("status", "comm_close")]
    assert {m["parent_header"]["msg_id"] for m in shown} == {request}
    kinds = [m["header"]["msg_type"] for m in shown]
    assert "comm_open" in kinds  # widgets
    assert "comm_msg" in kinds  # their progress
    read = "\n".join(texts(kernel, request))
    assert "printed" in read
    assert "'second'" in read
    assert "text: 100%" in read


@pytest.mark.parametrize("live", [True, False])
def test_tool_that_clears_its_output_leaves_the_turn_in_the_cell(
    kernel: FrontEnd, live: bool
) -> None:
    for way in WAYS:
        request = turn(kernel, f"clears_{way}", allow_stdin=live)
        lines = "\n".join(texts(kernel, request)).split("\n")
        read = [line.strip() for line in lines if line]
        assert read == [f"✓ clears_{way}()", "step 2", "Done."]
