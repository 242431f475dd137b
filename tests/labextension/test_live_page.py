"""The record reaches a real page and survives what pages go through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import NotebookPage, OpenNotebook

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SETUP = f"""import sys; sys.path.insert(0, {str(ROOT)!r})
from tests.notebook.document import in_cell
from tests.notebook.document.in_cell import *
begin()"""


def contents(events: Any) -> list[str]:
    return [e["content"] for e in events if e["type"] == "chat_request"]


def in_page(page: NotebookPage) -> Any:
    """The `jp` object in the metadata of the open notebook."""
    return page.page.evaluate(
        "window.jupyterapp.shell.currentWidget.context.model.getMetadata('jp')"
    )


def test_entries_reach_the_notebook_and_a_new_kernel_reads_them_back(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", "print(in_cell.handshake, in_cell.opened.store.latency)")
    page.run_cell(0)
    assert page.output_text(0, contains="kept").strip() == "kept in this notebook; new"
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    page.run_cell(2)
    page.output_text(2, contains="0.")
    print(page.output_text(2))
    assert contents(in_page(page)["events"]) == ["one"]
    page.save()
    assert contents(page.saved().metadata.jp.events) == ["one"]
    page.restart_kernel()
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook; restored, 1 turns")
