"""Connection to an MCP server over stdio: start, tools, calls, questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("mcp")


from typing import Any

from tests.kit.kinds import is_kind, make
from tests.mcp.helpers import FORM, connected, scripted, text_of

Era = Literal["2025", "2026"]
ERAS = pytest.mark.parametrize("era", ["2025", "2026"])


@ERAS
async def test_call_returns_the_result_of_the_server(tmp_path: Path, era: Era) -> None:
    server = scripted(tmp_path, era=era, calls={"echo": [{"arguments": True}]})
    async with connected(server.launch) as connection:
        result = await connection.call("1", "echo", {"a": None, "b": [1.5, "ü"]})
        assert connection.era == era
    assert is_kind(result, "server_result")
    assert text_of(result) == '{"a": null, "b": [1.5, "\\u00fc"]}'


async def test_server_of_2025_asks_during_the_call(tmp_path: Path) -> None:
    server = scripted(
        tmp_path, era="2025", calls={"trip": [{"ask": {"who": FORM}}, {"answers": True}]}
    )
    asked: list[tuple[Any, Sequence[str]]] = []

    async def answer(question: Any, calls: Sequence[str]) -> Any:
        asked.append((question, calls))
        return make("server_answer", "accept", {"city": "Delft"})

    async with connected(server.launch, asks_users=True, on_question=answer) as connection:
        result = await connection.call("call-1", "trip", {})
    assert text_of(result) == '{"who": {"action": "accept", "content": {"city": "Delft"}}}'
    [(question, calls)] = asked
    assert (question.key, question.mode, question.message) == ("elicitation", "form", "Which trip?")
    assert calls == ["call-1"]


async def test_server_of_2026_returns_its_question_and_gets_the_answer(tmp_path: Path) -> None:
    server = scripted(
        tmp_path,
        era="2026",
        calls={"trip": [{"ask": {"who": FORM}, "state": "opaque ü"}, {"answers": True}]},
    )
    async with connected(server.launch, asks_users=True) as connection:
        asked = await connection.call("1", "trip", {})
        assert is_kind(asked, "input_required")
        assert asked.questions["who"].schema == FORM["requestedSchema"]
        assert "opaque" not in repr(asked)
        result = await connection.call(
            "1",
            "trip",
            {},
            answers={"who": make("server_answer", "decline")},
            state=asked.state,
        )
    assert text_of(result) == '{"who": {"action": "decline"}}'
