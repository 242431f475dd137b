"""Requests that fail: retries, backoff, partial answers."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import BROKEN, DONE, call, make_result_tool, reply, say
from tests.kit.kinds import is_kind
from tests.kit.models import model_event
from tests.kit.screens import display_event
from tests.kit.turn_bench import TurnBench

REQUEST_FAILED = "⚠ The request failed. Run the cell again, or `%jp resume`."


FINAL: list[Any] = ["quota", "output_limit", "other"]


WORDS: dict[Any, str] = {
    "timeout": "no answer in time",
    "connect": "no connection",
    "rate_limit": "rate limit",
    "transient": "server error",
}


async def test_transient_errors_are_retried_and_shown_while_waiting() -> None:
    for kind, words in WORDS.items():
        bench = TurnBench([[jp.ProviderError("x", kind=kind)], DONE])
        await bench.run()
        name = "test/test-model"
        assert bench.waits() == [name, f"{name}: {words}, attempt 2 of 6", name, ""]
        [wait] = [event for event in bench.passing if is_kind(event, "waits") and event.until]
        assert wait.until is not None
        assert wait.until - monotonic() <= bench.slept[0]
        assert bench.shown_of("notice") == []  # a wait leaves nothing on screen
        assert bench.turn.text == "Done."
        assert len(bench.slept) == 1


async def test_final_errors_are_raised_at_once() -> None:
    for kind in FINAL:
        bench = TurnBench([[*say("So far")[:1], jp.ProviderError("x", kind=kind)]])
        with pytest.raises(jp.ProviderError):
            await bench.run()
        assert (bench.turn.text, bench.slept) == ("So far", [])
        assert bench.is_well_formed


async def test_retry_after_is_honored() -> None:
    bench = TurnBench([[jp.ProviderError("x", kind="other", retry_after=7.0)], DONE])
    await bench.run()
    assert bench.slept == [7.0]


async def test_error_is_raised_after_the_configured_retries() -> None:
    request = {"max_retries": 2, "base_backoff_ms": 1000}
    bench = TurnBench([[BROKEN]] * 3, request=request)
    with pytest.raises(jp.ProviderError, match="reset"):
        await bench.run()
    assert [text.partition(": ")[2] for text in bench.waits() if ":" in text] == [
        "server error, attempt 2 of 3",
        "server error, attempt 3 of 3",
    ]
    assert bench.shown_of("notice")[-1] == display_event("notice", REQUEST_FAILED)
    assert [int(seconds) for seconds in bench.slept] == [1, 2]


@pytest.mark.parametrize(
    ("attempts", "retries", "times"),
    [("---", 2, "3 times"), ("-", 0, "once"), ("-a", 1, "2 times")],  # `a` is content
)
async def test_final_error_has_the_number_of_attempts(
    attempts: str, retries: int, times: str
) -> None:
    def busy() -> jp.ProviderError:
        return jp.ProviderError("slow down. Wait.", kind="rate_limit", status=429)

    scripts: list[Any] = [[*say("a")[: each == "a"], busy()] for each in attempts]
    bench = TurnBench(scripts, request={"max_retries": retries})
    with pytest.raises(jp.ProviderError) as caught:
        await bench.run()
    assert str(caught.value) == f"slow down. Wait. It was tried {times}."
    assert caught.value.status == 429


@pytest.mark.parametrize("max_retries", [0, 1, 5])
async def test_answer_that_breaks_off_again_and_again_is_bounded_by_the_retries(
    max_retries: int,
) -> None:
    broken = jp.ProviderError("reset", kind="transient")
    scripts: list[Any] = [[*say("a")[:1], broken] for _ in range(40)]
    bench = TurnBench(scripts, request={"max_retries": max_retries})
    with pytest.raises(jp.ProviderError):
        await bench.run()
    attempts = max_retries + 1
    assert len(bench.provider.requests) == attempts
    shown = [text.partition(", ")[2] for text in bench.waits() if ", " in text]
    assert shown == [f"attempt {n} of {attempts}" for n in range(2, attempts + 1)]


async def test_continuations_share_the_retries_of_their_answer() -> None:
    def cut(text: str) -> list[Any]:
        return [*say(text), model_event("finished", "max_tokens")]

    broken = jp.ProviderError("reset", kind="transient")
    scripts: list[Any] = [
        [broken],
        cut("One "),
        [*say("two ")[:1], broken],
        cut("three "),
        [broken],
    ]
    bench = TurnBench(scripts, request={"max_retries": 2}, continues_answers=True)
    with pytest.raises(jp.ProviderError, match="It was tried 3 times"):
        await bench.run()
    assert len(bench.provider.requests) == 5
    assert bench.waits().count("test/test-model: server error, attempt 3 of 3") == 1


async def test_partial_answer_is_kept_and_sent_with_the_retry() -> None:
    partial: list[Any] = [*say("Once upon")[:1], *call("t", index=1)[:2]]
    bench = TurnBench(
        [[*partial, BROKEN], [BROKEN], reply(say(" a time."))], tools=[make_result_tool("x")]
    )
    await bench.run()
    assert [r.message for r in bench.of("chat_response")] == ["Once upon", " a time."]
    assert bench.of("tool_call_request") == []
    assert bench.provider.requests[1][1][-1] == bench.of("chat_response")[0]
    assert len(bench.of("chat_request")) == 1


async def test_partial_structured_answer_is_not_kept() -> None:
    half: list[Any] = [model_event("text", 0, "structured", '{"a": '), BROKEN]
    whole: list[Any] = [
        model_event("text", 0, "structured", '{"a": 1}'),
        model_event("flush", 0),
        model_event("finished"),
    ]
    bench = TurnBench([half, whole])
    await bench.run()
    assert bench.turn.data == {"a": 1}
    assert len(bench.of("chat_response")) == 1


async def test_stream_without_an_end_is_a_transient_error() -> None:
    bench = TurnBench([say("So far"), DONE])
    await bench.run()
    assert "test/test-model: server error, attempt 2 of 6" in bench.waits()
    assert bench.turn.text == "So far\n\nDone."
    assert bench.provider.closed == 2


async def test_provider_that_corrects_its_request_is_called_again_within_limits() -> None:
    bench = TurnBench([*[[model_event("retry", "bad signature")]] * 10, DONE])
    await bench.run()
    assert (bench.turn.text, bench.slept) == ("Done.", [])
    bench = TurnBench([[model_event("retry", "bad signature")]] * 11)
    with pytest.raises(jp.ProviderError, match="keeps rejecting the conversation: bad signature"):
        await bench.run()


async def test_internal_error_of_a_provider_keeps_the_partial_answer() -> None:
    bench = TurnBench([[*say("So far")[:1], ZeroDivisionError("bug")]])
    with pytest.raises(ZeroDivisionError):
        await bench.run()
    assert bench.turn.text == "So far"


async def test_backoff_doubles_up_to_the_ceiling_unless_the_server_sets_it() -> None:
    bench = TurnBench([[BROKEN]] * 9 + [DONE], request={"max_retries": 9})
    await bench.run()
    rows: list[tuple[int, float, float]] = [(0, 1.0, 1.5), (2, 4.0, 4.5), (8, 60, 60)]
    for attempt, least, most in rows:
        assert least <= bench.slept[attempt] <= most

    # The pauses of a long outage do not outgrow a number.
    bench = TurnBench([[BROKEN]] * 1100 + [DONE], request={"max_retries": 1100})
    await bench.run()
    assert bench.slept[-1] == 60

    for retry_after, waited in [(2.5, 2.5), (99, 60)]:
        busy = jp.ProviderError("busy", kind="transient", retry_after=retry_after)
        bench = TurnBench([[busy], DONE])
        await bench.run()
        assert bench.slept == [waited]
