"""Forms with little room, at 200 % zoom, and with forced colors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit import prompt_in_cell as in_cell
from tests.notebook.prompt.form_pages import axe_of
from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import IN_SIGHT, click, picture

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

FIRST_CELL = """
from in_cell import *
from jp_nb.toolkit.question import FormAnswer
SETTINGS = Question(id='f', text='Settings of the server', answer_type=FormAnswer(fields=(
    Question.text('name', 'A name that is ' + 'rather long ' * 30 + 'THE NAME'),
    Question.integer('port', 'Port', minimum=1, maximum=65535).with_default(8080),
    Question.boolean('tls', 'TLS').with_required(False),
    Question.secret('key', 'API key').with_context('The console of the vendor has it. ' * 20),
    Question.select('store', 'Store', ['Redis', 'Postgres'], other=True),
    Question(id='day', text='Day', answer_type={'type': 'text', 'format': 'date'}
             ).with_required(False),
)))
CHANGES = (
    ProposedChange('assistant.model.id', 'a/b', 'c/' + 'd' * 60),
    ProposedChange('assistant.name', None, '"' + 'x' * 3000 + 'THE END"'),
    *(ProposedChange(f'conversation.tools.t.options.k{n}', None, f'{n}') for n in range(20)),
)
TOOL = ActionPrompt('Run local rename tool?', (Action('y', 'Run', 'run'),), changes=CHANGES,
    exhibits=(PromptDetail('Arguments', {'content': 'line of text ' * 80 + 'THE TEXT'}),))
"""
ASK_SETTINGS = "print(ask(SETTINGS))"
ASK_TOOL = "print(prompter.ask_in_cell(TOOL))"

OVERFLOW = "form => form.scrollWidth - form.clientWidth"
CUT = """form => {
    const { right } = form.getBoundingClientRect();
    return [...form.querySelectorAll("input, textarea, button")]
        .filter(each => each.checkVisibility() && each.getBoundingClientRect().right > right)
        .map(each => each.outerHTML);
}"""
UNREACHABLE = """form => [...form.querySelectorAll("*")].filter(box => {
    const { overflowY } = getComputedStyle(box);
    const scrolls = overflowY === "auto" && box.scrollHeight > box.clientHeight + 1;
    const parts = "a[href], button, input, textarea, summary, [tabindex]";
    return scrolls && !box.matches(`${parts}, label *`) && !box.querySelector(parts);
}).map(box => box.outerHTML.slice(0, 200))"""
BARE = """form => [...form.querySelectorAll("input:not([type=radio]), textarea, .jupyter-button")]
    .filter(each => each.checkVisibility())
    .filter(each => {
        const { borderTopStyle, borderTopWidth, borderTopColor } = getComputedStyle(each);
        const paper = getComputedStyle(form).backgroundColor;
        return borderTopStyle === "none" || borderTopWidth === "0px" || borderTopColor === paper;
    })
    .map(each => each.outerHTML)"""
RING = """() => {
    const at = document.activeElement;
    // The parts of a date have rings of their own.
    if (at.type === "date" && !at.matches(":focus-visible")) return "";
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(at);
    const paper = getComputedStyle(at.closest(".jp-nb-form")).backgroundColor;
    const isSeen = outlineStyle === "solid" && outlineWidth === "2px" && outlineColor !== paper;
    return isSeen ? "" : at.outerHTML.slice(0, 200);
}"""


@pytest.fixture
def page(lab: Lab, open_notebook: OpenNotebook) -> NotebookPage:
    """A page of its own, whose kernel has the questions."""
    shutil.copy(Path(in_cell.__file__), lab.root / "in_cell.py")
    opened = open_notebook(FIRST_CELL, ASK_SETTINGS, ASK_TOOL, fresh=True)
    opened.run_cell(0)
    opened.wait_for_kernel_status("idle")
    return opened


def ask(page: NotebookPage, cell: int) -> Locator:
    page.run_cell(cell)
    form = page.form()
    form.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")
    return form


def assert_usable(page: NotebookPage, form: Locator) -> None:
    """Fail if a part of the form is cut, or if a part that scrolls cannot be reached with keys."""
    assert form.evaluate(OVERFLOW) == 0
    assert form.evaluate(CUT) == []
    assert form.evaluate(UNREACHABLE) == []
    assert axe_of(page.page, contrast=False) == []


@pytest.mark.req("RCP-89")
@pytest.mark.parametrize("room", ["panels", "zoom"])
def test_form_is_usable_with_both_side_bars_open_and_at_200_percent(
    page: NotebookPage, room: str
) -> None:
    if room == "panels":
        page.page.set_viewport_size({"width": 800, "height": 900})
        page.command("filebrowser:activate")
        page.command("jp-nb:show-conversations")
    else:  # as a window of 1280 x 800 with 200 %
        page.page.set_viewport_size({"width": 640, "height": 400})

    form = ask(page, 1)
    assert_usable(page, form)
    picture(page, f"small-settings-{room}")
    # The keyboard alone: the Tab key reaches the name, and a key scrolls it to its end.
    form.locator("textarea").first.focus()
    page.page.keyboard.press("Shift+Tab")
    page.page.keyboard.press("End")
    name = form.locator(".jp-nb-field-name .widget-html-content").first
    page.page.wait_for_function(
        "box => box.scrollTop > 0 && box.scrollTop + box.clientHeight > box.scrollHeight - 2",
        arg=name.element_handle(),
    )
    assert page.page.evaluate(RING) == ""
    click(page, "Cancel")
    page.output_text(1, contains="cancelled")

    form = ask(page, 2)
    assert_usable(page, form)
    picture(page, f"small-tool-{room}")
    for text in ("THE END", "options.k19"):
        assert form.locator(".jp-nb-table bdi", has_text=text).last.evaluate(IN_SIGHT), text
    click(page, "Run")
    page.output_text(2, contains="value='run'")


@pytest.mark.req("RCP-89")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colors_show_each_control_and_the_focus(page: NotebookPage, scheme: str) -> None:
    is_dark = scheme == "dark"
    page.page.emulate_media(forced_colors="active", color_scheme="dark" if is_dark else "light")
    form = ask(page, 1)
    assert form.evaluate(BARE) == []
    form.locator("textarea").first.focus()
    assert page.page.evaluate(RING) == ""
    for _ in range(12):
        page.page.keyboard.press("Tab")
        if not page.page.evaluate("Boolean(document.activeElement.closest('.jp-nb-form'))"):
            break
        assert page.page.evaluate(RING) == ""

    primary = form.get_by_role("button", name="Submit")
    other = form.get_by_role("button", name="Cancel")
    background = "button => getComputedStyle(button).backgroundColor"
    assert primary.evaluate(background) != other.evaluate(background)
    click(page, "Cancel")
    page.output_text(1, contains="cancelled")
