"""The queue of the cell's thread: calls, jobs, timers, and interrupts."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import count
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Any

import pytest

from jp_nb.session.threads import cell_loop
from jp_nb.session.threads.cell_loop import CellLoop
from jp_nb.toolkit.cell_thread import CallInterrupted, ControlFlowError
from tests.support.interrupts import interrupt_at_step


class Agent:
    """An event loop in a separate thread, like the one of the agent."""

    def __init__(self, cell: CellLoop) -> None:
        self.cell = cell
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def start(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        future.add_done_callback(lambda _: self.cell.wake())
        return future

    def serve(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = self.start(work)
        self.cell.serve(future.done)
        return future.result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def cell() -> CellLoop:
    return CellLoop()


@pytest.fixture
def agent(cell: CellLoop) -> Iterator[Agent]:
    started = Agent(cell)
    yield started
    started.close()


def interrupt_main_thread_in(seconds: float) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def raises(exc: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise exc

    return function


def test_call_runs_on_the_serving_thread(cell: CellLoop, agent: Agent) -> None:
    assert agent.serve(cell.call(threading.get_ident)) == threading.get_ident()


def test_call_raises_the_exception_of_the_function(cell: CellLoop, agent: Agent) -> None:
    with pytest.raises(ZeroDivisionError):
        agent.serve(cell.call(lambda: 1 / 0))


def test_exceptions_that_would_end_the_agent_loop_are_wrapped(
    cell: CellLoop, agent: Agent, subtests: pytest.Subtests
) -> None:
    rows: list[BaseException] = [SystemExit("bye"), StopIteration(), asyncio.CancelledError()]
    for exc in rows:
        with subtests.test(exc=exc):
            with pytest.raises(CallInterrupted) as caught:
                agent.serve(cell.call(raises(exc)))
            assert caught.value.__cause__ is exc


def test_interrupt_in_a_tool_reaches_cell_and_agent(cell: CellLoop, agent: Agent) -> None:
    turn = agent.start(cell.call(lambda: signal.raise_signal(signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt):
        cell.serve(turn.done)
    with pytest.raises(CallInterrupted):
        turn.result(timeout=5)


def test_keyboard_interrupt_of_a_function_is_no_interrupt(cell: CellLoop, agent: Agent) -> None:
    raised = KeyboardInterrupt("no answer")
    with pytest.raises(ControlFlowError) as caught:
        agent.serve(cell.call(raises(raised)))
    assert caught.value.__cause__ is raised


def test_interrupt_ends_the_wait_and_loses_no_call(cell: CellLoop, agent: Agent) -> None:
    go_on = asyncio.Event()

    async def later() -> str:
        await go_on.wait()
        return await cell.call(lambda: "still here")

    turn = agent.start(later())
    cell.post(lambda: interrupt_main_thread_in(0.1))
    with pytest.raises(KeyboardInterrupt):
        cell.serve(turn.done)
    agent.loop.call_soon_threadsafe(go_on.set)  # nothing else has ended the wait until here
    cell.serve(turn.done)
    assert turn.result() == "still here"


def test_calls_run_in_order_after_posted_jobs(cell: CellLoop, agent: Agent) -> None:
    log: list[str] = []

    async def batch() -> None:
        calls = [cell.call(partial(log.append, f"call {n}")) for n in range(3)]
        cell.post(lambda: log.append("shown"))
        await asyncio.gather(*calls)

    agent.serve(batch())
    assert log == ["shown", "call 0", "call 1", "call 2"]


def test_cancelled_call_that_has_not_started_does_not_run(cell: CellLoop, agent: Agent) -> None:
    ran: list[str] = []

    async def impatient() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cell.call(lambda: ran.append("ran")), 0.05)

    agent.start(impatient()).result(timeout=5)  # the loop does not serve
    agent.serve(asyncio.sleep(0))
    assert ran == []


def test_nested_wait_runs_jobs_and_leaves_calls_queued(cell: CellLoop, agent: Agent) -> None:
    log: list[str] = []
    done = threading.Event()

    def waits() -> None:
        cell.post(lambda: log.append("shown while waiting"))
        cell.call_later(0.05, done.set)
        cell.serve(done.is_set, tools=False)
        log.append("waited")

    async def batch() -> None:
        await asyncio.gather(
            cell.call(waits),
            cell.call(lambda: log.append("second")),
            cell.call(lambda: log.append("third")),
        )

    agent.serve(batch())
    assert log == ["shown while waiting", "waited", "second", "third"]


def test_posted_jobs_have_run_when_serve_returns(cell: CellLoop, agent: Agent) -> None:
    shown: list[int] = []

    async def turn() -> None:
        for n in range(5):
            cell.post(partial(shown.append, n))

    agent.serve(turn())
    assert shown == [0, 1, 2, 3, 4]


def test_failing_job_is_logged_and_the_turn_continues(
    cell: CellLoop, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    async def turn() -> str:
        cell.post(raises(ValueError("no display")))
        return await cell.call(lambda: "done")

    with caplog.at_level(logging.ERROR):
        assert agent.serve(turn()) == "done"
    assert "no display" in caplog.text


def test_wake_up_needs_no_polling(
    cell: CellLoop, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_loop, "MAX_WAIT_S", 60.0)

    async def many() -> None:
        for _ in range(100):
            await cell.call(lambda: None)

    began = monotonic()
    agent.serve(many())
    assert monotonic() - began < 60.0  # none of them waited for MAX_WAIT_S


def test_timers_run_in_order_and_can_be_cancelled(
    cell: CellLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    now = 0.0
    monkeypatch.setattr(cell_loop, "monotonic", lambda: now)
    cell.call_later(0.06, lambda: log.append("later"))
    cell.call_later(0.02, lambda: log.append("sooner"))
    cell.call_later(0.04, lambda: log.append("never")).cancel()

    def are_over() -> bool:  # checked after all three are known, and after each of them
        nonlocal now
        now += 0.01
        return len(log) == 2

    cell.serve(are_over)
    assert log == ["sooner", "later"]
    assert now >= 0.06


def test_waiting_time_excludes_running_functions(cell: CellLoop, agent: Agent) -> None:
    log: list[str] = []

    def function() -> None:
        sleep(0.3)
        cell.post(lambda: log.append("came meanwhile"))
        log.append("function")

    started_at = monotonic()
    agent.start(cell.call(function))
    cell.call_after_idle(0.1, lambda: log.append("time is over"))
    cell.serve(lambda: "time is over" in log)
    assert log == ["function", "came meanwhile", "time is over"]
    assert cell.idle_s <= monotonic() - started_at - 0.3


def test_waiting_time_excludes_a_stopped_process(
    cell: CellLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    turns = 0
    over: list[float] = []

    class Stopped:
        """A listener whose process is stopped for an hour in each wait."""

        def wait(self, timeout: float) -> None:
            nonlocal now
            now += 3600.0

        def wake(self) -> None:
            pass

    monkeypatch.setattr(cell_loop, "monotonic", lambda: now)
    cell.set_listener(Stopped())
    cell.call_after_idle(1.0, lambda: over.append(now))

    def is_over() -> bool:
        nonlocal turns
        turns += 1
        return bool(over)

    cell.serve(is_over)
    assert turns > 1.0 / cell_loop.MAX_WAIT_S


def test_pending_messages_are_handled_before_the_waiting_time_ends(cell: CellLoop) -> None:
    log: list[str] = []

    class Socket:
        """A listener that reads one message in each wait, as ipykernel 6 does."""

        unread = 3

        def wait(self, timeout: float) -> None:
            if self.unread:
                self.unread -= 1
                cell.post(lambda: log.append("message"))

        def wake(self) -> None:
            pass

    cell.set_listener(Socket())
    cell.call_after_idle(0.0, lambda: log.append("time is over"))
    cell.serve(lambda: "time is over" in log)
    assert log == ["message"] * 3 + ["time is over"]


def test_redirected_interrupt_is_used_once(
    cell: CellLoop,
) -> None:
    log: list[str] = []
    cell.interrupts.on_interrupt = lambda: log.append("heard")
    cell.replace_next_interrupt(lambda: log.append("taken"))
    interrupt_main_thread_in(0.1)
    cell.serve(lambda: bool(log))
    assert log == ["taken"]
    interrupt_main_thread_in(0.1)
    with pytest.raises(KeyboardInterrupt):
        cell.serve(lambda: False)
    assert log == ["taken", "heard"]


@pytest.mark.parametrize("ours", [False, True])
def test_internal_interrupt_is_raised_and_not_reported(cell: CellLoop, ours: bool) -> None:
    heard: list[bool] = []

    def wait(is_ours: bool) -> None:
        with cell.interrupts.allow(lambda: is_ours):
            interrupt_main_thread_in(0.1)
            sleep(30)

    cell.interrupts.on_interrupt = lambda: heard.append(True)
    with cell.interrupts.defer():
        with pytest.raises(KeyboardInterrupt):
            wait(ours)
        assert heard == ([] if ours else [True])
        with pytest.raises(KeyboardInterrupt):
            wait(False)
    assert heard == [True] * (1 if ours else 2)


def test_interrupt_at_any_step_of_deferring_leaves_the_next_one_deferred(cell: CellLoop) -> None:
    interrupts = cell.interrupts

    def defer() -> None:
        with interrupts.defer():
            pass

    deferred = 0

    def interrupt_deferred() -> None:
        nonlocal deferred
        with interrupts.defer():
            signal.raise_signal(signal.SIGINT)
            deferred += 1

    for number in count(1):
        interrupted = False
        try:
            is_last = not interrupt_at_step(number, defer)
        except KeyboardInterrupt:
            is_last = False
            interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as ipykernel, for each cell
        assert not interrupts.deferring
        with pytest.raises(KeyboardInterrupt):
            interrupt_deferred()
        if is_last:
            break
        assert interrupted
    assert deferred == number > 10


def test_many_interrupts_lose_no_call(cell: CellLoop, agent: Agent) -> None:
    count = 300

    async def many() -> int:
        calls = (cell.call(lambda: sleep(0.0005)) for _ in range(count))
        ends = await asyncio.gather(*calls, return_exceptions=True)
        return sum(end is None or isinstance(end, CallInterrupted) for end in ends)

    turn = agent.start(many())
    caught: SimpleQueue[bool] = SimpleQueue()
    main = threading.get_ident()

    def disturb() -> None:  # one interrupt for each attempt: none arrives while nothing catches it
        while caught.get():
            sleep(0.005)
            signal.pthread_kill(main, signal.SIGINT)

    storm = threading.Thread(target=disturb, daemon=True)
    storm.start()
    interrupts = 0
    while not turn.done():
        try:
            caught.put(True)
            cell.serve(turn.done)
            while True:  # the last interrupt is still to come
                sleep(1)
        except KeyboardInterrupt:
            interrupts += 1
    caught.put(False)
    storm.join()
    assert turn.result() == count
    assert interrupts > 0
