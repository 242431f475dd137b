"""Answers as they stream: ends, continuation at the token limit."""

from __future__ import annotations

from typing import Any

from jp_nb.agent.display_events import DiscardText, Notice
from jp_nb.agent.model_events import Finished, KeepAlive, TextPart, ToolCallArguments, ToolCallStart
from jp_nb.record.events import ChatResponse, ToolCallRequest
from jp_nb.tooling.python import PythonTool
from tests.support.fakes import Bench, call, say


def returning(content: str, *, name: str = "t") -> PythonTool:
    return PythonTool(lambda: content, name=name)


async def test_refused_answer_is_discarded() -> None:
    events: list[Any] = [*say("I will"), *call("t"), Finished("refused", "policy")]
    bench = Bench([events], tools=[returning("x")])
    end = await bench.run()
    assert end.status == "completed"
    assert bench.kinds() == ["turn_start", "chat_request"]
    assert bench.shown[-2:] == [DiscardText(), Notice("⚠ The model refused to answer: policy")]


async def test_texts_are_kept_and_unfinished_calls_dropped_at_the_token_limit() -> None:
    cut: list[Any] = [ToolCallStart(1, "c", "t"), ToolCallArguments(1, '{"a')]
    bench = Bench([[TextPart(0, "message", "So far"), *cut, Finished("max_tokens")]])
    await bench.run()
    assert bench.turn.text == "So far"
    assert bench.of(ToolCallRequest) == []
    assert [notice.text for notice in bench.shown_of(Notice)] == [
        "⚠ The call of t was cut off and did not run",
        "⚠ The answer reached the token limit and is cut off",
    ]


async def test_other_finish_reason_is_shown() -> None:
    bench = Bench([[*say("Hm."), Finished("other", "pause_turn")]])
    await bench.run()
    assert bench.shown_of(Notice) == [Notice("⚠ The model stopped: pause_turn")]
    assert bench.turn.text == "Hm."


async def test_blank_messages_and_keep_alives_are_ignored() -> None:
    bench = Bench([[KeepAlive(), *say(" \n"), *say("x", index=1), KeepAlive(), Finished()]])
    await bench.run()
    assert [r.message for r in bench.of(ChatResponse)] == ["x"]
