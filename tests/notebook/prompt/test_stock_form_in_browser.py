"""Forms in JupyterLab where a module of `anywidget` cannot load: stock widgets alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit import prompt_in_cell as in_cell
from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.prompt_pages import answer_of

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

FIRST_CELL = """
from in_cell import *
from jp_nb.notebook.prompt import prompt_view as module_of_view

module_of_view.STOCK_TIMEOUT_S = 60.0  # as a page needs on a busy machine
SOON = {"rendered_timeout_s": 1.0}
"""
FORM = (
    "ask_form(Question.select('store', 'Which store?', ['Redis', 'Postgres', 'SQLite'],"
    " recommended=1, other=True),"
    " Question.select('extras', 'Which extras?', [f'extra {n}' for n in range(60)], multi=True),"
    " Question.text('why', 'Why?').with_required(False), partial=True, menu=True, **SOON)"
)
PERMIT = "turn(lambda: prompter.ask(PERMISSION), **SOON)"
SECRET = "note_page()\nask(Question.secret('q', 'Password?'), **SOON)"
NO_BLOBS = """
const make = URL.createObjectURL;
URL.createObjectURL = blob =>
    blob.type === "text/javascript" ? "blob:null/none" : make.call(URL, blob);
"""
"""No module starts, as with a content security policy that forbids scripts from blobs."""


@pytest.fixture(params=["extension is missing", "module is blocked"])
def notebook(request: pytest.FixtureRequest, open_notebook: OpenNotebook, lab: Lab) -> NotebookPage:
    """A notebook in a page without `form.js`."""
    shutil.copy(Path(in_cell.__file__), lab.root / "in_cell.py")
    opened = open_notebook(FIRST_CELL, "pass", fresh=True)
    if request.param == "extension is missing":
        opened.page.route("**/extensions/anywidget/**", lambda route: route.abort())
    else:
        opened.page.add_init_script(NO_BLOBS)

    opened.reload()
    opened.run_cell(0)
    opened.wait_for_kernel_status("idle")
    return opened


def ask(notebook: NotebookPage, code: str) -> Locator:
    """Run `code` and return the form, once it has stock widgets alone."""
    notebook.replace_cells(code)
    notebook.run_cell(1)
    form = notebook.page.locator(".jp-nb-form:visible")
    form.get_by_text("standard controls").wait_for()
    assert form.count() == 1
    return form


def press(form: Locator, label: str) -> None:
    form.get_by_role("button", name=label, exact=True).click()


@pytest.mark.req("RPI-49", "RPI-50")
def test_everything_is_answered_with_stock_widgets_alone(
    notebook: NotebookPage, tmp_path: Path
) -> None:
    form = ask(notebook, FORM)
    notebook.screenshot(tmp_path / "stock.png", form)
    assert form.get_by_role("radio", name="Postgres (recommended)").is_checked()
    form.get_by_role("radio", name="Redis").check()
    press(form, "Next")

    form.get_by_text("Question 2 of 3").wait_for()
    assert form.get_by_role("checkbox").count() == 50
    form.get_by_role("checkbox", name="extra 7", exact=True).check()
    form.get_by_placeholder("Filter the options").fill("extra 59")
    form.get_by_role("checkbox", name="extra 59").wait_for()
    form.get_by_role("checkbox", name="extra 59").check()
    press(form, "Next")

    form.get_by_text("Question 3 of 3").wait_for()
    press(form, "Submit")
    form.get_by_text("Not every question is answered").wait_for()
    press(form, "Answer")
    form.get_by_text("Question 3 of 3").wait_for()
    form.locator("textarea").fill("It is fast.")
    press(form, "Submit")
    answer = answer_of(notebook)
    for value in ("'redis'", "['extra 7', 'extra 59']", "'It is fast.'"):
        assert value in answer.replace("Redis", "redis")

    # With the keyboard alone: the permission is given by the third button.
    form = ask(notebook, PERMIT)
    notebook.page.wait_for_timeout(300)
    assert form.count() == 1
    form.get_by_role("button").first.focus()
    notebook.page.keyboard.press("Tab")
    notebook.page.keyboard.press("Tab")
    focused = notebook.page.evaluate("document.activeElement.textContent")
    notebook.page.keyboard.press("Enter")
    assert focused == "Skip rename"
    assert "value='skip'" in answer_of(notebook)


@pytest.mark.req("HB-18")
def test_secret_is_asked_in_an_input_box(notebook: NotebookPage) -> None:
    notebook.replace_cells(SECRET)
    notebook.run_cell(1)
    notebook.page.get_by_text("no page has shown its form yet").wait_for()
    notebook.interrupt()
    box = notebook.page.locator(".jp-Stdin-input")
    box.wait_for()
    assert box.get_attribute("type") == "password"
    box.fill("hunter2")
    box.press("Enter")
    assert "hunter2" in answer_of(notebook)  # the test prints it
