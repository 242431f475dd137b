"""Tokens in a notebook that runs with nobody there: in the record, in no output."""

from __future__ import annotations

from pathlib import Path

import nbformat

from jp_nb.headless.runner import run_notebook
from tests.support.notebook_runs import outputs, record

SCRIPT = """
[[replies]]
text = "One."
usage = { input_tokens = 1200, output_tokens = 30, cache_read_tokens = 900 }
[[replies]]
text = "Two."
usage = { input_tokens = 1300, output_tokens = 8 }
"""
LOAD = "%load_ext jp_nb\n%jp config assistant.model.id=scripted/talk"
SEEN = "import jp_nb\nprint([t.usage.input_tokens for t in jp_nb.conversation().turns])\n%jp usage"


def written(folder: Path, *cells: str) -> Path:
    path = folder / "talk.ipynb"
    (folder / "talk.toml").write_text(SCRIPT, encoding="utf-8")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(made, path)
    return path


def texts(path: Path) -> str:
    found = [o.get("text", "") or o["data"]["text/plain"] for o in outputs(path)]
    return "\n".join(found)


def test_another_kernel_knows_what_turns_took(tmp_path: Path) -> None:
    path = written(tmp_path, LOAD, "%%jp\nGo.")
    assert run_notebook(path).failure is None
    path = written_over(path, LOAD, SEEN)
    run_notebook(path, continue_=True)
    said = texts(path)
    assert "[1200]" in said
    assert "scripted/talk" in said
    assert "75%" in said


def written_over(path: Path, *cells: str) -> Path:
    """Other cells in the same notebook."""
    made = nbformat.read(path, as_version=4)
    made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(made, path)
    return path


def test_the_record_is_the_same_twice_and_the_output_of_a_turn_has_no_count(tmp_path: Path) -> None:
    path = written(tmp_path, LOAD, "%%jp\nGo.", "%%jp\nOn.")
    run_notebook(path)
    first, shown = record(path), outputs(path)
    run_notebook(path)
    assert record(path) == first
    assert outputs(path) == shown
    assert [e["metadata"]["usage"] for e in first if "usage" in e.get("metadata", {})] == [
        {"model": "scripted/talk", "input_tokens": 1200, "output_tokens": 30,
         "cache_read_tokens": 900},
        {"model": "scripted/talk", "input_tokens": 1300, "output_tokens": 8},
    ]  # fmt: skip
    assert "tokens" not in texts(path)


CALLS = """
[[replies]]
tool_calls = [{ name = "look" }]
usage = { input_tokens = 1200, output_tokens = 30 }
[[replies]]
text = "Never said."
"""
LOOK = 'import jp_nb as jp\n@jp.tool\ndef look() -> str:\n    """Look."""\n    return "x"'


def test_a_limit_of_tokens_fails_the_cell_and_says_what_to_do(tmp_path: Path) -> None:
    limit = "assistant.request.max_total_tokens"
    path = written(tmp_path, LOAD, LOOK, f"%jp config {limit}=1000", "%%jp\nGo.")
    (tmp_path / "talk.toml").write_text(CALLS, encoding="utf-8")
    assert run_notebook(path).failure is not None
    failure = nbformat.read(path, as_version=4).cells[3].outputs[-1]
    assert failure.ename == "KeyboardInterrupt"
    said = f"The turn took 1230 tokens, {limit} is 1000: it ends here, and the calls of the last "
    assert said in failure.evalue
    assert f"`%jp config {limit}=N` allows more" in failure.evalue
    *_, response = record(path)
    assert response["is_error"]
