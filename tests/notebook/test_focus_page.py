"""The focus of a page after its forms: the next cell runs with Shift+Enter, and no key is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.notebook.prompt.form_pages import (
    SCRIPT,
    TURN,
    WALK_TOOLS,
    FormOnPage,
    wait_until_selected,
)
from tests.support.browser import Lab, Notebooks, Pages
from tests.support.page_actions import click, keys, question
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SCRIPTS = {
    "plan": SCRIPT,
    "walk": question(question="Ship it?", answer_type="boolean")
    + question(question="Any wishes?", answer_type="text")
    + '[[replies]]\ntool_calls = [{ name = "send", arguments = {} }]\n'
    + '[[replies]]\ntool_calls = [{ name = "hold", arguments = {} }]\n'
    + '[[replies]]\ntext = "Never sent."\n',
    "plain": '[[replies]]\ntext = "Plainly."\n' * 2,
    "wish": question(question="Any wishes?", answer_type="text") + '[[replies]]\ntext = "Noted."\n',
}
FIRST_CELL = WALK_TOOLS


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def test_quickstart_runs_with_shift_enter_tab_and_enter_alone(lab: Lab, pages: Pages) -> None:
    path = lab.root / "01-quickstart.ipynb"
    shutil.copy(NOTEBOOKS / path.name, path)
    notebooks = Notebooks(lab, pages, "quickstart")
    page = notebooks.open_file(path)
    cells = page.saved().cells
    wait_until_selected(page, 0)

    for number, cell in enumerate(cells[:-1]):
        page.page.keyboard.press("Shift+Enter")
        if "Plan a walk" in cell.source:
            page.form().get_by_text("What kind of walk").wait_for()
            keys(page, "Tab", "Enter")
        wait_until_selected(page, number + 1)
        page.wait_for_kernel_status("idle")

    page.save()
    assert "→ Old town" in str(page.saved().cells[11].outputs)
    assert "Plan a walk for me, please." in str(page.saved().cells[20].outputs)
    notebooks.close()


@pytest.mark.deep
def test_cell_that_was_selected_before_a_form_is_selected_after_it(opened: Opened) -> None:
    walk = "%%jp -n -m scripted/walk\nGo."
    page = opened(walk, TURN, "print('the next', 'cell')", "")
    page.run_cell(1, "Shift+Enter")
    page.form().get_by_text("Ship it?").wait_for()
    keys(page, "ArrowRight", "Enter")
    page.form().get_by_text("Any wishes?").wait_for()
    keys(page, "s", "o", "Control+Enter")
    page.form().get_by_text("Run the tool `send`?").wait_for()
    click(page, "Run send")
    page.form().get_by_text("Configuration delta").wait_for()
    keys(page, "Tab", "Enter")
    page.output_text(1, contains="hold")
    wait_until_selected(page, 2)

    page.page.keyboard.press("i")
    page.page.keyboard.press("i")
    page.form().get_by_text("Interrupted: ").wait_for()
    keys(page, "ArrowUp", "Enter")  # the last one: stop the turn
    page.output_text(1, contains="Interrupted.")
    wait_until_selected(page, 2)
    page.wait_for_kernel_status("idle")  # a cell that fails ends the cells in the queue

    page.page.keyboard.press("Shift+Enter")  # a form with pages, cancelled
    form = FormOnPage(page)
    form.on(1)
    keys(page, "Escape")
    form.press("Stop the turn")
    wait_until_selected(page, 3)
    page.wait_for_kernel_status("idle")
    page.page.keyboard.press("Shift+Enter")
    page.output_text(3, contains="the next cell")


def test_cell_that_runs_again_is_selected_after_the_question_about_it(opened: Opened) -> None:
    page = opened(*["%%jp -m scripted/plain\nGo."] * 2)
    for cell in (1, 2):
        page.run_cell(cell)
        page.output_text(cell, contains="Plainly.")

    page.run_cell(2)
    page.form().get_by_text("You already ran this cell").wait_for()
    keys(page, "Escape")
    wait_until_selected(page, 2)


def test_focus_stays_in_a_cell_in_which_the_user_types(opened: Opened) -> None:
    page = opened("%%jp -n -m scripted/wish\nGo.", "draft = ''")
    page.run_cell(1)
    page.form().locator("textarea").fill("none")
    editor = page.cell(2).locator(".cm-content")
    editor.click()
    page.page.keyboard.press("Control+End")
    page.page.keyboard.type("  # dd")

    page.form().get_by_role("button", name="Submit").dispatch_event("click")
    page.output_text(1, contains="Noted.")
    page.page.keyboard.type("xx")
    assert editor.inner_text() == "draft = ''  # ddxx"
    assert page.page.evaluate("document.activeElement.className").startswith("cm-content")


# A page that is slow removes a form only after it has drawn the next one.
CLOSED_FORM = """() => {
    const form = document.createElement("div");
    form.className = "jp-nb-form";
    form.innerHTML = "<input type='radio' value='0'>";
    document.querySelector(".jp-Notebook .jp-OutputArea").append(form);
    form.firstChild.focus();
}"""


def test_form_gets_the_focus_from_a_closed_form_that_the_page_has_not_removed_yet(
    opened: Opened,
) -> None:
    page = opened(
        "jp.ask(Question.boolean('ship', 'Ship it?'))\njp.ask(Question.text('to', 'To?'))"
    )
    page.run_cell(1)
    form = page.form()
    form.get_by_text("Ship it?").wait_for()
    page.page.evaluate(CLOSED_FORM)
    form.get_by_role("button", name="Yes").dispatch_event("click")

    page.form().get_by_text("To?").wait_for()
    keys(page, "a", "b")
    assert page.form().locator("textarea, input").first.input_value() == "ab"


# JupyterLab detaches the cells of a long notebook that are out of view, and attaches them again.
DETACH = """() => {
    const cell = document.querySelectorAll(".jp-Notebook .jp-Cell")[1];
    const [parent, next] = [cell.parentNode, cell.nextSibling];
    cell.remove();
    window.attach = () => parent.insertBefore(cell, next);
    return document.activeElement === document.body;
}"""


def test_form_gets_the_focus_back_when_the_page_attaches_its_cell_again(opened: Opened) -> None:
    page = opened("jp.ask(Question.text('to', 'To?'))", "'another cell'")
    page.run_cell(1)
    page.form().get_by_text("To?").wait_for()
    keys(page, "a")
    assert page.page.evaluate(DETACH)
    page.page.evaluate("window.attach()")
    keys(page, "b")
    assert page.form().locator("textarea, input").first.input_value() == "ab"

    keys(page, "Escape")
    page.output_text(1, contains="KeyboardInterrupt")
    wait_until_selected(page, 1)


def test_keys_of_a_user_who_types_when_the_form_ends_are_not_shortcuts(opened: Opened) -> None:
    page = opened("jp.ask(Question.text('wish', 'Any wishes?'))", "'keep this cell'")
    page.run_cell(1, "Shift+Enter")
    page.form().get_by_text("Any wishes?").wait_for()
    keys(page, "a")
    page.command("notebook:interrupt-kernel", wait=False)
    page.page.keyboard.type("ddxxdd" * 5, delay=50)
    page.output_text(1, contains="KeyboardInterrupt")
    assert page.cell(2).locator(".cm-content").inner_text() == "'keep this cell'"
    wait_until_selected(page, 2)
