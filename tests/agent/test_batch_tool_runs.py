"""Results of calls: truncated to the configured length."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import is_kind, make
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, yes

READ_REST_HINT = (
    "If you need them, and a second call does no harm, call the tool again for a smaller"
    " part. Use the arguments that it has: a narrower query, a range, a page, or a limit."
)


LEFT_OUT = "conversation.tools.t.result_max_chars is"


def contents_of(bench: TurnBench) -> list[str]:
    return [response.content for response in bench.of("tool_call_response")]


def make_result_tool(content: str, *, fails: bool = False) -> Any:
    def t() -> jp.Outcome | str:
        return make("failure", content) if fails else content

    return new_tool(t)


@pytest.mark.req("PRE-2")
@pytest.mark.parametrize("fails", [False, True])
async def test_long_result_is_truncated_in_the_middle(fails: bool) -> None:
    content = "a" * 40 + "b" * 1000 + "c" * 40
    bench = TurnBench([reply(call("t")), DONE, DONE], [make_result_tool(content, fails=fails)],
                  config=for_tool("t", result_max_chars=81))  # fmt: skip
    await bench.run()
    said = f"999 of 1080 characters are omitted here. {READ_REST_HINT}"
    how = f"(The user can change the limit: {LEFT_OUT} 81.)"
    assert contents_of(bench) == [f"{'a' * 40}b\n\n[… {said} {how} …]\n\n{'c' * 40}"]
    assert "call the tool again for a smaller part" in READ_REST_HINT
    await bench.run("Next.")
    for _, entries in bench.provider.requests[1:]:
        sent = [entry.content for entry in entries if is_kind(entry, "tool_call_response")]
        assert sent == contents_of(bench)


async def test_result_is_truncated_above_the_configured_length() -> None:
    rows: list[tuple[Any, int, bool]] = [
        ({}, 50_000, True),
        ({}, 50_001, False),
        (for_tool("*", result_max_chars=10), 11, False),
        (for_tool("t", result_max_chars=0), 200_000, True),
    ]
    for config, length, kept in rows:
        bench = TurnBench([reply(call("t")), DONE], [make_result_tool("x" * length)], config=config)
        await bench.run()
        assert (contents_of(bench) == ["x" * length]) is kept
        assert (LEFT_OUT in contents_of(bench)[0]) is not kept


async def test_delivery_prompt_shows_the_truncated_result() -> None:
    config = for_tool("t", result_max_chars=10, result="ask")
    person = FakePrompter(yes("deliver"))
    bench = TurnBench([reply(call("t")), DONE], [make_result_tool("x" * 99)], person, config)
    await bench.run()
    [prompt] = person.asked
    assert is_kind(prompt, "decision_prompt")
    assert contents_of(bench) == [exhibit.value for exhibit in prompt.exhibits]
