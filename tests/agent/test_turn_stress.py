"""Hundreds of cycles of everything at once, interrupted at random.

Every choice comes from a seed. The order of events differs all the same, because tasks, threads and
processes take part: a seed gives the choices, not the order.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from time import sleep
from typing import Any, TypeVar

import psutil
import pytest

import jp_nb as jp
from tests.agent.turn_bench import MockInquiryBackend, call, reply, say
from tests.kit.kinds import is_kind, kind_of, make, select_kind
from tests.kit.models import EventProvider
from tests.kit.questions import answered, not_answered
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.entries import new_stream
from tests.support.fakes import forever

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(os.name != "posix", reason="sh, and /proc where there is one"),
]

T = TypeVar("T")
CALLS_IN_A_BATCH = 16
COMMANDS_IN_A_BATCH = 2
ABOUT = re.compile(r"#(\d+)\b")
"""The number of its call in the result of a tool, so that results are not mixed up."""


class Stuck:
    """Counts the waits that only an interrupt ends."""

    def __init__(self) -> None:
        self.count = 0

    async def forever(self) -> None:
        self.count += 1
        try:
            await forever()
        finally:
            self.count -= 1


STUCK = Stuck()

# --- tools -----------------------------------------------------------------------------------

QUESTIONS = {
    "boolean": jp.Question.boolean("sure", "Sure?"),
    "select": jp.Question.select("which", "Which?", ["this", "that"]),
    "text": jp.Question.text("why", "Why?"),
    "exclusive": jp.Question.boolean("mine", "Really?").with_exclusive(),
    "remembered": jp.Question.boolean("again", "And again?").with_persistence("turn"),
    "secret": jp.Question.secret("key", "Key?"),
}


def ends(n: int, how: str) -> Any:
    """Return or raise the outcome of a tool, by `how`."""
    match how:
        case "exception":
            raise LookupError(f"#{n} is lost")
        case "ToolError":
            raise jp.ToolError(f"#{n} is refused")
        case "exit":
            raise SystemExit(n)
        case "failure":
            return make("failure", f"#{n} failed", trace=("a", "b"))
        case "strange":
            return object()
        case "config":
            return jp.Success(f"#{n}", config={"assistant": {"name": "Mallory"}})
        case _:
            return f"#{n} is fine"


def quick(n: int, how: str = "") -> Any:
    return ends(n, how)


async def slow(n: int, how: str = "", ms: float = 0) -> Any:
    if how == "never":
        await STUCK.forever()
    await asyncio.sleep(ms / 1000)
    return ends(n, how)


def threaded(n: int, how: str = "", ms: float = 0) -> Any:
    sleep(ms / 1000)
    return ends(n, how)


def asks(n: int, questions: list[str], ctx: jp.ToolContext) -> jp.Outcome:
    for name in questions:
        question = QUESTIONS[name]
        if question.id not in ctx.answers:
            return jp.NeedsInput(question)
        assert question.misfit(ctx.answers[question.id]) is None
    return jp.Success(f"#{n} knows")


SAYS = "cat > /dev/null; echo '#{{tool.arguments.n}} is out'"
COMMANDS = {
    "says": SAYS,
    "breaks": f"{SAYS} >&2; exit 3",
    "hangs": f"{SAYS}; exec sleep 30",
    "inquires": """
case "$(cat)" in
  *'"answers":{}'*) echo '{"type":"needs_input","question":
      {"id":"sure","text":"Sure?","answer_type":{"type":"boolean"},"persistence":"turn"}}';;
  *) echo '#{{tool.arguments.n}} is out';;
esac
""",
}


def command(text: str, **settings: Any) -> dict[str, Any]:
    number = {"n": {"type": "integer", "required": True}}
    return {
        "source": "local",
        "command": {"program": "sh", "args": ["-c", text]},
        "parameters": number,
        "run": "unattended",
    } | settings


def tools() -> dict[str, Any]:
    functions: dict[str, Callable[..., Any]] = {
        "quick": quick,
        "slow": slow,
        "threaded": threaded,
        "asks": asks,
    }
    more: dict[str, Callable[..., Any]] = {
        "guarded": slow,
        "edited": quick,
        "skipped": quick,
        "delivered": slow,
    }
    more |= {"redacted": asks, "withheld": quick, "routed": asks, "fixed": asks}
    return {
        name: new_tool(function, name=name, thread=function is threaded)
        for name, function in (functions | more).items()
    }


def config(settings: Mapping[str, Any]) -> dict[str, Any]:
    routed = {question.id: {"target": "assistant"} for question in QUESTIONS.values()}
    fixed = {"sure": {"answer": True}, "which": {"answer": "other"}, "why": {"answer": "so"}}
    configured_tools: dict[str, Any] = {
        "guarded": {"run": "ask"},
        "edited": {"run": "edit"},
        "skipped": {"run": "skip"},
        "delivered": {"result": "ask", "style": {"hidden": True}},
        "redacted": {"result": "edit", "run": "ask"},
        "withheld": {"result": "skip"},
        "routed": {"questions": routed},
        "fixed": {"questions": fixed},
        **{name: command(text) for name, text in COMMANDS.items()},
    }
    configured_tools["says"]["style"] = {"parameters": "echo formatted"}
    return {"conversation": {"tools": configured_tools}, "interrupt": dict(settings)}


# --- participants --------------------------------------------------------------------------


class Model(EventProvider):
    """Calls tools at random, and sometimes fails or ends the turn.

    Attributes:
        batches: How many batches of calls it has made.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(f"model {seed}")
        self.batches = 0
        self._calls = 0

    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        random = self._random
        for piece in say(f"Cycle {self.batches}."):
            await asyncio.sleep(0)
            yield piece
        if random.random() < 0.05:
            raise jp.ProviderError("reset", kind="transient")
        if random.random() < 0.1:
            await asyncio.sleep(random.random() / 100)
        made = [] if random.random() < 0.1 else self._batch()
        for event in reply(*made):
            yield event
        self.batches += bool(made)

    def _batch(self) -> list[list[Any]]:
        commands = COMMANDS_IN_A_BATCH
        ids: list[str] = []
        made = []
        for index in range(1, CALLS_IN_A_BATCH + 1):
            name = self._random.choices([*WEIGHTS, *COMMANDS], [*WEIGHTS.values(), 2, 1, 0.2, 2])[0]
            if name in COMMANDS:
                name, commands = (name, commands - 1) if commands else ("quick", 0)
            ids.append(self._id(ids))
            made.append(call(name, ids[-1], index=index, text=self._arguments(name)))
        return made

    def _id(self, before: list[str]) -> str:
        if before and self._random.random() < 0.04:
            return self._random.choice(before)
        return f"call_{self._random.randrange(40)}"  # also those of earlier batches

    def _arguments(self, name: str) -> str:
        self._calls += 1
        random = self._random
        if random.random() < 0.04:
            return random.choice(['{"n": ', "[1]", '{"n": "many"}', '{"m": 1}'])
        arguments: dict[str, Any] = {"n": self._calls}
        if name in ("quick", "slow", "threaded", "delivered", "withheld", "guarded"):
            how = random.choice(
                ["", "", "", "exception", "ToolError", "failure", "exit", "strange", "config"]
            )
            arguments["how"] = how
        if name == "slow" and random.random() < 0.1:
            arguments["how"] = "never"
        if name in ("slow", "threaded", "delivered", "guarded"):
            arguments["ms"] = random.choice([0, 0, 1, 3])
        if name in ("asks", "redacted", "routed", "fixed"):
            arguments["questions"] = random.sample(sorted(QUESTIONS), random.randrange(1, 4))
        return json.dumps(arguments)


WEIGHTS = {
    "quick": 3, "slow": 3, "threaded": 2, "asks": 4, "guarded": 2, "edited": 1, "skipped": 0.5,
    "delivered": 1, "redacted": 1, "withheld": 0.5, "routed": 3, "fixed": 1, "nowhere": 0.5,
    "describe_tools": 0.5,
}  # fmt: skip


class OtherModel(MockInquiryBackend):
    """Answers questions of tools at random, and sometimes fails or never answers."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(f"other model {seed}")

    async def _answer(self, inquiry: Any) -> Any:
        await asyncio.sleep(self._random.choice([0, 0, 0.001, 0.003]))
        match self._random.random():
            case luck if luck < 0.15:
                raise make("inquiry_error", "no structured data")
            case luck if luck < 0.2:
                raise RuntimeError("a fault")
            case luck if luck < 0.22:
                await STUCK.forever()
        return an_answer(inquiry.question, self._random)


def an_answer(question: jp.Question, random: Random) -> Any:
    match question.answer_type.type:
        case "boolean":
            return random.random() < 0.5
        case "select":
            return random.choice(question.answer_type.fixed_texts())
        case _:
            return random.choice(["", "because", "hunter2"])


class Person:
    """A user who answers at random, or not at all until interrupted.

    Attributes:
        away: The reason why no user is available.
        most_at_once: The largest number of prompts that were shown at the same time.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(f"person {seed}")
        self.away: str | None = None
        self.menus = self.shown = self.most_at_once = 0
        self._end: asyncio.Future[Any] | None = None

    def unavailable(self) -> Any | None:
        return None if self.away is None else make("unavailable", self.away)

    def interrupt(self) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(not_answered("interrupted", "form"))

    async def ask(self, prompt: Any) -> Any:
        if not is_kind(prompt, "form_prompt"):
            return await self._ask(prompt)
        ends = []
        for page in prompt.pages:
            end = await self._ask(page)
            if not is_kind(end, "answered"):
                return end
            ends.append(end)
        return make("form_end", tuple(ends))

    def ask_in_cell(self, prompt: Any, *, keeps_record: bool) -> Any:
        raise NotImplementedError

    async def _ask(self, prompt: Any) -> Any:
        self.shown += 1
        self.most_at_once = max(self.most_at_once, self.shown)
        self._end = asyncio.get_running_loop().create_future()
        timer = None
        try:
            if self._random.random() < 0.02:
                waiting = asyncio.ensure_future(STUCK.forever())
                self._end.add_done_callback(lambda _: waiting.cancel())
            else:
                timer = self._later(prompt, self._end)
            return await self._end
        finally:
            if timer is not None:
                timer.cancel()
            self.shown -= 1

    def _later(self, prompt: Any, end: asyncio.Future[Any]) -> asyncio.TimerHandle:
        """Answer after a short wait."""
        random = self._random
        luck = random.random()
        answer: Any | Exception
        if luck < 0.05:
            how: Any = random.choice(["cancelled", "declined", "timed_out"])
            answer = not_answered(how, "form")
        elif luck < 0.055:
            answer = make("unavailable", "gone for good")
        elif luck < 0.06:
            answer = RuntimeError("the page is gone")
        else:
            remember = random.random() < 0.2
            answer = answered(self._value(prompt), "form", remember=remember)

        def give() -> None:
            if end.done():
                return
            if isinstance(answer, Exception):
                end.set_exception(answer)
            else:
                end.set_result(answer)

        moment = random.choice([0, 0, 0, 0.001])
        return asyncio.get_running_loop().call_later(moment, give)

    def _value(self, prompt: Any) -> Any:
        random = self._random
        if is_kind(prompt, "decision_prompt"):
            values = [action.value for action in prompt.actions]
            if not prompt.text.startswith("Interrupted"):
                return random.choice([*values, values[0], values[0]])
            self.menus += 1
            return random.choices(values, [4, 2, 3, 1] if "restart" in values else [6, 2, 1, 1])[0]
        assert is_kind(prompt, "question_prompt")
        question = prompt.question
        if question.id == "arguments":
            text = str(question.default)
            changed = text.replace("\n}", ',\n  "how": "ToolError"\n}')
            return random.choice([text, text, changed, "", '{"n": ', "[]"])
        return an_answer(question, random)


class Cell:
    """A cell's thread: one function at a time. An interrupt ends it and blocks the next ones."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"cell {seed}")
        self._one = asyncio.Lock()
        self._free = asyncio.Event()
        self._free.set()
        self._running: asyncio.Future[None] | None = None

    async def call(self, function: Callable[[], T]) -> T:
        async with self._one:
            await self._free.wait()
            self._running = asyncio.get_running_loop().create_future()
            if self._random.random() < 0.4:
                moment = self._random.random() / 200
                asyncio.get_running_loop().call_later(moment, _finish, self._running)
            else:
                _finish(self._running)
            try:
                await self._running
                return function()
            except SystemExit as exc:
                raise make("call_interrupted") from exc
            finally:
                self._running = None

    def interrupt(self) -> None:
        """Send an interrupt to the cell's thread."""
        self._free.clear()
        if self._running is not None and not self._running.done():
            cut = make("call_interrupted")
            cut.__cause__ = KeyboardInterrupt()
            self._running.set_exception(cut)

    def release(self) -> None:
        self._free.set()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Times:
    """A clock that advances at random between two interrupts."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"clock {seed}")
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self._random.choice([0.5, 5, 5, 5, 5, 5])
        return self._now


# --- the whole -------------------------------------------------------------------------------


class Stress:
    """Turn after turn on one conversation, until so many cycles are done."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.random = Random(f"interrupts {seed}")
        self.model, self.other = Model(seed), OtherModel(seed)
        self.person, self.cell = Person(seed), Cell(seed)
        self.clock = Times(seed)
        self.stream = new_stream()
        self.context = make("request_context")
        self.shown: list[Any] = []
        self.statuses: list[str] = []
        self.interrupts = self._turn_shown = 0
        self._shared: Any = {"root": str(folder), "conversation_id": "jp-c1"}
        self._tools = tools()

    async def run(self, cycles: int) -> None:
        while self.model.batches < cycles:
            await self._turn()

    async def _turn(self) -> None:
        self.person.away = "headless" if self.random.random() < 0.1 else None
        settings = self._settings()
        bench = TurnBench(
            [],
            tools=self._tools.values(),
            person=self.person,
            config=config(settings),
            stream=self.stream,
            shown=self.shown,
            inquiry=None if self.random.random() < 0.1 else self.other,
        )
        bench.provider = self.model
        bench.use(cell=self.cell, clock=self.clock, shared=self._shared)
        bench.loop.turn.record.context = self.context  # it grows from turn to turn
        self.cell.release()
        self._turn_shown = len(self.shown)
        turn = asyncio.ensure_future(bench.run())
        before = len(self.stream)
        disturber = asyncio.create_task(self._disturb(bench, turn))
        try:
            async with asyncio.timeout(60):
                end = await asyncio.shield(turn)
        except jp.ProviderError:
            self.statuses.append("failed")
        except TimeoutError:
            where = "\n".join(sorted(waits_at(task) for task in asyncio.all_tasks()))
            threads = "\n".join(thread_stacks())
            turn.cancel()
            number = len(self.statuses)
            stuck = f"stuck {STUCK.count}, {self.interrupts} interrupts"
            raise AssertionError(
                f"seed {self.seed}: turn {number} hangs ({stuck}):\n{where}\n{threads}"
            ) from None
        else:
            self.statuses.append(end.status)
        disturber.cancel()
        await asyncio.wait([disturber])
        self.context = (
            bench.rebuild_context(["test"]) if bench.loop.is_unanswered else bench.context
        )
        self.bench = bench
        assert not self.stream.repair(), self.stream.raw[before:]

    def _settings(self) -> dict[str, Any]:
        """Most turns show the menu for an interrupt; others have a configured action."""
        if self.random.random() < 0.7:
            return {}
        actions = ["continue", "continue", "restart", "respond", "stop"]
        return {"tool_call": {"action": self.random.choice(actions)}}

    async def _disturb(self, bench: TurnBench, turn: asyncio.Future[Any]) -> None:
        """Interrupt a few times, then only waits that would never end."""
        rest = self.random.randrange(8)
        while not turn.done():
            await asyncio.sleep(self.random.choice([0, 0.001, 0.005, 0.02]))
            if self._is_stuck() or (rest > 0 and self.random.random() < 0.2):
                for _ in range(self.random.choice([1, 1, 1, 1, 1, 1, 2, 3])):
                    rest -= 1
                    self._interrupt(bench)
                    for _ in range(self.random.randrange(4)):
                        await asyncio.sleep(0)

    def _is_stuck(self) -> bool:
        hanging = Counter[str]()
        for event in self.shown[self._turn_shown :]:
            if is_kind(event, "tool_begins", "tool_ends") and event.name == "hangs":
                hanging[kind_of(event)] += 1
        return STUCK.count > 0 or hanging["tool_begins"] > hanging["tool_ends"]

    def _interrupt(self, bench: TurnBench) -> None:
        self.interrupts += 1
        self.cell.interrupt()
        if self.random.random() < 0.5:
            bench.loop.interrupt()
        else:  # what was cut may be heard first
            asyncio.get_running_loop().call_soon(bench.loop.interrupt)

    # --- checks

    def check(self) -> None:
        assert self.person.most_at_once <= 1, "prompts overlapped"
        assert self.person.shown == 0, "a prompt was left on screen"
        assert self.other.running == 0, "an inquiry was left running"
        self._check_pairs()
        self._check_display()
        self._check_record()

    def _check_pairs(self) -> None:
        calls: list[Any] = []
        answers: list[Any] = []
        asked: list[str] = []
        closed: list[str] = []

        def settle() -> None:
            assert [c.id for c in calls] == [a.id for a in answers], "one response each, in order"
            for request, response in zip(calls, answers, strict=True):
                said = ABOUT.match(response.content)
                assert said is None or int(said[1]) == request.arguments.get("n"), "mixed up"
            calls.clear()
            answers.clear()

        entry: Any
        for entry in self.stream.entries:
            match entry.type:
                case "turn_start":
                    settle()
                    assert sorted(asked) == sorted(closed), "one response to each inquiry"
                    assert len(set(asked)) == len(asked), "an inquiry id came twice"
                    asked.clear()
                    closed.clear()
                case "tool_call_request":
                    if answers:
                        settle()
                    calls.append(entry)
                case "tool_call_response":
                    answers.append(entry)
                case "inquiry_request":
                    assert calls, "asked outside of a batch"
                    asked.append(entry.id)
                case "inquiry_response":
                    assert asked.count(entry.id) > closed.count(entry.id), "closed before asked"
                    closed.append(entry.id)
        settle()
        assert sorted(asked) == sorted(closed)

    def _check_display(self) -> None:
        def count(kind: str) -> int:
            return len(select_kind(self.shown, kind))

        responses = sum(is_kind(e, "tool_call_response") for e in self.stream.entries)
        assert count("tool_ends") >= responses, "a response that was not shown"
        assert count("tool_begins") <= count("tool_ends"), "a call that began and never ended"
        inquiries = sum(is_kind(e, "inquiry_response") for e in self.stream.entries)
        assert count("question_ends") == inquiries

    def _check_record(self) -> None:
        assert not self.bench.reload().repair(), "the record needed repair"
        rebuilt = self.bench.rebuild_context(["test"])
        assert rebuilt.items == self.context.items, "another view of it"


# --- leftovers ---------------------------------------------------------------------


def leftovers() -> set[Any]:
    """Threads, open files and children of this process."""
    gc.collect()  # or what earlier tests left closes at any time, and its numbers are used again
    threads = {thread.name for thread in threading.enumerate()}
    return {*threads, *open_files(), *psutil.Process().children(recursive=True)}


def open_files() -> Iterator[tuple[str, str]]:
    folder = "/proc/self/fd"
    for number in os.listdir(folder) if os.path.isdir(folder) else ():
        with suppress(FileNotFoundError):  # that of the listing itself
            yield number, os.readlink(f"{folder}/{number}")


def waits_at(task: asyncio.Task[Any]) -> str:
    """Return the line of each coroutine down to the awaitable of `task`."""
    lines = []
    awaited: Any = task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        lines.append(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return f"{' > '.join(lines)} > {awaited!r}"


def thread_stacks() -> Iterator[str]:
    """Yield the stack of each thread."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"{names.get(ident)}: {''.join(traceback.format_stack(frame)[-3:])}"


async def stress(seed: int, folder: Path, cycles: int) -> Stress:
    others = asyncio.all_tasks()
    await Stress(seed, folder).run(1)  # what opens once and stays
    await settled(others)
    before = leftovers()
    made = Stress(seed, folder)
    await made.run(cycles)
    await settled(others)
    assert leftovers() <= before  # of what earlier tests left, something may have ended since
    made.check()
    return made


async def settled(others: set[asyncio.Task[Any]]) -> None:
    """Wait for threads, child processes and tasks, but not for the tasks in `others`."""

    def busy() -> list[Any]:
        names = ("jp_nb tool", "asyncio-waitpid")
        threads = [t for t in threading.enumerate() if t.name.startswith(names)]
        return [*threads, *(asyncio.all_tasks() - others)]

    async with asyncio.timeout(60):
        while busy():  # noqa: ASYNC110 - threads as well
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("seed", "cycles"), [(1, 200), (2, 20), (3, 20), (4, 20)], ids=lambda value: str(value)
)
async def test_everything_at_once_with_random_interrupts(
    seed: int, cycles: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # faults are logged, and many of them are wanted
    try:
        made = await stress(seed, tmp_path, cycles)
    except BaseException as exc:
        exc.add_note(f"seed {seed}, {cycles} cycles")
        raise
    assert made.interrupts > 0, f"seed {seed}"
    assert "interrupted" in made.statuses, f"seed {seed}"
