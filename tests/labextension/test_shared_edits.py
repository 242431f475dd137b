"""Edits of cells in a document that two pages share: once, in the page of the click, and merged."""

from __future__ import annotations

from typing import Any

import pytest
import tomlkit

from tests.labextension.edit_proposals import ASK, FILL, on, result
from tests.labextension.shared_document import BO_SHOWN, SharedPages, wait_for_one_form
from tests.support.browser import NotebookPage
from tests.support.page_actions import LOAD, MODEL, click

pytestmark = pytest.mark.browser

FOUR = [["a", "one"], ["b", "two"], ["c", "three"], ["d", "four"]]
SOURCES = f"() => Array.from({MODEL}.cells, cell => cell.sharedModel.getSource()).slice(2)"
COUNT_EDITS = f"""() => {{
    window.applied = 0;
    const shared = {MODEL}.sharedModel;
    const set = shared.setMetadata.bind(shared);
    shared.setMetadata = (key, value) => {{
        if (key === "jp_edit") window.applied++;
        return set(key, value);
    }};
}}"""
TYPE_AFTER_THE_EDIT = f"""milliseconds => {{
    const cell = {MODEL}.cells.get(2).sharedModel;
    const type = () => {{
        if (cell.getSource() === "uno") {{
            cell.changed.disconnect(type);
            setTimeout(() => cell.updateSource(3, 3, " by Bo"), milliseconds);
        }}
    }};
    cell.changed.connect(type);
}}"""


def propose(shared: SharedPages, *edits: dict[str, Any]) -> list[NotebookPage]:
    """Let the model propose `edits` in the page of ADA; return both pages with the review."""
    arguments = {"edits": list(edits), "why": "It is untidy."}
    replies = [
        {"tool_calls": [{"name": "edit_cells", "arguments": arguments}]},
        {"text": "That is all."},
    ]
    (shared.lab.root / "edits.toml").write_text(tomlkit.dumps({"replies": replies}))
    first, second = shared.open(LOAD, ASK)
    first.run_cell(0)
    first.output_text(0, contains="kept in this notebook")
    first.page.evaluate(FILL, FOUR)
    second.page.wait_for_function(f"() => {MODEL}.cells.length === 6")
    first.run_cell(1)
    wait_for_one_form(first, second)
    for page in (first, second):
        page.page.evaluate(COUNT_EDITS)
    return [first, second]


def wait_for_sources(page: NotebookPage, *expected: str) -> None:
    page.page.wait_for_function(
        f"expected => JSON.stringify(({SOURCES})()) === JSON.stringify(expected)",
        arg=list(expected),
    )


@pytest.mark.req("CELL-20")
def test_edits_are_applied_once_in_the_page_of_the_click(shared_pages: SharedPages) -> None:
    first, second = propose(
        shared_pages,
        on("replace", "a", "one", source="uno"),
        on("move", "b", "two", after="end"),
        {"op": "insert", "source": "6 * 7", "after": "c", "run": True},
    )
    click(second, "Apply 3 edits and run")
    first.output_text(1, contains="That is all.")
    for page in (first, second):
        wait_for_sources(page, "uno", "three", "6 * 7", "four", "two")
        outputs = f"() => {MODEL}.cells.get(4).outputs.toJSON()"
        page.page.wait_for_function(f"() => {MODEL}.cells.get(4).executionCount === 3")
        [shown] = page.page.evaluate(outputs)
        assert shown["data"]["text/plain"] == "42"
    applied = [page.page.evaluate("window.applied") for page in (first, second)]
    assert applied == [0, 1]
    assert "merged" not in result(first)


@pytest.mark.req("CELL-17")
def test_edit_of_another_page_that_arrives_later_is_told_and_does_not_run(
    shared_pages: SharedPages,
) -> None:
    first, second = propose(
        shared_pages,
        on("replace", "a", "one", source="uno", run=True),
        on("replace", "b", "two", source="due = 2", run=True),
    )
    second.page.evaluate(TYPE_AFTER_THE_EDIT, 50)
    click(first, "Apply 2 edits and run")
    shown = first.output_text(1, contains="That is all.")
    for page in (first, second):
        wait_for_sources(page, "uno by Bo", "due = 2", "three", "four")
    text = result(first)
    assert f"1. applied, and then merged with an edit of {BO_SHOWN}: cell `a` now has" in text
    assert "Not run, because another user edited it." in text
    assert "uno by Bo" in text
    assert "2. applied: cell `b`" in text
    assert "It ran." in text
    assert "1 cell is not as applied" in shown


@pytest.mark.req("CELL-17")
def test_edit_of_another_page_later_in_the_turn_is_told_at_its_end(
    shared_pages: SharedPages,
) -> None:
    first, second = propose(
        shared_pages,
        on("replace", "a", "one", source="uno"),
        {"op": "insert", "source": "import time; time.sleep(5)", "after": "d", "run": True},
    )
    # The comparison one second after the edits finds nothing yet.
    second.page.evaluate(TYPE_AFTER_THE_EDIT, 3000)
    click(first, "Apply 2 edits and run")
    shown = first.output_text(1, contains="No longer as the edits of this turn left it")
    assert f"cell 3. You or {BO_SHOWN} changed it" in shown
    assert "1. applied: cell `a`" in result(first)
    first.wait_for_record("record.events.some(e => e.metadata?.note_to_model)")
