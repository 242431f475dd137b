"""A review outlines the cells that it is about, and shows them."""

from __future__ import annotations

import pytest

from tests.labextension.edit_proposals import ASK, on, propose
from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, MODEL, click, keys, picture

pytestmark = pytest.mark.browser

MARKED = """() => {
    const { content } = window.jupyterapp.shell.currentWidget;
    const has = name => content.widgets
        .filter(({ node }) => node.classList.contains(name)).map(({ model }) => model.id);
    return [has("jp-nb-affected"), has("jp-nb-inserts-below")];
}"""
PLACE = """() => {
    const { content } = window.jupyterapp.shell.currentWidget;
    return [content.outerNode.scrollTop, content.activeCell.model.id,
        document.activeElement?.className];
}"""
MOVE = f"() => {MODEL}.sharedModel.moveCell(2, 3)"
SEEN = """id => {
    const { content } = window.jupyterapp.shell.currentWidget;
    const { node } = content.widgets.find(({ model }) => model.id === id);
    const cell = node.getBoundingClientRect();
    const view = content.outerNode.getBoundingClientRect();
    return cell.bottom > view.top && cell.top < view.bottom;
}"""


def wait_for_marks(page: NotebookPage, affected: list[str], places: list[str]) -> None:
    page.page.wait_for_function(
        f"expected => JSON.stringify(({MARKED})()) === JSON.stringify(expected)",
        arg=[affected, places],
    )


@pytest.mark.req("CELL-10")
def test_review_outlines_its_cells_and_shows_them(lab: Lab, open_notebook: OpenNotebook) -> None:
    page = open_notebook(LOAD, ASK)
    long = "\n".join(f"line_{n} = {n}" for n in range(60))
    propose(
        lab,
        page,
        on("replace", "a", "one", source=long),
        on("delete", "d", "four"),
        {"op": "insert", "after": "c", "source": "new = 1"},
        {"op": "insert", "after": "new:1", "source": "also_new = 1"},
    )
    wait_for_marks(page, ["a", "d"], ["c"])
    page.page.evaluate(MOVE)
    wait_for_marks(page, ["a", "d"], ["c"])
    picture(page, "review-outlines")

    form = page.form()
    shows = form.locator(".jp-nb-item .jp-nb-show-cell")
    assert shows.all_inner_texts() == ["Show cell"] * 4
    boxes = form.get_by_role("checkbox")
    assert [box.is_checked() for box in boxes.all()] == [True] * 4
    assert "jp-nb-form" in page.page.evaluate(PLACE)[2]

    # The keyboard alone: the check box, and back.
    boxes.nth(2).focus()
    keys(page, "Space")
    form.get_by_role("button", name="Apply 3 edits", exact=True).wait_for()
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Space")
    form.get_by_role("button", name="Apply 4 edits", exact=True).focus()
    before = page.page.evaluate(PLACE)
    shows.nth(1).evaluate("button => button.click()")
    back = page.page.get_by_role("button", name="Back to the review")
    back.wait_for()
    assert page.page.evaluate(SEEN, "d")
    assert page.page.evaluate(PLACE)[1:] == before[1:]
    picture(page, "review-shown-cell")
    back.click()
    page.page.wait_for_function(f"top => ({PLACE})()[0] === top", arg=before[0])
    page.page.emulate_media(forced_colors="active")  # it removes shadows
    edge = "cell => getComputedStyle(cell).borderBottomWidth"
    assert page.page.locator(".jp-nb-inserts-below").evaluate(edge) == "3px"
    page.page.emulate_media(forced_colors="none")

    click(page, "Reject")
    page.output_text(1, contains="That is all.")
    wait_for_marks(page, [], [])
    assert page.page.locator(".jp-nb-show-cell").count() == 0


@pytest.mark.req("CELL-10", "CELL-12")
def test_screen_reader_hears_each_edit_and_if_its_difference_is_open(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    page = open_notebook(LOAD, ASK)
    long = "\n".join(f"line_{n} = {n}" for n in range(500))
    propose(
        lab,
        page,
        on("replace", "a", "one", source=long),
        on("replace", "b", "two", source="due"),
    )
    form = page.form()
    for title, size in (("Replace cell 3 (one)", "500 lines added"), ("Replace cell 4 (two)", "")):
        box = form.get_by_role("checkbox", name=title)
        assert size in box.locator("xpath=ancestor::label").inner_text()
    names = [
        [each.get_attribute("aria-label") or each.inner_text() for each in row.all()]
        for row in [item.get_by_role("button") for item in form.locator(".jp-nb-item").all()]
    ]
    assert names == [[f"Change source of edit {n} …", f"Show cell of edit {n}"] for n in (1, 2)]

    # With the keyboard alone: the button that opens the difference keeps the focus.
    toggle = form.get_by_role("button", name="Show the difference", expanded=False)
    toggle.focus()
    for is_open in (True, False, True):
        keys(page, "Enter")
        form.locator(f".jp-nb-toggle[aria-expanded={str(is_open).lower()}]:focus").wait_for()
    page.page.emulate_media(forced_colors="active")
    picture(page, "review-high-contrast")
    page.page.emulate_media(forced_colors="none")
    page.page.set_viewport_size({"width": 800, "height": 700})
    picture(page, "review-800")
    click(page, "Reject")
    page.output_text(1, contains="That is all.")
