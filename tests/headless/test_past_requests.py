"""What was sent, looked at in the kernel that sent it and in one that reads it in the notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.headless.runner import run_notebook
from tests.support.loopback import LoopbackServer, Reply, ToolCall

KEY = "k-0123456789abcdef0123"
TOOL = '''
import jp_nb as jp
@jp.tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sun in {city}"
'''
LOOK = [
    "%jp request 0.1 -o a",
    "%jp request 0.2 -o b",
    "%jp request 1 -o c",
    "import json; print(json.dumps([x['body'] for x in (a, b, c)]))",
    "%jp request",
    "%jp request 0",
    "%jp request --diff 0 1",
]
BODIES, LAST, FIRST_TURN, COMPARED = -4, -3, -2, -1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    call = Reply(text="Looking.", tool_calls=(ToolCall("weather", {"city": "Delft"}),))
    monkeypatch.setenv("KERNEL_KEY", KEY)
    with LoopbackServer([call, "Sun.", "Bye."]) as made:
        yield made


def write(path: Path, *cells: str) -> Path:
    """Write a notebook of `cells` that keeps the record of the one that was there."""
    metadata = nbformat.read(path, as_version=4).metadata if path.exists() else {}
    made = [nbformat.v4.new_code_cell(cell) for cell in ("%load_ext jp_nb", TOOL, *cells)]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=metadata), path)
    return path


def shown(notebook: Any, cell: int) -> str:
    return "".join(
        output.get("text") or output["data"]["text/plain"]
        for output in notebook.cells[cell].outputs
    )


def test_past_turns_after_a_restart(tmp_path: Path, server: LoopbackServer) -> None:
    folder = tmp_path / ".jp"
    folder.mkdir()
    (folder / "config.toml").write_text(
        '[assistant.model]\nid = "anthropic/claude-x"\n[providers.llm.anthropic]\n'
        f'base_url = "{server.url}"\napi_key_env = "KERNEL_KEY"\n'
    )
    path = write(tmp_path / "talk.ipynb", "%%jp\nWeather?", "%%jp\nBye.", *LOOK)
    first = run_notebook(path)
    assert first.ok, first
    arrived = [received.body for received in server.requests]
    assert len(arrived) == 3
    assert json.loads(shown(first.notebook, BODIES)) == arrived
    last = shown(first.notebook, LAST)
    assert "request 1.1 · anthropic/claude-x · as it was sent" in last
    assert "the provider counted 11" in last

    again = run_notebook(write(path, *LOOK), continue_=True)
    assert again.ok, again
    assert json.loads(shown(again.notebook, BODIES)) == arrived
    assert "request 1.1 · anthropic/claude-x · as it would be sent now" in shown(
        again.notebook, LAST
    )
    told = shown(again.notebook, FIRST_TURN)
    assert "hosts, keys and attached files are as they are now" in told
    assert "result of weather        sun in Delft" in told
    assert "x-api-key: (the variable KERNEL_KEY)" in told
    assert "for a prompt cache both begin alike" in shown(again.notebook, COMPARED)
    assert len(server.requests) == len(arrived), "to look sends nothing"
    assert KEY not in path.read_text()
