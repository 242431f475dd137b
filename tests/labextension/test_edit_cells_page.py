"""The user applies edits of the model in a page: one undo step, conflicts, and a reload."""

from __future__ import annotations

import pytest

from tests.labextension.edit_proposals import ASK, cells, on, propose, result, version
from tests.support.browser import Lab, OpenNotebook
from tests.support.page_actions import LOAD, MODEL, click

pytestmark = pytest.mark.browser


@pytest.mark.req("CELL-16", "CELL-18", "CELL-19", "CELL-22")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook-7"])
def test_edits_are_one_undo_step_and_other_cells_keep_their_outputs(
    lab: Lab, open_notebook: OpenNotebook, classic: bool
) -> None:
    page = open_notebook(LOAD, ASK, classic=classic)
    propose(
        lab,
        page,
        on("replace", "a", "one", source="uno"),
        on("move", "b", "two", after="end"),
        on("delete", "c", "three"),
        {"op": "insert", "source": "new = 1"},
    )
    click(page, "Apply 4 edits")
    page.output_text(1, contains="That is all.")
    text = result(page)
    assert text.startswith("Applied 4 of 4 edits.")

    assert "uno" not in page.path.read_text(encoding="utf-8")  # until the user saves

    after = cells(page)
    new = after[0][0]
    assert [(cell[0], cell[1]) for cell in after] == [
        (new, "new = 1"),
        ("a", "uno"),
        ("d", "four"),
        ("b", "two"),
    ]
    assert f"4. applied: cell `{new}`, version {version('new = 1')}." in text
    outputs = {cell[0]: cell[2] for cell in after}
    assert outputs["a"] == "[]"
    assert "output of d" in outputs["d"]
    assert "output of b" in outputs["b"]

    page.page.evaluate(f"() => {MODEL}.sharedModel.undo()")
    undone = cells(page)
    assert [(cell[0], cell[1]) for cell in undone] == [
        ("a", "one"),
        ("b", "two"),
        ("c", "three"),
        ("d", "four"),
    ]
    assert "output of c" in undone[2][2]


@pytest.mark.req("CELL-17")
def test_cell_that_the_user_changed_in_the_review_is_a_conflict(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    page = open_notebook(LOAD, ASK)
    propose(
        lab,
        page,
        on("replace", "a", "one", source="uno"),
        on("replace", "b", "two", source="due"),
    )
    page.page.evaluate(
        f"() => {MODEL}.cells.get(2).sharedModel.setSource('one, typed by the user')"
    )
    click(page, "Apply 2 edits")
    page.form().get_by_text("Cells have changed since the model read them").wait_for()
    assert [cell[1] for cell in cells(page)] == ["one, typed by the user", "two", "three", "four"]

    click(page, "Apply the other 1")
    page.output_text(1, contains="That is all.")
    assert [cell[1] for cell in cells(page)] == ["one, typed by the user", "due", "three", "four"]
    text = result(page)
    assert text.startswith("Applied 1 of 2 edits.")
    assert "1. conflict, not applied: the source has changed." in text


@pytest.mark.req("CELL-20")
def test_reload_in_the_review_applies_the_edits_once(lab: Lab, open_notebook: OpenNotebook) -> None:
    page = open_notebook(LOAD, ASK)
    propose(lab, page, {"op": "insert", "after": "end", "source": "new = 1"})
    page.save()
    page.reload(status="busy")
    page.form().get_by_text("It is untidy.").wait_for()
    click(page, "Apply 1 edit")
    text = result(page)
    assert text.startswith("Applied 1 of 1 edit.")
    assert [cell[1] for cell in cells(page)].count("new = 1") == 1
