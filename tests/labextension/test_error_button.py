"""The button "Ask about this error" below the traceback of a failed cell."""

from __future__ import annotations

import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.page_actions import load, picture

pytestmark = pytest.mark.browser

LOAD = "%load_ext jp_nb\n%jp config -c assistant.model.id=scripted/why"
SOURCES = """Array.from(window.jupyterapp.shell.currentWidget.content.model.cells,
    cell => cell.sharedModel.getSource())"""
ASK = "Ask about this error"


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    text = '[[replies]]\ntext = "You divided by zero."\n' * 3
    (lab.root / "why.toml").write_text(text, encoding="utf-8")


@pytest.mark.req("PAGE-5")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook"])
def test_click_asks_about_the_error_in_a_cell_below_once(
    open_notebook: OpenNotebook, classic: bool
) -> None:
    page = open_notebook(LOAD, "1 / 0", "None + 1", classic=classic)
    load(page)
    page.run_cell(1)
    button = page.cell(1).get_by_role("button", name=ASK)
    button.wait_for()
    assert "ZeroDivisionError" in page.output_text(1)
    background = "node => getComputedStyle(node.closest('[data-mime-type]')).backgroundColor"
    assert button.evaluate(background) not in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 255)")
    assert page.cell(0).get_by_role("button", name=ASK).count() == 0

    button.focus()
    page.page.keyboard.press("Enter")
    page.output_text(2, contains="You divided by zero.")
    page.wait_for_kernel_status("idle")
    assert page.page.evaluate(SOURCES)[1:] == ["1 / 0", "%jp why", "None + 1"]
    if not classic:
        picture(page, "error")
        page.page.set_viewport_size({"width": 800, "height": 700})
        picture(page, "error-800")

    button.click()
    assert page.page.evaluate(SOURCES)[1:] == ["1 / 0", "%jp why", "None + 1"]

    page.run_cell(3)
    later = page.cell(3).get_by_role("button", name=ASK)
    later.wait_for()
    page.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.model.sharedModel.deleteCell(2)"
    )
    button.click()
    page.cell(1).get_by_text("Another cell failed later").wait_for()
    assert page.page.evaluate(SOURCES)[1:] == ["1 / 0", "None + 1"]


@pytest.mark.req("PAGE-5")
def test_last_error_after_a_restart_is_that_of_the_new_kernel(open_notebook: OpenNotebook) -> None:
    page = open_notebook(LOAD, "1 / 0", "None + 1")
    load(page)
    for index in (1, 2):
        page.run_cell(index)
        page.cell(index).get_by_role("button", name=ASK).wait_for()

    page.restart_kernel()
    page.cell(2).get_by_role("button", name=ASK).click()
    page.cell(2).get_by_text("The kernel started again after this error").wait_for()

    load(page)
    page.run_cell(1)  # its number is less than the one that the other cell has kept
    page.wait_for_kernel_status("idle")
    page.cell(1).get_by_role("button", name=ASK).click()
    page.output_text(2, contains="You divided by zero.")
    assert page.page.evaluate(SOURCES)[1:] == ["1 / 0", "%jp why", "None + 1"]


@pytest.mark.req("PAGE-5")
def test_notebook_without_jp_shows_errors_as_before(open_notebook: OpenNotebook) -> None:
    page = open_notebook("1 / 0")
    page.run_cell(0)
    page.output_text(0, contains="ZeroDivisionError")
    assert page.page.get_by_role("button", name=ASK).count() == 0
