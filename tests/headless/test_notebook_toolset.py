"""The toolset `notebook` with nobody there: what it sees, and where it is switched on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

from jp_nb.headless.show import load_conversation
from tests.support.notebook_runs import notebook, run

SCRIPT = """
[[replies]]
tool_calls = [
  { name = "notebook_cells", arguments = {} },
  { name = "notebook_cell", arguments = { cell = 2 } },
  { name = "notebook_variables", arguments = {} },
  { name = "notebook_variable", arguments = { name = "fig" } },
  { name = "notebook_variable", arguments = { name = "rows", sample = 2 } },
  { name = "notebook_search", arguments = { text = "ROWS" } },
]
[[replies]]
text = "I have looked."
"""
CELLS = (
    "%load_ext jp_nb",
    "rows = [{'id': n} for n in range(100)]\napi_key = 'not-for-anybody'",
    "rows[:2]",
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(1, 1))\nplt.close(fig)",
)


def turn(folder: Path, *cells: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Entries of a run, and what the model read of each call."""
    path = notebook(folder, *cells)
    (path.parent / "look.toml").write_text(SCRIPT, encoding="utf-8")
    done = run(["-m", "jp_nb.cli", "run", path.name], path.parent)
    assert done.returncode == 0, done.stderr
    entries = [dict(entry) for entry in load_conversation(path).conversation.raw]
    return entries, [str(e["content"]) for e in entries if e["type"] == "tool_call_response"]


def test_headless_the_model_sees_what_this_kernel_ran(tmp_path: Path) -> None:
    ask = "%%jp -m scripted/look -t notebook\nLook."
    entries, read = turn(tmp_path, *CELLS, ask, "assert len(Out) == 1 and _ == rows[:2]")
    listed, cell, variables, figure, sample, found = read
    assert listed.startswith("Cells 0 to 4 of 5. These are the cells that this kernel ran, in that")
    assert "0 [code, ran as 1] %load_ext jp_nb" in listed
    assert "4 [code, runs now] %%jp -m scripted/look -t notebook (+1 line)" in listed
    assert "rows[:2]\n" in cell
    assert "[{'id': 0}, {'id': 1}]" in cell
    assert "rows (list): list of 100 items" in variables
    assert "api_key (str): (set, not shown)" in variables
    assert "imported modules, functions and classes ---\nplt" in variables
    assert "with 1 image" in figure
    assert "[{'id': 0}, {'id': 50}]" in sample
    assert "cell 1, source, line 1: rows = [" in found
    assert "not-for-anybody" not in str(entries)
    assert len([entry for entry in entries if entry["type"] == "image"]) == 1


def test_one_line_in_the_workspaces_file_switches_it_on(tmp_path: Path) -> None:
    (tmp_path / ".jp").mkdir()
    line = "[conversation.toolsets]\nnotebook = true\n"
    (tmp_path / ".jp" / "config.toml").write_text(line, encoding="utf-8")
    _, read = turn(tmp_path, *CELLS, "%%jp -m scripted/look\nLook.")
    assert read[0].startswith("Cells 0 to 4 of 5.")


def test_it_is_off_until_somebody_switches_it_on(tmp_path: Path) -> None:
    _, read = turn(tmp_path, *CELLS, "%%jp -m scripted/look\nLook.")
    assert all("not" in said and "rows" not in said for said in read), read


def test_a_runner_that_keeps_cells_out_of_the_history_hides_none_from_tools(tmp_path: Path) -> None:
    """`pytest --nbval` asks the kernel to store no history."""
    looks = "import jp_nb as jp\nseen = jp.call('notebook_cells').content"
    check = "assert '1 [code, failed] 1 / 0' in seen and '0 [code, ran] %load_ext' in seen, seen"
    path = notebook(tmp_path, "%load_ext jp_nb", "1 / 0", looks, check)
    written = nbformat.read(path, as_version=4)
    written.cells[1].metadata.tags = ["raises-exception"]
    nbformat.write(written, path)
    done = run(
        ["-m", "pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider", path.name], path.parent
    )
    assert done.returncode == 0, done.stdout
