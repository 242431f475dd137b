"""A turn asks in a page: its answer, progress and figures stay above the form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import Lab, NotebookPage
from tests.support.figure_tools import CLOSED
from tests.support.page_actions import LOAD, keys, outputs, picture
from tests.support.prompt_pages import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

ADVICE = r"# What I found\n\n| way | cost |\n|---|---|\n| north | `12` |\n\n**South** is $x^2$."
LONG = r"\n\n".join(rf"## Part {n}\n\nA paragraph of advice." for n in range(30))
ASKS = (
    '[[replies]]\ntext = "{}"\ntool_calls = [{{ name = "ask_user", arguments = {{ '
    'question = "Ship it?", answer_type = "boolean", default = true, '
    'context = "Read **this**:\\n\\n- `one`\\n- <b>two</b>" }} }}]\n'
    '[[replies]]\ntext = "Done."\n'
)
SCRIPTS = {
    "advice": '[[replies]]\ntext = "Let me draw."\n'
    'tool_calls = [{ name = "plot", arguments = { power = 2 } }]\n'
    '[[replies]]\ntool_calls = [{ name = "work", arguments = {} }]\n' + ASKS.format(ADVICE),
    "long": ASKS.format(rf"# The top\n\n{LONG}"),
}
FIRST_CELL = f"""
{LOAD}
{CLOSED}
import ipywidgets
from tqdm import tqdm
from tqdm.notebook import tqdm as notebook_tqdm

@jp.tool
def work(ctx: jp.ToolContext) -> jp.Outcome:
    if ctx.answers:
        return jp.Success("worked")
    bar = ipywidgets.IntProgress(value=1, max=3, description="widget")
    display(bar)
    for each in (notebook_tqdm(total=4, desc="notebook"), tqdm(total=4, desc="text")):
        each.update(1)
        each.refresh()
    bar.value = 2
    return jp.NeedsInput(jp.Question.boolean("on", "Continue?"))
"""
SHOWN = ".jp-RenderedMarkdown:has(h1)"


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def asked(opened: Opened, script: str) -> NotebookPage:
    page = opened(f"%%jp -n -m scripted/{script}\nGo.")
    page.run_cell(1)
    page.form()
    return page


def answer(page: NotebookPage) -> Locator:
    """Return the model's answer, as it is rendered above the form."""
    said = page.cell(1).locator(f".jp-nb-so-far {SHOWN}")
    said.locator("h1").wait_for()
    return said


def place(page: NotebookPage, selector: str) -> object:
    """Return where a rendered text of the cell begins, and its font, once it is on the page."""
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


def drawn(page: NotebookPage) -> int:
    return page.outputs(1).locator("img[src^='data:image/png']").count()


def test_answer_figure_and_progress_are_shown_above_the_form_and_after_it_is_reopened(
    opened: Opened,
) -> None:
    page = asked(opened, "advice")
    page.form().get_by_text("Continue?").wait_for()
    for words in ("notebook:", "text:"):
        page.cell(1).get_by_text(words).first.wait_for()
    page.page.wait_for_function(
        "document.querySelectorAll('.jp-Notebook .jp-Cell')[1]"
        ".querySelector('.progress-bar')?.style.width.startsWith('66')"
    )
    picture(page, "progress")
    page.form().get_by_role("button", name="Yes", exact=True).click()
    page.form().get_by_text("Ship it?").wait_for()
    for reopened in (False, True):
        if reopened:
            page.save()
            page.reopen(status="")
            page.form()
        said = answer(page)
        said.locator("mjx-container").wait_for()
        assert said.locator("td code").inner_text() == "12"
        assert said.locator("strong").last.inner_text() == "South"
        assert drawn(page) == 1
        where = place(page, f".jp-nb-so-far {SHOWN}")
        context = page.form().locator(".jp-nb-context")
        assert context.locator("strong").inner_text() == "this"
        assert context.locator("li").all_inner_texts() == ["one", "<b>two</b>"]
        above = said.bounding_box()
        below = page.form().bounding_box()
        assert above is not None
        assert below is not None
        assert above["y"] + above["height"] <= below["y"]
    page.form().get_by_role("button", name="No", exact=True).click()
    assert "plot(power=2) · 1 image" in page.output_text(1, contains="Done.")
    page.cell(1).locator(".jp-nb-form").wait_for(state="detached")
    assert drawn(page) == 1
    assert place(page, f".jp-OutputArea {SHOWN}") == where
    kept = page.cell(1).locator(f".jp-OutputArea {SHOWN}")
    assert kept.locator("blockquote li").all_inner_texts() == ["one", "<b>two</b>"]
    page.wait_for_record("record.events.filter(e => e.type === 'image').length === 1")
    page.save()
    shown = [output for output in outputs(page, 1) if "data" in output]
    (figure,) = [output["data"]["image/png"] for output in shown if "image/png" in output["data"]]
    assert set(shown[-1]["data"]) == {"text/markdown", "text/plain"}
    saved = page.saved().metadata
    (image,) = (e for e in saved["jp"]["events"] if e["type"] == "image")
    assert "".join(figure.split()) == image["data"]
    assert json.dumps(saved).count(image["data"]) == 1


def test_form_is_in_view_and_keys_scroll_to_the_top_of_a_long_answer(opened: Opened) -> None:
    page = asked(opened, "long")
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
