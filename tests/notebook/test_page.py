"""The essentials in a page of JupyterLab: ask, answer, permit, reload, interrupt, save."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.browser import Lab, NotebookPage
from tests.support.page_actions import answer, click, keys, outputs, question
from tests.support.prompt_pages import Opened

FIRST_CELL = """
%load_ext jp_nb
import jp_nb as jp

@jp.tool(run="ask")
def send(to: str, text: str, copies: int = 1) -> str:
    return f"sent to {to}: {text}"
"""
SEND = (
    "[[replies]]\ntool_calls = [{ name = 'send', "
    "arguments = { to = 'ada@example.org', text = 'A letter.' } }]\n"
    "[[replies]]\ntext = 'So be it.'\n"
)
THREE = (
    '[[replies]]\ntext = "I have **three** questions."\n'
    'tool_calls = [{ name = "ask_user", arguments = '
    '{ question = "Ship it?", answer_type = "boolean" } }]\n'
    + question(question="Where to?", answer_type="select", options=["north", "south"])
    + question(question="Any preferences?", answer_type="text")
    + '[[replies]]\nexpect = ["true", "south", "a *quiet* place"]\ntext = "Thank you."\n'
)
ONE = (
    question(question="Ship it?", answer_type="boolean")
    + '[[replies]]\nwhen = \'"answer":true\'\ntext = "Shipped."\n'
    + '[[replies]]\nwhen = "an interrupt closed it"\ntext = "Not shipped."\n'
)
PLAIN = "[[replies]]\ntext = 'One answer.'\n" * 3


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in {"three": THREE, "one": ONE, "send": SEND, "plain": PLAIN}.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def ask(script: str) -> str:
    return f"%%jp -n -m scripted/{script}\nGo."


def assert_three_answers(page: NotebookPage) -> None:
    """The cell shows three questions with their answers, and no form."""
    text = page.output_text(1, contains="Thank you.")
    for line in ("Ship it? → Yes", "Where to? → south", "Any preferences? → a *quiet* place"):
        assert line in text
    assert page.page.locator(".jp-nb-form:visible").count() == 0


def test_questions_are_answered_with_the_mouse_and_saved_in_the_notebook(opened: Opened) -> None:
    page = opened(ask("three"), "order = ['second']", "order += ['third']; order")
    page.run_cell(1)
    form = page.form()
    assert page.cell(1).locator("strong", has_text="three").is_visible()
    for cell in (2, 3):
        page.run_cell(cell)
    form.get_by_role("button", name="Yes", exact=True).click()
    form = page.form()
    form.get_by_text("Where to?").wait_for()
    form.get_by_text("south").click()
    form.get_by_role("button", name="Submit").click()
    form = page.form()
    form.get_by_text("Any preferences?").wait_for()
    form.locator("textarea").fill("a *quiet* place")
    form.get_by_role("button", name="Submit").click()
    assert_three_answers(page)
    assert "['second', 'third']" in page.output_text(3, contains="third")
    page.wait_for_record("record.events.filter(e => e.type === 'inquiry_response').length === 3")
    page.save()
    (output,) = outputs(page, 1)
    assert set(output["data"]) == {"text/plain", "text/markdown"}
    kinds = [event["type"] for event in page.saved().metadata["jp"]["events"]]
    assert kinds.count("inquiry_request") == kinds.count("inquiry_response") == 3


def test_questions_are_answered_with_the_keyboard(opened: Opened) -> None:
    page = opened(ask("three"), "")
    page.run_cell(1, "Shift+Enter")  # the selection moves on, the focus lands in the form
    page.form()
    keys(page, "Tab", "Enter")
    page.form().get_by_text("Where to?").wait_for()
    keys(page, "ArrowDown", "Enter")
    page.form().get_by_text("Any preferences?").wait_for()
    keys(page, *"a *quiet* place", "Control+Enter")
    assert_three_answers(page)
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 3


def test_call_is_edited_and_permitted(opened: Opened) -> None:
    page = opened(ask("send"))
    page.run_cell(1)
    page.form().get_by_text("Run the tool `send`?").wait_for()
    keys(page, "Enter", "Control+Enter")  # nothing is chosen
    page.form().get_by_text("Nothing is chosen yet").wait_for()
    click(page, "Edit the arguments …")
    form = page.form()
    form.get_by_label("copies (JSON)").fill("two")
    click(page, "Run with these arguments")
    form.get_by_text("Invalid JSON").wait_for()
    form.get_by_label("copies (JSON)").fill("2")
    form.get_by_label("to", exact=True).fill("bob@example.org")
    form.get_by_label("text", exact=True).fill("Short.\nAnd sweet.")
    keys(page, "Control+Enter")
    sent = 'send(to="bob@example.org", text="Short.\\nAnd sweet.", copies=2)'
    assert sent in page.output_text(1, contains="So be it.")


def test_reloaded_page_shows_the_question_again(opened: Opened) -> None:
    page = opened(ask("one"), "print('after')")
    page.run_cell(1)
    page.form()
    page.save()
    page.reload(status="")
    answer(page, "Yes")
    assert "Ship it? → Yes" in page.output_text(1, contains="Shipped.")
    page.run_cell(2)
    page.output_text(2, contains="after")


def test_interrupt_closes_the_form_and_the_next_cell_runs(opened: Opened) -> None:
    page = opened(ask("one"), "%%jp\nAgain.")
    page.run_cell(1)
    page.form()
    page.interrupt()
    page.form().get_by_role("button", name="End the turn").click()
    page.output_text(1, contains="no answer: interrupted")
    page.output_text(1, contains="Interrupted. Everything received so far is in the record.")
    assert page.page.locator(".jp-nb-form:visible").count() == 0
    page.run_cell(2)
    page.output_text(2, contains="Not shipped.")


def test_end_of_a_turn_shows_its_duration_in_the_page_and_not_in_the_file(opened: Opened) -> None:
    page = opened("%%jp -n -m scripted/plain\nGo.", "%%jp\nAgain.")
    page.run_cell(1)
    page.output_text(1, contains="One answer.")
    line = page.cell(1).locator(".jp-nb-end")
    line.wait_for()
    assert re.fullmatch(r"\d+ s( · [\d,]+ tokens (in|out))*", line.inner_text())

    page.save()
    saved = page.path.read_text(encoding="utf-8")
    assert "One answer." in saved
    assert "jp-nb-end" not in saved
    outputs = json.dumps(page.saved().cells[1].outputs)
    assert re.search(r"\b\d+(\.\d+)? s\b", outputs) is None

    first = line.element_handle()
    page.run_cell(1)
    page.page.wait_for_function("first => !first.isConnected", arg=first)
    page.output_text(1, contains="One answer.")
    line.wait_for()
    assert line.count() == 1

    page.reopen()
    page.cell(1).wait_for()
    assert page.page.locator(".jp-nb-end").count() == 0
