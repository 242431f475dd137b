"""The turn loop: cycles, tool calls, retries, interrupts, what is recorded and when."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from time import monotonic
from typing import Any

import pytest

from jp_nb.agent.call_runner import RAN_BEFORE
from jp_nb.agent.coordinator import NEVER_RAN
from jp_nb.agent.display_events import (
    DiscardText,
    EndOfText,
    Notice,
    ShowText,
    ToolBegins,
    ToolEnds,
    Waits,
)
from jp_nb.agent.interrupts import STOP, stopped
from jp_nb.agent.model_events import (
    Finished,
    Flush,
    KeepAlive,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.agent.prompts import Action, ActionPrompt, Exhibit
from jp_nb.agent.recorded_results import RecordedResult
from jp_nb.agent.resolved import Resolved
from jp_nb.agent.retries import backoff
from jp_nb.agent.turn import REQUEST_FAILED
from jp_nb.config.partial import Partial
from jp_nb.config.tree.model_config import Request as RequestConfig
from jp_nb.config.tree.tool_config import CANCELLATION
from jp_nb.errors import (
    ConfigError,
    PromptUnavailable,
    ProviderError,
    StorageError,
    ToolError,
    UsageError,
)
from jp_nb.record.call_progress import open_calls
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread
from jp_nb.record.unanswered import NoAnswer, no_answer
from jp_nb.tooling.base import CallInterrupted
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Outcome, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from tests.support.entries import open_inquiries
from tests.support.fakes import (
    CANCELLED,
    Bench,
    FakeClock,
    FakePrompter,
    call,
    for_tool,
    forever,
    reply,
    say,
    until,
    yes,
)

DONE = reply(say("Done."))
BROKEN = ProviderError("reset", kind="transient")


def returning(content: str, *, name: str = "t") -> PythonTool:
    return PythonTool(lambda: content, name=name)


def well_formed(stream: ConversationStream) -> bool:
    """Whether nothing is left to mend: every call answered, every inquiry closed."""
    again = ConversationStream(stream.head, clock=FakeClock(), raw=list(stream.raw))
    return not again.repair() and not stream.unanswered() and not open_inquiries(stream)


# --- cycles ----------------------------------------------------------------------------------


async def test_a_turn_is_recorded_as_it_happens_and_ends_with_an_answer_without_calls() -> None:
    thought: list[Any] = [TextPart(0, "reasoning", "Hm."), Flush(0, {"signature": "s"})]
    first: list[Any] = [
        *thought,
        *say("Look", index=1)[:1],
        TextPart(1, "message", "ing."),
        Flush(1),
    ]
    bench = Bench(
        [[*first, *call("t", "c1", index=2), Finished()], DONE], tools=[returning("sunny")]
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


async def test_the_request_is_recorded_before_the_model_is_asked() -> None:
    bench: Bench
    kinds: list[str] = []

    async def look() -> None:
        kinds.extend(bench.kinds())

    bench = Bench([[look, *DONE]])
    await bench.run()
    assert kinds == ["turn_start", "chat_request"]


async def test_a_tool_call_is_recorded_before_the_tool_runs() -> None:
    bench: Bench
    kinds: list[str] = []

    def look() -> str:
        kinds.extend(bench.kinds())
        return ""

    bench = Bench([reply(say("Wait."), call("look")), DONE], tools=[PythonTool(look)])
    await bench.run()
    assert kinds[-2:] == ["chat_response", "tool_call_request"]


async def test_nothing_is_recorded_when_the_configuration_does_not_resolve() -> None:
    bench = Bench([DONE], config={"assistant": {"model": {"id": "nobody/x"}}})
    with pytest.raises(ConfigError):
        await bench.run()
    assert bench.kinds() == []


async def test_a_forced_tool_choice_holds_for_the_first_request_alone() -> None:
    scripts = [reply(call("t", "c1")), reply(call("t", "c2")), DONE]
    config: Partial = {"assistant": {"tool_choice": "required"}}
    bench = Bench(scripts, tools=[returning("x")], config=config)
    await bench.run()
    choices = [request.tool_choice for request, _ in bench.provider.requests]
    assert choices == ["required", "auto", "auto"]


async def test_usage_is_summed_over_all_requests_and_the_last_report_of_one_counts() -> None:
    first: list[Any] = [Usage(input_tokens=5), Usage(input_tokens=10, output_tokens=1), *call("t")]
    broken: list[Any] = [Usage(input_tokens=3), BROKEN]
    last: list[Any] = [Usage(input_tokens=20, cache_read_tokens=7), *say("Done."), Finished()]
    bench = Bench([[*first, Finished()], broken, last], tools=[returning("x")])
    end = await bench.run()
    assert end.usage == Usage(input_tokens=33, output_tokens=1, cache_read_tokens=7)


async def test_three_hundred_cycles_stay_as_fast_as_the_first() -> None:
    scripts = [reply(call("t", f"c{n}")) for n in range(300)]
    times: list[float] = []

    def tick() -> str:
        times.append(time.thread_time())  # not a clock: others may use the machine
        return "x"

    bench = Bench([*scripts, DONE], tools=[PythonTool(tick, name="t")])
    bench.provider.stream = _without_snapshots(bench)  # type: ignore[method-assign]
    await bench.run()
    steps = [after - before for before, after in pairwise(times)]
    assert len(bench.of(ToolCallResponse)) == 300
    assert median(steps[-50:]) < 2 * median(steps[:50]) + 0.0005


def _without_snapshots(bench: Bench) -> Callable[..., Any]:
    """The provider without the copy of the thread that it keeps for tests."""
    scripts = bench.provider._scripts

    async def stream(request: Any) -> Any:
        for step in scripts.pop(0):
            yield step

    return stream


# --- a batch of calls ------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_calls_start_at_once_and_are_committed_in_call_order(order: tuple[int, ...]) -> None:
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
            await until(lambda count=count: len(bench.shown_of(ToolEnds)) == count)  # type: ignore[misc]

    calls = [call("wait", f"c{n}", index=n, text=f'{{"number": {n}}}') for n in range(3)]
    bench = Bench([reply(*calls), DONE], tools=[PythonTool(wait)])
    await asyncio.gather(bench.run(), open_the_gates())
    assert [r.id for r in bench.of(ToolCallResponse)] == ["c0", "c1", "c2"]
    assert [r.content for r in bench.of(ToolCallResponse)] == [f"result {n}" for n in range(3)]
    assert [e.call_id for e in bench.shown_of(ToolEnds)] == [f"c{n}" for n in order]


async def test_two_calls_with_one_id_each_get_their_answer() -> None:
    def echo(text: str) -> str:
        return text

    calls = [
        call("echo", "", index=1, text='{"text": "a"}'),
        call("echo", "", index=2, text='{"text": "b"}'),
    ]
    bench = Bench([reply(*calls), DONE], tools=[PythonTool(echo)])
    await bench.run()
    assert [c.content for c in bench.turn.tool_calls] == ["a", "b"]


def _raise(exc: BaseException) -> Callable[[], str]:
    def fail() -> str:
        raise exc

    return fail


class Unprintable(Exception):  # noqa: N818 - not an error of ours
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_a_failed_tool_is_shown_to_the_model_and_the_turn_goes_on(
    subtests: pytest.Subtests,
) -> None:
    for raised, content in [
        (ToolError("Read the manual."), "Read the manual."),
        (ValueError("no such city"), "ValueError: no such city"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "The tool cancelled itself."),
        (Unprintable(), "Unprintable"),
    ]:
        for kind in ["def", "async", "thread"]:
            with subtests.test(kind=kind, raised=raised):

                def fail() -> str:
                    raise raised

                async def fail_later() -> str:
                    await asyncio.sleep(0)
                    raise raised

                function = fail_later if kind == "async" else fail
                tool = PythonTool(function, name="t", thread=kind == "thread")
                bench = Bench([reply(call("t")), DONE], tools=[tool])
                end = await bench.run()
                [response] = bench.of(ToolCallResponse)
                assert (response.content, response.is_error) == (content, True)
                assert end.status == "completed"
                assert bench.turn.text == "Done."
                [shown] = bench.shown_of(ToolEnds)
                expected = not isinstance(raised, ToolError | asyncio.CancelledError)
                assert (shown.traceback is not None) == expected


@pytest.mark.parametrize("kind", ["def", "async", "thread"])
async def test_the_traceback_for_the_person_begins_in_the_tool(kind: str) -> None:
    def fail() -> str:
        raise ValueError("here")

    async def fail_later() -> str:
        raise ValueError("here")

    function = fail_later if kind == "async" else fail
    tool = PythonTool(function, name="t", thread=kind == "thread")
    bench = Bench([reply(call("t")), DONE], tools=[tool])
    await bench.run()
    [shown] = bench.shown_of(ToolEnds)
    lines = (shown.traceback or "").splitlines()
    files = [line for line in lines if line.startswith('  File "')]
    assert f"in {function.__name__}" in files[-1]
    if kind != "def":  # the cell of these tests is no machinery of ours
        assert len(files) == 1


@pytest.mark.req("HB-20")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"city": ', "The arguments are not JSON: "),
        ("[1]", "The arguments are not a JSON object."),
        ('{"city": NaN}', "The arguments are not JSON: NaN is not a JSON number"),
        ("[" * 100_000, "The arguments are not JSON: nested too deeply"),
        ('{"town": "x"}', "Invalid arguments for weather: city: Field required"),
    ],
)
async def test_bad_arguments_do_not_run_the_tool(text: str, says: str) -> None:
    def weather(city: str) -> str:
        raise AssertionError("it ran")

    bench = Bench([reply(call("weather", text=text)), DONE], tools=[PythonTool(weather)])
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert response.content.startswith(says)
    assert response.is_error


async def test_no_arguments_at_all_are_an_empty_object() -> None:
    start: list[Any] = [ToolCallStart(1, "c", "t"), Flush(1), Finished()]
    bench = Bench([start, DONE], tools=[returning("ok")])
    await bench.run()
    assert bench.of(ToolCallRequest)[0].arguments == {}
    assert bench.of(ToolCallResponse)[0].content == "ok"


async def test_arguments_are_read_as_the_schema_wants_and_recorded_as_they_came() -> None:
    text = '{"question": "q", "answer_type": "select", "options": "[\\"a\\", \\"b\\"]"}'
    bench = Bench([reply(call("ask_user", text=text)), DONE], person=FakePrompter(yes("b")))
    await bench.run()
    assert bench.of(ToolCallResponse)[0].content == '{"answer_type":"select","answer":"b"}'
    assert bench.of(ToolCallRequest)[0].arguments["options"] == '["a", "b"]'


@pytest.mark.parametrize("config", [{}, for_tool("t", enable=False)])
async def test_a_tool_that_is_not_on_offer_ends_in_the_error_that_says_so(config: Any) -> None:
    tools = [returning("x")] if config else []
    bench = Bench([reply(call("t")), DONE], tools=tools, config=config)
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert response.is_error
    assert response.content == (
        "Tool 't' is not available. It may have been available earlier in this conversation but "
        "is no longer enabled. Do not retry this tool until it is available again in the list of "
        "enabled tools."
    )


async def test_a_tool_is_told_its_surroundings() -> None:
    seen: list[ToolContext] = []

    def look(ctx: ToolContext) -> str:
        seen.append(ctx)
        return ""

    config = for_tool("look", options={"limit": 3})
    bench = Bench([reply(call("look", "c9")), DONE], tools=[PythonTool(look)], config=config)
    await bench.run()
    expected = ToolContext(
        "look",
        call_id="c9",
        options={"limit": 3},
        root="/home/ada/space",
        conversation_id="jp-c1",
    )
    [told] = seen
    assert replace(told, catalog={}) == expected
    assert "look" in told.catalog["look"]


# --- permission, delivery, the queue of prompts ----------------------------------------------


@pytest.mark.parametrize(
    ("end", "content", "ran"),
    [
        (yes("run"), "x", 1),
        (yes("skip"), "Tool skipped by user.", 0),
        (CANCELLED, "Tool skipped by user.", 0),
    ],
)
async def test_a_tool_may_need_permission(end: Any, content: str, ran: int) -> None:
    runs: list[int] = []

    def tool(city: str) -> str:
        runs.append(1)
        return "x"

    person = FakePrompter(end)
    bench = Bench(
        [reply(call("tool", text='{"city": "Delft"}')), DONE],
        tools=[PythonTool(tool)],
        person=person,
        config=for_tool("tool", run="ask"),
    )
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.is_error, len(runs)) == (content, False, ran)
    [prompt] = person.asked
    assert isinstance(prompt, ActionPrompt)
    assert prompt.text == "Run Python tool tool?"
    assert prompt.exhibits == (Exhibit("Arguments", {"city": "Delft"}),)
    labels = [action.label for action in prompt.actions]
    assert labels[:4] == [
        "Run",
        "Run all its calls this turn",
        "Skip",
        "Skip all its calls this turn",
    ]
    assert prompt.actions[1] == Action("Y", "Run all its calls this turn", "run_turn")


@pytest.mark.parametrize(
    ("decision", "contents"),
    [
        ("run_turn", ["x", "x", "x"]),
        (
            "skip_turn",
            [
                "Tool skipped by user.",
                "Tool skipped by user (remembered).",
                "Tool skipped by user (remembered).",
            ],
        ),
    ],
)
async def test_a_decision_for_the_turn_also_answers_prompts_that_wait(
    decision: str, contents: list[str]
) -> None:
    person = FakePrompter(yes(decision))
    both = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    bench = Bench(
        [both, reply(call("t", "c3")), DONE],
        tools=[returning("x")],
        person=person,
        config=for_tool("t", run="ask"),
    )
    await bench.run()
    assert [r.content for r in bench.of(ToolCallResponse)] == contents
    assert len(person.asked) == 1


@pytest.mark.parametrize(
    ("config", "content"),
    [
        ({"run": "skip"}, "Tool skipped by user."),
        ({"result": "skip"}, "Result delivery skipped by configuration."),
    ],
)
async def test_a_tool_or_its_result_may_be_skipped_by_configuration(
    config: Any, content: str
) -> None:
    bench = Bench(
        [reply(call("t")), DONE], tools=[returning("secret")], config=for_tool("t", **config)
    )
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.is_error) == (content, False)
    assert "secret" not in repr(bench.shown)


@pytest.mark.parametrize(
    ("end", "content"),
    [
        (yes("deliver"), "x"),
        (yes("skip"), "Result delivery skipped by user."),
        (CANCELLED, "Result delivery skipped by user."),
    ],
)
async def test_a_result_may_need_delivery(end: Any, content: str) -> None:
    person = FakePrompter(end)
    bench = Bench(
        [reply(call("t")), DONE],
        tools=[returning("x")],
        person=person,
        config=for_tool("t", result="ask"),
    )
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.is_error) == (content, False)
    [prompt] = person.asked
    assert isinstance(prompt, ActionPrompt)
    assert prompt.text == "Deliver t result to assistant?"
    assert prompt.exhibits == (Exhibit("Result", "x"),)


@pytest.mark.parametrize("setting", ["run", "result"])
async def test_with_nobody_there_a_decision_is_refused_and_names_its_setting(setting: str) -> None:
    bench = Bench(
        [reply(call("t")), DONE],
        tools=[returning("secret")],
        person=FakePrompter(away="no kernel"),
        config=for_tool("t", **{setting: "ask"}),
    )
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert response.is_error
    what = "did not run" if setting == "run" else "ran and its result is not delivered"
    assert response.content == (
        f"t {what}: it needs a person's decision and nobody can be asked: no kernel. The owner "
        f'may set conversation.tools.t.{setting} = "unattended". Do not retry this tool call in '
        "this turn."
    )
    assert "secret" not in repr(bench.stream.raw)


@pytest.mark.parametrize("setting", ["run", "result"])
async def test_a_decision_whose_prompt_fails_is_refused(setting: str) -> None:
    bench = Bench(
        [reply(call("t")), DONE],
        tools=[returning("secret")],
        person=FakePrompter(RuntimeError("gone")),
        config=for_tool("t", **{setting: "ask"}),
    )
    async with asyncio.timeout(5):
        await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert response.is_error
    assert "the prompt failed: RuntimeError: gone" in response.content


async def test_prompts_wait_in_line_and_one_is_shown_at_a_time() -> None:
    def ask(key: str) -> PythonTool:
        def function(ctx: ToolContext) -> Outcome:
            question = Question.text(key, f"{key}?")
            return Success(str(ctx.answers[key])) if ctx.answers else NeedsInput(question)

        return PythonTool(function, name=key)

    person = FakePrompter(yes("1"), yes("2"), yes("3"))
    names = ["a", "b", "c"]
    calls = [call(name, f"c{name}", index=n) for n, name in enumerate(names)]
    bench = Bench([reply(*calls), DONE], tools=[ask(name) for name in names], person=person)
    async with asyncio.timeout(5):
        await bench.run()
    assert [p.question.id for p in person.asked] == names
    assert person.most_at_once == 1
    assert [r.content for r in bench.of(ToolCallResponse)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("question", "config"),
    [
        (Question.boolean("sure", "?").with_exclusive(), {}),
        (Question.boolean("sure", "?"), {}),
        (None, {"run": "ask"}),
        (None, {"result": "ask"}),
    ],
    ids=["exclusive", "open", "run", "result"],
)
async def test_strict_ends_the_turn_after_the_batch_when_nobody_can_decide(
    question: Question | None, config: Any
) -> None:
    def function() -> Outcome:
        return Success("x") if question is None else NeedsInput(question)

    calls = [call("t", "c1", index=1), call("other", "c2", index=2)]
    bench = Bench(
        [reply(*calls)],
        tools=[PythonTool(function, name="t"), returning("kept", name="other")],
        person=FakePrompter(away="no kernel"),
        config=for_tool("t", **config),
        strict=True,
    )
    with pytest.raises(PromptUnavailable, match="no kernel") as caught:
        await bench.run()
    assert caught.value.reason == "no kernel"
    assert [r.id for r in bench.of(ToolCallResponse)] == ["c1", "c2"]
    assert bench.of(ToolCallResponse)[1].content == "kept"
    assert well_formed(bench.stream)


# --- how a response ends ---------------------------------------------------------------------


async def test_a_refusal_leaves_nothing_of_the_answer() -> None:
    events: list[Any] = [*say("I will"), *call("t"), Finished("refused", "policy")]
    bench = Bench([events], tools=[returning("x")])
    end = await bench.run()
    assert end.status == "completed"
    assert bench.kinds() == ["turn_start", "chat_request"]
    assert bench.shown[-2:] == [DiscardText(), Notice("⚠ The model refused to answer: policy")]


async def test_at_the_token_limit_texts_are_kept_and_unfinished_calls_drop() -> None:
    cut: list[Any] = [ToolCallStart(1, "c", "t"), ToolCallArguments(1, '{"a')]
    bench = Bench([[TextPart(0, "message", "So far"), *cut, Finished("max_tokens")]])
    await bench.run()
    assert bench.turn.text == "So far"
    assert bench.of(ToolCallRequest) == []
    assert [notice.text for notice in bench.shown_of(Notice)] == [
        "⚠ The call of t was cut off and did not run",
        "⚠ The answer reached the token limit and is cut off",
    ]


async def test_another_end_is_noticed_with_the_providers_word() -> None:
    bench = Bench([[*say("Hm."), Finished("other", "pause_turn")]])
    await bench.run()
    assert bench.shown_of(Notice) == [Notice("⚠ The model stopped: pause_turn")]
    assert bench.turn.text == "Hm."


async def test_messages_of_nothing_but_space_are_dropped_and_keep_alives_ignored() -> None:
    bench = Bench([[KeepAlive(), *say(" \n"), *say("x", index=1), KeepAlive(), Finished()]])
    await bench.run()
    assert [r.message for r in bench.of(ChatResponse)] == ["x"]


# --- retries ---------------------------------------------------------------------------------


WORDS = {
    "timeout": "no answer in time",
    "connect": "no connection",
    "rate_limit": "rate limit",
    "transient": "server in trouble",
}


@pytest.mark.parametrize("kind", list(WORDS))
async def test_what_may_pass_is_tried_again_and_why_is_shown_while_it_waits(kind: Any) -> None:
    bench = Bench([[ProviderError("x", kind=kind)], DONE])
    await bench.run()
    name = "test/test-model"
    assert bench.waits() == [name, f"{name}: {WORDS[kind]}, attempt 2 of 6", name, ""]
    [wait] = [event for event in bench.passing if isinstance(event, Waits) and event.until]
    assert wait.until is not None
    assert wait.until - monotonic() <= bench.slept[0]
    assert bench.shown_of(Notice) == []  # nothing of it stays
    assert bench.turn.text == "Done."
    assert len(bench.slept) == 1


@pytest.mark.parametrize("kind", ["quota", "output_limit", "other"])
async def test_what_will_not_pass_is_raised_at_once(kind: Any) -> None:
    bench = Bench([[*say("So far")[:1], ProviderError("x", kind=kind)]])
    with pytest.raises(ProviderError):
        await bench.run()
    assert (bench.turn.text, bench.slept) == ("So far", [])
    assert well_formed(bench.stream)


async def test_an_error_with_a_wish_to_wait_is_retried_after_that_time() -> None:
    bench = Bench([[ProviderError("x", kind="other", retry_after=7.0)], DONE])
    await bench.run()
    assert bench.slept == [7.0]


async def test_after_as_many_tries_as_allowed_the_error_is_raised() -> None:
    request = RequestConfig(max_retries=2, base_backoff_ms=1000)
    bench = Bench([[BROKEN]] * 3, request=request)
    with pytest.raises(ProviderError, match="reset"):
        await bench.run()
    assert [text.partition(": ")[2] for text in bench.waits() if ":" in text] == [
        "server in trouble, attempt 2 of 3",
        "server in trouble, attempt 3 of 3",
    ]
    assert bench.shown_of(Notice)[-1] == Notice(REQUEST_FAILED)
    assert [int(seconds) for seconds in bench.slept] == [1, 2]


@pytest.mark.parametrize(
    ("attempts", "retries", "times"),
    [("---", 2, "3 times"), ("-", 0, "once"), ("-a-", 1, "3 times")],  # `a` is content
)
async def test_an_error_that_is_final_says_how_often_it_was_tried(
    attempts: str, retries: int, times: str
) -> None:
    def busy() -> ProviderError:
        return ProviderError("slow down. Wait.", kind="rate_limit", status=429)

    scripts: list[Any] = [[*say("a")[: each == "a"], busy()] for each in attempts]
    bench = Bench(scripts, request=RequestConfig(max_retries=retries))
    with pytest.raises(ProviderError) as caught:
        await bench.run()
    assert str(caught.value) == f"slow down. Wait. It was tried {times}."
    assert caught.value.status == 429


async def test_content_starts_the_count_again() -> None:
    request = RequestConfig(max_retries=1)
    scripts: list[Any] = [[BROKEN], [*say("a")[:1], BROKEN], DONE]
    bench = Bench(scripts, request=request)
    await bench.run()
    again = "test/test-model: server in trouble, attempt 2 of 2"
    assert bench.waits().count(again) == 2


async def test_an_answer_that_breaks_off_after_a_little_of_it_is_not_asked_for_for_ever() -> None:
    scripts = [[*say("a")[:1], ProviderError("reset", kind="transient")] for _ in range(20)]
    bench = Bench(scripts, request=RequestConfig(max_retries=2))
    with pytest.raises(ProviderError, match="It was tried 9 times"):
        await bench.run()
    assert len(bench.provider.requests) == 9


async def test_a_broken_answer_is_kept_and_ends_the_thread_of_the_next_request() -> None:
    partial: list[Any] = [*say("Once upon")[:1], *call("t", index=1)[:2]]
    bench = Bench([[*partial, BROKEN], [BROKEN], reply(say(" a time."))], tools=[returning("x")])
    await bench.run()
    assert [r.message for r in bench.of(ChatResponse)] == ["Once upon", " a time."]
    assert bench.of(ToolCallRequest) == []
    assert bench.provider.requests[1][1][-1] == bench.of(ChatResponse)[0]
    assert len(bench.of(ChatRequest)) == 1  # how the model is asked to go on is the provider's


async def test_half_of_a_structured_answer_is_not_kept() -> None:
    half: list[Any] = [TextPart(0, "structured", '{"a": '), BROKEN]
    whole: list[Any] = [TextPart(0, "structured", '{"a": 1}'), Flush(0), Finished()]
    bench = Bench([half, whole])
    await bench.run()
    assert bench.turn.data == {"a": 1}
    assert len(bench.of(ChatResponse)) == 1


async def test_a_stream_that_just_ends_is_a_transient_error() -> None:
    bench = Bench([say("So far"), DONE])
    await bench.run()
    assert "test/test-model: server in trouble, attempt 2 of 6" in bench.waits()
    assert bench.turn.text == "So far\n\nDone."
    assert bench.provider.closed == 2


async def test_a_provider_that_mends_its_request_is_called_again_but_not_for_ever() -> None:
    bench = Bench([*[[Retry("bad signature")]] * 10, DONE])
    await bench.run()
    assert (bench.turn.text, bench.slept) == ("Done.", [])
    bench = Bench([[Retry("bad signature")]] * 11)
    with pytest.raises(ProviderError, match="keeps rejecting the thread: bad signature"):
        await bench.run()


async def test_a_fault_of_a_provider_is_raised_and_keeps_what_arrived() -> None:
    bench = Bench([[*say("So far")[:1], ZeroDivisionError("bug")]])
    with pytest.raises(ZeroDivisionError):
        await bench.run()
    assert bench.turn.text == "So far"


@pytest.mark.parametrize(
    ("attempt", "retry_after", "least", "most"),
    [
        (1, None, 1.0, 1.5),
        (3, None, 4.0, 4.5),
        (9, None, 60, 60),
        (1, 2.5, 2.5, 2.5),
        (1, 99, 60, 60),
    ],
)
def test_the_wait_doubles_up_to_the_ceiling_or_is_what_the_server_wants(
    attempt: int, retry_after: float | None, least: float, most: float
) -> None:
    assert least <= backoff(RequestConfig(), attempt, retry_after) <= most


# --- interrupts ------------------------------------------------------------------------------


async def interrupted(bench: Bench, when: Callable[[], object]) -> None:
    """Run until `when` holds, interrupt, and see that the turn ended as it should."""
    task = asyncio.create_task(bench.run())
    await until(when)
    bench.loop.interrupt()
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        end = await task
    assert end.status == "interrupted"
    assert well_formed(bench.stream)


async def test_an_interrupt_while_streaming_keeps_what_arrived() -> None:
    arrived: list[Any] = [*say("All of it"), TextPart(1, "reasoning", "Hm"), *call("t", index=2)]
    bench = Bench([[Usage(output_tokens=4), *arrived, *say("and mo", index=3)[:1], forever]])
    await interrupted(
        bench, lambda: bench.shown_of(ShowText)[-1:] == [ShowText("message", "and mo")]
    )
    texts = [r.message or r.reasoning for r in bench.of(ChatResponse)]
    assert texts == ["All of it", "Hm", "and mo"]
    assert bench.of(ToolCallRequest) == []
    assert bench.loop.usage.output_tokens == 4
    assert bench.provider.closed == 1
    assert bench.shown[-1] == EndOfText()


async def test_an_interrupt_before_anything_arrived_leaves_the_request_alone() -> None:
    bench = Bench([[forever]])
    await interrupted(bench, lambda: bench.provider.requests)
    assert bench.kinds() == ["turn_start", "chat_request", "config_delta"]
    assert no_answer(bench.entries[-1]) == NoAnswer("interrupted")


async def test_an_interrupt_before_the_turn_began_records_nothing() -> None:
    bench = Bench([DONE])
    bench.loop.interrupt()
    assert (await bench.run()).status == "interrupted"
    assert bench.kinds() == []


async def test_an_interrupt_during_the_wait_for_a_retry_ends_it() -> None:
    bench = Bench([[*say("So far")[:1], BROKEN]])
    waiting: list[float] = []

    async def wait(seconds: float) -> None:
        waiting.append(seconds)
        await forever()

    bench.loop.sleep = wait
    await interrupted(bench, lambda: waiting)
    assert bench.turn.text == "So far"


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_an_interrupt_while_tools_run_answers_what_is_open_and_keeps_what_is_done(
    kind: str,
) -> None:
    hold = threading.Event()
    cleaned: list[str] = []

    async def slow() -> str:
        try:
            return str(await forever())
        finally:
            cleaned.append("async")

    def slow_thread() -> str:
        hold.wait(10)
        return ""

    function = slow if kind == "async" else slow_thread
    tool = PythonTool(function, name="slow", thread=kind == "thread")
    calls = [call("slow", "c1", index=1), call("fast", "c2", index=2)]
    bench = Bench([reply(*calls)], tools=[tool, returning("x", name="fast")])
    try:
        await interrupted(bench, lambda: bench.shown_of(ToolEnds))
    finally:
        hold.set()
    contents = [(r.id, r.content, r.is_error) for r in bench.of(ToolCallResponse)]
    assert contents == [("c1", CANCELLATION, False), ("c2", "x", False)]
    assert cleaned == (["async"] if kind == "async" else [])


async def test_the_response_to_a_cancelled_call_can_be_configured() -> None:
    async def slow() -> None:
        await forever()

    config = for_tool("slow", cancellation_response="Stop.")
    bench = Bench([reply(call("slow"))], tools=[PythonTool(slow)], config=config)
    await interrupted(bench, lambda: bench.shown_of(ToolBegins))
    assert bench.of(ToolCallResponse)[0].content == "Stop."


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_up_the_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jp_nb.agent.batch_events.STOP_GRACE", 0.05)
    release = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    bench = Bench([reply(call("stubborn"))], tools=[PythonTool(stubborn)])
    await interrupted(bench, lambda: bench.shown_of(ToolBegins))
    release.set()
    await asyncio.sleep(0.01)
    assert [r.content for r in bench.of(ToolCallResponse)] == [CANCELLATION]


async def test_a_tool_of_the_cell_that_the_interrupt_cut_short_was_stopped_by_it() -> None:
    class Cell:
        async def call(self, function: Any) -> Any:
            bench.loop.interrupt()  # as the cell's thread does, whose tool was interrupted
            raise CallInterrupted from KeyboardInterrupt()

        def release(self) -> None:
            pass

    person = FakePrompter(away="no kernel")
    bench = Bench([reply(call("t"))], tools=[returning("x")], person=person)
    bench.loop.cell = Cell()
    assert (await bench.run()).status == "interrupted"
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.is_error) == (stopped(STOP, ran=True), False)
    assert bench.shown_of(ToolEnds)[0].traceback is None


@pytest.mark.parametrize("end", [None, CANCELLED], ids=["waiting", "ended before"])
async def test_an_interrupt_closes_prompts_that_are_shown_or_wait(end: Any) -> None:
    async def wait() -> Any:
        if end is None:
            await forever()
        return end

    def ask(ctx: ToolContext) -> Outcome:
        return NeedsInput(Question.boolean("sure", "Sure?"))

    calls = [call("ask", f"c{n}", index=n) for n in (1, 2)]
    calls.append(call("other", "c3", index=3))
    person = FakePrompter(wait, forever)
    bench = Bench(
        [reply(*calls)],
        tools=[PythonTool(ask), returning("x", name="other")],
        person=person,
        config=for_tool("other", run="ask"),
    )
    await interrupted(bench, lambda: len(person.asked) == (2 if end else 1))
    assert [(r.outcome, r.reason) for r in bench.of(InquiryResponse)] == [("cancelled", "user")] * 2
    contents = [(r.content, r.is_error) for r in bench.of(ToolCallResponse)]
    last = "Tool skipped by user." if end else CANCELLATION
    assert contents == [(CANCELLATION, False), (CANCELLATION, False), (last, False)]
    assert bench.of(InquiryResponse)[1].metadata == {"end": "interrupted"}


async def test_a_turn_that_is_cancelled_from_outside_raises_and_is_well_formed() -> None:
    async def slow() -> None:
        await forever()

    bench = Bench([reply(call("slow"))], tools=[PythonTool(slow)])
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown_of(ToolBegins))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert well_formed(bench.stream)


async def test_a_fault_while_calls_are_coordinated_leaves_a_well_formed_record() -> None:
    def broken(event: Any) -> None:
        if isinstance(event, ToolBegins):
            raise ZeroDivisionError("bug")

    bench = Bench([reply(call("t"))], tools=[returning("x")])
    bench.loop.display = broken
    with pytest.raises(ZeroDivisionError):
        await bench.run()
    assert well_formed(bench.stream)


async def test_a_turn_after_an_interrupted_one_goes_on_with_the_same_record() -> None:
    bench = Bench([[*say("So f")[:1], forever]])
    await interrupted(bench, lambda: bench.shown)
    assert not bench.stream.repair()
    again = Bench([DONE], stream=bench.stream)
    await again.run("And now?")
    assert [entry.type for entry in again.provider.requests[0][1]] == [
        "chat_request",
        "chat_response",
        "chat_request",
    ]


async def test_a_schema_that_the_model_cannot_answer_in_ends_before_anything_is_recorded() -> None:
    bench = Bench([DONE])

    def refuse(schema: Any) -> None:
        raise UsageError(f"cannot take {schema}")

    bench.provider.check_schema = refuse  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="cannot take"):
        await bench.loop.run(ChatRequest(content="Go.", schema={"type": "object"}))
    assert (bench.kinds(), bench.provider.requests) == ([], [])


async def test_a_resumed_call_of_a_turn_that_fails_at_once_is_not_said_to_have_never_run() -> None:
    bench = Bench([DONE])
    bench.stream.start_turn(ChatRequest(content="Go."))
    bench.stream.append(ToolCallRequest(id="c1", name="look", arguments={}))
    resolve = bench.loop.resolve

    def damaged(_: Thread) -> Sequence[RecordedResult]:
        raise StorageError("the cassette is damaged")

    async def resolved() -> Resolved:
        return replace(await resolve(), results=damaged)

    bench.loop.resolve = resolved
    with pytest.raises(StorageError, match="damaged"):
        await bench.loop.resume(open_calls(bench.stream, {}), [])
    [response] = bench.of(ToolCallResponse)
    assert response.content == RAN_BEFORE.format(NEVER_RAN)
