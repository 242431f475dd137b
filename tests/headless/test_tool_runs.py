"""Tools in headless runs: commands, the toolset `notebook`, figures, and keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.headless.runner import run_notebook
from tests.kit.notebook_record import open_document
from tests.support.figure_tools import CLOSED, OPEN
from tests.support.loopback import STREAM, LoopbackServer, RawResponse, Received, Reply, ToolCall
from tests.support.notebook_runs import (
    outputs,
    record,
    run,
    write_cells,
    write_scripted,
    write_untrusted,
)


def entries_of_run(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Run the notebook at `path` and return the entries of its conversation."""
    result = run_notebook(path, **options)
    assert result.ok, result.failure
    return [dict(entry) for entry in open_document(path).conversation.raw]


def responses(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["type"] == "tool_call_response"]


# --- commands --------------------------------------------------------------------------------

FILE = """
[conversation.tools.where]
source = "local"
command = "sh -c 'pwd; cat' where"
run = "unattended"
summary = "Print the folder and the call."
parameters.city = { type = "string", required = true }
parameters.days = { type = "integer", default = 2 }
options = { unit = "C" }
"""


ASK = "%%jp -m scripted/tools\nWhere are you?"


@pytest.mark.runners
def test_command_runs_in_the_workspace_and_gets_the_call_as_json(tmp_path: Path) -> None:
    (tmp_path / ".jp").mkdir()
    (tmp_path / ".jp" / "config.toml").write_text(FILE, encoding="utf-8")
    first, second = responses(entries_of_run(write_scripted(tmp_path, "%load_ext jp_nb", ASK)))
    place, _, output = first["content"].partition("\n")
    assert place == str(tmp_path.resolve())
    document = json.loads(output)
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


@pytest.mark.runners
def test_command_declared_in_the_notebook_needs_a_permission(tmp_path: Path) -> None:
    tool = {
        "source": "local",
        "command": "sh -c 'pwd; cat' where",
        "parameters": {"city": {"type": "string"}, "days": {"type": "integer"}},
    }
    text = json.dumps(tool).replace("'", "'\"'\"'")
    declared = f"%jp config 'conversation.tools.where:={text}'"
    path = write_scripted(tmp_path, "%load_ext jp_nb", declared, ASK)
    first, _ = responses(entries_of_run(path))
    assert first["is_error"]
    assert 'conversation.tools.where.run = "unattended"' in first["content"]


@pytest.mark.runners
def test_command_in_an_untrusted_notebook_is_not_available(tmp_path: Path) -> None:
    path = write_scripted(tmp_path, "%load_ext jp_nb", ASK)
    tool = {"source": "local", "command": "touch stolen", "run": "unattended"}
    write_untrusted(path, {"conversation": {"tools": {"where": tool}}})
    refused = responses(entries_of_run(path, continue_=True))
    assert not list(tmp_path.rglob("stolen"))
    assert open_document(path).conversation.turn_count == 2
    assert refused
    assert all("is not available" in str(entry["content"]) for entry in refused)


# --- the toolset `notebook` ------------------------------------------------------------------

LOOK = """
[[replies]]
tool_calls = [
  { name = "notebook_cells", arguments = {} },
  { name = "notebook_cell", arguments = { cell = 3 } },
  { name = "notebook_variables", arguments = {} },
  { name = "notebook_variable", arguments = { name = "fig" } },
  { name = "notebook_variable", arguments = { name = "rows", sample = 2 } },
  { name = "notebook_search", arguments = { text = "ROWS" } },
]
[[replies]]
text = "I have looked."
"""
LOOKED_AT = (
    "%load_ext jp_nb",
    "rows = [{'id': n} for n in range(100)]\napi_key = 'confidential'",
    "rows[:2]",
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(1, 1))\nplt.close(fig)",
)


def run_and_read(folder: Path, *cells: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Run a notebook, and return its entries and the results of its calls."""
    path = write_scripted(folder, *cells)
    (path.parent / "look.toml").write_text(LOOK, encoding="utf-8")
    entries = entries_of_run(path)
    return entries, [str(each["content"]) for each in responses(entries)]


@pytest.mark.runners
def test_model_sees_the_cells_and_variables_of_a_headless_kernel(tmp_path: Path) -> None:
    (tmp_path / ".jp").mkdir()
    line = "[conversation.toolsets]\nnotebook = true\n"
    (tmp_path / ".jp" / "config.toml").write_text(line, encoding="utf-8")
    ask = "%%jp -m scripted/look\nLook."
    entries, read = run_and_read(
        tmp_path, *LOOKED_AT, ask, "assert len(Out) == 1 and _ == rows[:2]"
    )
    listed, cell, variables, figure, sample, found = read
    assert listed.startswith("Cells 1 to 6 of 6. These are the cells of the notebook file in this")
    states = re.sub(r", id cell-\d, version \w{12}", "", listed)
    assert "1 [code, ran as 1] %load_ext jp_nb" in states
    assert "5 [code, running] %%jp -m scripted/look (+1 line)" in states
    assert "6 [code, not run] assert len(Out) == 1" in states
    assert "rows[:2]\n" in cell
    assert "[{'id': 0}, {'id': 1}]" in cell
    assert "rows (list): list of 100 items" in variables
    assert "api_key (str): (set, not shown)" in variables
    assert "imported modules, functions, and classes ---\nplt" in variables
    assert "with 1 image" in figure
    assert "[{'id': 0}, {'id': 50}]" in sample
    assert "cell 2, source, line 1: rows = [" in found
    assert "confidential" not in str(entries)
    assert len([entry for entry in entries if entry["type"] == "image"]) == 1


@pytest.mark.runners
def test_toolset_notebook_is_off_by_default(tmp_path: Path) -> None:
    _, read = run_and_read(tmp_path, *LOOKED_AT, "%%jp -m scripted/look\nLook.")
    assert all("not" in line and "rows" not in line for line in read), read


@pytest.mark.runners
def test_tools_see_cells_that_a_runner_keeps_out_of_the_history(tmp_path: Path) -> None:
    """`pytest --nbval` asks the kernel to store no history."""
    pytest.importorskip("nbval", reason="pip install -e '.[tiers]'")
    looks = "import jp_nb as jp\nseen = jp.call('notebook_cells').content"
    check = "assert '2 [code, failed] 1 / 0' in seen and '1 [code, ran] %load_ext' in seen, seen"
    path = write_scripted(tmp_path, "%load_ext jp_nb", "1 / 0", looks, check)
    written = nbformat.read(path, as_version=4)
    written.cells[1].metadata.tags = ["raises-exception"]
    nbformat.write(written, path)
    done = run(
        ["-m", "pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider", path.name], path.parent
    )
    assert done.returncode == 0, done.stdout


# --- figures ---------------------------------------------------------------------------------

CALL = Reply(tool_calls=(ToolCall("plot", {"power": 2}),))


def pictures(path: Path) -> list[str]:
    """Return the PNGs in the outputs of all cells."""
    shown = (output.get("data", {}).get("image/png") for output in outputs(path))
    return ["".join(text.split()) for text in shown if text]


def images_in(value: Any) -> list[str]:
    """Return the Base64 of every image in the body of a request, in order."""
    if isinstance(value, list):
        return [found for item in value for found in images_in(item)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "base64":
        return [value["data"]]
    if value.get("type") == "image_url":
        return [value["image_url"]["url"].partition("base64,")[2]]
    return [found for item in value.values() for found in images_in(item)]


@pytest.mark.deep
@pytest.mark.runners
def test_continued_conversation_sends_an_image_with_the_same_bytes(tmp_path: Path) -> None:
    load = f"%load_ext jp_nb\n%jp config assistant.model.id=anthropic/m\n{CLOSED}"
    path = write_cells(tmp_path / "plot.ipynb", load, "%%jp\nPlot it.")
    with LoopbackServer([CALL, "A curve.", "Still a curve."]) as server:
        settings = {"providers.llm.anthropic.base_url": server.url}
        entries_of_run(path, settings=settings)
        first = [json.dumps(message) for message in server.requests[1].body["messages"]]
        made = nbformat.read(path, as_version=4)
        made.cells[-1].source = "%%jp\nAnd now?"
        nbformat.write(made, path)
        entries_of_run(path, settings=settings, continue_=True)
        later = [json.dumps(message) for message in server.requests[2].body["messages"]]
    assert later[: len(first)] == first
    (sent,) = images_in(server.requests[1].body)
    (kept,) = (entry for entry in record(path) if entry["type"] == "image")
    assert kept["data"] == sent


def plotting(folder: Path, *cells: str) -> Path:
    path = write_scripted(
        folder, f"%load_ext jp_nb\n{cells[0]}", "%%jp -m scripted/tools\nPlot it."
    )
    reply = '[[replies]]\ntool_calls = [{ name = "plot", arguments = { power = 2 } }]\n'
    seen = '[[replies]]\nexpect = "[image: power 2, image/png 400×300]"\ntext = "A curve."\n'
    (path.parent / "tools.toml").write_text(reply + seen, encoding="utf-8")
    return path


@pytest.mark.runners
def test_returned_figure_is_shown_once_between_the_call_and_the_answer(tmp_path: Path) -> None:
    path = plotting(tmp_path, CLOSED)
    entries_of_run(path)
    line, picture, answer = outputs(path)[-3:]
    assert line["data"]["text/plain"] == "✓ plot(power=2) · 1 image"
    assert picture["data"]["text/plain"] == "[image: power 2, image/png 400×300]"
    assert picture["metadata"] == {}
    assert answer["data"]["text/plain"] == "A curve."
    (kept,) = (entry for entry in record(path) if entry["type"] == "image")
    assert pictures(path) == [kept["data"]]


@pytest.mark.runners
def test_figure_that_jupyter_displays_is_not_shown_twice(tmp_path: Path) -> None:
    path = plotting(tmp_path, f"%matplotlib inline\n{OPEN}")
    entries = entries_of_run(path)
    assert len(pictures(path)) == 1
    assert sum(entry["type"] == "image" for entry in entries) == 1


# --- keys ------------------------------------------------------------------------------------

KEY = "sk-of-mine/0123456789+abcdefghijklmnop"
INNER = "0123456789"
END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def delta(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()


def test_key_of_a_model_server_is_in_no_file_and_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server returns the key, whole and in pieces."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    faults = iter(["answer", "error in stream", "message", "error"])

    def answer(request: Received) -> RawResponse:
        key = request.headers["authorization"].split(" ")[-1]
        assert key == KEY
        return RawResponse(faulty(key))

    def faulty(key: str) -> Iterable[bytes]:
        match next(faults):
            case "answer":
                text = f"You sent {key}, did you not?"
                return [STREAM, *(delta(text[i : i + 4]) for i in range(0, len(text), 4)), END]
            case "error in stream":
                error = json.dumps({"error": {"message": f"no such key: {key}", "code": 401}})
                return [STREAM, delta("Hello."), f"data: {error}\n\n".encode()]
            case "message":
                return [STREAM, delta("Hello."), f"data: what is {key}?\n\n".encode()]
            case _:
                body = json.dumps({"error": {"message": f"{key} is wrong"}})
                return [f"HTTP/1.1 401 {key}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()]

    load = "%load_ext jp_nb\nimport logging; logging.basicConfig(level=0)"
    with LoopbackServer(answer) as server:
        ask = f"%%jp -n -m openai/m -c providers.llm.openai.base_url={server.url}\nGo."
        path = write_cells(tmp_path / "n.ipynb", load, *[ask] * 4)
        made = nbformat.read(path, as_version=4)
        for cell in made.cells[1:]:
            cell.metadata["tags"] = ["raises-exception"]
        nbformat.write(made, path)
        result = run_notebook(path)
    assert result.ok, result.failure
    assert next(faults, None) is None, "each of them was sent"
    shown = [json.dumps(cell.outputs) for cell in result.notebook.cells[1:]]
    assert ["[key]" in each for each in shown] == [True] * 4
    assert ["Hello." in each for each in shown] == [False, True, True, False]
    written = "".join(each.read_text() for each in tmp_path.rglob("*") if each.is_file())
    written += "".join(capfd.readouterr())
    assert KEY not in written
    assert INNER not in written
