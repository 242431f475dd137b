"""A turn without edits of cells loads none of their modules, and a terminal no other storage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REGISTERED = [
    "jp_nb.toolkit.builtin.cell_results",  # of the tools that read the notebook
    "jp_nb.toolkit.builtin.cell_search",  # of the same tools
    "jp_nb.toolkit.builtin.cells",
    "jp_nb.toolkit.editing.edit_schema",
]
"""The entry of the tool in the table of built-in tools: its settings and its schema."""
PARTS = (
    "jp_nb.toolkit.editing.",
    "jp_nb.toolkit.builtin.cell",
    "jp_nb.toolkit.builtin.edit_",
    "jp_nb.toolkit.builtin.earlier_edits",
    "jp_nb.agent.approvals.edit_",
    "jp_nb.agent.call_steps.edit_choices",
    "jp_nb.agent.call_steps.edit_requests",
    "jp_nb.notebook.page_document",
    "jp_nb.notebook.page_own_cell",
    "jp_nb.notebook.file_cells",
    "jp_nb.session.past_turns.turn_revert",
    "jp_nb.session.past_turns.user_edits",
)
PROGRAM = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
for cell in json.loads(sys.argv[1]):
    shell.run_cell(cell).raise_error()
with open("modules.json", "w") as file:
    json.dump([name for name in sys.modules if name.startswith("jp_nb.")], file)
"""
TALK = '[[replies]]\ntool_calls = [{ name = "add" }]\n[[replies]]\ntext = "Three."\n'
EDITS = """
[[replies]]
tool_calls = [{ name = "edit_cells", arguments = { edits = [], why = "It helps." } }]
[[replies]]
text = "Done."
"""
TOOL = "import jp_nb as jp\n\n@jp.tool\ndef add() -> int:\n    'Add.'\n    return 3"


def list_loaded(folder: Path, *cells: str) -> list[str]:
    """Run the cells in a new process, and return the modules of edits that it has loaded."""
    (folder / "talk.toml").write_text(TALK, encoding="utf-8")
    (folder / "edits.toml").write_text(EDITS, encoding="utf-8")
    places = {name: str(folder / name) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    environment = {**os.environ, **places, "JP_NB_TRUST_FOLDERS": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(["%load_ext jp_nb", *cells])],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    names = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    assert "jp_nb.agent.call_steps.call_runner" in names  # the turn ran its tool
    return sorted(name for name in names if name.startswith(PARTS))


@pytest.mark.req("CELL-46")
def test_turn_without_cells_loads_only_the_entry_of_the_tool(tmp_path: Path) -> None:
    loaded = list_loaded(tmp_path, TOOL, "%%jp -m scripted/talk\nAdd.", "%jp log", "%jp usage")
    assert loaded == REGISTERED


@pytest.mark.req("CELL-46")
def test_turn_with_cells_loads_the_modules_with_its_first_call(tmp_path: Path) -> None:
    loaded = list_loaded(tmp_path, "%%jp -m scripted/edits -t cells\nTidy up.")
    assert "jp_nb.toolkit.builtin.cell_proposals" in loaded


def test_load_ext_in_a_terminal_loads_no_storage_of_a_page_or_a_runner(tmp_path: Path) -> None:
    keep = "import pathlib, sys\npathlib.Path('early.txt').write_text('\\n'.join(sys.modules))"
    list_loaded(tmp_path, keep, TOOL, "%%jp -m scripted/talk\nAdd.")
    loaded = (tmp_path / "early.txt").read_text(encoding="utf-8").split()
    assert "jp_nb.notebook.page.notebook_storage" in loaded
    for storage in ("page_storage", "live_store", "headless_storage", "carrier_store"):
        assert f"jp_nb.notebook.page.{storage}" not in loaded
