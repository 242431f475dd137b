"""Notebook 7: forms are answered with mouse and keyboard, and stay visible; code becomes a cell."""

from __future__ import annotations

import json

import pytest

from tests.notebook.form_places import do, run_and_wait
from tests.notebook.prompt.form_pages import (
    SCRIPT,
    TURN,
    WALK_TOOLS,
    FormOnPage,
    wait_until_selected,
)
from tests.support.browser import Lab
from tests.support.page_actions import answer, click, keys, question
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

ANSWER = "Two ways:\n\n```python\nfound = 6 * 7\nfound\n```\n\nor\n\n```sql\nselect 42\n```\n"
SCRIPTS = {
    "plan": SCRIPT,
    "walk": '[[replies]]\ntool_calls = [{ name = "send", arguments = {} }]\n'
    '[[replies]]\ntool_calls = [{ name = "hold", arguments = {} }]\n'
    '[[replies]]\ntext = "Never sent."\n',
    "ship": question(question="Ship it?", answer_type="boolean")
    + '[[replies]]\ntext = "Shipped."\n',
    "code": f"[[replies]]\ntext = {json.dumps(ANSWER)}\n",
}
FIRST_CELL = WALK_TOOLS


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


@pytest.mark.req("RPI-1", "RPI-57", "RPI-58", "RPI-60")
def test_forms_are_answered_and_a_block_becomes_a_cell(opened: Opened) -> None:
    cells = ("%%jp -n -m scripted/walk\nGo.", "%%jp -n -m scripted/code\nHow?", "%jp code 1", "42")
    page = opened(TURN, *cells, classic=True)

    page.run_cell(1)
    form = FormOnPage(page)
    box = form.on(1)
    assert box.get_by_text("Store", exact=True).is_visible()
    assert box.get_by_role("button", name="Back").is_disabled()
    box.get_by_label("SQLite").check()
    form.turn("Next", 2)
    box.get_by_label("traces").check()
    box.get_by_label("logs").check()
    box.get_by_label("Your own answer").fill("and <b>alerts</b>")
    form.turn("Next", 3)
    box.get_by_label("Why?").fill("so\nthere")
    form.turn("Back", 2)
    assert box.get_by_label("Your own answer").input_value() == "and <b>alerts</b>"
    form.turn("Back", 1)
    assert box.get_by_label("SQLite").is_checked()
    form.turn("Next", 2)
    form.turn("Next", 3)
    assert box.get_by_label("Why?").input_value() == "so\nthere"
    form.turn("Next", 4)
    assert box.get_by_role("button", name="Next").count() == 0
    box.get_by_label("How many?").fill("3")
    form.press("Submit")
    answers = {
        "store": "SQLite",
        "extras": {"selected": ["traces", "logs"], "custom": "and <b>alerts</b>"},
        "why": "so\nthere",
        "size": 3,
    }
    assert f"answers {answers}" in page.output_text(1, contains="Done.")
    assert box.count() == 0

    page.run_cell(
        2, "Shift+Enter"
    )  # a permission, a configuration change and the menu of an interrupt
    page.form().get_by_text("Run the tool `send`?").wait_for()
    keys(page, "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp")
    assert page.page.evaluate("document.activeElement.textContent") == "Run send"
    keys(page, "Enter")
    page.form().get_by_text("Configuration delta").wait_for()
    keys(page, "Tab", "Space")
    page.output_text(2, contains="applied by you (form)")
    page.output_text(2, contains="hold")
    wait_until_selected(page, 3)
    page.page.keyboard.press("i")
    page.page.keyboard.press("i")
    page.form().get_by_text("Interrupted: ").wait_for()
    keys(page, "ArrowUp", "Enter")  # the last one
    page.output_text(2, contains="Interrupted.")
    assert page.page.locator(".jp-nb-form:visible").count() == 0
    wait_until_selected(page, 3)
    page.wait_for_kernel_status("idle")  # a cell that fails ends the cells in the queue

    page.run_cell(3)
    page.output_text(3, contains="Two ways")
    page.run_cell(4)
    click(page, "Apply 1 edit")
    page.output_text(4, contains="Applied 1 of 1 edit.")
    page.page.wait_for_function("document.querySelectorAll('.jp-Notebook .jp-Cell').length === 7")
    sources = [page.cell(n).locator(".cm-content").inner_text() for n in (4, 5, 6)]
    assert sources == ["%jp code 1", "found = 6 * 7\nfound", "42"]
    assert page.cell(5).locator(".jp-InputPrompt").inner_text().strip() == "[ ]:"
    page.run_cell(5)
    page.output_text(5, contains="42")


def test_form_is_visible_after_its_cell_was_deleted_or_collapsed_and_after_a_reload(
    opened: Opened,
) -> None:
    page = opened("%%jp -n -m scripted/ship\nGo.", "1", classic=True)
    page.save()
    run_and_wait(page)
    do(page, "delete-cell", place="above")
    page.page.get_by_text("The cell of this question is gone.").wait_for()
    do(page, "undo-cell-action", place=1)
    do(page, "hide-cell-outputs", place="above")
    do(page, "show-cell-outputs", place=1)

    page.reload(status="busy")
    do(page, place=1)
    indicator = page.page.locator(".jp-Notebook-ExecutionIndicator").first
    assert "Idle" not in indicator.evaluate("element => element.dataset.status ?? element.title")
    answer(page, "Yes")
    text = page.output_text(1, contains="Shipped.")
    assert text.count("Shipped.") == text.count("Ship it? → Yes") == 1
    page.wait_for_record("record.events.at(-1)?.message === 'Shipped.'")
    page.save()
    assert page.saved().metadata["jp"]["events"][-1]["message"] == "Shipped."
