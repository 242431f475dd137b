"""Buttons on the code blocks of answers: Copy and "Insert as cell"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import nbformat
import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, load, picture

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

ANSWER = (
    "Two ways:\n\n```python\nfor i in range(3):\n    print('ran', i * 7)  # <b>&amp;\n```\n\n"
    "or\n\n```sql\nselect 42\n```\n"
)
CODE = "for i in range(3):\n    print('ran', i * 7)  # <b>&amp;"
HIDDEN = (
    "<pre><code>ls<span hidden>; touch pwned</span></code></pre>\n\n"
    "<pre><code>ls<span style='display: none'>; touch pwned</span></code></pre>\n\n"
    "<pre><code>ls<span style='font-size: 0'>; touch pwned</span></code></pre>\n\n"
    "<pre><code>ls\n<span class='lm-mod-hidden'>touch pwned</span></code></pre>\n\n"
    "```\nplain\n```\n"
)
SOURCES = "Array.from({model}.cells, cell => cell.sharedModel.getSource())".format(
    model="window.jupyterapp.shell.currentWidget.content.model"
)
HIDDEN_PART = """blocks => blocks.flatMap(block => Array.from(block.querySelectorAll("span")))
    .filter(word => !word.innerText || !word.getBoundingClientRect().height)
    .map(word => word.textContent).join("")"""
OPACITY = "bar => getComputedStyle(bar).opacity"
ACTIVE = """() => {
    const { content } = window.jupyterapp.shell.currentWidget;
    return content.activeCell.model.sharedModel.getSource();
}"""


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    text = f"[[replies]]\ntext = {json.dumps(ANSWER)}\n"
    (lab.root / "code.toml").write_text(text, encoding="utf-8")


def ask(page: NotebookPage) -> Locator:
    """Run the request in cell 1, and return the answer's code blocks."""
    load(page)
    page.run_cell(1)
    page.output_text(1, contains="select 42")
    page.wait_for_kernel_status("idle")
    return page.cell(1).locator(".jp-nb-code")


def sources(page: NotebookPage) -> list[str]:
    found: list[str] = page.page.evaluate(SOURCES)
    return found


@pytest.mark.req("PAGE-1")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook"])
def test_code_of_an_answer_is_inserted_below_by_keyboard_and_does_not_run(
    open_notebook: OpenNotebook, classic: bool
) -> None:
    page = open_notebook(LOAD, "%%jp -n -m scripted/code\nHow?", "'below'", classic=classic)
    blocks = ask(page)
    assert blocks.count() == 2
    insert = blocks.nth(0).get_by_role("button", name="Insert as cell")
    copy = blocks.nth(0).get_by_role("button", name="Copy")
    bar = blocks.nth(0).locator(".jp-nb-code-bar")
    assert bar.evaluate(OPACITY) == "0"

    copy.focus()
    page.page.keyboard.press("Tab")
    assert insert.evaluate("button => button === document.activeElement")
    assert bar.evaluate(OPACITY) == "1"
    page.page.keyboard.press("Enter")
    page.page.wait_for_function(f"() => {SOURCES}.length === 4")

    assert sources(page) == [LOAD, "%%jp -n -m scripted/code\nHow?", CODE, "'below'"]
    assert page.cell(2).locator(".jp-InputPrompt").inner_text().strip() == "[ ]:"
    assert page.page.evaluate(ACTIVE) == CODE
    page.page.keyboard.press("Shift+Enter")
    page.output_text(2, contains="ran 14")


@pytest.mark.req("PAGE-1")
def test_code_of_an_answer_is_copied_to_the_clipboard(open_notebook: OpenNotebook) -> None:
    page = open_notebook(LOAD, "%%jp -n -m scripted/code\nHow?", "")
    blocks = ask(page)
    blocks.nth(0).hover()
    blocks.nth(0).get_by_role("button", name="Copy").click()
    blocks.nth(0).locator("button", has_text="Copied").wait_for()
    page.cell(2).locator(".cm-content").click()
    page.page.keyboard.press("Control+v")
    assert sources(page)[2] == CODE

    blocks.nth(0).hover()
    picture(page, "code")
    page.page.set_viewport_size({"width": 800, "height": 600})
    blocks.nth(0).hover()
    picture(page, "code-800")


@pytest.mark.req("PAGE-2")
def test_stored_markdown_of_someone_else_gets_no_button_on_text_that_it_hides(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    path = lab.write("stored.ipynb", ["%%jp\nHow?", "display(m)"])
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        data = {"text/markdown": HIDDEN, "text/plain": "plain"}
        cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
    nbformat.write(notebook, path)
    page = open_notebook("1")
    page.path = path
    page.reopen()

    page.output_text(0, contains="plain")
    blocks = page.cell(0).locator(".jp-nb-code pre")
    blocks.get_by_text("plain").wait_for()
    assert "touch pwned" not in blocks.evaluate_all(HIDDEN_PART)
    assert page.cell(0).locator("pre").count() == page.cell(1).locator("pre").count() == 5
    assert page.cell(0).locator("pre:has(.lm-mod-hidden)").count() == 1
    assert page.cell(0).locator(".jp-nb-code pre:has(.lm-mod-hidden)").count() == 0
    assert page.cell(1).locator(".jp-nb-code").count() == 0
    assert sources(page) == ["%%jp\nHow?", "display(m)"]
