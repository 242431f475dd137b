"""The tutorials run with nobody there, and what they show is what is stored in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from tests.test_quickstart import outputs, run

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
TUTORIALS = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, copy, ignore=shutil.ignore_patterns("*.png"))
    return copy


def nbval(folder: Path, name: str, option: str = "--nbval") -> int:
    return run(["-m", "pytest", option, "-q", "-p", "no:cacheprovider", name], folder).returncode


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_stored_outputs_are_what_a_run_gives(name: str, folder: Path) -> None:
    done = run(["-m", "jp_nb.cli", "run", name, "-o", "out.ipynb"], folder)
    assert done.returncode == 0, done.stderr
    assert outputs(folder / "out.ipynb") == outputs(NOTEBOOKS / name)
    assert nbval(folder, name) == 0


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_output_is_compared_also_by_the_lax_run(name: str, folder: Path) -> None:
    notebook = nbformat.read(folder / name, as_version=4)
    shown = [cell for cell in notebook.cells if cell.get("outputs")]
    assert all("nbval-check-output" in cell.metadata.get("tags", ()) for cell in shown)
    notebook.cells = notebook.cells[: notebook.cells.index(shown[0]) + 1]
    shown[0].outputs[0].text = "something else"
    nbformat.write(notebook, folder / name)
    assert nbval(folder, name, "--nbval-lax") == 1


def test_the_tools_tutorial_shows_each_way_a_question_is_answered(folder: Path) -> None:
    assert run(["-m", "jp_nb.cli", "run", "02-tools.ipynb"], folder).returncode == 0
    record = json.loads((folder / "02-tools.ipynb").read_text(encoding="utf-8"))["metadata"]["jp"]
    closings = [e for e in record["events"] if e["type"] == "inquiry_response"]
    assert [e["metadata"]["channel"] for e in closings] == ["model", "configured", "model"]
    responses = [e for e in record["events"] if e["type"] == "tool_call_response"]
    assert [e["is_error"] for e in responses].count(True) == 4
