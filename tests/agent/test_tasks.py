"""The queue of prompts, and the order of inquiries that wait for other work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from jp_nb.agent.calls.activity import Activity
from jp_nb.agent.calls.cell_functions import CellFunctions
from jp_nb.agent.calls.screen_queue import ScreenQueue
from tests.kit.kinds import make
from tests.support.fakes import FakePrompter, InlineCell, until, yes

PROMPT = make("decision_prompt", "Now?", ())


class Work:
    """Tasks that count as work, and a queue of prompts."""

    def __init__(self, *ends: Any) -> None:
        self.activity = Activity()
        functions = CellFunctions(InlineCell(), lambda event: None)
        self.screen = ScreenQueue(FakePrompter(*ends, *[yes()] * 9), self.activity, functions)
        self.log: list[str] = []

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.activity.begin()
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self.activity.end())
        return task

    async def ask(self, name: str, *, is_menu: bool = False, again: bool = False) -> None:
        async with self.screen.take_screen(for_menu=is_menu) as ask:
            self.log.append(name)
            await ask(PROMPT)
            if again:
                await self.screen.wait_again()
                self.log.append(f"{name} again")

    async def wait(self, name: str) -> None:
        await self.activity.when_idle()
        self.log.append(f"{name} continues")
        await asyncio.sleep(0.01)
        self.log.append(f"{name} ends")


async def run_all(*tasks: asyncio.Task[None]) -> None:
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks)


async def test_prompts_appear_in_the_order_of_their_requests() -> None:
    work = Work()
    await run_all(*(work.start(work.ask(name)) for name in "abc"))
    assert work.log == ["a", "b", "c"]


async def test_menu_goes_first_and_ends_the_hold() -> None:
    work = Work()
    work.screen.hold()
    tasks = [work.start(work.ask(name)) for name in "ab"]
    await asyncio.sleep(0.01)
    assert work.log == []
    await run_all(*tasks, work.start(work.ask("menu", is_menu=True)))
    assert work.log == ["menu", "a", "b"]


@pytest.mark.parametrize("menu", [False, True])
async def test_prompt_that_waits_again_lets_only_the_menu_go_first(menu: bool) -> None:
    work = Work()
    tasks = [work.start(work.ask("a", again=True)), work.start(work.ask("b"))]
    if menu:
        tasks.append(work.start(work.ask("menu", is_menu=True)))
    await run_all(*tasks)
    assert work.log == ["a", *(["menu"] if menu else []), "a again", "b"]


@pytest.mark.parametrize("canceled", [0, 1])
async def test_canceled_prompt_leaves_the_line(canceled: int) -> None:
    gate = asyncio.Event()

    async def answer() -> Any:
        await gate.wait()
        return yes()

    work = Work(answer)
    tasks = [work.start(work.ask(name)) for name in "abc"]
    await until(lambda: work.log)
    tasks.pop(canceled).cancel()
    gate.set()
    await run_all(*tasks)
    assert work.log == (["a", "b", "c"] if canceled == 0 else ["a", "c"])


async def test_task_that_ignored_its_cancellation_gets_no_prompt() -> None:
    work = Work()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await work.ask("late")

    task = work.start(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.log == []


async def test_idle_work_continues_one_by_one() -> None:
    work = Work()
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()
        work.log.append("slow")

    tasks = [work.start(each) for each in (work.wait("a"), slow(), work.wait("b"))]
    asyncio.get_running_loop().call_later(0.02, gate.set)
    await run_all(*tasks)
    assert work.log == ["slow", "a continues", "a ends", "b continues", "b ends"]


@pytest.mark.parametrize(
    "start_wait",
    [lambda work: work.ask("held"), lambda work: work.wait("other")],
    ids=["prompt", "idle"],
)
async def test_canceled_wait_counts_as_work_until_it_ends(
    start_wait: Callable[[Work], Coroutine[Any, Any, None]],
) -> None:
    work = Work()
    busy = asyncio.Event()

    async def keep_busy() -> None:
        await busy.wait()

    work.screen.hold()
    other = work.start(keep_busy())
    canceled = work.start(start_wait(work))
    last = work.start(work.wait("last"))
    await asyncio.sleep(0.01)
    canceled.cancel()
    await asyncio.sleep(0.01)
    assert work.log == []
    busy.set()
    await run_all(other, last)
    assert work.log == ["last continues", "last ends"]
