"""Tokens of a turn: counted, limited, recorded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.counted_calls import calls, contents_of, make_counting_tool
from tests.agent.over_http import use_http_provider
from tests.agent.turn_bench import DONE, call, reply, say
from tests.kit.kinds import is_kind
from tests.kit.models import EventProvider, model_event
from tests.kit.providers import new_provider
from tests.kit.screens import display_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench, new_question_model
from tests.support.fakes import for_tool, forever, until
from tests.support.loopback import LoopbackServer, Reply, ToolCall

BROKEN = jp.ProviderError("it broke", kind="transient")


def t() -> str:
    return "x"


def make_usage(*counts: int) -> Any:
    return model_event("usage", *counts)


def recorded_usage(bench: TurnBench) -> list[tuple[str, dict[str, Any]]]:
    """Return the type and the recorded tokens of each entry with tokens."""
    return [(e.type, used) for e in bench.entries for used in read_usage(e)]


def read_usage(entry: Any) -> list[dict[str, Any]]:
    """Return the recorded tokens of each model in `entry`."""
    stored = entry.metadata.get("usage", [])
    return stored if isinstance(stored, list) else [stored]


def make_model_usage(tokens_in: int, tokens_out: int = 0, *, model: str) -> dict[str, Any]:
    """Return the tokens of `model` as the record has them, without zeros."""
    output = {"output_tokens": tokens_out} if tokens_out else {}
    return {"model": model, "input_tokens": tokens_in, **output}


async def test_last_entry_of_each_response_has_its_tokens() -> None:
    first: list[Any] = [make_usage(30, 10), *reply(say("Well."), call("t", index=1))]
    last: list[Any] = [
        make_usage(50),
        model_event("usage", output_tokens=4, cache_read_tokens=20),
        *DONE,
    ]
    bench = TurnBench([first, last], tools=[new_tool(t)])
    end = await bench.run()
    assert [kind for kind, _ in recorded_usage(bench)] == ["tool_call_request", "chat_response"]
    [request] = bench.of("tool_call_request")
    assert request.metadata["usage"] == {
        "model": "test/test-model",
        "input_tokens": 30,
        "output_tokens": 10,
    }
    assert "usage" not in bench.of("chat_response")[0].metadata
    assert bench.turn.usage == model_event("usage", 80, 14, None, 20)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (80, 14)


async def test_unreported_tokens_are_not_recorded() -> None:
    bench = TurnBench([DONE])
    await bench.run()
    assert bench.turn.usage == model_event("usage")
    assert "usage" not in json.dumps(bench.stream.raw)
    assert not [event for event in bench.passing if is_kind(event, "tokens_so_far")]


async def test_tokens_of_failed_attempts_are_recorded() -> None:
    silent: list[Any] = [make_usage(7), BROKEN]
    partial: list[Any] = [make_usage(8), *say("Do")[:1], BROKEN]
    bench = TurnBench([silent, partial, [make_usage(9, 2), *DONE]])
    await bench.run()
    name = "test/test-model"
    assert [u for _, u in recorded_usage(bench)] == [
        make_model_usage(15, model=name),
        make_model_usage(9, 2, model=name),
    ]
    assert bench.turn.usage == model_event("usage", 24, 2)


async def test_each_part_of_a_continued_answer_has_its_tokens() -> None:
    first: list[Any] = [make_usage(5, 4), *say("One and "), model_event("finished", "max_tokens")]
    bench = TurnBench([first, [make_usage(9, 3), *reply(say("two."))]], continues_answers=True)
    await bench.run()
    assert bench.turn.text == "One and two."
    assert [used for _, used in recorded_usage(bench)] == [
        make_model_usage(5, 4, model="test/test-model"),
        make_model_usage(9, 3, model="test/test-model"),
    ]


async def test_tokens_of_a_refusal_are_recorded_at_the_end_of_the_turn() -> None:
    refused: list[Any] = [make_usage(12), *say("No"), model_event("finished", "refused")]
    bench = TurnBench([refused])
    assert (await bench.run()).status == "completed"
    assert recorded_usage(bench) == [
        ("config_delta", make_model_usage(12, model="test/test-model"))
    ]
    assert bench.turn.usage == model_event("usage", 12)
    assert bench.turn.config_changes == ()
    again = TurnBench([[make_usage(20), *DONE]], stream=bench.stream)
    await again.run("And now?")
    assert [read.usage.input_tokens for read in again.list_turns()] == [12, 20]
    assert [len(read.config_changes) for read in again.list_turns()] == [0, 0]


async def test_tokens_of_a_failed_turn_are_recorded_with_its_mark() -> None:
    bench = TurnBench([[make_usage(12), jp.ProviderError("no")]])
    with pytest.raises(jp.ProviderError):
        await bench.run()
    [mark] = bench.of("config_delta")
    assert mark.metadata["no_answer"]["ended"] == "failed"
    assert read_usage(mark) == [make_model_usage(12, model="test/test-model")]
    assert (bench.turn.usage, bench.turn.status) == (model_event("usage", 12), "failed")


def make_asking_tool() -> Any:
    def rename(ctx: jp.ToolContext) -> jp.Outcome:
        if "sure" not in ctx.answers:
            return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
        return jp.Success("Renamed.")

    return new_tool(rename)


BY_MODEL = for_tool("rename", questions={"sure": {"target": "assistant"}})


def make_backend(*scripts: Any) -> Any:
    return new_question_model(EventProvider(*scripts), settings={"provider_name": "test"})


def sure() -> list[Any]:
    answer = {"inquiry_id": "tool_call.rename.call_1", "answer": True}
    return reply(
        [model_event("text", 0, "structured", json.dumps(answer)), model_event("flush", 0)]
    )


async def test_tokens_of_an_inquiry_are_recorded_with_its_end() -> None:
    backend = make_backend([make_usage(5), BROKEN], [make_usage(5, 2), *sure()])
    backend.sleep = lambda _: until(lambda: True)
    bench = TurnBench(
        [[make_usage(1), *reply(call("rename"))], DONE],
        [make_asking_tool()],
        config=BY_MODEL,
        inquiry=backend,
    )
    await bench.run()
    [end] = bench.of("inquiry_response")
    assert end.metadata["channel"] == "model"
    assert read_usage(end) == [make_model_usage(10, 2, model="test/small")]
    assert bench.turn.usage == model_event("usage", 11, 2)


async def test_tokens_of_a_cancelled_inquiry_are_recorded() -> None:
    heard = asyncio.Event()

    async def silence() -> None:
        heard.set()
        await forever()

    backend = make_backend([make_usage(5), silence])
    bench = TurnBench(
        [reply(call("rename")), DONE], [make_asking_tool()], config=BY_MODEL, inquiry=backend
    )
    task = asyncio.create_task(bench.run())
    await heard.wait()
    bench.loop.interrupt()
    assert (await asyncio.wait_for(task, 5)).status == "interrupted"
    [end] = bench.of("inquiry_response")
    assert end.outcome == "cancelled"
    assert read_usage(end) == [make_model_usage(5, model="test/small")]


async def test_inquiries_count_towards_the_token_limit() -> None:
    backend = make_backend([make_usage(500), *sure()])
    bench = TurnBench(
        [reply(call("rename")), DONE],
        [make_asking_tool()],
        config=BY_MODEL,
        inquiry=backend,
        request={"max_total_tokens": 100},
    )
    assert (await bench.run()).status == "interrupted"
    assert len(bench.provider.requests) == 1  # the model is not asked again
    [notice] = bench.shown_of("notice")
    limit = "assistant.request.max_total_tokens"
    assert notice.text == (
        f"⚠ The turn took 500 tokens; the limit {limit} is 100. The turn ends here. "
        f"Allow more with `%jp config {limit}=N` (0: no limit), then ask again."
    )
    assert not bench.stream.repair()


async def test_inquiry_is_refused_over_the_token_limit() -> None:
    backend = make_backend([make_usage(500), *sure()], [make_usage(500), *sure()])

    def rename(ctx: jp.ToolContext) -> jp.Outcome:
        for name in ("sure", "really"):
            if name not in ctx.answers:
                return jp.NeedsInput(jp.Question.boolean(name, "Sure?"))
        return jp.Success("Renamed.")

    both = {name: {"target": "assistant"} for name in ("sure", "really")}
    bench = TurnBench(
        [reply(call("rename")), DONE],
        [new_tool(rename)],
        inquiry=backend,
        config=for_tool("rename", questions=both),
        request={"max_total_tokens": 100},
    )
    assert (await bench.run()).status == "interrupted"
    provider = backend.default.provider
    assert isinstance(provider, EventProvider)
    assert len(provider.requests) == 1
    assert "The turn has reached its token limit" in str(bench.turn.tool_calls[0].content)


@pytest.mark.parametrize("protocol", ["anthropic", "openai", "openrouter"])
async def test_recorded_tokens_are_not_sent_to_a_provider(protocol: str) -> None:
    replies: list[Reply | str] = [
        Reply(reasoning="Hm.", tool_calls=(ToolCall("t"),)),
        Reply(text="Done."),
        "More.",
    ]
    with LoopbackServer(replies) as server:
        provider = new_provider(protocol, {"base_url": server.url, "api_key_env": None})
        bench = TurnBench([], tools=[new_tool(t)])
        use_http_provider(bench, provider, protocol)
        try:
            await bench.run()
            again = TurnBench([], tools=[new_tool(t)], stream=bench.stream)
            use_http_provider(again, provider, protocol)
            await again.run("And?")
        finally:
            await provider.aclose()
    assert bench.stream is again.stream
    assert len(recorded_usage(again)) == 3
    for request in server.requests:
        assert b'"usage"' not in request.raw.replace(b'"include_usage"', b"")
        assert b"input_tokens" not in request.raw
    assert again.turn.usage.input_tokens == 11


async def test_token_total_is_shown_after_each_response() -> None:
    bench = TurnBench(
        [[make_usage(30, 10), *reply(call("t"))], [make_usage(40, 5), *DONE]], [new_tool(t)]
    )
    await bench.run()
    told = [event for event in bench.passing if is_kind(event, "tokens_so_far")]
    assert told == [display_event("tokens_so_far", 30, 10), display_event("tokens_so_far", 70, 15)]


def notices(bench: TurnBench) -> list[str]:
    return [notice.text for notice in bench.shown_of("notice")]


MUCH = model_event("usage", input_tokens=90, output_tokens=20)


async def test_turn_over_its_token_limit_ends_before_its_calls() -> None:
    tool, runs = make_counting_tool()
    answer: list[Any] = [model_event("usage", input_tokens=30, output_tokens=10), *reply(calls(1))]
    more: list[Any] = [MUCH, *reply(say("Well."), calls(2))]
    request = {"max_total_tokens": 149}
    bench = TurnBench([answer, more], tools=[tool], request=request)
    assert (await bench.run()).status == "interrupted"
    assert len(runs) == 1
    refused = "This tool call did not run. The turn has reached its token limit."
    assert contents_of(bench)[1:] == [refused] * 2
    [said] = notices(bench)
    assert said.startswith(
        "⚠ The turn took 150 tokens; the limit assistant.request.max_total_tokens is 149"
    )
    assert bench.turn.text == "Well."
    assert not bench.stream.repair()


@pytest.mark.parametrize("most", [0, 110])
async def test_turn_at_its_token_limit_continues(most: int) -> None:
    tool, _ = make_counting_tool()
    request = {"max_total_tokens": most}
    bench = TurnBench([[MUCH, *reply(calls(1))], DONE], tools=[tool], request=request)
    assert (await bench.run()).status == "completed"
    again = TurnBench([[MUCH, *DONE]], tools=[tool], request=request, stream=bench.stream)
    assert (await again.run()).status == "completed"
    assert not notices(bench) + notices(again)


async def test_complete_answer_over_the_token_limit_is_kept() -> None:
    bench = TurnBench([[MUCH, *DONE]], request={"max_total_tokens": 5})
    assert (await bench.run()).status == "completed"
    assert bench.turn.text == "Done."
    assert notices(bench) == [
        "⚠ The turn took 110 tokens; the limit assistant.request.max_total_tokens is 5"
    ]
