"""Commands as tools in a notebook with nobody there: declared in a file, and in the notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jp_nb.headless.show import load_conversation
from tests.support.notebook_runs import by_a_stranger, notebook, run

FILE = """
[conversation.tools.where]
source = "local"
command = "sh -c 'pwd; cat' where"
run = "unattended"
summary = "Says where it runs and what it was told."
parameters.city = { type = "string", required = true }
parameters.days = { type = "integer", default = 2 }
options = { unit = "C" }
"""


def responses(path: Path) -> list[dict[str, Any]]:
    done = run(["-m", "jp_nb.cli", "run", path.name], path.parent)
    assert done.returncode == 0, done.stderr
    entries = load_conversation(path).conversation.raw
    return [entry for entry in entries if entry["type"] == "tool_call_response"]


ASK = "%%jp -m scripted/tools\nWhere are you?"


@pytest.mark.parametrize("declared", ["file", "notebook"])
def test_a_command_runs_in_the_workspace_and_is_told_about_the_call(
    declared: str, tmp_path: Path
) -> None:
    (tmp_path / ".jp").mkdir()
    cells = ["%load_ext jp_nb"]
    if declared == "file":
        (tmp_path / ".jp" / "config.toml").write_text(FILE, encoding="utf-8")
    else:
        tool = {
            "source": "local",
            "command": "sh -c 'pwd; cat' where",
            "run": "unattended",
            "parameters": {
                "city": {"type": "string", "required": True},
                "days": {"type": "integer", "default": 2},
            },
            "options": {"unit": "C"},
        }
        text = json.dumps(tool).replace("'", "'\"'\"'")
        cells.append(f"%jp config 'conversation.tools.where:={text}'")
    first, second = responses(notebook(tmp_path, *cells, ASK))
    place, _, told = first["content"].partition("\n")
    assert place == str(tmp_path.resolve())
    document = json.loads(told)
    assert document["tool"] == {
        "name": "where",
        "arguments": {"city": "Delft", "days": 3},
        "answers": {},
        "options": {"unit": "C"},
    }
    assert document["context"]["root"] == place
    assert second["is_error"]
    assert second["content"].startswith(
        'Invalid arguments: Invalid arguments (missing: ["city"], unknown: ["town"])'
    )


def test_a_command_that_nobody_allowed_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".jp").mkdir()
    text = FILE.replace('run = "unattended"\n', "")
    (tmp_path / ".jp" / "config.toml").write_text(text, encoding="utf-8")
    first, _ = responses(notebook(tmp_path, "%load_ext jp_nb", ASK))
    assert first["is_error"]
    assert 'conversation.tools.where.run = "unattended"' in first["content"]


def test_a_command_in_a_strangers_notebook_is_not_on_offer(tmp_path: Path) -> None:
    path = notebook(tmp_path, "%load_ext jp_nb", ASK)
    tool = {"source": "local", "command": "touch stolen", "run": "unattended"}
    by_a_stranger(path, {"conversation": {"tools": {"where": tool}}})
    done = run(["-m", "jp_nb.cli", "run", "--continue", path.name], path.parent)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("stolen"))
    assert load_conversation(path).conversation.turn_count == 2
    entries = load_conversation(path).conversation.raw
    contents = [str(e["content"]) for e in entries if e["type"] == "tool_call_response"]
    assert all("is not available" in content for content in contents)
    assert contents
