"""Cells with `%%jp` are prose: Markdown, wrapped lines, single quotes, names after "@"."""

from __future__ import annotations

import pytest

from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import load, picture

pytestmark = pytest.mark.browser

LOAD = "%load_ext jp_nb\ndelta_rows = [1, 2]"
LONG = "Do the *sum* of `delta_rows`. " + "A long line of the request. " * 12
SOURCE = """index => window.jupyterapp.shell.currentWidget.content.model.cells.get(index)
    .sharedModel.getSource()"""
SET = """([plugin, settings]) => window.jupyterapp.serviceManager.settings.save(
    plugin, JSON.stringify(settings))"""
NOTEBOOKS = "@jupyterlab/notebook-extension:tracker"


def source(page: NotebookPage, cell: int) -> str:
    found: str = page.page.evaluate(SOURCE, cell)
    return found


def write(page: NotebookPage, cell: int, text: str) -> None:
    """Replace the text of a cell, key by key."""
    page.cell(cell).locator(".cm-content").click()
    page.page.keyboard.press("Control+a")
    page.page.keyboard.press("Delete")
    page.page.keyboard.type(text)


@pytest.mark.req("PAGE-3")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook"])
def test_cell_is_prose_until_its_first_line_changes(
    open_notebook: OpenNotebook, classic: bool
) -> None:
    page = open_notebook(LOAD, f"%%jp\n{LONG}", "x = 'a'", classic=classic)
    editor = page.cell(1).locator(".cm-editor")
    page.cell(1).locator(".jp-nb-prose .cm-lineWrapping").wait_for()
    assert editor.locator(".cm-line").nth(1).bounding_box()["height"] > 60  # type: ignore[index]
    emphasis = editor.locator(".cm-line").nth(1).locator("span", has_text="sum").first
    assert emphasis.evaluate("word => getComputedStyle(word).fontStyle") == "italic"
    assert page.cell(2).locator(".jp-nb-prose, .cm-lineWrapping").count() == 0

    page.cell(1).locator(".cm-content").click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type("\nand the rest")
    if not classic:
        picture(page, "prose")

    page.page.keyboard.press("Control+Home")
    page.page.keyboard.type("# ")
    page.cell(1).locator(".jp-nb-prose").wait_for(state="detached")
    assert editor.locator(".cm-lineWrapping").count() == 0
    write(page, 2, "%%jp\n")
    page.cell(2).locator(".jp-nb-prose").wait_for()


@pytest.mark.req("PAGE-4")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook"])
def test_at_sign_and_tab_complete_variables_files_and_cells(
    open_notebook: OpenNotebook, classic: bool
) -> None:
    page = open_notebook(LOAD, "%%jp\n", "print('ada@example')", classic=classic)
    (page.path.parent / "delta notes.md").write_text("Notes.", encoding="utf-8")
    load(page)
    offers = page.page.locator(".jp-Completer:visible .jp-Completer-item")
    write(page, 1, "%%jp\nLook at @")
    offers.first.wait_for()
    page.page.keyboard.type("delta", delay=100)
    offers.filter(has_text="@delta_rows").wait_for()
    offers.filter(has_text="@delta notes.md").wait_for()
    if not classic:
        picture(page, "mentions")
    page.page.keyboard.press("Enter")
    assert source(page, 1) == "%%jp\nLook at {{delta_rows}}"

    page.page.keyboard.type(" and @cell3")  # faster than the kernel answers
    offers.filter(has_text="@cell3").first.wait_for()
    page.page.keyboard.press("Enter")
    cell_id = page.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.model.cells.get(2).id"
    )
    assert source(page, 1) == f"%%jp\nLook at {{{{delta_rows}}}} and cell `{cell_id}`"

    write(page, 1, "%%jp -a delta")
    page.cell(1).locator(".jp-mod-completer-enabled").wait_for()
    page.page.keyboard.press("Tab")
    offers.filter(has_text="delta\\ notes.md").first.wait_for()
    page.page.keyboard.press("Escape")

    write(page, 2, "mail = @")
    page.page.wait_for_timeout(1500)
    assert offers.count() == 0


@pytest.mark.req("PAGE-3")
def test_quotes_stay_single_where_the_user_has_brackets_closed(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook("1", "%%jp\n", "")
    try:
        page.page.evaluate(SET, [NOTEBOOKS, {"codeCellConfig": {"autoClosingBrackets": True}}])
        page.reload()
        page.cell(1).locator(".jp-nb-prose").wait_for()
        page.cell(2).locator(".cm-content").click()
        page.page.keyboard.type("'")
        assert source(page, 2) == "''"
        page.cell(1).locator(".cm-content").click()
        page.page.keyboard.press("Control+End")
        page.page.keyboard.type("Don't close \"this, but {{delta")
        assert source(page, 1) == "%%jp\nDon't close \"this, but {{delta}}"
    finally:
        page.page.evaluate(SET, [NOTEBOOKS, {}])


@pytest.mark.req("PAGE-3")
def test_settings_turn_prose_off(open_notebook: OpenNotebook) -> None:
    page = open_notebook("1", "%%jp\nHi", "x = 1")
    page.cell(1).locator(".jp-nb-prose").wait_for()
    try:
        page.page.evaluate(SET, ["jp-nb:page", {"prose": False}])
        page.reload()
        write(page, 2, "%%jp\nHello")
        page.page.wait_for_timeout(500)
        assert page.page.locator(".jp-nb-prose").count() == 0
    finally:
        page.page.evaluate(SET, ["jp-nb:page", {}])
