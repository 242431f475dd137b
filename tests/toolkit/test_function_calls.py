"""Tests of calls of Python tools: awaitable results, exceptions that end more than a call."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.toolkit.function_tools.tool_advice import suggest_improvements
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import InlineCell

Function = Callable[..., Any]


async def row(number: int) -> str:
    """Return a row of the table, after a moment."""
    await asyncio.sleep(0.001)
    return f"row {number}"


def logged(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Row:
    """An object that is awaited."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __await__(self) -> Generator[Any, None, str]:
        return row(self.number).__await__()


@types.coroutine
def old_row(number: int) -> Generator[Any, None, str]:
    return (yield from row(number).__await__())


class Reader:
    async def __call__(self, number: int) -> str:
        return await row(number)


async def future_row(number: int) -> Any:
    return asyncio.ensure_future(row(number))


AWAITED: dict[str, Function] = {
    "wraps": logged(row),
    "wraps twice": logged(logged(row)),
    "lambda": lambda number: row(number),
    "partial": functools.partial(row),
    "partial of a wrapper": functools.partial(logged(row)),
    "object": Reader(),
    "awaitable": Row,
    "generator coroutine": lambda number: old_row(number),
    "coroutine of a coroutine": future_row,
    "forgotten await": lambda number: asyncio.sleep(0, row(number)),
    "pool": lambda number: concurrent.futures.ThreadPoolExecutor().submit(lambda: f"row {number}"),
}


def make_tool(function: Function, **options: Any) -> Any:
    @functools.wraps(function)
    def named(number: int) -> Any:
        return function(number)

    is_kept = not isinstance(function, type)
    return new_tool(function if is_kept else named, name="read", **options)


class OtherThread(InlineCell):
    """A cell with another thread than the agent."""

    async def call(self, function: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(function)


async def run(tool: Any, cell: Any = None) -> jp.Outcome:
    context = jp.ToolContext(tool.name)
    outcome: jp.Outcome = await tool.run({"number": 3}, context, cell or InlineCell())
    return outcome


@pytest.mark.parametrize("kind", AWAITED)
async def test_awaitable_result_is_awaited(kind: str) -> None:
    function = AWAITED[kind]
    assert await run(make_tool(function)) == jp.Success("row 3")
    assert await run(make_tool(function), OtherThread()) == jp.Success("row 3")
    if not make_tool(function).is_async:
        assert await run(make_tool(function, thread=True)) == jp.Success("row 3")


async def test_awaitables_of_several_calls_are_awaited_together() -> None:
    met = asyncio.Barrier(3)

    async def meet() -> str:
        await met.wait()
        return "met"

    tool = new_tool(logged(meet), name="meet")
    bench = TurnBench(
        [reply(*(call("meet", f"c{n}", index=n) for n in range(3))), DONE], tools=[tool]
    )
    async with asyncio.timeout(0.9):  # a function waits longer for a result that is not recorded
        await bench.run()
    assert [response.content for response in bench.of("tool_call_response")] == ["met"] * 3


# --- results that belong to the event loop of the cell -------------------------------------------


def run_in_cell_with_loop(function: Function) -> tuple[jp.Outcome | BaseException, bool]:
    """Run a tool in a cell whose thread has a running event loop; return its outcome.

    Also return True if tasks of that loop are left.
    """
    outcome: list[jp.Outcome | BaseException] = []

    async def cell_code() -> bool:
        cell = QueueCell()
        agent = threading.Thread(target=lambda: outcome.append(asyncio.run(turn(cell))))
        agent.start()
        cell.serve(agent)
        await asyncio.sleep(0.05)  # the cell has ended: its loop continues
        return len(asyncio.all_tasks()) > 1

    async def turn(cell: Any) -> jp.Outcome | BaseException:
        try:
            return await run(new_tool(function, name="read"), cell)
        except Exception as exc:
            return exc

    left = asyncio.run(cell_code())
    return outcome[0], left


class QueueCell:
    """A cell that calls functions in its thread, without running that thread's event loop."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []
        self._wake = threading.Event()

    def serve(self, agent: threading.Thread) -> None:
        while agent.is_alive():
            self._wake.wait(0.01)
            self._wake.clear()
            while self._calls:
                self._calls.pop(0)()

    async def call(self, function: Callable[[], Any]) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def work() -> None:
            try:
                future.set_result(function())
            except BaseException as exc:
                future.set_exception(exc)

        self._calls.append(work)
        self._wake.set()
        return await asyncio.wrap_future(future)

    def release(self) -> None: ...


@pytest.mark.parametrize("make", [asyncio.create_task, asyncio.ensure_future])
def test_new_task_of_the_cells_loop_runs_where_async_tools_run(make: Function) -> None:
    outcome, left = run_in_cell_with_loop(lambda number: make(row(number)))
    assert outcome == jp.Success("row 3")
    assert not left


def test_other_future_of_the_cells_loop_is_an_error_and_does_not_run() -> None:
    ran: list[int] = []

    async def effect(number: int) -> None:
        ran.append(number)

    def gathered(number: int) -> Any:
        return asyncio.gather(effect(number), effect(number))

    outcome, left = run_in_cell_with_loop(gathered)
    assert "Future of the cell's event loop, which waits until the cell ends" in str(outcome)
    assert not left
    assert ran == []

    def executor(number: int) -> Any:
        return asyncio.get_running_loop().run_in_executor(None, str, number)

    outcome, _ = run_in_cell_with_loop(executor)
    assert "async def" in str(outcome)


@pytest.mark.parametrize("limit", [None, 60.0])
def test_wait_for_the_cells_loop_ends_with_the_reason(limit: float | None) -> None:
    def waits(number: int) -> Any:
        loop = asyncio.get_running_loop()
        return asyncio.run_coroutine_threadsafe(row(number), loop).result(limit)

    outcome, left = run_in_cell_with_loop(waits)
    assert "the tool waits for the event loop of the cell" in str(outcome)
    assert "async def" in str(outcome)
    assert not left


def test_coroutine_for_which_no_tool_waits_runs_after_the_cell() -> None:
    ran: list[int] = []

    async def effect() -> None:
        ran.append(1)

    def schedules(number: int) -> str:
        asyncio.run_coroutine_threadsafe(effect(), asyncio.get_running_loop())
        threading.Event().wait(0.7)
        return "scheduled"

    outcome, _ = run_in_cell_with_loop(schedules)
    assert outcome == jp.Success("scheduled")
    assert ran == [1]


def run_in_new_loop(later: Any) -> Any:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(later)
    finally:
        loop.close()


def test_event_loop_in_a_def_tool_names_the_ways_out(subtests: pytest.Subtests) -> None:
    rows: list[Callable[[Any], Any]] = [
        asyncio.run,
        lambda later: asyncio.get_event_loop().run_until_complete(later),
        lambda later: asyncio.Runner().run(later),
        run_in_new_loop,
    ]
    for function in rows:
        with subtests.test(function=function):

            def use(number: int) -> Any:
                later = row(number)
                try:
                    return function(later)
                finally:
                    later.close()

            outcome, _ = run_in_cell_with_loop(use)
            assert isinstance(outcome, RuntimeError)
            assert "thread=True" in "".join(outcome.__notes__)


# --- exceptions ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["def", "async", "thread", "awaited"])
@pytest.mark.parametrize(
    "raised",
    [StopIteration("a"), StopAsyncIteration("b"), GeneratorExit("c"), SystemExit(3)],
    ids=lambda raised: type(raised).__name__,
)
async def test_exception_of_a_tool_is_named_as_what_it_is(kind: str, raised: BaseException) -> None:
    def fail() -> str:
        raise raised

    async def fail_later() -> str:
        await asyncio.sleep(0)
        raise raised

    function = {"async": fail_later, "awaited": logged(fail_later)}.get(kind, fail)
    tool = new_tool(function, name="t", thread=kind == "thread")
    bench = TurnBench([reply(call("t")), DONE], tools=[tool])
    end = await bench.run()
    [response] = bench.of("tool_call_response")
    assert response.content == f"{type(raised).__name__}: {raised}"
    assert response.is_error
    assert end.status == "completed"


@pytest.mark.parametrize("kind", ["def", "async", "thread"])
async def test_error_keeps_the_error_that_was_being_handled(kind: str) -> None:
    def fail(number: int) -> str:
        names: dict[int, str] = {}
        try:
            return names[number]
        except KeyError:
            raise RuntimeError("no such row")  # noqa: B904 - as users write it

    async def fail_later(number: int) -> str:
        return fail(number)

    function = fail_later if kind == "async" else fail
    with pytest.raises(RuntimeError, match="no such row") as info:
        await run(new_tool(function, name="t", thread=kind == "thread"))
    assert isinstance(info.value.__context__, KeyError)
    assert not info.value.__suppress_context__


async def test_advice_in_an_exception_reaches_the_model() -> None:
    async def nested() -> str:
        later = row(1)
        try:
            return asyncio.run(later)
        finally:
            later.close()

    bench = TurnBench([reply(call("nested")), DONE], tools=[new_tool(nested)])
    await bench.run()
    [response] = bench.of("tool_call_response")
    assert response.content.endswith("already runs in an event loop. Use `await`")


# --- generators ----------------------------------------------------------------------------


def test_generator_function_gets_advice() -> None:
    def rows(number: int) -> Iterator[int]:
        """Rows."""
        yield number

    async def later(number: int) -> AsyncIterator[int]:
        """Rows."""
        yield number

    async def plain(number: int) -> Awaitable[int]:
        """Rows."""
        return asyncio.sleep(0, number)

    for function, is_generator in ((rows, True), (later, True), (plain, False)):
        advice = " ".join(suggest_improvements(new_tool(function)))
        assert ("it is a generator function" in advice) == is_generator
