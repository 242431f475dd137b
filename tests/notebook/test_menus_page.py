"""Menus, permissions, editing and delivery in a real page, by mouse and by keyboard."""

from __future__ import annotations

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import click, keys, picture, stop

pytestmark = pytest.mark.browser

SCRIPTS = {
    # So slow that it fits in the form: what can be scrolled would be one more stop for Tab.
    "endless": f'[[replies]]\ntext = "{"word " * 3000}"\nchunk_ms = 400\n'
    '[[replies]]\nexpect = "Shorter!"\ntext = "Understood."\n',
    "tools": '[[replies]]\ntool_calls = [{ name = "hold", arguments = {} }]\n'
    '[[replies]]\ntext = "Went on."\n',
    "send": "[[replies]]\ntool_calls = [{ name = 'send', arguments = { to = 'ada@example.org', "
    f"subject = 'Minutes', text = \"{'A long letter, line by line. ' * 40}\" }} }}]\n"
    "[[replies]]\ntext = 'So be it.'\n",
}
LOAD = """
%load_ext jp_nb
import asyncio
import jp_nb as jp

@jp.tool
async def hold() -> str:
    await asyncio.sleep(600)
    return "held"

@jp.tool(run="ask")
def send(to: str, subject: str, text: str) -> str:
    return f"sent to {to}, {len(text)} letters: {subject}"
"""
ASK_RESULT = "-c conversation.tools.send.run=unattended -c conversation.tools.send.result=ask"


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def begun(
    open_notebook: OpenNotebook, script: str, seen: str = "", options: str = ""
) -> NotebookPage:
    page = open_notebook(LOAD, f"%%jp -n -m scripted/{script} {options}\nGo.", "print(6 * 7)")
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    if seen:
        page.output_text(1, contains=seen)
    return page


def works_on(page: NotebookPage) -> None:
    page.run_cell(2)
    page.output_text(2, contains="42")


def test_the_menu_while_the_model_answers_by_mouse(open_notebook: OpenNotebook) -> None:
    page = begun(open_notebook, "endless", "word")
    stop(page)
    picture(page, "streaming")
    click(page, "Tell the model something …")
    page.form().locator("textarea").fill("Shorter!")
    picture(page, "reply")
    click(page, "Submit")
    page.output_text(1, contains="Understood.")
    works_on(page)


def test_the_menu_while_the_model_answers_by_keyboard(open_notebook: OpenNotebook) -> None:
    page = begun(open_notebook, "endless", "word")
    page.cell(1).locator(".jp-InputPrompt").click()
    page.page.keyboard.press("i")
    page.page.keyboard.press("i")
    page.form().get_by_text("Interrupted: ").wait_for()
    keys(page, "Tab", "Tab", "Enter")
    page.form().get_by_text("Your message:").wait_for()
    keys(page, "S", "h", "o", "r", "t", "e", "r", "!", "Control+Enter")
    page.output_text(1, contains="Understood.")
    works_on(page)


def test_escape_goes_on_and_a_reloaded_page_has_the_menu_again(
    open_notebook: OpenNotebook,
) -> None:
    page = begun(open_notebook, "tools", "hold")
    stop(page)
    keys(page, "Escape")
    page.page.locator(".jp-nb-form").wait_for(state="detached")  # by the kernel, once it goes on
    page.page.wait_for_timeout(2100)  # sooner, it would be an interrupt of the interrupt
    stop(page)
    picture(page, "tools")
    page.save()
    page.reload(status="")
    click(page, "End the turn")
    page.output_text(1, contains="⊘ hold() — The user cancelled")
    works_on(page)


def test_a_call_is_allowed_by_mouse_after_its_arguments_were_edited(
    open_notebook: OpenNotebook,
) -> None:
    page = begun(open_notebook, "send")
    page.form().get_by_text("Run Python send tool?").wait_for()
    picture(page, "permission")
    click(page, "Edit")
    page.form().locator("textarea").fill('{"to": "bob@example.org", "subject": }')
    click(page, "Submit")
    page.form().get_by_text("Invalid JSON").wait_for()
    picture(page, "edit")
    page.form().locator("textarea").fill(
        '{"to": "bob@example.org", "subject": "Minutes", "text": "Short."}'
    )
    keys(page, "Control+Enter")
    text = page.output_text(1, contains="So be it.")
    assert 'send(to="bob@example.org", subject="Minutes", text="Short.")' in text
    works_on(page)


def test_escape_leaves_a_permission_for_the_cell_and_the_keyboard_runs_the_call(
    open_notebook: OpenNotebook,
) -> None:
    page = begun(open_notebook, "send")
    page.form().get_by_text("Run Python send tool?").wait_for()
    keys(page, "Escape")
    assert_left(page)
    page.form().get_by_role("button", name="Skip", exact=True).focus()
    page.page.keyboard.press("Escape")
    assert_left(page)
    page.form().locator(".jp-nb-question").click()  # back into the form
    keys(page, "ArrowRight", "Enter")
    page.page.locator(".jp-nb-form:visible").wait_for(state="hidden")
    assert '✓ send(to="ada@example.org"' in page.output_text(1, contains="So be it.")
    works_on(page)


def assert_left(page: NotebookPage) -> None:
    """The form is there as it was, and the keyboard is the cell's."""
    page.page.wait_for_timeout(500)
    assert page.form().get_by_role("button", name="Run", exact=True).is_visible()
    assert page.page.evaluate(
        "() => document.activeElement === document.querySelectorAll('.jp-Notebook .jp-Cell')[1]"
    )


def test_a_result_is_delivered_or_not(open_notebook: OpenNotebook) -> None:
    page = begun(open_notebook, "send", options=ASK_RESULT)
    page.form().get_by_text("Deliver send result to assistant?").wait_for()
    picture(page, "delivery")
    click(page, "Edit")
    page.form().locator("textarea").fill("sent, more or less")
    keys(page, "Control+Enter")
    page.output_text(1, contains="So be it.")
    page.run_cell(1)
    page.form().get_by_text("Deliver send result to assistant?").wait_for()
    keys(page, "Escape")
    page.page.wait_for_timeout(500)
    click(page, "Skip")
    assert "Result delivery skipped by user." in page.output_text(1, contains="So be it.")
    works_on(page)
