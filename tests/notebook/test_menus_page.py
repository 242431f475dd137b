"""The menus of an interrupt, and permissions, in a page of JupyterLab."""

from __future__ import annotations

import pytest

from tests.support.browser import Lab, NotebookPage
from tests.support.page_actions import click, keys, picture, stop
from tests.support.prompt_pages import Opened

pytestmark = pytest.mark.browser

SCRIPTS = {
    # So slow that it fits in the form: what can be scrolled would be one more stop for Tab.
    "endless": f'[[replies]]\ntext = "{"word " * 3000}"\nchunk_ms = 400\n'
    '[[replies]]\nexpect = "Shorter!"\ntext = "Understood."\n',
    "tools": '[[replies]]\ntool_calls = [{ name = "hold", arguments = {} }]\n'
    '[[replies]]\ntext = "Went on."\n',
    "send": "[[replies]]\ntool_calls = [{ name = 'send', arguments = { to = 'ada@example.org', "
    "text = 'A letter.' } }]\n[[replies]]\ntext = 'So be it.'\n",
}
FIRST_CELL = """
%load_ext jp_nb
import asyncio
import jp_nb as jp

@jp.tool
async def hold() -> str:
    await asyncio.sleep(600)
    return "held"

@jp.tool(run="ask")
def send(to: str, text: str) -> str:
    return f"sent to {to}: {text}"
"""


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def begun(opened: Opened, script: str, seen: str = "") -> NotebookPage:
    """A page in which a turn runs; its output shows `seen`."""
    page = opened(f"%%jp -n -m scripted/{script}\nGo.", "print(6 * 7)")
    page.run_cell(1)
    if seen:
        page.output_text(1, contains=seen)
    return page


def assert_next_cell_runs(page: NotebookPage) -> None:
    page.run_cell(2)
    page.output_text(2, contains="42")


def test_message_is_sent_from_the_menu_with_the_keyboard(opened: Opened) -> None:
    page = begun(opened, "endless", "word")
    page.cell(1).locator(".jp-InputPrompt").click()
    page.page.keyboard.press("i")
    page.page.keyboard.press("i")
    page.form().get_by_text("Interrupted: ").wait_for()
    keys(page, "Tab", "Tab", "Enter")
    page.form().get_by_text("Your message:").wait_for()
    keys(page, "S", "h", "o", "r", "t", "e", "r", "!", "Control+Enter")
    page.output_text(1, contains="Understood.")
    assert_next_cell_runs(page)


def test_escape_continues_and_a_reloaded_page_shows_the_menu_again(opened: Opened) -> None:
    page = begun(opened, "tools", "hold")
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
    assert_next_cell_runs(page)


def test_escape_leaves_a_permission_and_the_keyboard_permits_the_call(opened: Opened) -> None:
    page = begun(opened, "send")
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
    assert_next_cell_runs(page)


def assert_left(page: NotebookPage) -> None:
    """The form is there as it was, and the keyboard is the cell's."""
    page.page.wait_for_timeout(500)
    assert page.form().get_by_role("button", name="Run", exact=True).is_visible()
    assert page.page.evaluate(
        "() => document.activeElement === document.querySelectorAll('.jp-Notebook .jp-Cell')[1]"
    )
