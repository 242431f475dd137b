"""`%jp code` and `%jp fix` in a page: the review of an edit, and the cell that changes."""

from __future__ import annotations

import hashlib

import pytest
import tomlkit

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, MODEL, click

pytestmark = pytest.mark.browser

SOURCES = f"() => Array.from({MODEL}.cells, cell => cell.sharedModel.getSource())"
ANSWER = "Try this:\n\n```python\nx = 40 + 2\n```\n"


def sources(page: NotebookPage) -> list[str]:
    found: list[str] = page.page.evaluate(SOURCES)
    return found


@pytest.mark.req("CELL-37")
def test_code_of_an_answer_is_reviewed_and_inserted_below_the_cell(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    script = tomlkit.dumps({"replies": [{"text": ANSWER}]})
    (lab.root / "codes.toml").write_text(script, encoding="utf-8")
    asks = "%%jp -m scripted/codes\nHow?"
    page = open_notebook(LOAD, asks, "%jp code", "last = 1")
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.output_text(1, contains="Try this")

    page.run_cell(2)
    page.form().get_by_text("A new cell with code block 1 of the last answer").wait_for()
    page.form().get_by_text("x = 40 + 2").wait_for()
    assert sources(page) == [LOAD, asks, "%jp code", "last = 1"]
    click(page, "Reject")
    page.wait_for_kernel_status("idle")
    assert sources(page) == [LOAD, asks, "%jp code", "last = 1"]

    page.run_cell(2)
    click(page, "Apply 1 edit")
    page.output_text(2, contains="Applied 1 of 1 edit.")
    assert sources(page) == [LOAD, asks, "%jp code", "x = 40 + 2", "last = 1"]


@pytest.mark.req("CELL-36")
def test_fix_edits_the_cell_that_failed(lab: Lab, open_notebook: OpenNotebook) -> None:
    page = open_notebook(
        LOAD, "total = 1 / 0", "%jp config assistant.model.id=scripted/fixes", "%jp fix"
    )
    failed = page.page.evaluate(f"() => {MODEL}.cells.get(1).id")
    version = hashlib.sha256(b"total = 1 / 0").hexdigest()[:12]
    edit = {"op": "patch", "cell": failed, "version": version, "old": "/ 0", "new": "/ 2"}
    called = {"name": "edit_cells", "arguments": {"edits": [edit], "why": "Zero."}}
    replies = [{"text": "It divides by zero.", "tool_calls": [called]}, {"text": "That is all."}]
    script = tomlkit.dumps({"replies": replies})
    (lab.root / "fixes.toml").write_text(script, encoding="utf-8")

    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.output_text(1, contains="ZeroDivisionError")
    page.run_cell(2)
    page.wait_for_kernel_status("idle")
    page.run_cell(3)
    click(page, "Apply 1 edit")
    page.output_text(3, contains="That is all.")
    assert sources(page)[1] == "total = 1 / 2"
    events = page.page.evaluate(f"{MODEL}.getMetadata('jp').events")
    [asked] = [event["content"] for event in events if event["type"] == "chat_request"]
    assert f"the id `{failed}` and the version {version}" in asked
