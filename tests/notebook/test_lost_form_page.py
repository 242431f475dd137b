"""Forms that JupyterLab itself would show nowhere: the page puts them where the user can answer."""

from __future__ import annotations

from time import monotonic

import pytest

from tests.notebook.form_places import PATIENCE_S, PLACES, do, run_and_wait, wait_for_one_form
from tests.support.browser import Lab, NotebookPage
from tests.support.page_actions import LOAD, answer, question
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

FIRST_CELL = LOAD
JP = "%%jp -n -m scripted/ship\nGo."


def ask(number: int) -> str:
    """Return a cell that asks a question of its own."""
    return f"import jp_nb as jp\nprint(jp.ask(jp.Question.boolean('ship', 'Ship {number}?')))"


@pytest.fixture(autouse=True)
def script(lab: Lab) -> None:
    asks = question(question="Ship it?", answer_type="boolean")
    (lab.root / "ship.toml").write_text(f'{asks}[[replies]]\ntext = "Shipped."\n')


def answer_each(page: NotebookPage, questions: list[str]) -> None:
    """Answer one form after the other with yes, and wait for the end of the last cell."""
    for asked in questions:
        page.form().get_by_text(asked).wait_for()
        wait_for_one_form(page)
        answer(page, "Yes")
    page.wait_for_kernel_status("idle")


def test_cell_that_is_run_twice_at_once_shows_the_form_of_each_run(opened: Opened) -> None:
    page = opened(JP)
    page.cell(1).locator(".jp-InputPrompt").click()
    page.command("notebook:run-cell", wait=False)
    page.page.wait_for_timeout(50)
    page.command("notebook:run-cell", wait=False)
    answer_each(page, ["Ship"] * 2)
    text = page.output_text(1, contains="→ Yes")
    assert text.count("→ Yes") == 1  # the outputs of the first run are gone
    page.save()
    assert "jp_nb" not in str(page.saved().cells[1].outputs)


def test_run_all_twice_shows_the_form_of_each_run_of_each_cell(opened: Opened) -> None:
    page = opened(ask(1), ask(2), JP)
    page.command("notebook:run-all-cells", wait=False)
    page.page.wait_for_timeout(50)
    page.command("notebook:run-all-cells", wait=False)
    answer_each(page, ["Ship 1?", "Ship 2?", "Ship it?"] * 2)
    for index in (1, 2, 3):
        assert page.output_text(index, contains="→ Yes").count("→ Yes") == 1


def test_page_opened_again_shows_the_forms_of_cells_that_were_queued(opened: Opened) -> None:
    page = opened(ask(1), ask(2), JP)
    page.save()
    page.command("notebook:run-all-cells", wait=False)
    wait_for_one_form(page)
    page.reopen(status="busy")
    answer_each(page, ["Ship 1?", "Ship 2?", "Ship it?"])
    for index in (1, 2):
        page.output_text(index, contains="→ Yes")
    page.output_text(3, contains="Shipped.")
    assert page.page.locator(".jp-nb-form").count() == 0


def test_input_box_is_not_opened_for_a_run_that_jupyterlab_has_dropped(opened: Opened) -> None:
    module = "jp_nb.notebook.prompt.running_cell.current_page"
    probe = f"from {module} import can_show_input_box\nprint('box', can_show_input_box())"
    wait = f"import time; time.sleep(1)\n{probe}\nopen('box', 'a').write(str(can_show_input_box()))"
    page = opened(probe, wait)
    page.run_cell(1)
    page.output_text(1, contains="box True")
    box = page.path.with_name("box")
    box.unlink(missing_ok=True)
    page.cell(2).locator(".jp-InputPrompt").click()
    for _ in range(2):
        page.command("notebook:run-cell", wait=False)
    page.output_text(2, contains="box True")
    page.wait_for_kernel_status("idle")
    assert box.read_text() == "FalseTrue"


# --- the cell of an open form changes -----------------------------------------------------------


def begin(opened: Opened) -> NotebookPage:
    """Open a notebook whose cell 1 waits for an answer, select that cell, and return it."""
    page = opened(JP, "# Part\n1")
    run_and_wait(page)
    return page


def answer_and_read(page: NotebookPage, cell: int = 1) -> str:
    """Answer the form, and return the final output of the cell."""
    answer(page, "Yes")
    page.wait_for_kernel_status("idle")
    text = page.output_text(cell, contains="Shipped.")
    page.page.wait_for_function(f"({PLACES})().length === 0")
    assert text.count("Shipped.") == text.count("Ship it? → Yes") == 1
    return text


def test_form_of_a_deleted_cell_is_above_the_notebook_until_an_undo(opened: Opened) -> None:
    page = begin(opened)
    do(page, "delete-cell", place="above")
    page.page.get_by_text("The cell of this question is gone.").wait_for()
    do(page, "undo-cell-action", place=1)
    assert "*" in page.cell(1).locator(".jp-InputPrompt").inner_text()
    answer_and_read(page)

    # Answered above the notebook, and brought back afterwards.
    page = begin(opened)
    do(page, "delete-cell", place="above")
    answer(page, "Yes")
    page.wait_for_kernel_status("idle")
    page.page.wait_for_function(f"({PLACES})().length === 0")
    page.command("notebook:undo-cell-action")
    page.output_text(1, contains="Shipped.")
    page.save()
    (output,) = page.saved().cells[1].outputs
    assert set(output["data"]) == {"text/plain", "text/markdown"}


def test_form_is_visible_once_after_its_cell_was_cleared_moved_copied_or_collapsed(
    opened: Opened,
) -> None:
    page = begin(opened)
    do(page, "clear-cell-output", place=1)
    assert "*" in page.cell(1).locator(".jp-InputPrompt").inner_text()
    do(page, "move-cell-down", place=2)
    do(page, "move-cell-up", place=1)
    do(page, "hide-cell-outputs", place="above")
    do(page, "show-cell-outputs", place=1)
    do(page, "copy-cell", "paste-cell-below", place=1)
    assert "Ship it?" in page.output_text(2)  # the copy has the question as text
    page.cell(1).locator(".jp-InputPrompt").click()
    do(page, "change-cell-to-markdown", place="above")
    do(page, "change-cell-to-code", place=1)
    answer_and_read(page)
    page.save()
    saved = str(page.saved().cells)
    assert "widget-view" not in saved


# --- no page is open ----------------------------------------------------------------------------

# Asks once the file `closed` exists, and makes the file `unseen` when its output has the notice.
LATE = """import os, time, threading, jp_nb as jp
from jp_nb.notebook.cell_watch import watch_cells
cells, found = watch_cells(get_ipython().kernel), []

def look(cell):
    if "no page has shown" in str(cell.outputs): found.append(cell)

def watch():
    while not found:
        cells.for_each_cell(look)
        time.sleep(0.05)
    open("unseen", "w").close()

threading.Thread(target=watch, daemon=True).start()
while not os.path.exists("closed"): time.sleep(0.02)
print(jp.ask(jp.Question.text('why', 'Why?')))
"""
IMPATIENT = "%jp config prompt.rendered_timeout_s=0.5"


def close(page: NotebookPage) -> None:
    page.save()
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")


def test_outputs_of_a_cell_that_ended_while_no_page_was_open_are_shown(
    opened: Opened, lab: Lab
) -> None:
    slow = '[[replies]]\ntext = "One two three four five six."\nchunk_ms = 200\n'
    (lab.root / "slow.toml").write_text(slow)
    page = opened("%%jp -n -m scripted/slow\nGo.", "1", alone=True)
    page.run_cell(1)
    page.output_text(1, contains="One")
    close(page)
    lab.wait_until_idle(page.path.name)
    page.reopen()
    text = page.output_text(1, contains="five six.")
    assert text.count("One two") == 1
    page.page.wait_for_timeout(500)  # for the answer of the page

    page.cell(1).locator(".jp-InputPrompt").click()
    page.command("notebook:clear-cell-output")
    close(page)
    page.reopen()
    page.page.wait_for_timeout(1000)
    assert page.outputs(1).count() == 0  # the user has seen and cleared them


def test_notice_about_an_unseen_form_goes_when_a_page_shows_the_form(
    opened: Opened, lab: Lab
) -> None:
    page = opened(LATE, IMPATIENT, alone=True)
    page.run_cell(2)
    page.wait_for_kernel_status("idle")
    page.run_cell(1)
    close(page)
    (lab.root / "closed").touch()
    until = monotonic() + PATIENCE_S
    while not (lab.root / "unseen").exists() and monotonic() < until:
        page.page.wait_for_timeout(50)
    assert (lab.root / "unseen").exists()
    page.reopen(status="busy")
    page.form().locator("textarea").fill("because")
    # The form's message that a page shows it takes a moment on a busy machine.
    notice = page.cell(1).locator(".jp-OutputArea").get_by_text("no page has shown")
    notice.wait_for(state="detached")
    page.form().get_by_role("button", name="Submit").click()
    page.output_text(1, contains="because")
    page.wait_for_kernel_status("idle")
    page.save()
    assert "no page has shown" not in str(page.saved().cells[1].outputs)


def test_submit_that_is_refused_twice_does_not_say_that_the_kernel_is_busy(
    opened: Opened,
) -> None:
    number = "jp.Question.number('n', 'How many?')"
    page = opened(f"import jp_nb as jp\nprint(jp.ask({number}))")
    page.run_cell(1)
    page.form().locator("input").fill("many")
    for _ in range(2):
        page.form().get_by_role("button", name="Submit").click()
        page.page.wait_for_timeout(1000)  # more than `SENT_MS` of `formmessages.ts`
        assert "Sent" not in page.form().inner_text()
    page.form().get_by_role("button", name="Cancel").click()
    page.wait_for_kernel_status("idle")
