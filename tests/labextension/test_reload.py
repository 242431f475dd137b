"""A page that is loaded again while a turn runs."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook

pytestmark = pytest.mark.browser

QUESTION = (
    '[[replies]]\ntext = "A **word** before."\ntool_calls = [{ name = "ask_user", arguments = '
    '{ question = "Ship it?", answer_type = "boolean" } }]\n'
)
SCRIPTS = {
    "one": f'{QUESTION}[[replies]]\ntext = "Shipped."\n',
    "printing": (
        '[[replies]]\ntool_calls = [{ name = "prints" }]\n[[replies]]\ntext = "The end."\n'
    ),
    "endless": f'[[replies]]\ntext = "{"word " * 3000}"\nchunk_ms = 400\n',
}
LOAD = "%load_ext jp_nb"
NEVER_IDLE = """() => {
    const said = window.saidIdle = [];
    const { sessionContext } = window.jupyterapp.shell.currentWidget.context;
    sessionContext.statusChanged.connect((_, status) => { if (status === "idle") said.push(1); });
    return sessionContext.kernelDisplayStatus;
}"""


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def begun(open_notebook: OpenNotebook, script: str) -> NotebookPage:
    """Open a notebook and begin a turn in its second cell. Nothing of it is saved."""
    page = open_notebook(LOAD, f"%%jp -m scripted/{script}\nGo.", "print(6 * 7)")
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    return page


def answer(page: NotebookPage) -> None:
    """Answer the question with yes."""
    page.form().get_by_role("button", name="Yes", exact=True).click()


def test_form_is_shown_by_a_page_that_is_reloaded_or_opened_again(
    open_notebook: OpenNotebook,
) -> None:
    page = begun(open_notebook, "one")
    form = page.form()
    assert page.page.evaluate(NEVER_IDLE) == "busy"
    note = page.page.locator(".jp-nb-note").last
    while not (note.text_content() or "").strip():  # keys are not heard in the first moment
        form.press("Enter")  # the kernel answers that it chooses nothing
        page.page.wait_for_timeout(100)
    # JupyterLab 4.4 shows the kernel as idle for a moment after each message of a widget.
    if not version("jupyterlab").startswith("4.4."):
        assert page.page.evaluate("window.saidIdle") == []
    for load_again in (page.reload, page.reopen):
        load_again(status="busy")
        page.form()
        assert page.cell(1).locator(".jp-nb-form:visible").count() == 1
        assert "*" in page.cell(1).locator(".jp-InputPrompt").inner_text()
    page.run_cell(2)  # waits behind
    answer(page)
    text = page.output_text(1, contains="Shipped.")
    assert "Ship it? → Yes" in text
    page.output_text(2, contains="42")
    page.wait_for_kernel_status("idle")
    assert "*" not in page.cell(1).locator(".jp-InputPrompt").inner_text()
    page.wait_for_record("record.events.at(-1)?.message === 'Shipped.'")
    page.save()
    saved = page.saved()
    (output,) = saved.cells[1].outputs
    assert set(output["data"]) == {"text/plain", "text/markdown"}
    assert output["metadata"] == {}
    assert saved.metadata["jp"]["events"][-1]["message"] == "Shipped."


def test_new_unsaved_notebook_gets_its_waiting_cell_back(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook("")
    cells = ["%load_ext jp_nb", "%%jp -m scripted/one\nGo."]
    for index, source in enumerate(cells):
        page.cell(index).locator(".cm-content").click()
        page.page.keyboard.insert_text(source)
        page.run_cell(index, "Shift+Enter")
    page.form()
    page.reopen(status="busy")
    page.form()
    assert "Go." in page.cell(0).inner_text()
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 2
    answer(page)
    page.output_text(0, contains="Shipped.")
    page.wait_for_record("record.events.at(-1)?.message === 'Shipped.'")
    page.save()
    saved = page.saved()
    assert saved.cells[0].source == cells[1]
    assert saved.metadata["jp"]["events"][-1]["message"] == "Shipped."


def stop_and_see_the_menu(page: NotebookPage) -> None:
    page.page.locator("[data-command='notebook:interrupt-kernel']").first.click()
    page.form().get_by_text("Interrupted: ").wait_for()


def test_page_reloaded_while_the_model_answers_shows_the_rest(
    open_notebook: OpenNotebook,
) -> None:
    page = begun(open_notebook, "endless")
    page.output_text(1, contains="word word")
    page.reopen(status="busy")
    words = len(page.output_text(1, contains="word word"))
    page.page.wait_for_function(
        "n => [...document.querySelectorAll('.jp-OutputArea')].some(x => x.innerText.length > n)",
        arg=words,
    )
    stop_and_see_the_menu(page)
    page.form().get_by_role("button", name="End the turn and keep the answer so far").click()
    page.output_text(1, contains="Interrupted. Everything received so far is in the record.")
    page.wait_for_kernel_status("idle")
    page.run_cell(2)
    page.output_text(2, contains="42")


TOOLS = """
import sys, threading
import jp_nb as jp
from IPython.display import HTML, clear_output, display

@jp.tool(run="unattended")
def prints(context: jp.ToolContext):
    if "go" in context.answers:
        print("printed after")
        return "done"
    print("printed by the tool")
    thread = threading.Thread(target=print, args=("printed by its thread",))
    thread.start()
    thread.join()
    display(HTML("<b>displayed</b> by the tool"))
    print("a warning", file=sys.stderr)
    return jp.NeedsInput(jp.Question.boolean("go", "Continue?"))
"""
ASKS = """
print("printed by the cell")
answers = [jp.ask(jp.Question.boolean("first", "First?"))]
print("printed between", *answers)
answers.append(jp.ask(jp.Question.boolean("second", "Second?")))
for step in range(3):
    clear_output(wait=True)
    print("step", step)
"""


def assert_in_order(text: str, *parts: str) -> None:
    """Fail unless `text` contains each of `parts` once, in this order."""
    assert [text.count(part) for part in parts] == [1] * len(parts), text
    assert sorted(parts, key=text.index) == list(parts), text


def test_text_that_a_waiting_cell_has_printed_is_shown_by_a_reloaded_page(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(LOAD, TOOLS, "%%jp -m scripted/printing -t prints\nGo.", ASKS)
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    of_tool = ["printed by the tool", "printed by its thread", "displayed by the tool", "a warning"]

    page.run_cell(2)
    page.output_text(2, contains="a warning")
    page.form()
    page.reopen(status="busy")
    page.form()
    assert_in_order(page.output_text(2), "prints()", *of_tool, "Cancel")
    answer(page)
    text = page.output_text(2, contains="The end.")
    assert_in_order(text, *of_tool, "→ Yes", "printed after", "The end.")
    page.wait_for_kernel_status("idle")

    page.run_cell(3)
    page.output_text(3, contains="printed by the cell")
    page.form()
    page.reopen(status="busy")
    page.form()
    assert_in_order(page.output_text(3), "printed by the cell", "First?", "Cancel")
    answer(page)
    page.output_text(3, contains="Second?")
    assert_in_order(page.output_text(3), "printed by the cell", "First? → Yes", "between True")
    page.save()  # the next page finds the text in the file
    page.reopen(status="busy")
    page.form()
    assert_in_order(page.output_text(3), "printed by the cell", "First? → Yes", "between True")
    answer(page)
    text = page.output_text(3, contains="step 2")
    assert "step 1" not in text
    assert "printed" not in text
