"""Cells with `%%jp` are prose: Markdown, wrapped lines, single quotes, names after "@"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import load, picture

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

TRIES = 10
LOOKS = 40
"""How often a test looks at the list, ten times a second, before it types again."""

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


def offer(page: NotebookPage, text: str, typed: Sequence[str], wanted: Locator) -> None:
    """Write `text` into cell 1 and press the keys `typed`, until the list has `wanted`.

    JupyterLab drops the answer of a kernel that needs more than a second, as on a busy machine.
    """
    for _ in range(TRIES):
        write(page, 1, text)
        if typed[0] == "Tab":  # otherwise it indents the line
            page.cell(1).locator(".jp-mod-completer-enabled").wait_for()
        for key in typed:
            page.page.keyboard.press(key)
        for _ in range(LOOKS):
            if wanted.count():
                return
            page.page.wait_for_timeout(100)
        page.page.keyboard.press("Escape")

    pytest.fail(f"no such offer after {typed!r}")


@pytest.mark.req("PAGE-4")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook"])
def test_at_sign_and_tab_complete_variables_files_and_cells(
    open_notebook: OpenNotebook, classic: bool
) -> None:
    page = open_notebook(LOAD, "%%jp\n", "print('ada@example')", classic=classic)
    (page.path.parent / "delta notes.md").write_text("Notes.", encoding="utf-8")
    load(page)
    offers = page.page.locator(".jp-Completer:visible .jp-Completer-item")
    offer(page, "%%jp\nLook at @", "delta", offers.filter(has_text="@delta_rows"))
    offers.filter(has_text="@delta notes.md").wait_for()
    if not classic:
        picture(page, "mentions")
    page.page.keyboard.press("Enter")
    assert source(page, 1) == "%%jp\nLook at {{delta_rows}}"

    # Faster than the kernel answers.
    offer(page, "%%jp\nLook at {{delta_rows}} and ", "@cell3", offers.filter(has_text="@cell3"))
    page.page.keyboard.press("Enter")
    cell_id = page.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.model.cells.get(2).id"
    )
    assert source(page, 1) == f"%%jp\nLook at {{{{delta_rows}}}} and cell `{cell_id}`"

    offer(page, "%%jp -a delta", ["Tab"], offers.filter(has_text="delta\\ notes.md"))
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
