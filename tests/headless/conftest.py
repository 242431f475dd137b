"""Notebooks whose cells keep a conversation, without magics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.scripted_page import SETUP

WriteNotebook = Callable[..., Path]
BEGUN = "kept in this notebook; new\n"


@pytest.fixture
def write_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteNotebook:
    """Write a notebook that begins a conversation and then runs `cells`."""
    for name in ("JP_NB_PATH", "JP_NB_CONTINUE", "JP_NB_STRICT", "JP_NB_OVERRIDES"):
        monkeypatch.delenv(name, raising=False)

    def write(*cells: str, name: str = "talk.ipynb", setup: str = SETUP, **metadata: Any) -> Path:
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in (setup, *cells)],
            metadata={"kernelspec": kernel, **metadata},
        )
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"
        path = tmp_path / name
        nbformat.write(notebook, path)
        return path

    return write


def contents(record: Any) -> list[str]:
    return [e["content"] for e in record["events"] if e["type"] == "chat_request"]


def printed(notebook: Any) -> str:
    return "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream"
    )
