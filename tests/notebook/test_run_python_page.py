"""`run_python` in JupyterLab: the user reads the exact code, edits, runs or refuses it."""

from __future__ import annotations

import pytest

from tests.support.browser import Lab, NotebookPage
from tests.support.cells import calls
from tests.support.page_actions import LOAD, click, keys, outputs, picture, stop
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

FIRST_CELL = LOAD

CODE = """\
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 10, 200)
plt.figure(figsize=(4, 2))
plt.plot(x, np.sin(x))
answer = 6 * 7
print("drawn", answer)"""


def script(*codes: str) -> str:
    replies = [calls(("run_python", {"code": code})) for code in codes]
    return "".join(replies) + '[[replies]]\ntext = "That is all."\n'


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    texts = {
        "plot": script(CODE),
        "sleep": script("import time\nprint('asleep')\ntime.sleep(600)"),
    }
    for name, text in texts.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def ask(name: str) -> str:
    return f"%%jp -n -m scripted/{name} -t run_python\nPlot it."


def test_code_is_shown_edited_and_run_and_its_figure_appears(opened: Opened) -> None:
    page = opened(ask("plot"), "answer")
    page.page.set_viewport_size({"width": 800, "height": 900})
    page.run_cell(1)
    form = page.form()
    lines = form.locator(".jp-nb-exact .widget-html-content > div").all_text_contents()
    assert lines == CODE.split("\n")
    form.get_by_text("code (python): 8 lines, no line break at the end").wait_for()
    assert form.locator(".jp-nb-code-keyword").first.text_content() == "import"
    assert page.cell(1).get_by_text("run_python(code=…8 lines)").is_visible()
    picture(page, "run-python-asked")
    click(page, "Edit")
    area = page.form().locator("textarea")
    area.wait_for()
    assert area.input_value() == CODE
    assert "monospace" in area.evaluate("area => getComputedStyle(area).fontFamily")
    picture(page, "run-python-edit")
    area.fill(CODE.replace("6 * 7", "6 * 8"))
    keys(page, "Control+Enter")
    text = page.output_text(1, contains="That is all.")
    assert "drawn 48" in text
    assert "(arguments edited by you)" in text
    assert "answer = 6 * 8" in text
    page.cell(1).locator(".jp-OutputArea-output img").wait_for()
    picture(page, "run-python-ran")
    page.run_cell(2)
    page.output_text(2, contains="48")
    page.wait_for_record("record.events.some(e => e.type === 'tool_call_response')")
    page.save()
    shown = outputs(page, 1)
    assert [o["output_type"] for o in shown].count("error") == 0
    assert any("image/png" in o.get("data", {}) for o in shown)


def press_button(page: NotebookPage, label: str) -> None:
    """Move to a button of the form by arrow keys, and press it by Enter."""
    for _ in range(8):
        keys(page, "ArrowRight")
        if page.page.evaluate("document.activeElement.textContent.trim()") == label:
            break
    keys(page, "Enter")


def test_code_is_edited_restored_and_refused_with_the_keyboard(opened: Opened) -> None:
    page = opened(ask("plot"), "'unseen' in globals()")
    page.run_cell(1)
    page.form().get_by_text("code (python)").wait_for()
    press_button(page, "Edit")
    page.form().locator("textarea").wait_for()
    page.page.wait_for_function("document.activeElement.matches('.jp-nb-form textarea')")
    page.page.wait_for_timeout(400)
    page.page.keyboard.press("End")
    page.page.keyboard.type("# more")
    page.page.keyboard.press("Escape")
    page.form().locator(".jp-nb-exact").wait_for()
    press_button(page, "Skip")
    text = page.output_text(1, contains="That is all.")
    assert "⊘" in text
    assert "answer = 6 * 7" in text  # what was refused is seen
    page.run_cell(2)
    page.output_text(2, contains="False")


def test_interrupt_ends_the_code(opened: Opened) -> None:
    page = opened(ask("sleep"), "'still ' + 'here'")
    page.run_cell(1)
    page.form()
    click(page, "Run")
    page.output_text(1, contains="asleep")
    stop(page)
    click(page, "End the turn")
    page.output_text(1, contains="Interrupted. What arrived so far is in the record.")
    page.run_cell(2)
    page.output_text(2, contains="still here")
