"""The kernel is killed while the page applies edits of cells; `%jp resume` says what happened."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest
import tomlkit

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, MODEL, click

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]

ASK = "%%jp -m scripted/edits -t cells\nTidy up."
DIES = """
import os, signal
from jp_nb.notebook.page_document import PageDocument

ANSWERS = {answers}
change = PageDocument.change

async def dies(document, edits):
    if ANSWERS:
        await change(document, edits)
    os.kill(os.getpid(), signal.SIGKILL)

PageDocument.change = dies
"""
SOURCES = f"() => Array.from({MODEL}.cells, cell => cell.sharedModel.getSource())"
RESULTS = "record.events.filter(e => e.type === 'tool_call_response').length === 1"


def sources(page: NotebookPage) -> list[str]:
    found: list[str] = page.page.evaluate(SOURCES)
    return found


def kill_in_edits(lab: Lab, page: NotebookPage, *, answers: bool) -> None:
    """Let the kernel die after the consent, or after the page's answer if it `answers`."""
    cell = page.page.evaluate(f"() => {MODEL}.cells.get(4).id")
    version = hashlib.sha256(b"old = 1").hexdigest()[:12]
    edits: list[dict[str, Any]] = [
        {"op": "replace", "cell": cell, "version": version, "source": "new = 1"},
        {"op": "insert", "source": "added = 2", "after": "end"},
    ]
    called = {"name": "edit_cells", "arguments": {"edits": edits, "why": "It is untidy."}}
    replies = [{"tool_calls": [called]}, {"text": "That is all."}]
    script = tomlkit.dumps({"replies": replies})
    (lab.root / "edits.toml").write_text(script, encoding="utf-8")

    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.wait_for_kernel_status("idle")
    page.run_cell(2)
    click(page, "Apply 2 edits")
    page.page.locator(".jp-Dialog button", has_text="Ok").click()
    page.wait_for_kernel_status("idle")
    page.run_cell(0)
    page.output_text(0, contains="edit_cells may have run")
    page.run_cell(3)


def result(page: NotebookPage) -> str:
    page.wait_for_record(RESULTS)
    events = page.page.evaluate(f"{MODEL}.getMetadata('jp').events")
    [found] = [event["content"] for event in events if event["type"] == "tool_call_response"]
    return str(found)


@pytest.mark.req("CELL-45")
def test_answer_that_was_lost_is_found_in_the_notebook(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    page = open_notebook(LOAD, DIES.format(answers=True), ASK, "%jp resume", "old = 1")
    kill_in_edits(lab, page, answers=True)
    page.output_text(3, contains="That is all.")
    assert sources(page)[4:] == ["new = 1", "added = 2"]
    text = result(page)
    assert text.startswith("This call was interrupted after the page had applied its edits.")
    version = hashlib.sha256(b"new = 1").hexdigest()[:12]
    assert f"version {version}." in text
    page.output_text(3, contains="had applied 2 edits")  # a notice after the answer


@pytest.mark.req("CELL-45")
def test_edits_that_the_page_never_got_are_reviewed_again(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    page = open_notebook(LOAD, DIES.format(answers=False), ASK, "%jp resume", "old = 1")
    kill_in_edits(lab, page, answers=False)
    page.form().get_by_text("It is untidy.").wait_for()
    assert sources(page)[4:] == ["old = 1"]
    click(page, "Apply 2 edits")
    page.output_text(3, contains="That is all.")
    assert sources(page)[4:] == ["new = 1", "added = 2"]
    assert result(page).startswith("Applied 2 of 2 edits.")
