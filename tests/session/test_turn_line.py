"""Turns of several threads: one at a time, each thread with its own answer.

The server repeats the request in its answer, so that a mixed answer shows. Choices come from a
seed; the moments are those of the machine.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from jp_nb.session.threads import turn_line
from tests.kit.questions import answered
from tests.kit.sessions import current_session, directive
from tests.support.fake_host import FakeHost
from tests.support.fakes import FakePrompter
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall

THREADS = 8
OUTCOMES: list[object] = []
"""The results of the queries that a tool made."""
KINDS = ("plain", "slow", "def_tool", "async_tool", "thread_tool", "question", "failure")
WAYS = ("pool", "gather", "loops", "threads")


def answer(request: Received) -> Reply:
    """Answer with the text of the request, after the tool that it names was called."""
    messages = request.body["messages"]
    asked = [each["content"] for each in messages if each["role"] == "user"][-1]
    kind = asked.split()[0]
    if kind == "failure":
        return Reply(status=400, message=f"no answer to {asked}")
    offered = [tool["function"]["name"] for tool in request.body.get("tools", [])]
    if kind in offered and messages[-1]["role"] != "tool":
        return Reply(tool_calls=(ToolCall(kind),))
    pause = 0.002 if kind == "slow" else 0.0
    return Reply(f"answer to {asked}", pause=pause)


def def_tool() -> str:
    """Work in the thread of the cell."""
    time.sleep(0.005)
    return "done"


async def async_tool() -> str:
    """Work in the agent's thread."""
    await asyncio.sleep(0.005)
    return "done"


def thread_tool() -> str:
    """Work in a worker thread."""
    time.sleep(0.005)
    return "done"


def question(ctx: jp.ToolContext) -> jp.Outcome:
    """Ask the user."""
    if "sure" not in ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
    return jp.Success("done")


async def decide() -> Any:
    await asyncio.sleep(0.005)
    return answered(True, "form")


@pytest.fixture
def session(bare_folder: Path) -> Iterator[Session]:
    jp.tool(def_tool)
    jp.tool(async_tool)
    jp.tool(thread=True)(thread_tool)
    jp.tool(question)
    prompter = FakePrompter(*[decide] * 1000)
    with LoopbackServer(answer) as server:
        opened = Session(FakeHost(prompter))
        opened.configure(
            directive("cfg", f"providers.llm.openai.base_url={server.url}"),
            directive("cfg", "assistant.request.max_retries=0"),
            model="openai/m",
        )
        with current_session(opened):
            yield opened
        opened.close()


def query(text: str) -> str:
    """Return the answer, or how the request ended."""
    try:
        turn = jp.query(text)
    except jp.ProviderError as exc:
        return str(exc)
    except KeyboardInterrupt:
        return "interrupted"
    assert turn.request == text
    return turn.text


def query_all(way: str, texts: list[str]) -> list[str]:
    """Send each text from a thread of its own, in one of the ways that users start threads."""
    if way == "pool":
        with ThreadPoolExecutor(THREADS) as pool:
            return [*pool.map(query, texts)]

    if way == "gather":

        async def gather() -> list[str]:
            return await asyncio.gather(*(asyncio.to_thread(query, text) for text in texts))

        return asyncio.run(gather())

    found: dict[str, str] = {}

    async def query_in_loop(text: str) -> None:
        await asyncio.sleep(0)
        found[text] = query(text)

    def work(text: str) -> None:
        if way == "loops":  # as the workers of Dask
            asyncio.run(query_in_loop(text))
        else:
            found[text] = query(text)

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[text] for text in texts]


def check_seed(session: Session, seed: int) -> None:
    random = Random(seed)
    session.conversations.new(keep_config=True)
    texts = [f"{random.choice(KINDS)} {seed}.{number}" for number in range(THREADS)]
    interrupts = threading.Timer(random.uniform(0, 0.3), session.interrupt_threads)
    is_interrupted = random.random() < 0.3
    if is_interrupted:
        interrupts.start()

    answers = query_all(random.choice(WAYS), texts)
    interrupts.cancel()
    if is_interrupted:
        interrupts.join(60)

    for text, got in zip(texts, answers, strict=True):
        if got == "interrupted":
            assert is_interrupted, text
        elif text.startswith("failure"):
            assert f"no answer to {text}" in got, text
        else:
            assert got == f"answer to {text}"

    sent = [text for text, got in zip(texts, answers, strict=True) if got != "interrupted"]
    recorded = [turn.request for turn in jp.conversation().turns]
    assert len(set(recorded)) == len(recorded), "a request twice"
    assert set(sent) <= set(recorded) <= set(texts)
    assert not session.document.conversation.repair(), "the record needed repair"


def test_threads_get_their_own_answers(session: Session) -> None:
    for seed in range(20):
        check_seed(session, seed)


@pytest.mark.deep
def test_threads_get_their_own_answers_for_many_seeds(session: Session) -> None:
    for seed in range(20, 220):
        check_seed(session, seed)


def test_threads_run_in_the_order_of_their_calls(session: Session) -> None:
    texts = [f"slow {number}" for number in range(THREADS)]
    threads = [threading.Thread(target=query, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
        time.sleep(0.02)  # the order of the calls
    for thread in threads:
        thread.join(60)
    assert [turn.request for turn in jp.conversation().turns] == texts


def attempt(function: Callable[[], object]) -> None:
    """Keep the result of `function` or its error in `OUTCOMES`."""
    try:
        OUTCOMES.append(function())
    except jp.UsageError as exc:
        OUTCOMES.append(exc)


def ask_in_def() -> str:
    """Query in the cell's thread."""
    attempt(lambda: jp.query("inner"))
    attempt(lambda: jp.call("def_tool"))
    return "done"


async def ask_in_async() -> str:
    """Query in the agent's thread, and in its pool."""
    attempt(lambda: jp.query("inner"))
    await asyncio.to_thread(attempt, lambda: jp.query("inner"))
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, attempt, lambda: jp.query("inner"))
    return "done"


def ask_in_gathering_def() -> str:
    """Query in threads of the tool's own event loop."""

    async def gather() -> None:
        inner = [asyncio.to_thread(attempt, lambda: jp.query("inner")) for _ in range(2)]
        await asyncio.gather(*inner)

    asyncio.run(gather())
    return "done"


@pytest.mark.parametrize(
    ("function", "in_thread", "attempts"),
    [
        (ask_in_def, False, 2),
        (ask_in_def, True, 2),
        (ask_in_async, False, 3),
        (ask_in_gathering_def, False, 2),
        (ask_in_gathering_def, True, 2),
    ],
)
def test_turn_inside_of_a_tool_is_refused(
    session: Session, function: Callable[..., Any], in_thread: bool, attempts: int
) -> None:
    OUTCOMES.clear()
    jp.tool(thread=in_thread)(function)
    assert query(f"{function.__name__} now") == f"answer to {function.__name__} now"
    assert len(OUTCOMES) == attempts
    for refused in OUTCOMES:
        assert isinstance(refused, jp.UsageError)
        assert "cannot start inside of a tool" in str(refused)
        assert "jp.ask" in str(refused)
    assert [turn.request for turn in jp.conversation().turns] == [f"{function.__name__} now"]


def ask_in_pool() -> str:
    """Query in a pool, and wait for it."""
    with ThreadPoolExecutor(2) as pool:
        [*pool.map(attempt, [lambda: jp.query("inner")] * 2)]
    return "done"


def ask_in_new_thread() -> str:
    """Query in a new thread, and wait for it."""
    thread = threading.Thread(target=attempt, args=(lambda: jp.query("inner"),))
    thread.start()
    thread.join()
    return "done"


@pytest.mark.parametrize("function", [ask_in_pool, ask_in_new_thread])
@pytest.mark.parametrize("in_thread", [False, True])
def test_turn_for_which_a_tool_waits_is_refused(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[[], str],
    in_thread: bool,
) -> None:
    monkeypatch.setattr(turn_line, "MAX_BLOCKED_S", 0.3)
    OUTCOMES.clear()
    jp.tool(thread=in_thread)(function)
    assert query(f"{function.__name__} now") == f"answer to {function.__name__} now"
    assert OUTCOMES
    for refused in OUTCOMES:
        assert isinstance(refused, jp.UsageError)
        assert "the tool may wait for it" in str(refused)


def test_turn_of_another_thread_waits_for_a_long_tool(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_line, "MAX_BLOCKED_S", 0.1)
    runs = threading.Event()

    def long_tool() -> str:
        """Compute in the cell's thread."""
        runs.set()
        time.sleep(0.5)
        return "done"

    jp.tool(long_tool)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(query, "long_tool now")
        assert runs.wait(10)
        second = pool.submit(query, "plain one")
        assert (first.result(), second.result()) == (
            "answer to long_tool now",
            "answer to plain one",
        )


def test_interrupt_ends_the_running_and_the_waiting_turns(session: Session) -> None:
    streams = threading.Event()

    async def wait_forever() -> str:
        """Wait."""
        streams.set()
        await asyncio.sleep(60)
        return "never"

    jp.tool(wait_forever)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(query, "wait_forever now")
        assert streams.wait(10)
        others = [pool.submit(query, f"plain {number}") for number in range(3)]
        time.sleep(0.1)
        session.interrupt_threads()
        assert [each.result(10) for each in [first, *others]] == ["interrupted"] * 4
    assert query("plain again") == "answer to plain again"
    requests = [turn.request for turn in jp.conversation().turns]
    assert requests == ["wait_forever now", "plain again"]


def test_command_is_refused_while_another_thread_prepares_its_turn(session: Session) -> None:
    prepares = threading.Event()
    goes_on = threading.Event()

    class Slow:
        def __repr__(self) -> str:
            prepares.set()
            goes_on.wait(10)
            return "slow"

    session.host.namespace["value"] = Slow()
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(lambda: jp.query("plain {{value}}", interpolate=True))
        assert prepares.wait(10)
        with pytest.raises(jp.UsageError, match="a turn is still running"):
            session.conversations.new()
        with pytest.raises(jp.UsageError, match="a turn is still running"):
            session.configure(directive("cfg", "assistant.name=Nell"))
        goes_on.set()
        assert turn.result().text == "answer to plain slow"


def test_questions_of_several_threads_are_asked_one_after_the_other(session: Session) -> None:
    def ask(number: int) -> object:
        return jp.ask(jp.Question.boolean(f"q{number}", f"Sure about {number}?"))

    with ThreadPoolExecutor(THREADS) as pool:
        assert [*pool.map(ask, range(THREADS))] == [True] * THREADS
    prompter = session.turns.runner.front_end.prompter
    assert isinstance(prompter, FakePrompter)
    assert prompter.most_at_once == 1


def test_first_queries_of_a_session_from_many_threads_share_one_runner(bare_folder: Path) -> None:
    made: list[object] = []

    class SlowHost(FakeHost):
        def make_front_end(self, *args: Any) -> Any:
            made.append(args)
            time.sleep(0.05)  # the other threads come meanwhile
            return super().make_front_end(*args)

    begin = threading.Barrier(THREADS)
    opened = Session(SlowHost(FakePrompter()))

    def get_runner(_: int) -> object:
        begin.wait(10)
        return opened.turns

    with ThreadPoolExecutor(THREADS) as pool:
        runners = [*pool.map(get_runner, range(THREADS))]
    assert len(made) == len({*map(id, runners)}) == 1
    opened.close()


def test_interrupt_reaches_a_thread_that_becomes_the_first_at_the_same_time() -> None:
    line = turn_line.TurnLine()
    runs = threading.Event()
    waits = threading.Event()
    goes_on = threading.Event()

    def run_until_told() -> None:
        runs.set()
        assert waits.wait(10)

    def pause_waiting_thread() -> dict[object, int]:
        """Stop the second thread behind its look at the interrupt."""
        if threading.current_thread() is not threading.main_thread():
            waits.set()
            assert goes_on.wait(10)
        return {}

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(line.run, run_until_told)
        assert runs.wait(10)
        line.find_tool_threads = pause_waiting_thread
        second = pool.submit(line.run, lambda: "ran")
        assert waits.wait(10)
        line.interrupt()
        first.result(10)
        goes_on.set()
        with pytest.raises(KeyboardInterrupt, match="Interrupted while"):
            second.result(10)
    assert line.run(lambda: "ran") == "ran"
