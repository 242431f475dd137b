"""A run with the tools of an MCP server: the server is not told of a user, and gets `cancel`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from jp_nb.headless.runner import run_notebook
from tests.mcp.helpers import FORM, Scripted
from tests.session.servers import make_books, settings_of
from tests.support.notebook_runs import write_cells

pytest.importorskip("mcp")

SCRIPT = """
[[replies]]
tool_calls = [{ name = "books__trip" }]
[[replies]]
text = "No trip."
"""


def run_trip(folder: Path) -> tuple[Any, Scripted]:
    """Run a notebook whose server asks a question that nothing answers."""
    trip = [{"ask": {"elicitation": FORM}}, {"answers": True}]
    server = make_books(folder, era="2025", calls={"trip": trip})
    settings = {
        "conversation": {"tools": {"*": {"run": "unattended"}}},
        "providers": {"mcp": {"books": settings_of(server)}},
    }
    (folder / ".jp").mkdir(exist_ok=True)
    (folder / ".jp" / "config.toml").write_text(tomlkit.dumps(settings))
    (folder / "trip.toml").write_text(SCRIPT)
    cells = ("%load_ext jp_nb", "%%jp -m scripted/trip -t mcp.books\nPlan a trip.")
    return run_notebook(write_cells(folder / "trip.ipynb", *cells), strict=True), server


@pytest.mark.req("R-MCP-39", "R-MCP-40")
def test_question_of_a_server_ends_a_strict_run_and_the_server_gets_cancel(
    tmp_path: Path,
) -> None:
    result, server = run_trip(tmp_path)
    [hello] = server.received("initialize")
    assert "elicitation" not in hello["params"]["capabilities"]
    [reply] = [each for each in server.logged() if "result" in each]
    assert reply["result"] == {"action": "cancel"}

    assert not result.ok
    assert result.cells[-1].status == "failed"
    assert result.failure is not None
    assert result.failure.name == "PromptUnavailable"
    [left_open] = result.events.undecided
    assert left_open[1] == "books__trip"
    [response] = find_responses(result)
    assert response["is_error"]
    assert "no interactive terminal is available" in response["content"]


def find_responses(result: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(json.dumps(result.notebook.metadata.jp.events))
    return [each for each in events if each["type"] == "tool_call_response"]
