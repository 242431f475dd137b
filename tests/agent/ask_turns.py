"""Turns in which the model calls the built-in tool `ask`."""

from __future__ import annotations

import json
from typing import Any

from pydantic import JsonValue

from tests.agent.turn_bench import DONE, call, reply
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool

DATABASE: dict[str, Any] = {
    "id": "database",
    "question": "Which database?",
    "options": [{"label": "PostgreSQL", "value": "pg"}, {"label": "SQLite"}],
}


PARTS: dict[str, Any] = {
    "id": "parts",
    "question": "Which parts?",
    "options": [{"label": "API"}, {"label": "Page"}],
    "multi": True,
    "required": False,
}


NAME: dict[str, Any] = {"id": "name", "question": "Which name?", "mode": "freetext"}


def ask_call(*questions: dict[str, Any], call_id: str = "call_1", index: int = 1) -> list[Any]:
    """A call of `ask`."""
    return call("ask", call_id, index=index, text=json.dumps({"questions": questions}))


def make_bench(
    person: FakePrompter, *calls: list[Any], config: dict[str, Any] | None = None, **more: Any
) -> TurnBench:
    """A turn in which the model makes `calls` and then says that it is done."""
    return TurnBench([reply(*calls), DONE], person=person, config=config or {}, **more)


def answers_config(**answers: JsonValue) -> dict[str, Any]:
    """A configuration with answers to questions of `ask`."""
    return for_tool("ask", questions={key: {"answer": x} for key, x in answers.items()})


def responses(bench: TurnBench) -> list[tuple[str, bool]]:
    return [(each.content, each.is_error) for each in bench.of("tool_call_response")]


def structured_result(bench: TurnBench) -> Any:
    [response] = bench.of("tool_call_response")
    return response.metadata["structured"]


def ends(bench: TurnBench) -> list[tuple[str, str, Any, Any]]:
    """Id, outcome, reason and end of each question in the record."""
    return [
        (entry.id, entry.outcome, entry.reason, entry.metadata.get("end"))
        for entry in bench.of("inquiry_response")
    ]
