"""The cells that a kernel executed, for tools without a page."""

from __future__ import annotations

from typing import Any

from tests.kit.ipython_shell import IPythonShell


def test_cell_that_runs_other_cells_ends(bare_folder: Any) -> None:
    shell = IPythonShell()
    try:
        shell.load()
        shell.run("get_ipython().run_cell('1'); get_ipython().run_cell('2')")
        host: Any = shell.session.host
        assert [cell.state for cell in host.executed_cells][-3:] == ["done", "done", "done"]
    finally:
        shell.close()
