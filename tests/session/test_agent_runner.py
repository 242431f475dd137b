"""The agent's thread, and the wait of the cell's thread for it."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from jp_nb.session.threads import agent_thread
from tests.kit.sessions import directive
from tests.kit.tool_sources import discovered_source
from tests.support.fake_host import FakeHost


@pytest.fixture
def agent() -> Iterator[agent_thread.AgentThread]:
    made = agent_thread.AgentThread()
    yield made
    made.close()


async def answer() -> int:
    return 42


def test_result_or_exception_is_returned(agent: agent_thread.AgentThread) -> None:
    async def fail() -> None:
        raise jp.ConfigError("no", path="a")

    assert agent.wait_for(answer()) == 42
    with pytest.raises(jp.ConfigError):
        agent.wait_for(fail())


def test_first_calls_at_once_start_one_thread(
    agent: agent_thread.AgentThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    make_loop = asyncio.new_event_loop

    def make_slowly() -> asyncio.AbstractEventLoop:
        made.append(make_loop())
        both_run.wait(0.2)  # passes if another thread is here too
        return made[-1]

    both_run = threading.Event()
    monkeypatch.setattr(asyncio, "new_event_loop", make_slowly)
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda _: agent.wait_for(answer()), range(4))) == [42] * 4
    assert len(made) == 1


def test_agent_thread_cannot_wait_for_itself(agent: agent_thread.AgentThread) -> None:
    async def asks() -> int:
        return agent.wait_for(answer())

    with pytest.raises(jp.UsageError, match="an `async def` tool cannot"):
        agent.wait_for(asks())


def test_blocked_thread_is_an_error(
    agent: agent_thread.AgentThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_thread, "MAX_START_S", 0.05)
    began = threading.Event()
    end = threading.Event()

    async def blocks() -> None:
        began.set()
        end.wait(20)

    blocked = agent.run(blocks())
    assert began.wait(20)
    try:
        with pytest.raises(jp.UsageError, match="still blocks"):
            agent.wait_for(answer())
    finally:
        end.set()
    blocked.result(timeout=20)
    assert agent.wait_for(answer()) == 42


def test_future_of_started_work_cannot_be_canceled(agent: agent_thread.AgentThread) -> None:
    future = agent.run(answer())

    assert not future.cancel()
    assert future.result(timeout=20) == 42


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)], ids=["error", "exit"])
def test_exception_of_started_work_is_only_in_its_future(
    agent: agent_thread.AgentThread, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    async def fail() -> None:
        raise error

    caplog.set_level("DEBUG")
    future = agent.run(fail())

    assert future.exception(timeout=20) is error
    assert agent.wait_for(answer()) == 42
    gc.collect()  # asyncio logs the exception of a lost task
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert error not in logged


def test_canceled_work_is_canceled_for_its_future_and_for_asyncio(
    agent: agent_thread.AgentThread,
) -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    async def cancel_itself() -> None:
        tasks.append(asyncio.current_task())
        raise asyncio.CancelledError

    future = agent.run(cancel_itself())

    assert isinstance(future.exception(timeout=20), asyncio.CancelledError)
    assert agent.wait_for(answer()) == 42
    [task] = tasks
    assert task is not None
    assert task.cancelled()


def test_started_work_runs_in_the_context_of_the_caller(agent: agent_thread.AgentThread) -> None:
    cell = ContextVar("cell", default="none")

    async def read_cell() -> str:
        return cell.get()

    token = cell.set("running")
    try:
        assert agent.run(read_cell()).result(timeout=20) == "running"
    finally:
        cell.reset(token)


def test_started_work_is_not_lost_while_it_waits(agent: agent_thread.AgentThread) -> None:
    waiting: list[weakref.ref[asyncio.Event]] = []
    begun = threading.Event()

    async def wait() -> int:
        event = asyncio.Event()  # only this coroutine refers to it, and so to its task
        waiting.append(weakref.ref(event))
        begun.set()
        await event.wait()
        return 42

    future = agent.run(wait())
    assert begun.wait(20)
    assert agent.wait_for(answer()) == 42  # the loop has reached the `await`
    gc.collect()

    event = waiting[0]()
    assert event is not None
    agent.call(event.set)
    assert future.result(timeout=20) == 42


def test_interrupt_while_waiting_cancels_the_work(agent: agent_thread.AgentThread) -> None:
    cancelled = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    async def waits() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            agent.wait_for(waits())
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.wait(20)


def test_interrupt_at_the_start_cancels_the_work(
    agent: agent_thread.AgentThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    cancelled = threading.Event()
    schedule = asyncio.run_coroutine_threadsafe

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    def interrupted(work: Any, loop: asyncio.AbstractEventLoop) -> Any:
        schedule(work, loop)
        assert begun.wait(20)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.wait_for(waits())
    assert cancelled.wait(20)


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
def test_task_that_raises_an_exit_does_not_end_the_loop(
    agent: agent_thread.AgentThread, raised: BaseException
) -> None:
    async def leave() -> None:
        raise raised

    async def work() -> str:
        [end] = await asyncio.gather(leave(), return_exceptions=True)
        return type(end).__name__

    assert agent.run(work()).result(timeout=20) == type(raised).__name__


def test_tool_sources_live_on_the_agent_thread(bare_folder: Path) -> None:
    (bare_folder / "talk.toml").write_text('[[replies]]\ntext = "one"\n')
    with discovered_source("search") as source:
        session = Session(FakeHost())
        options = [directive("tool", "mcp.books")]
        session.turns.run("Hello.", model="scripted/talk", directives=options)
        assert source.happened == ["start"]
        session.close()
    assert source.happened == ["start", "close"]
    assert source.threads == {"jp_nb agent"}
