"""A turn asks in a page: its answer stays readable, and the keyboard is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import keys

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

ADVICE = r"# What I found\n\n| way | cost |\n|---|---|\n| north | `12` |\n\n**South** is $x^2$."
LONG = r"\n\n".join(f"## Part {n}\\n\\nA paragraph of advice." for n in range(30))
ASKS = (
    'tool_calls = [{{ name = "ask_user", arguments = {{ question = "Ship it?", answer_type = '
    '"boolean", default = true, context = "Read **this**:\\n\\n- `one`\\n- <b>two</b>" }} }}]\n'
    '[[replies]]\ntext = "Done."\n'
)
SCRIPTS = {
    "advice": f'[[replies]]\ntext = "{ADVICE}"\n{ASKS}'.replace("{{", "{").replace("}}", "}"),
    "long": f'[[replies]]\ntext = "# The top\\n\\n{LONG}"\n{ASKS}'.replace("{{", "{").replace(
        "}}", "}"
    ),
    "walk": '[[replies]]\ntool_calls = [{ name = "send", arguments = {} }]\n'
    '[[replies]]\ntool_calls = [{ name = "hold", arguments = {} }]\n'
    '[[replies]]\ntext = "Went on."\n',
}
LOAD = """
%load_ext jp_nb
import asyncio
import jp_nb as jp

@jp.tool(run="ask", access=[jp.ConfigRule("assistant.name", write=True)])
def send() -> jp.Success:
    return jp.Success("sent", config={"assistant": {"name": "Ada"}})

@jp.tool
async def hold() -> str:
    await asyncio.sleep(600)
    return "held"
"""
SHOWN = ".jp-RenderedMarkdown"


@pytest.fixture(autouse=True)
def files(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def asked(open_notebook: OpenNotebook, script: str, *, classic: bool = False) -> NotebookPage:
    page = open_notebook(LOAD, f"%%jp -m scripted/{script}\nGo.", "print(6 * 7)", classic=classic)
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.form()
    return page


def answer(page: NotebookPage) -> Locator:
    """What the model said, as it is rendered above the form."""
    said = page.cell(1).locator(f".jp-nb-so-far {SHOWN}")
    said.locator("h1").wait_for()
    return said


def place(page: NotebookPage, selector: str) -> object:
    """Where a rendered text of the cell begins, and in which font, once it is on the page."""
    found = page.page.wait_for_function(
        """selector => {
            const [, cell] = document.querySelectorAll('.jp-Notebook .jp-Cell');
            const text = cell.querySelector(selector);
            const font = text?.querySelector('p') && getComputedStyle(text.querySelector('p')).font;
            return font && [text.getBoundingClientRect().x, font];
        }""",
        arg=selector,
    )
    return found.json_value()


def test_answer_stays_as_it_was_above_the_form(open_notebook: OpenNotebook) -> None:
    page = asked(open_notebook, "advice")
    for reloaded in (False, True):
        if reloaded:
            page.save()
            page.reload(status="")
            page.form()
        said = answer(page)
        said.locator("mjx-container").wait_for()
        assert said.locator("td code").inner_text() == "12"
        assert said.locator("strong").inner_text() == "South"
        where = place(page, f".jp-nb-so-far {SHOWN}")
        context = page.form().locator(".jp-nb-context")
        assert context.locator("strong").inner_text() == "this"
        assert context.locator("li").all_inner_texts() == ["one", "<b>two</b>"]
        above, below = said.bounding_box(), page.form().bounding_box()
        assert above is not None
        assert below is not None
        assert above["y"] + above["height"] <= below["y"]
    page.form().get_by_role("button", name="No", exact=True).click()
    page.output_text(1, contains="Done.")
    page.cell(1).locator(".jp-nb-form").wait_for(state="detached")
    kept = page.cell(1).locator(f".jp-OutputArea {SHOWN}")
    assert place(page, f".jp-OutputArea {SHOWN}") == where
    assert kept.locator("blockquote li").all_inner_texts() == ["one", "<b>two</b>"]
    page.save()
    (output,) = page.saved().cells[1].outputs
    assert set(output["data"]) == {"text/markdown", "text/plain"}
    assert "widgets" not in page.saved().metadata


def test_form_is_in_view_and_keys_scroll_to_the_top_of_a_long_answer(
    open_notebook: OpenNotebook,
) -> None:
    page = asked(open_notebook, "long")
    in_view = """form => {
        const box = form.getBoundingClientRect();
        const pane = form.closest('.jp-WindowedPanel-outer').getBoundingClientRect();
        return document.activeElement === form && box.top >= pane.top - 1
            && box.bottom <= pane.bottom + 1;
    }"""
    answer(page)
    page.page.wait_for_function(
        f"({in_view})(document.querySelector('.jp-nb-form'))"
    )  # what is above it is drawn bit by bit
    top = page.cell(1).get_by_text("The top")
    for _ in range(10):
        page.page.keyboard.press("PageUp")
    page.page.wait_for_function("e => e.getBoundingClientRect().top > 60", arg=top.element_handle())
    assert page.form().evaluate("form => document.activeElement === form")
    keys(page, "ArrowRight", "Enter")
    assert "Ship it? → Yes" in page.output_text(1, contains="Done.")


ACTIVE = """() => [...document.querySelectorAll('.jp-Notebook .jp-Cell')]
    .findIndex(cell => cell.classList.contains('jp-mod-active'))"""


def test_permission_change_and_menu_are_decided_with_the_keyboard_in_notebook_7(
    open_notebook: OpenNotebook,
) -> None:
    page = asked(open_notebook, "walk", classic=True)
    page.form().get_by_text("Run Python send tool?").wait_for()
    keys(page, "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp")
    assert page.page.evaluate("document.activeElement.textContent") == "Run"
    page.page.keyboard.press("Enter")
    page.form().get_by_text("Configuration delta").wait_for()
    keys(page, "Tab", "Space")
    page.output_text(1, contains="applied by you (form)")
    page.output_text(1, contains="hold")
    page.cell(1).locator(".jp-InputPrompt").click()
    page.page.keyboard.press("i")
    page.page.keyboard.press("i")
    page.form().get_by_text("Interrupted: ").wait_for()
    keys(page, "ArrowUp", "Enter")  # the last one
    page.output_text(1, contains="Interrupted.")
    assert page.page.locator(".jp-nb-form:visible").count() == 0
    assert page.page.evaluate(ACTIVE) == 1
