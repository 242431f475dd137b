"""Notebooks that are recorded on a cassette from a loopback server, and replayed without it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from jp_nb.headless.runner import RunResult, run_notebook
from tests.support.notebook_runs import outputs, record

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
KEY = "sk-test-0123456789abcdef0123"
LOAD = """%load_ext jp_nb
%jp config assistant.model.id={protocol}/m assistant.request.base_backoff_ms:=1"""
WEATHER = '''
import jp_nb as jp

@jp.tool
def weather(city: str, days: int = 1) -> str:
    """Tell the weather.

    Args:
        city: Where.
        days: For how long.
    """
    return f"{city}: sun for {days}"
'''


def write_cells(path: Path, *cells: str) -> Path:
    """Write a notebook of code cells with fixed ids."""
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
    nbformat.write(made, path)
    return path


def run_with(path: Path, mode: str, **settings: str) -> RunResult:
    """Run the notebook with its cassette in `mode`; `settings` by path, `.` as `__`."""
    more = {key.replace("__", "."): value for key, value in settings.items()}
    return run_notebook(path, settings={"providers.cassette.mode": mode, **more})


def result_of(path: Path) -> Mapping[str, Any]:
    """Return the record of a run, without ids and times, and its outputs."""
    return {"record": record(path), "outputs": outputs(path)}
