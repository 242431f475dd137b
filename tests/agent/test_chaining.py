"""Answers that reach the token limit: gone on with, in one text, and not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.agent.attempt import CUT_CALL, MAX_CONTINUATIONS
from jp_nb.agent.display_events import DiscardText, EndOfText, Notice, ShowText
from jp_nb.agent.model_events import (
    Finished,
    Flush,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.agent.response import Seam
from jp_nb.config.tree.model_config import Request as RequestConfig
from jp_nb.errors import ProviderError
from jp_nb.providers.registry import create
from jp_nb.record.events import ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.rendering.transcript import Transcript
from jp_nb.tooling.python import PythonTool
from tests.support.fakes import Bench, FakePrompter, call, forever, reply, say, until, yes
from tests.support.loopback import LoopbackServer, Reply
from tests.support.over_http import over_http

LIMIT = Finished("max_tokens")
DONE = reply(say("Done."))


def cut(*parts: Any) -> list[Any]:
    return [*(event for part in parts for event in part), LIMIT]


def messages(bench: Bench) -> list[str | None]:
    return [r.message for r in bench.of(ChatResponse) if r.kind == "message"]


def notices(bench: Bench) -> list[str]:
    return [notice.text for notice in bench.shown_of(Notice)]


def shown(bench: Bench) -> str:
    transcript = Transcript()
    transcript.apply(bench.shown)
    return transcript.plain_text()


async def test_an_answer_that_reaches_the_limit_is_gone_on_with_in_one_text() -> None:
    bench = Bench([cut(say("The qu")), cut(say("ick br")), reply(say("own fox."))], chains=True)
    assert (await bench.run()).status == "completed"
    assert messages(bench) == ["The qu", "ick br", "own fox."], "one entry for each response"
    assert bench.turn.text == shown(bench) == "The quick brown fox."
    assert notices(bench) == []
    sent = [[entry.type for entry in thread] for _, thread in bench.provider.requests]
    assert sent == [["chat_request", *["chat_response"] * n] for n in range(3)]


async def test_it_is_given_up_in_the_end_and_that_is_said() -> None:
    bench = Bench([cut(say(f"<{n}>")) for n in range(9)], chains=True)
    assert (await bench.run()).status == "completed"
    assert len(bench.provider.requests) == MAX_CONTINUATIONS + 1 == 6
    assert bench.turn.text == "<0><1><2><3><4><5>"
    assert notices(bench) == ["⚠ The answer reached the token limit 6 times and is cut off"]


@pytest.mark.parametrize(
    ("response", "chains", "limits"),
    [
        (cut(say("So far")), False, {}),
        (cut([TextPart(0, "reasoning", "hm"), Flush(0)]), True, {}),
        (cut(say("So far"), call("t")), True, {}),
        (cut([Usage(output_tokens=9)], say("So far")), True, {"max_total_tokens": 8}),
    ],
    ids=["switched off", "nothing said", "a call", "too many tokens"],
)
async def test_when_an_answer_is_not_gone_on_with(
    response: list[Any], chains: bool, limits: Any
) -> None:
    tool = PythonTool(lambda: "x", name="t")
    request = RequestConfig(**limits)
    bench = Bench([response, DONE], tools=[tool], chains=chains, request=request)
    await bench.run()
    assert "⚠ The answer reached the token limit and is cut off" in notices(bench)
    assert len(bench.provider.requests) == 1 + bool(bench.of(ToolCallRequest))


async def test_reasoning_and_what_is_repeated_are_left_out_of_what_follows() -> None:
    again: list[Any] = [
        *[TextPart(0, "reasoning", "Where was I?"), Flush(0, {"signature": "s"})],
        *[TextPart(1, "message", piece) for piece in ("once ", "upon ", "a time", " there")],
        Flush(1),
        Finished(),
    ]
    bench = Bench([cut(say("It was once upon a time")), again], chains=True)
    await bench.run()
    assert bench.turn.text == shown(bench) == "It was once upon a time there"
    assert [r.kind for r in bench.of(ChatResponse)] == ["message", "message"]


async def test_one_that_only_repeats_itself_is_not_gone_on_with_again() -> None:
    bench = Bench([cut(say("and so on")), cut(say("and so on"))], chains=True)
    await bench.run()
    assert (bench.turn.text, shown(bench).splitlines()[0]) == ("and so on", "and so on")
    assert len(bench.provider.requests) == 2


async def test_a_tool_call_may_come_in_what_follows() -> None:
    tool = PythonTool(lambda: "x", name="t")
    bench = Bench([cut(say("Let me lo")), reply(say("ok."), call("t")), DONE], [tool], chains=True)
    await bench.run()
    assert bench.turn.text == "Let me look.\n\nDone."
    assert len(bench.of(ToolCallResponse)) == 1


async def test_a_break_in_what_follows_keeps_all_of_it() -> None:
    broken: list[Any] = [TextPart(0, "message", "two "), ProviderError("reset", kind="transient")]
    bench = Bench([cut(say("one ")), broken, reply(say("three"))], chains=True)
    await bench.run()
    assert bench.turn.text == "one two three"


async def test_a_refusal_in_what_follows_leaves_on_screen_what_is_in_the_record() -> None:
    refused: list[Any] = [TextPart(0, "message", " and bad"), Finished("refused")]
    bench = Bench([cut(say("Good")), refused], chains=True)
    await bench.run()
    assert bench.turn.text == "Good"
    assert bench.shown_of(DiscardText)
    assert shown(bench).splitlines() == ["Good", "⚠ The model refused to answer"]


async def test_an_abort_in_what_follows_says_what_is_kept() -> None:
    bench = Bench([cut(say("one ")), [TextPart(0, "message", "two "), forever]],
                  person=FakePrompter(yes("abort")), chains=True)  # fmt: skip
    task = asyncio.create_task(bench.run())
    await until(lambda: ShowText("message", "two ") in bench.shown)
    bench.loop.interrupt()
    assert (await task).status == "interrupted"
    assert bench.turn.text == "one "
    assert "⚠ Aborted: only what came before the continuation is kept" in notices(bench)


@pytest.mark.parametrize("text", ['{"a": "lon', ""], ids=["in the middle", "before the first"])
async def test_a_call_that_was_cut_does_not_run_and_everybody_is_told(text: str) -> None:
    ran: list[int] = []
    tool = PythonTool(lambda a="": ran.append(1), name="t")
    arguments = [ToolCallArguments(2, text)] if text else []
    cut_call: list[Any] = [ToolCallStart(2, "c2", "t"), *arguments, Flush(2), LIMIT]
    whole = call("t", "c1", index=1)
    bench = Bench([[*say("Now."), *whole, *cut_call], DONE], tools=[tool], chains=True)
    await bench.run()
    assert ran == [1]
    last = bench.of(ToolCallResponse)[1]
    assert (last.id, last.content, last.is_error) == ("c2", CUT_CALL, True)
    assert "⚠ The call of t was cut off and did not run" in notices(bench)


async def test_a_call_whose_arguments_are_whole_at_the_limit_runs() -> None:
    tool = PythonTool(lambda: "x", name="t")
    bench = Bench([cut(say("Now."), call("t")), DONE], tools=[tool])
    await bench.run()
    assert [r.content for r in bench.of(ToolCallResponse)] == ["x"]


async def test_texts_that_are_not_gone_on_with_end_where_they_did() -> None:
    bench = Bench([reply(say("One."), say("Two.", index=1))])
    await bench.run()
    ends = [event for event in bench.shown if isinstance(event, ShowText | EndOfText)]
    assert [type(event) for event in ends] == [ShowText, EndOfText] * 2
    assert shown(bench) == "One.\nTwo."


async def test_anthropic_is_sent_the_answer_so_far_and_asked_to_go_on() -> None:
    replies: list[Reply | str] = [
        Reply(text="The quick", finish="max_tokens"),
        " brown fox.",
        "Yes.",
    ]
    with LoopbackServer(replies) as server:
        provider = create("anthropic", {"base_url": server.url})
        bench = Bench([], chains=True)
        over_http(bench, provider, "anthropic")
        again = Bench([], stream=bench.stream)
        try:
            await bench.run("Tell me.")
            again = Bench([], stream=bench.stream)
            over_http(again, provider, "anthropic")
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


# --- the seam ----------------------------------------------------------------------------------


@given(st.text("ab \n", max_size=30), st.text("ab \n", max_size=30), st.integers(1, 5))
def test_the_seam_takes_a_repeated_beginning_and_nothing_else(
    before: str, after: str, size: int
) -> None:
    seam = Seam(before)
    pieces = [after[start : start + size] for start in range(0, len(after), size)]
    new = "".join([*(seam.feed(piece) for piece in pieces), seam.rest()])
    assert after.endswith(new)
    taken = after[: len(after) - len(new)]
    assert before.endswith(taken)
    assert not taken or (len(taken) >= Seam.SHORTEST and taken.strip())


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ("and then he said", "he said no", " no"),
        ("and then he said", "then he said no", " no"),
        ("the end", "the end", ""),
        ("aaa", "aaa", "aaa"),
        ("x" * 1000 + "hello", "hello world", " world"),
        ("if a:\n        ", "        b()", "        b()"),
    ],
)
def test_what_counts_as_repeated(before: str, after: str, new: str) -> None:
    seam = Seam(before)
    assert seam.feed(after) + seam.rest() == new


def broken() -> ProviderError:
    return ProviderError("reset", kind="transient")


PART = TextPart(0, "message", "ick brown")


async def test_an_answer_that_breaks_off_while_it_goes_on_stays_one_text() -> None:
    scripts = [cut(say("The qu")), [PART, broken()], reply(say("ick brown fox"))]
    bench = Bench(scripts, chains=True)
    await bench.run()
    assert messages(bench) == ["The qu", "ick brown", " fox"]
    assert bench.turn.text == shown(bench) == "The quick brown fox"


@pytest.mark.parametrize(
    ("scripts", "kept"),
    [
        ([[PART, broken()]], "ick brown"),
        ([cut(say("The qu")), [PART, broken()]], "The quick brown"),
        ([[PART, broken()], [TextPart(0, "message", "fox"), broken()]], "ick brown\n\nfox"),
    ],
)
async def test_what_the_record_keeps_is_shown_also_when_the_next_attempt_is_refused(
    scripts: list[Any], kept: str
) -> None:
    bench = Bench([*scripts, [Finished("refused")]], chains=True)
    await bench.run()
    assert bench.turn.text == kept
    assert shown(bench) == f"{kept}\n⚠ The model refused to answer".replace("\n\n", "\n")
