"""Results of Python tools of any size take bounded memory; the model reads what is omitted."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import make
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import InlineCell

MAX_STRUCTURED_CHARS = 2_000_000
MAX_STRUCTURED_ITEMS = 100_000
MAX_STRUCTURED_LEVELS = 64
STRUCTURED_OMITTED = (
    "[The structured value of this result has more than 100,000 items, 2,000,000"
    " characters, or 64 levels. It is not recorded, so no program can read it.]"
)


NUMBERS = [1_234_567] * 2_000_000
TEXT = "abcdefghé " * 2_000_000
ROWS = [{"name": "Ada"}] * 1_500_000
PATHS = ("user.name",) * 1_000_000
ITSELF: list[Any] = []
ITSELF.append(ITSELF)
SHARED: list[Any] = ["ten"] * 10
for _ in range(9):
    SHARED = [SHARED] * 10  # small in memory, 10 billion items as JSON
CALLS = 2
MOST_BYTES = 8_000_000
"""For all calls: less than one copy of the numbers, whose pointers have 16 MB."""


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


async def responses(result: Any) -> tuple[list[Any], int]:
    """Return the responses to the calls of a tool with `result`, and the peak of new memory."""

    def produce() -> Any:
        if isinstance(result, Exception):
            raise result
        return result() if callable(result) else result

    calls = reply(*(call("produce", f"c{number}", index=number) for number in range(CALLS)))
    bench = TurnBench([calls, DONE], [new_tool(produce)])
    tracemalloc.start()
    try:
        await bench.run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return bench.of("tool_call_response"), peak


LARGE: dict[str, Any] = {
    "a list": NUMBERS,
    "a list of objects": ROWS,
    "a list in a list": [NUMBERS, NUMBERS],
    "a list that contains itself": ITSELF,
    "a dictionary": {"numbers": NUMBERS},
    "a text": TEXT,
    "a text in a list": [TEXT],
    "structured numbers": lambda: jp.Success("ok", structured=NUMBERS),
    "structured objects": lambda: jp.Success("ok", structured={"rows": ROWS}),
    "a structured text": lambda: jp.Success("ok", structured=TEXT),
    "a structured key": lambda: jp.Success("ok", structured={TEXT: 1}),
    "structured data with shared parts": lambda: jp.Success("ok", structured=SHARED),
    "structured data of a failure": lambda: make("failure", "no", structured=NUMBERS),
    "a change of the configuration": lambda: jp.Success("ok", config={"user": {"name": NUMBERS}}),
    "paths to unset": lambda: jp.Success("ok", unset=PATHS),
    "a trace": lambda: make("failure", "no", trace=("at line 1 of the program",) * 300_000),
    "a content": lambda: jp.Success(TEXT),
}


@pytest.mark.parametrize("kind", LARGE)
async def test_results_of_any_size_take_bounded_memory(kind: str) -> None:
    found, peak = await responses(LARGE[kind])
    assert len(found) == CALLS
    assert all(0 < len(each.content) < 60_000 for each in found)
    assert peak < MOST_BYTES


@pytest.mark.parametrize("error", [ValueError(TEXT), KeyError(TEXT), RuntimeError("no", TEXT)])
async def test_long_text_of_an_exception_is_copied_a_few_times(error: Exception) -> None:
    error.__cause__ = ValueError(TEXT)
    error.add_note("Try less.")
    found, peak = await responses(error)
    assert all(each.content.startswith(type(error).__name__) for each in found)
    assert all("are omitted here" in each.content for each in found)
    assert all(each.content.endswith("Try less.") for each in found)
    assert peak < 6 * len(TEXT), "one call at a time"


@pytest.mark.parametrize(
    "value",
    [
        [1] * (MAX_STRUCTURED_ITEMS + 1),
        "x" * (MAX_STRUCTURED_CHARS + 1),
        nested(MAX_STRUCTURED_LEVELS + 1),
    ],
)
@pytest.mark.parametrize("kind", [jp.Success, partial(make, "failure")])
async def test_large_structured_value_is_omitted_with_a_note(kind: Any, value: Any) -> None:
    found, _ = await responses(kind("The text.", structured=value))
    assert found[0].content == f"The text.\n\n{STRUCTURED_OMITTED}"
    assert "structured" not in found[0].metadata


@pytest.mark.parametrize(
    "value",
    [
        [1] * MAX_STRUCTURED_ITEMS,
        "x" * MAX_STRUCTURED_CHARS,
        nested(MAX_STRUCTURED_LEVELS),
    ],
)
async def test_structured_value_at_its_limit_is_recorded(value: Any) -> None:
    found, _ = await responses(jp.Success("The text.", structured=value))
    assert found[0].content == "The text."
    assert found[0].metadata["structured"] == value


@pytest.mark.parametrize(
    ("value", "begin"),
    [
        (NUMBERS, "list of 2,000,000 items:\n1234567, "),
        (SHARED, "list of 10 items:\n[0] [[["),
        (nested(300), "list of 1 item:\n[0] [[["),
    ],
)
async def test_large_value_is_described(value: list[Any], begin: str) -> None:
    tool = new_tool(lambda: value, name="t")
    outcome = await tool.run({}, jp.ToolContext("t"), InlineCell())
    assert isinstance(outcome, jp.Success)
    assert outcome.content.startswith(begin)
    assert len(outcome.content) < 60_000


def test_proposal_with_many_values_is_refused_before_it_is_copied() -> None:
    proposal: jp.Outcome = jp.Success("ok", config={"user": {"name": NUMBERS}})
    assert isinstance(proposal, jp.Success)
    assert proposal.proposes
    assert proposal.config is None
    assert proposal.malformed == "one change has at most 1000 paths and 250000 characters"
