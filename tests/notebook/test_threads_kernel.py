"""Turns of several threads in a real kernel, with real interrupts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cells import calls, error, events, kernel_with, value
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.kernel,
]

TALK = "".join(f'[[replies]]\ntext = "answer {number}"\n' for number in range(40))
WAIT = calls(("wait", {})) + '[[replies]]\ntext = "end"\n' * 3
TOOLS = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
import jp_nb as jp

@jp.tool
async def wait() -> str:
    print("waits", flush=True)
    await asyncio.sleep(60)
    return "never"
"""
QUERIES = """
TEXTS = [f"request {number}" for number in range(8)]
def query(text):
    turn = jp.query(text)
    return turn.request, turn.text
"""
POOL = "with ThreadPoolExecutor(8) as pool:\n    PAIRS = [*pool.map(query, TEXTS)]"
GATHER = "PAIRS = await asyncio.gather(*(asyncio.to_thread(query, text) for text in TEXTS))"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("threads")
    with kernel_with(folder, {"talk": TALK, "wait": WAIT}, TOOLS, QUERIES) as user:
        yield user


@pytest.mark.parametrize("code", [POOL, GATHER])
def test_each_thread_gets_the_answer_that_is_recorded_for_its_request(
    kernel: FrontEnd, code: str
) -> None:
    kernel.run("%jp new\n%jp config assistant.model.id=scripted/talk")
    kernel.run(code)
    pairs = value(kernel, "PAIRS")
    recorded = value(kernel, "[(t.request, t.text) for t in jp.conversation().turns]")
    assert [request for request, _ in pairs] == [f"request {number}" for number in range(8)]
    assert sorted(recorded) == sorted(pairs)
    assert len({text for _, text in pairs}) == 8


def test_interrupts_of_the_cell_end_the_turns_of_its_threads(kernel: FrontEnd) -> None:
    kernel.run("%jp new\n%jp config assistant.model.id=scripted/wait")
    request = kernel.start(POOL)  # ipykernel 7.4 does not interrupt a cell with `await`
    kernel.wait(lambda message: "waits" in str(message["content"]))
    kernel.interrupt(request)
    failure = error(kernel, request)
    assert failure is not None
    assert failure["ename"] == "KeyboardInterrupt"
    after = kernel.run("print(jp.query('And now?', model='scripted/talk').text)")
    assert "answer" in after
    requests = [entry["content"] for entry in events(kernel) if entry["type"] == "chat_request"]
    assert len(requests) == 2, "the waiting turns were not sent"
