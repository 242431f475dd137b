"""Figures that a tool returns, in real kernels: on the wire, in the record, in the cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.figure_tools import CLOSED, OPEN
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.notebook_runs import notebook, outputs, record, run

CALL = Reply(tool_calls=(ToolCall("plot", {"power": 2}),))
PROTOCOLS = ["anthropic", "openai"]


def pictures(path: Path) -> list[str]:
    """The PNGs in the outputs of all cells."""
    shown = (output.get("data", {}).get("image/png") for output in outputs(path))
    return ["".join(text.split()) for text in shown if text]


def images_in(value: Any) -> list[str]:
    """The Base64 of every image in a request's body, in order."""
    if isinstance(value, list):
        return [found for item in value for found in images_in(item)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "base64":
        return [value["data"]]
    if value.get("type") == "image_url":
        return [value["image_url"]["url"].partition("base64,")[2]]
    return [found for item in value.values() for found in images_in(item)]


def cell(path: Path, source: str) -> None:
    """Make `source` the last cell of the notebook at `path`."""
    made = nbformat.read(path, as_version=4)
    made.cells[-1].source = source
    nbformat.write(made, path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_kernel_sends_the_same_bytes(protocol: str, tmp_path: Path) -> None:
    with LoopbackServer([CALL, "A curve.", "Still a curve."]) as server:
        model = f"%%jp -m {protocol}/m -c providers.llm.{protocol}.base_url={server.url}"
        path = notebook(tmp_path, f"%load_ext jp_nb\n{CLOSED}", f"{model}\nPlot it.")
        key = f"providers.llm.{protocol}.base_url={server.url}"
        assert run(["-m", "jp_nb.cli", "run", "-c", key, path.name], path.parent).returncode == 0
        first = [json.dumps(message) for message in server.requests[1].body["messages"]]
        cell(path, "%%jp\nAnd now?")
        again = run(["-m", "jp_nb.cli", "run", "--continue", "-c", key, path.name], path.parent)
        assert again.returncode == 0, again.stderr
        later = [json.dumps(message) for message in server.requests[2].body["messages"]]
    assert later[: len(first)] == first
    (sent,) = images_in(server.requests[1].body)
    (kept,) = (entry for entry in record(path) if entry["type"] == "image")
    assert kept["data"] == sent


def scripted(folder: Path, *cells: str) -> Path:
    path = notebook(folder, f"%load_ext jp_nb\n{cells[0]}", "%%jp -m scripted/tools\nPlot it.")
    reply = '[[replies]]\ntool_calls = [{ name = "plot", arguments = { power = 2 } }]\n'
    seen = '[[replies]]\nexpect = "[image: power 2, image/png 400×300]"\ntext = "A curve."\n'
    (path.parent / "tools.toml").write_text(reply + seen, encoding="utf-8")
    return path


def test_a_returned_figure_is_shown_once_between_the_call_and_the_answer(tmp_path: Path) -> None:
    path = scripted(tmp_path, CLOSED)
    done = run(["-m", "jp_nb.cli", "run", path.name], path.parent)
    assert done.returncode == 0, done.stderr
    line, picture, answer = outputs(path)[-3:]
    assert line["data"]["text/plain"] == "✓ plot(power=2) · 1 image"
    assert picture["data"]["text/plain"] == "[image: power 2, image/png 400×300]"
    assert picture["metadata"] == {}
    assert answer["data"]["text/plain"] == "A curve."
    (kept,) = (entry for entry in record(path) if entry["type"] == "image")
    assert pictures(path) == [kept["data"]]


def test_a_figure_that_jupyter_shows_anyway_is_not_shown_twice(tmp_path: Path) -> None:
    path = scripted(tmp_path, f"%matplotlib inline\n{OPEN}")
    done = run(["-m", "jp_nb.cli", "run", path.name], path.parent)
    assert done.returncode == 0, done.stderr
    assert len(pictures(path)) == 1
    assert sum(entry["type"] == "image" for entry in record(path)) == 1


def test_two_headless_runs_have_the_same_outputs_and_the_same_record(tmp_path: Path) -> None:
    def one(name: str) -> tuple[list[Any], list[Any]]:
        folder = tmp_path / name
        folder.mkdir()
        path = scripted(folder, CLOSED)
        assert run(["-m", "jp_nb.cli", "run", path.name], path.parent).returncode == 0
        return outputs(path), record(path)

    assert one("a") == one("b")
