"""Answers as they stream: ends, continuation at the token limit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.counted_calls import calls, contents_of, make_counting_tool
from tests.agent.over_http import sent_calls, sent_results, use_http_provider
from tests.agent.turn_bench import DONE, call, make_result_tool, reply, say
from tests.kit.kinds import kind_of, select_kind
from tests.kit.models import model_event
from tests.kit.providers import new_provider
from tests.kit.screens import display_event
from tests.kit.tools import configured, new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, forever, until, yes
from tests.support.loopback import LoopbackServer, Reply, ToolCall

CUT_CALL = (
    "The answer reached its token limit within this call. The arguments are incomplete,"
    " so the call did not run. Call again with shorter arguments, or split the work into"
    " several calls."
)
MAX_ANSWER_CONTINUATIONS = 5


async def test_refused_answer_is_discarded() -> None:
    events: list[Any] = [*say("I will"), *call("t"), model_event("finished", "refused", "policy")]
    bench = TurnBench([events], tools=[make_result_tool("x")])
    end = await bench.run()
    assert end.status == "completed"
    assert bench.kinds() == ["turn_start", "chat_request"]
    assert bench.shown[-2:] == [
        display_event("discard_text"),
        display_event("notice", "⚠ The model refused to answer: policy"),
    ]


async def test_texts_are_kept_and_unfinished_calls_dropped_at_the_token_limit() -> None:
    cut: list[Any] = [
        model_event("call_start", 1, "c", "t"),
        model_event("call_arguments", 1, '{"a'),
    ]
    bench = TurnBench(
        [[model_event("text", 0, "message", "So far"), *cut, model_event("finished", "max_tokens")]]
    )
    await bench.run()
    assert bench.turn.text == "So far"
    assert bench.of("tool_call_request") == []
    assert [notice.text for notice in bench.shown_of("notice")] == [
        "⚠ The call of t is incomplete and did not run",
        "⚠ The answer reached the token limit and is incomplete",
    ]


async def test_other_finish_reason_is_shown() -> None:
    bench = TurnBench([[*say("Hm."), model_event("finished", "other", "pause_turn")]])
    await bench.run()
    assert bench.shown_of("notice") == [display_event("notice", "⚠ The model stopped: pause_turn")]
    assert bench.turn.text == "Hm."


@pytest.mark.parametrize(
    "thought", [(), (model_event("text", 0, "reasoning", "Hm."), model_event("flush", 0))]
)
async def test_empty_answer_is_a_notice(thought: tuple[Any, ...]) -> None:
    bench = TurnBench([[*thought, model_event("finished")]])
    assert (await bench.run()).status == "completed"
    said = "⚠ The model returned an empty answer. `%jp retry` sends the request again"
    assert bench.shown_of("notice") == [display_event("notice", said)]


async def test_blank_messages_and_keep_alives_are_ignored() -> None:
    bench = TurnBench(
        [
            [
                model_event("keep_alive"),
                *say(" \n"),
                *say("x", index=1),
                model_event("keep_alive"),
                model_event("finished"),
            ]
        ]
    )
    await bench.run()
    assert [r.message for r in bench.of("chat_response")] == ["x"]


LIMIT = model_event("finished", "max_tokens")


def truncated(*parts: Any) -> list[Any]:
    return [*(event for part in parts for event in part), LIMIT]


def messages(bench: TurnBench) -> list[str | None]:
    return [r.message for r in bench.of("chat_response") if r.kind == "message"]


def notices(bench: TurnBench) -> list[str]:
    return [notice.text for notice in bench.shown_of("notice")]


def shown(bench: TurnBench) -> str:
    return bench.render_cell()["text/plain"]


async def test_answer_at_the_token_limit_is_continued_as_one_text() -> None:
    bench = TurnBench(
        [truncated(say("The qu")), truncated(say("ick br")), reply(say("own fox."))],
        continues_answers=True,
    )
    assert (await bench.run()).status == "completed"
    assert messages(bench) == ["The qu", "ick br", "own fox."], "one entry for each response"
    assert bench.turn.text == shown(bench) == "The quick brown fox."
    assert notices(bench) == []
    sent = [[entry.type for entry in thread] for _, thread in bench.provider.requests]
    assert sent == [["chat_request", *["chat_response"] * n] for n in range(3)]


async def test_continuation_ends_after_the_maximum() -> None:
    bench = TurnBench([truncated(say(f"<{n}>")) for n in range(9)], continues_answers=True)
    assert (await bench.run()).status == "completed"
    assert len(bench.provider.requests) == MAX_ANSWER_CONTINUATIONS + 1 == 6
    assert bench.turn.text == "<0><1><2><3><4><5>"
    assert notices(bench) == ["⚠ The answer reached the token limit 6 times and is incomplete"]


@pytest.mark.parametrize(
    ("response", "continues_answers", "limits"),
    [
        (truncated(say("So far")), False, {}),
        (truncated([model_event("text", 0, "reasoning", "hm"), model_event("flush", 0)]), True, {}),
        (truncated(say("So far"), call("t")), True, {}),
        (
            truncated([model_event("usage", output_tokens=9)], say("So far")),
            True,
            {"max_total_tokens": 8},
        ),
    ],
    ids=["switched off", "nothing said", "a call", "too many tokens"],
)
async def test_answers_that_are_not_continued(
    response: list[Any], continues_answers: bool, limits: Any
) -> None:
    tool = new_tool(lambda: "x", name="t")
    request = limits
    bench = TurnBench(
        [response, DONE], tools=[tool], continues_answers=continues_answers, request=request
    )
    await bench.run()
    assert "⚠ The answer reached the token limit and is incomplete" in notices(bench)
    assert len(bench.provider.requests) == 1 + bool(bench.of("tool_call_request"))


async def test_continuation_omits_reasoning_and_repeated_text() -> None:
    again: list[Any] = [
        *[
            model_event("text", 0, "reasoning", "Where was I?"),
            model_event("flush", 0, {"signature": "s"}),
        ],
        *[
            model_event("text", 1, "message", piece)
            for piece in ("once ", "upon ", "a time", " there")
        ],
        model_event("flush", 1),
        model_event("finished"),
    ]
    bench = TurnBench([truncated(say("It was once upon a time")), again], continues_answers=True)
    await bench.run()
    assert bench.turn.text == shown(bench) == "It was once upon a time there"
    assert [r.kind for r in bench.of("chat_response")] == ["message", "message"]


async def test_continuation_that_only_repeats_the_answer_is_the_last() -> None:
    bench = TurnBench(
        [truncated(say("and so on")), truncated(say("and so on"))], continues_answers=True
    )
    await bench.run()
    assert (bench.turn.text, shown(bench).splitlines()[0]) == ("and so on", "and so on")
    assert len(bench.provider.requests) == 2


async def test_continuation_may_call_tools() -> None:
    tool = new_tool(lambda: "x", name="t")
    bench = TurnBench(
        [truncated(say("Let me lo")), reply(say("ok."), call("t")), DONE],
        [tool],
        continues_answers=True,
    )
    await bench.run()
    assert bench.turn.text == "Let me look.\n\nDone."
    assert len(bench.of("tool_call_response")) == 1


async def test_interrupted_continuation_keeps_all_parts() -> None:
    broken: list[Any] = [
        model_event("text", 0, "message", "two "),
        jp.ProviderError("reset", kind="transient"),
    ]
    bench = TurnBench([truncated(say("one ")), broken, reply(say("three"))], continues_answers=True)
    await bench.run()
    assert bench.turn.text == "one two three"


async def test_refused_continuation_shows_the_recorded_text() -> None:
    refused: list[Any] = [
        model_event("text", 0, "message", " and bad"),
        model_event("finished", "refused"),
    ]
    bench = TurnBench([truncated(say("Good")), refused], continues_answers=True)
    await bench.run()
    assert bench.turn.text == "Good"
    assert bench.shown_of("discard_text")
    assert shown(bench).splitlines() == ["Good", "⚠ The model refused to answer"]


async def test_aborted_continuation_keeps_the_first_part() -> None:
    second = [model_event("text", 0, "message", "two "), forever]
    bench = TurnBench(
        [truncated(say("one ")), second],
        person=FakePrompter(yes("abort")),
        continues_answers=True,
    )
    task = asyncio.create_task(bench.run())
    await until(lambda: display_event("show_text", "message", "two ") in bench.shown)
    bench.loop.interrupt()
    assert (await task).status == "interrupted"
    assert bench.turn.text == "one "
    assert "⚠ Aborted. The record keeps only the text before the continuation." in notices(bench)


@pytest.mark.parametrize("text", ['{"a": "lon', ""], ids=["in the middle", "before the first"])
async def test_truncated_call_does_not_run(text: str) -> None:
    ran: list[int] = []
    tool = new_tool(lambda a="": ran.append(1), name="t")
    arguments = [model_event("call_arguments", 2, text)] if text else []
    cut_call: list[Any] = [
        model_event("call_start", 2, "c2", "t"),
        *arguments,
        model_event("flush", 2),
        LIMIT,
    ]
    whole = call("t", "c1", index=1)
    bench = TurnBench(
        [[*say("Now."), *whole, *cut_call], DONE], tools=[tool], continues_answers=True
    )
    await bench.run()
    assert ran == [1]
    last = bench.of("tool_call_response")[1]
    assert (last.id, last.content, last.is_error) == ("c2", CUT_CALL, True)
    assert "⚠ The call of t is incomplete and did not run" in notices(bench)


async def test_complete_call_at_the_token_limit_runs() -> None:
    tool = new_tool(lambda: "x", name="t")
    bench = TurnBench([truncated(say("Now."), call("t")), DONE], tools=[tool])
    await bench.run()
    assert [r.content for r in bench.of("tool_call_response")] == ["x"]


async def test_separate_texts_stay_separate() -> None:
    bench = TurnBench([reply(say("One."), say("Two.", index=1))])
    await bench.run()
    ends = select_kind(bench.shown, "show_text", "end_of_text")
    assert [kind_of(each) for each in ends] == ["show_text", "end_of_text"] * 2
    assert shown(bench) == "One.\nTwo."


async def test_anthropic_request_asks_to_continue_the_partial_answer() -> None:
    replies: list[Reply | str] = [
        Reply(text="The quick", finish="max_tokens"),
        " brown fox.",
        "Yes.",
    ]
    with LoopbackServer(replies) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        bench = TurnBench([], continues_answers=True)
        use_http_provider(bench, provider, "anthropic")
        again = TurnBench([], stream=bench.stream)
        try:
            await bench.run("Tell me.")
            again = TurnBench([], stream=bench.stream)
            use_http_provider(again, provider, "anthropic")
            await again.run("Really?")
        finally:
            await provider.aclose()
    assert bench.turn.number == 1
    first, second, third = (request.body["messages"] for request in server.requests)
    assert second[: len(first)] == first
    assert [m["role"] for m in second] == ["user", "assistant", "user"]
    assert "Continue exactly" in str(second[-1])
    assert [m["role"] for m in third] == ["user", "assistant", "user"]
    said = "".join(block["text"] for block in third[1]["content"])
    assert said.replace(" ", "") == "Thequickbrownfox."


def make_stream_error() -> jp.ProviderError:
    return jp.ProviderError("reset", kind="transient")


PART = model_event("text", 0, "message", "ick brown")


async def test_continuation_that_breaks_off_stays_one_text() -> None:
    scripts = [truncated(say("The qu")), [PART, make_stream_error()], reply(say("ick brown fox"))]
    bench = TurnBench(scripts, continues_answers=True)
    await bench.run()
    assert messages(bench) == ["The qu", "ick brown", " fox"]
    assert bench.turn.text == shown(bench) == "The quick brown fox"


@pytest.mark.parametrize(
    ("scripts", "kept"),
    [
        ([[PART, make_stream_error()]], "ick brown"),
        ([truncated(say("The qu")), [PART, make_stream_error()]], "The quick brown"),
        (
            [
                [PART, make_stream_error()],
                [model_event("text", 0, "message", "fox"), make_stream_error()],
            ],
            "ick brown\n\nfox",
        ),
    ],
)
async def test_kept_text_stays_on_screen_when_the_next_attempt_is_refused(
    scripts: list[Any], kept: str
) -> None:
    bench = TurnBench([*scripts, [model_event("finished", "refused")]], continues_answers=True)
    await bench.run()
    assert bench.turn.text == kept
    assert shown(bench) == f"{kept}\n⚠ The model refused to answer".replace("\n\n", "\n")


@pytest.mark.parametrize(
    ("made", "ran", "listed", "more"),
    [(3, 3, 3, None), (4, 3, 4, ""), (2_000, 3, 4, " Further calls that are dropped: 1996. ")],
)
async def test_calls_of_one_answer_are_limited(
    made: int, ran: int, listed: int, more: str | None
) -> None:
    tool, runs = make_counting_tool()
    request = {"max_tool_calls": 3}
    bench = TurnBench([reply(calls(made)), DONE], tools=[tool], request=request)
    assert (await bench.run()).status == "completed"
    assert len(runs) == ran
    assert len(bench.of("tool_call_request")) == listed
    assert len(bench.of("tool_call_response")) == listed
    _, seen = bench.provider.requests[1]
    answers = select_kind(seen, "tool_call_response")
    assert [answer.is_error for answer in answers] == [False] * ran + [True] * (listed - ran)
    limit = "assistant.request.max_tool_calls"
    if more is None:
        assert not notices(bench)
    else:
        assert answers[-1].content.startswith("This call did not run. ")
        assert more in answers[-1].content
        assert f"contains {made} tool calls, but {limit} allows 3." in answers[-1].content
        assert notices(bench) == [
            f"⚠ Only the first 3 of {made} tool calls in this answer run ({limit})"
        ]
    assert not bench.stream.repair()


async def test_notice_names_the_truncated_call_that_is_dropped() -> None:
    tool, runs = make_counting_tool()
    cut: list[Any] = [
        model_event("call_start", 3, "c3", "other"),
        model_event("call_arguments", 3, '{"a": "lon'),
        model_event("flush", 3),
        LIMIT,
    ]
    answer = [*call("t", "c1", index=1), *call("t", "c2", index=2), *cut]
    bench = TurnBench([answer, DONE], tools=[tool], request={"max_tool_calls": 1})
    await bench.run()
    assert len(runs) == 1
    assert "⚠ The call of other is incomplete and did not run" in notices(bench)


async def test_without_a_limit_all_calls_run() -> None:
    tool, runs = make_counting_tool()
    bench = TurnBench([reply(calls(150)), DONE], [tool], request={"max_tool_calls": 0})
    await bench.run()
    assert len(runs) == 150
    assert configured({}).assistant.request.max_tool_calls == 128


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_request_after_too_many_calls_is_well_formed(protocol: str) -> None:
    many = tuple(ToolCall("t", {}, id=f"c{n}") for n in range(9))
    with LoopbackServer([Reply(tool_calls=many), "Done."]) as server:
        provider = new_provider(protocol, {"base_url": server.url, "base_url_env": None})
        tool, _ = make_counting_tool()
        bench = TurnBench([], tools=[tool], request={"max_tool_calls": 2})
        use_http_provider(bench, provider, protocol)
        try:
            assert (await bench.run()).status == "completed"
        finally:
            await provider.aclose()
    body = server.requests[1].body
    assert [id_ for id_, _ in sent_calls(body, protocol)] == ["c0", "c1", "c2"]
    assert [id_ for id_, _ in sent_results(body, protocol)] == ["c0", "c1", "c2"]


async def test_surplus_call_with_bad_arguments_is_reported_as_surplus() -> None:
    tool, _ = make_counting_tool()
    broken = call("t", "c1", index=2, text="[")
    bench = TurnBench([reply(calls(1), broken), DONE], [tool], request={"max_tool_calls": 1})
    await bench.run()
    assert contents_of(bench)[1].startswith("This call did not run")
    assert [event.call_id for event in bench.shown_of("tool_begins")] == ["c0"]
