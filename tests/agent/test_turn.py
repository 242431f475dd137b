"""The turn loop: cycles, tool calls, errors of tools, the order of the record."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import BROKEN, DONE, call, make_result_tool, reply, say
from tests.kit.kinds import is_kind
from tests.kit.models import model_event
from tests.kit.records import new_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, until, yes

NEVER_RAN = "This tool call did not run. The turn ended first."
RAN_BEFORE = (
    "This call may already have run, fully or partly, and its effects may remain. It did"
    " not run again: {}"
)


async def test_turn_is_recorded_and_ends_with_an_answer_without_calls() -> None:
    thought: list[Any] = [
        model_event("text", 0, "reasoning", "Hm."),
        model_event("flush", 0, {"signature": "s"}),
    ]
    first: list[Any] = [
        *thought,
        *say("Look", index=1)[:1],
        model_event("text", 1, "message", "ing."),
        model_event("flush", 1),
    ]
    bench = TurnBench(
        [[*first, *call("t", "c1", index=2), model_event("finished")], DONE],
        tools=[make_result_tool("sunny")],
    )
    end = await bench.run("Weather?")
    assert end.status == "completed"
    assert bench.kinds() == [
        "turn_start",
        "chat_request",
        "chat_response",
        "chat_response",
        "tool_call_request",
        "tool_call_response",
        "chat_response",
    ]
    assert bench.stream.raw[2]["reasoning"] == "Hm."
    assert bench.stream.raw[2]["metadata"] == {"signature": "s"}
    assert bench.stream.raw[3]["message"] == "Looking."
    assert bench.turn.tool_calls[0].content == "sunny"
    assert bench.turn.text == "Looking.\n\nDone."
    assert all(entry.timestamp for entry in bench.entries)
    sent = [[entry.type for entry in thread] for _, thread in bench.provider.requests]
    visible = [kind for kind in bench.kinds() if kind != "turn_start"]
    assert sent == [["chat_request"], visible[:-1]]


async def test_request_is_recorded_before_it_is_sent() -> None:
    bench: TurnBench
    kinds: list[str] = []

    async def look() -> None:
        kinds.extend(bench.kinds())

    bench = TurnBench([[look, *DONE]])
    await bench.run()
    assert kinds == ["turn_start", "chat_request"]


async def test_tool_call_is_recorded_before_the_tool_runs() -> None:
    bench: TurnBench
    kinds: list[str] = []

    def look() -> str:
        kinds.extend(bench.kinds())
        return ""

    bench = TurnBench([reply(say("Wait."), call("look")), DONE], tools=[new_tool(look)])
    await bench.run()
    assert kinds[-2:] == ["chat_response", "tool_call_request"]


async def test_nothing_is_recorded_if_the_configuration_does_not_resolve() -> None:
    bench = TurnBench([DONE], config={"assistant": {"model": {"id": "nobody/x"}}})
    with pytest.raises(jp.ConfigError):
        await bench.run()
    assert bench.kinds() == []


async def test_forced_tool_choice_applies_to_the_first_request_alone() -> None:
    scripts = [reply(call("t", "c1")), reply(call("t", "c2")), DONE]
    config: dict[str, Any] = {"assistant": {"tool_choice": "required"}}
    bench = TurnBench(scripts, tools=[make_result_tool("x")], config=config)
    await bench.run()
    choices = [request.tool_choice for request, _ in bench.provider.requests]
    assert choices == ["required", "auto", "auto"]


async def test_usage_is_summed_over_all_requests() -> None:
    first: list[Any] = [
        model_event("usage", input_tokens=5),
        model_event("usage", input_tokens=10, output_tokens=1),
        *call("t"),
    ]
    broken: list[Any] = [model_event("usage", input_tokens=3), BROKEN]
    last: list[Any] = [
        model_event("usage", input_tokens=20, cache_read_tokens=7),
        *say("Done."),
        model_event("finished"),
    ]
    bench = TurnBench(
        [[*first, model_event("finished")], broken, last], tools=[make_result_tool("x")]
    )
    end = await bench.run()
    assert end.usage == model_event("usage", input_tokens=33, output_tokens=1, cache_read_tokens=7)


@pytest.mark.deep
async def test_three_hundred_cycles_stay_as_fast_as_the_first() -> None:
    scripts = [reply(call("t", f"c{n}")) for n in range(300)]
    times: list[float] = []

    def tick() -> str:
        times.append(time.thread_time())  # not a clock: others may use the machine
        return "x"

    bench = TurnBench([*scripts, DONE], tools=[new_tool(tick, name="t")])
    bench.provider.stream = _without_snapshots(bench)  # type: ignore[method-assign]
    await bench.run()
    steps = [after - before for before, after in pairwise(times)]
    assert len(bench.of("tool_call_response")) == 300
    assert median(steps[-50:]) < 2 * median(steps[:50]) + 0.0005


def _without_snapshots(bench: TurnBench) -> Callable[..., Any]:
    """Return a stream of the scripts that keeps no copy of the thread."""
    scripts = bench.provider._scripts

    async def stream(request: Any) -> Any:
        for step in scripts.pop(0):
            yield step

    return stream


async def test_calls_run_in_parallel_and_are_recorded_in_call_order() -> None:
    order = (2, 0, 1)
    gates = [asyncio.Event() for _ in range(3)]
    started: list[int] = []

    async def wait(number: int) -> str:
        started.append(number)
        await gates[number].wait()
        return f"result {number}"

    async def open_the_gates() -> None:
        await until(lambda: len(started) == 3)
        for count, number in enumerate(order, start=1):
            gates[number].set()
            await until(lambda count=count: len(bench.shown_of("tool_ends")) == count)  # type: ignore[misc]

    calls = [call("wait", f"c{n}", index=n, text=f'{{"number": {n}}}') for n in range(3)]
    bench = TurnBench([reply(*calls), DONE], tools=[new_tool(wait)])
    await asyncio.gather(bench.run(), open_the_gates())
    assert [r.id for r in bench.of("tool_call_response")] == ["c0", "c1", "c2"]
    assert [r.content for r in bench.of("tool_call_response")] == [f"result {n}" for n in range(3)]
    assert [e.call_id for e in bench.shown_of("tool_ends")] == [f"c{n}" for n in order]


async def test_two_calls_with_one_id_each_get_their_result() -> None:
    def echo(text: str) -> str:
        return text

    calls = [
        call("echo", "", index=1, text='{"text": "a"}'),
        call("echo", "", index=2, text='{"text": "b"}'),
    ]
    bench = TurnBench([reply(*calls), DONE], tools=[new_tool(echo)])
    await bench.run()
    assert [c.content for c in bench.turn.tool_calls] == ["a", "b"]
    begun = [event.call_id for event in bench.shown_of("tool_begins")]
    assert len(set(begun)) == 2
    assert sorted(begun) == sorted(event.call_id for event in bench.shown_of("tool_ends"))


class Unprintable(Exception):  # noqa: N818 - not an error of ours
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_failed_tool_is_reported_to_the_model_and_the_turn_continues(
    subtests: pytest.Subtests,
) -> None:
    every = ["def", "async", "thread"]
    rows: list[tuple[BaseException, str, list[str]]] = [
        (jp.ToolError("Read the manual."), "Read the manual.", ["def"]),
        (ValueError("no such city"), "ValueError: no such city", ["async"]),
        (ValueError(), "ValueError", ["thread"]),
        (SystemExit(3), "SystemExit: 3", every),
        (KeyboardInterrupt(), "KeyboardInterrupt", every),
        (asyncio.CancelledError(), "The tool cancelled itself.", every),
        (Unprintable(), "Unprintable", ["async"]),
    ]
    for raised, content, kinds in rows:
        for kind in kinds:
            with subtests.test(kind=kind, raised=raised):

                def fail() -> str:
                    raise raised

                async def fail_later() -> str:
                    await asyncio.sleep(0)
                    raise raised

                function = fail_later if kind == "async" else fail
                tool = new_tool(function, name="t", thread=kind == "thread")
                bench = TurnBench([reply(call("t")), DONE], tools=[tool])
                end = await bench.run()
                [response] = bench.of("tool_call_response")
                assert (response.content, response.is_error) == (content, True)
                assert end.status == "completed"
                assert bench.turn.text == "Done."
                [shown] = bench.shown_of("tool_ends")
                expected = not isinstance(raised, jp.ToolError | asyncio.CancelledError)
                assert (shown.traceback is not None) == expected


@pytest.mark.parametrize("kind", ["def", "async", "thread"])
async def test_traceback_begins_in_the_tool(kind: str) -> None:
    def fail() -> str:
        raise ValueError("here")

    async def fail_later() -> str:
        raise ValueError("here")

    function = fail_later if kind == "async" else fail
    tool = new_tool(function, name="t", thread=kind == "thread")
    bench = TurnBench([reply(call("t")), DONE], tools=[tool])
    await bench.run()
    [shown] = bench.shown_of("tool_ends")
    lines = (shown.traceback or "").splitlines()
    files = [line for line in lines if line.startswith('  File "')]
    assert f"in {function.__name__}" in files[-1]
    if kind != "def":  # the cell of these tests is no machinery of ours
        assert len(files) == 1


BAD_ARGUMENTS = [
    ('{"city": ', "The arguments are not JSON: "),
    ("[1]", "The arguments are not a JSON object."),
    ('{"city": NaN}', "The arguments are not JSON: NaN is not a JSON number"),
    ('{"city": 1e999}', "The arguments are not JSON: "),
    ("[" * 100_000, "The arguments are not JSON: nested too deeply"),
    ('{"city": ' + "[" * 900 + "]" * 900 + "}", "The arguments are not JSON: "),
    ('{"town": "x"}', "Invalid arguments for weather: city: Field required"),
]


@pytest.mark.req("HB-20")
async def test_bad_arguments_do_not_run_the_tool() -> None:
    def weather(city: str) -> str:
        raise AssertionError("it ran")

    for text, says in BAD_ARGUMENTS:
        bench = TurnBench([reply(call("weather", text=text)), DONE], tools=[new_tool(weather)])
        await bench.run()
        [response] = bench.of("tool_call_response")
        assert response.content.startswith(says)
        assert response.is_error
        assert bench.turn.text == "Done."
        json.dumps(bench.stream.raw, allow_nan=False)


async def test_missing_arguments_are_an_empty_object() -> None:
    start: list[Any] = [
        model_event("call_start", 1, "c", "t"),
        model_event("flush", 1),
        model_event("finished"),
    ]
    bench = TurnBench([start, DONE], tools=[make_result_tool("ok")])
    await bench.run()
    assert bench.of("tool_call_request")[0].arguments == {}
    assert bench.of("tool_call_response")[0].content == "ok"


async def test_arguments_are_recorded_as_the_model_wrote_them() -> None:
    text = '{"question": "q", "answer_type": "select", "options": "[\\"a\\", \\"b\\"]"}'
    bench = TurnBench([reply(call("ask_user", text=text)), DONE], person=FakePrompter(yes("b")))
    await bench.run()
    assert bench.of("tool_call_response")[0].content == '{"answer_type":"select","answer":"b"}'
    assert bench.of("tool_call_request")[0].arguments["options"] == '["a", "b"]'


@pytest.mark.parametrize("config", [{}, for_tool("t", enable=False)])
async def test_call_of_an_unavailable_tool_is_an_error(config: Any) -> None:
    tools = [make_result_tool("x")] if config else []
    bench = TurnBench([reply(call("t")), DONE], tools=tools, config=config)
    await bench.run()
    [response] = bench.of("tool_call_response")
    assert response.is_error
    assert response.content == (
        "Tool 't' is not available. It may have been available earlier in this conversation but "
        "is no longer enabled. Do not retry this tool until it is available again in the list of "
        "enabled tools."
    )


async def test_tool_gets_its_context() -> None:
    seen: list[jp.ToolContext] = []

    def look(ctx: jp.ToolContext) -> str:
        seen.append(ctx)
        return ""

    config = for_tool("look", options={"limit": 3})
    bench = TurnBench([reply(call("look", "c9")), DONE], tools=[new_tool(look)], config=config)
    await bench.run()
    expected = jp.ToolContext(
        "look",
        call_id="c9",
        call_key="c9",
        options={"limit": 3},
        root="/home/ada/space",
        conversation_id="jp-c1",
    )
    [told] = seen
    assert replace(told, catalog={}, show_progress=expected.show_progress) == expected
    assert "look" in told.catalog["look"]


@pytest.mark.parametrize(
    ("question", "config"),
    [
        (jp.Question.boolean("sure", "?").with_exclusive(), {}),
        (jp.Question.boolean("sure", "?"), {}),
        (None, {"run": "ask"}),
        (None, {"result": "ask"}),
    ],
    ids=["exclusive", "open", "run", "result"],
)
async def test_strict_turn_ends_after_the_batch_when_no_user_can_decide(
    question: jp.Question | None, config: Any
) -> None:
    def function() -> jp.Outcome:
        return jp.Success("x") if question is None else jp.NeedsInput(question)

    calls = [call("t", "c1", index=1), call("other", "c2", index=2)]
    bench = TurnBench(
        [reply(*calls)],
        tools=[new_tool(function, name="t"), make_result_tool("kept", name="other")],
        person=FakePrompter(away="no kernel"),
        config=for_tool("t", **config),
        strict=True,
    )
    with pytest.raises(jp.PromptUnavailable, match="no kernel") as caught:
        await bench.run()
    assert caught.value.reason == "no kernel"
    assert [r.id for r in bench.of("tool_call_response")] == ["c1", "c2"]
    assert bench.of("tool_call_response")[1].content == "kept"
    assert bench.is_well_formed


async def test_interrupt_before_the_turn_records_nothing() -> None:
    bench = TurnBench([DONE])
    bench.loop.interrupt()
    assert (await bench.run()).status == "interrupted"
    assert bench.kinds() == []


async def test_internal_error_leaves_a_well_formed_record() -> None:
    def broken(event: Any) -> None:
        if is_kind(event, "tool_begins"):
            raise ZeroDivisionError("bug")

    bench = TurnBench([reply(call("t"))], tools=[make_result_tool("x")])
    bench.use(display=broken)
    with pytest.raises(ZeroDivisionError):
        await bench.run()
    assert bench.is_well_formed


async def test_unsupported_schema_is_an_error_before_anything_is_recorded() -> None:
    bench = TurnBench([DONE])

    def refuse(schema: Any) -> None:
        raise jp.UsageError(f"cannot take {schema}")

    bench.provider.check_schema = refuse  # type: ignore[method-assign]
    with pytest.raises(jp.UsageError, match="cannot take"):
        await bench.loop.run(new_event("chat_request", content="Go.", schema={"type": "object"}))
    assert (bench.kinds(), bench.provider.requests) == ([], [])


async def test_resumed_call_of_a_failing_turn_is_reported_as_run_before() -> None:
    bench = TurnBench([DONE])
    bench.stream.start_turn(new_event("chat_request", content="Go."))
    bench.stream.append(new_event("tool_call_request", id="c1", name="look", arguments={}))
    resolve = bench.loop.resolve

    def damaged(_: Any) -> Sequence[Any]:
        raise jp.StorageError("the cassette is damaged")

    async def resolved() -> Any:
        return replace(await resolve(), results=damaged)

    bench.loop.resolve = resolved
    with pytest.raises(jp.StorageError, match="damaged"):
        await bench.resume()
    [response] = bench.of("tool_call_response")
    assert response.content == RAN_BEFORE.format(NEVER_RAN)
