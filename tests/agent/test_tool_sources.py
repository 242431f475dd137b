"""Tool sources: start, list, fail, close."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.agent.offered_tools.tool_set import offer_tools
from jp_nb.agent.offered_tools.tool_sources import ToolSources
from jp_nb.errors import ToolSourceError
from jp_nb.session.resolution.resolver import LOCAL_TOOL_SOURCES
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.command_tools.command import CommandTools
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.tools import configured
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import until


class Echo(Tool):
    """A tool of a server that returns its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schema = {"type": "object", "properties": {}}

    async def run(
        self, arguments: Mapping[str, object], context: jp.ToolContext, cell: Any
    ) -> jp.Outcome:
        return jp.Success(f"{self.name} was here.")


@dataclass(eq=False)
class Server(ToolSource):
    """A source like a server. Two with the same `address` are equal.

    Attributes:
        happened: The operations so far.
        starts: Set when it may start.
        fails: The operations that fail, with their errors.
    """

    name: str = "mcp.books"
    address: str = "a"
    tools: tuple[str, ...] = ("search", "read")
    happened: list[str] = field(default_factory=list)
    starts: asyncio.Event | None = None
    fails: dict[str, BaseException] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Server) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    async def start(self) -> None:
        await self._do("start")
        if self.starts is not None:
            await self.starts.wait()

    async def list(self, wanted: Mapping[str, Any]) -> Mapping[str, Tool]:
        await self._do("list")
        asked = [(name, tool.source or "") for name, tool in wanted.items()]
        own = {name: source.removeprefix(f"{self.name}.") for name, source in asked}
        return {name: Echo(each) for name, each in own.items() if each in self.tools}

    async def close(self) -> None:
        await self._do("close")

    async def _do(self, what: str) -> None:
        self.happened.append(what)
        await asyncio.sleep(0)
        if what in self.fails:
            raise self.fails[what]


def config_of(**tools: str) -> Any:
    """A configuration of `tools` with their sources."""
    partial: dict[str, Any] = {
        "conversation": {"tools": {name: {"source": source} for name, source in tools.items()}}
    }
    return configured(partial)


BOOKS = config_of(search="mcp.books.search", fetch="mcp.books.burn", pay="mcp.bank.pay")


async def offer(sources: ToolSources, config: Any = BOOKS) -> Any:
    return await offer_tools(config, sources)


def make_sources(*servers: ToolSource) -> ToolSources:
    return ToolSources(lambda _: (*LOCAL_TOOL_SOURCES, *servers))


async def test_source_starts_once_and_closes_at_the_end() -> None:
    books = Server()
    bank = Server("mcp.bank", "b", ("pay",))
    sources = make_sources(books, bank)
    assert books.happened == []
    tools = await offer(sources)
    assert {"search", "pay", "ask_user"} <= tools.tools.keys()
    assert tools.tools["search"].run == "ask"
    assert tools.missing == {"fetch": "the source 'mcp.books.burn' has no tool of this name"}
    assert tools.problems == ()
    await offer(sources)
    assert books.happened == ["start", "list", "list"]
    await sources.aclose()
    await sources.aclose()
    assert (books.happened[3:], bank.happened[3:]) == (["close"], ["close"])
    await offer(sources)
    assert books.happened[4:] == ["start", "list"]


async def test_source_without_wanted_tools_does_not_start() -> None:
    books = Server()
    sources = make_sources(books)
    await offer(sources, config_of(pay="local"))
    await sources.aclose()
    assert books.happened == []


async def test_missing_source_is_named() -> None:
    tools = await offer(make_sources(Server()))
    assert tools.missing["pay"] == "the source 'mcp.bank.pay' has no tool of this name"


async def test_sources_are_listed_in_parallel() -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    books = Server(starts=gates[0])
    bank = Server("mcp.bank", "b", ("pay",), starts=gates[1])
    task = asyncio.create_task(offer(make_sources(books, bank)))
    await until(lambda: books.happened and bank.happened)
    for gate in gates:
        gate.set()
    assert {"search", "pay"} <= (await task).tools.keys()


@pytest.mark.parametrize(
    ("what", "error", "told"),
    [
        ("start", OSError("no such program"), "did not start: OSError: no such program"),
        ("start", TimeoutError("slow"), "did not start: TimeoutError: slow"),
        ("list", ValueError("half a line"), "did not list its tools: ValueError: half a line"),
        ("list", asyncio.CancelledError(), "did not list its tools: CancelledError"),
    ],
)
async def test_failing_source_is_named_closed_and_tried_again(
    what: str, error: BaseException, told: str
) -> None:
    books = Server(fails={what: error})
    bank = Server("mcp.bank", "b", ("pay",))
    sources = make_sources(books, bank)
    tools = await offer(sources)
    problem = f"the tool source 'mcp.books' {told}"
    assert tools.problems == (problem,)
    assert tools.missing == {"search": problem, "fetch": problem}
    assert {"pay", "ask_user"} <= tools.tools.keys()
    assert books.happened[-1] == "close"
    books.fails.clear()  # it is tried again
    assert "search" in (await offer(sources)).tools
    assert bank.happened == ["start", "list", "list"]


async def test_slow_source_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "start_timeout_s", 0.02)
    books = Server(starts=asyncio.Event())
    tools = await offer(make_sources(books, Server("mcp.bank", "b", ("pay",))))
    assert tools.problems == (
        "the tool source 'mcp.books' did not start: no response within 0.02 s",
    )
    assert "pay" in tools.tools
    assert books.happened == ["start", "close"]


async def test_source_without_a_time_limit_starts_when_it_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Server, "start_timeout_s", 0)
    books = Server(starts=asyncio.Event())
    offering = asyncio.create_task(offer(make_sources(books)))
    await until(lambda: books.happened)
    assert books.starts is not None
    books.starts.set()
    assert "search" in (await offering).tools


async def test_failure_in_a_group_of_exceptions_is_told_by_its_first_exception() -> None:
    inner = ExceptionGroup("inner", [OSError("no such program"), ValueError("later")])
    books = Server(fails={"start": BaseExceptionGroup("unhandled errors in a TaskGroup", [inner])})
    tools = await offer(make_sources(books))
    assert tools.problems == (
        "the tool source 'mcp.books' did not start: OSError: no such program",
    )


async def test_failure_of_a_required_source_is_kept_apart() -> None:
    books = Server(fails={"start": ToolSourceError("the server books ended: npx books")})
    books.is_required = True
    bank = Server("mcp.bank", "b", ("pay",), fails={"start": OSError("gone")})
    tools = await offer(make_sources(books, bank))
    assert tools.failures == ("the server books ended: npx books",)
    assert tools.problems == ("the tool source 'mcp.bank' did not start: OSError: gone",)


@pytest.mark.parametrize("how", [OSError("stuck"), asyncio.CancelledError()])
async def test_source_that_does_not_close_delays_no_other(
    caplog: pytest.LogCaptureFixture, how: BaseException
) -> None:
    books = Server(fails={"close": how})
    bank = Server("mcp.bank", "b", ("pay",))
    sources = make_sources(books, bank)
    await offer(sources)
    await sources.aclose()
    assert bank.happened[-1] == "close"
    assert "'mcp.books' did not close" in caplog.text


async def test_sources_are_closed_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    books = Server()
    bank = Server("mcp.bank", "b", ("pay",))
    sources = make_sources(books, bank)
    await offer(sources)

    async def hang() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(books, "close", hang)
    closing = asyncio.create_task(sources.aclose())
    await until(lambda: bank.happened[-1] == "close")
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_changed_source_replaces_the_running_one() -> None:
    now: list[Sequence[ToolSource]] = []
    sources = ToolSources(lambda _: now[-1])
    first = Server()
    same = Server()
    other = Server(address="elsewhere", tools=("read",))
    now.append([first])
    await offer(sources)
    now.append([same])
    await offer(sources)
    assert (first.happened, same.happened) == (["start", "list", "list"], [])
    now.append([other])
    tools = await offer(sources)
    assert first.happened[3:] == ["close"]
    assert other.happened == ["start", "list"]
    assert "search" in tools.missing
    now.append([])
    await offer(sources)
    assert other.happened[2:] == ["close"]


async def test_cancellation_during_the_start_closes_the_source() -> None:
    books = Server(starts=asyncio.Event())
    sources = make_sources(books)
    task = asyncio.create_task(offer(sources))
    await until(lambda: books.happened)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert books.happened == ["start", "close"]
    books.starts = None
    assert "search" in (await offer(sources)).tools


def make_bench(source: ToolSource, *scripts: list[Any]) -> TurnBench:
    """A turn with a tool `search` of `source`, and a command `t`."""
    tools: dict[str, Any] = {
        "search": {"source": "mcp.books.search", "run": "unattended"},
        "t": {"source": "local", "command": {"program": "true"}, "run": "unattended"},
    }
    sources = ToolSources(lambda _: (CommandTools(), source))
    return TurnBench(list(scripts), config={"conversation": {"tools": tools}}, sources=sources)


async def test_turn_runs_the_tools_of_a_source() -> None:
    bench = make_bench(Server(), reply(call("search", "c0")), DONE)
    await bench.run()
    assert [made.content for made in bench.turn.tool_calls] == ["search was here."]


async def test_turn_names_a_failed_source_once_and_continues() -> None:
    bench = make_bench(Server(fails={"start": OSError("gone")}), reply(call("t", "c0")), DONE)
    await bench.run()
    assert bench.turn.text == "Done."
    assert [event.text for event in bench.shown_of("notice")] == [
        "⚠ the tool source 'mcp.books' did not start: OSError: gone. Its tools are not available."
    ]


async def test_interrupt_ends_a_turn_that_waits_for_a_source() -> None:
    books = Server(starts=asyncio.Event())
    bench = make_bench(books, DONE)
    task = asyncio.create_task(bench.run())
    await until(lambda: books.happened)
    bench.loop.interrupt()
    assert (await task).status == "interrupted"
    assert books.happened == ["start", "close"]
    assert bench.entries == []


async def test_interrupt_right_after_the_sources_answered_is_not_lost() -> None:
    bench = make_bench(Server(), DONE)
    resolve = bench.loop.resolve

    async def interrupted() -> Any:
        resolved = await resolve()
        asyncio.get_running_loop().call_soon(bench.loop.interrupt)  # before the turn continues
        return resolved

    bench.loop.resolve = interrupted
    assert (await bench.run()).status == "interrupted"
    assert bench.provider.requests == []
