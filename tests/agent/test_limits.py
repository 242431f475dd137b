"""What one answer, one turn and one result may come to: bounded, and said."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.display_events import Notice, ToolBegins
from jp_nb.agent.model_events import Usage
from jp_nb.agent.prompts import ActionPrompt
from jp_nb.config.tree.model_config import Request as RequestConfig
from jp_nb.providers.registry import create
from jp_nb.record.events import ToolCallRequest, ToolCallResponse
from jp_nb.tooling.long_results import TO_READ_ON
from jp_nb.tooling.outcome import Failure, Outcome
from jp_nb.tooling.python import PythonTool
from tests.support.fakes import Bench, FakePrompter, call, for_tool, reply, say, yes
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.over_http import over_http, sent_calls, sent_results

DONE = reply(say("Done."))
LEFT_OUT = "conversation.tools.t.result_max_chars is"


def calls(count: int, name: str = "t") -> list[Any]:
    return [event for n in range(count) for event in call(name, f"c{n}", index=n + 1)]


def counting() -> tuple[PythonTool, list[int]]:
    ran: list[int] = []

    async def t() -> str:
        ran.append(1)
        return "x"

    return PythonTool(t), ran


def told(bench: Bench) -> list[str]:
    return [response.content for response in bench.of(ToolCallResponse)]


def notices(bench: Bench) -> list[str]:
    return [notice.text for notice in bench.shown_of(Notice)]


# --- calls of one answer -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "ran", "listed", "more"),
    [(2, 2, 2, None), (3, 3, 3, None), (4, 3, 4, ""), (20_000, 3, 4, "; 19996 more after it ")],
)
async def test_calls_of_one_answer_are_bounded_and_the_model_is_told(
    made: int, ran: int, listed: int, more: str | None
) -> None:
    tool, runs = counting()
    request = RequestConfig(max_tool_calls=3)
    bench = Bench([reply(calls(made)), DONE], tools=[tool], request=request)
    assert (await bench.run()).status == "completed"
    assert len(runs) == ran
    assert [len(bench.of(kind)) for kind in (ToolCallRequest, ToolCallResponse)] == [listed] * 2
    _, seen = bench.provider.requests[1]
    answers = [entry for entry in seen if isinstance(entry, ToolCallResponse)]
    assert [answer.is_error for answer in answers] == [False] * ran + [True] * (listed - ran)
    limit = "assistant.request.max_tool_calls"
    if more is None:
        assert not notices(bench)
    else:
        start = f"This call did not run{more}"
        assert answers[-1].content.startswith(start)
        assert f"holds {made} tool calls, of which 3 run ({limit})" in answers[-1].content
        assert notices(bench) == [f"⚠ Of {made} tool calls in one answer the first 3 run ({limit})"]
    assert not bench.stream.repair()


async def test_without_a_limit_all_calls_run() -> None:
    tool, runs = counting()
    bench = Bench([reply(calls(300)), DONE], [tool], request=RequestConfig(max_tool_calls=0))
    await bench.run()
    assert len(runs) == 300
    assert RequestConfig().max_tool_calls == 128


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_what_goes_out_after_too_many_calls_is_well_formed(protocol: str) -> None:
    many = tuple(ToolCall("t", {}, id=f"c{n}") for n in range(9))
    with LoopbackServer([Reply(tool_calls=many), "Done."]) as server:
        provider = create(protocol, {"base_url": server.url, "base_url_env": None})
        tool, _ = counting()
        bench = Bench([], tools=[tool], request=RequestConfig(max_tool_calls=2))
        over_http(bench, provider, protocol)
        try:
            assert (await bench.run()).status == "completed"
        finally:
            await provider.aclose()
    body = server.requests[1].body
    assert [id_ for id_, _ in sent_calls(body, protocol)] == ["c0", "c1", "c2"]
    assert [id_ for id_, _ in sent_results(body, protocol)] == ["c0", "c1", "c2"]


# --- tokens of one turn ------------------------------------------------------------------------

MUCH = Usage(input_tokens=90, output_tokens=20)


async def test_a_turn_that_took_too_many_tokens_ends_before_its_calls_run() -> None:
    tool, runs = counting()
    answer: list[Any] = [Usage(input_tokens=30, output_tokens=10), *reply(calls(1))]
    more: list[Any] = [MUCH, *reply(say("Well."), calls(2))]
    request = RequestConfig(max_total_tokens=149)
    bench = Bench([answer, more], tools=[tool], request=request)
    assert (await bench.run()).status == "interrupted"
    assert len(runs) == 1
    assert told(bench)[1:] == ["This tool call did not run: the turn had taken as many tokens as "
                               "it may."] * 2  # fmt: skip
    [said] = notices(bench)
    assert said.startswith("⚠ The turn took 150 tokens, assistant.request.max_total_tokens is 149")
    assert bench.turn.text == "Well."
    assert not bench.stream.repair()


@pytest.mark.parametrize("most", [0, 110])
async def test_a_turn_within_its_tokens_goes_on_and_each_turn_is_counted_anew(most: int) -> None:
    tool, _ = counting()
    request = RequestConfig(max_total_tokens=most)
    bench = Bench([[MUCH, *reply(calls(1))], DONE], tools=[tool], request=request)
    assert (await bench.run()).status == "completed"
    again = Bench([[MUCH, *DONE]], tools=[tool], request=request, stream=bench.stream)
    assert (await again.run()).status == "completed"
    assert not notices(bench) + notices(again)


async def test_an_answer_that_is_whole_stays_one_though_it_took_too_much() -> None:
    bench = Bench([[MUCH, *DONE]], request=RequestConfig(max_total_tokens=5))
    assert (await bench.run()).status == "completed"
    assert bench.turn.text == "Done."
    assert notices(bench) == ["⚠ The turn took 110 tokens, assistant.request.max_total_tokens is 5"]


# --- characters of one result ------------------------------------------------------------------


def saying(content: str, *, fails: bool = False) -> PythonTool:
    def t() -> Outcome | str:
        return Failure(content) if fails else content

    return PythonTool(t)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_long_result_is_cut_in_the_middle_and_says_so(fails: bool) -> None:
    content = "a" * 40 + "b" * 1000 + "c" * 40
    bench = Bench([reply(call("t")), DONE], [saying(content, fails=fails)],
                  config=for_tool("t", result_max_chars=81))  # fmt: skip
    await bench.run()
    said = f"999 of 1080 characters are left out here. {TO_READ_ON}"
    how = f"(The person can change how many are kept: {LEFT_OUT} 81.)"
    assert told(bench) == [f"{'a' * 40}b\n\n[… {said} {how} …]\n\n{'c' * 40}"]
    assert "call the tool again for less" in TO_READ_ON


@pytest.mark.parametrize(
    ("config", "length", "kept"),
    [
        ({}, 50_000, True),
        ({}, 50_001, False),
        (for_tool("*", result_max_chars=10), 11, False),
        (for_tool("t", result_max_chars=0), 200_000, True),
    ],
)
async def test_how_long_a_result_may_be(config: Any, length: int, kept: bool) -> None:
    bench = Bench([reply(call("t")), DONE], [saying("x" * length)], config=config)
    await bench.run()
    assert (told(bench) == ["x" * length]) is kept
    assert (LEFT_OUT in told(bench)[0]) is not kept


async def test_who_decides_about_a_result_sees_it_as_it_will_be_read() -> None:
    config = for_tool("t", result_max_chars=10, result="ask")
    person = FakePrompter(yes("deliver"))
    bench = Bench([reply(call("t")), DONE], [saying("x" * 99)], person, config)
    await bench.run()
    [prompt] = person.asked
    assert isinstance(prompt, ActionPrompt)
    assert told(bench) == [exhibit.value for exhibit in prompt.exhibits]


async def test_bad_arguments_of_a_surplus_call_are_not_what_it_is_told_of() -> None:
    tool, _ = counting()
    broken = call("t", "c1", index=2, text="[")
    bench = Bench([reply(calls(1), broken), DONE], [tool], request=RequestConfig(max_tool_calls=1))
    await bench.run()
    assert told(bench)[1].startswith("This call did not run")
    assert [event.call_id for event in bench.shown_of(ToolBegins)] == ["c0"]
