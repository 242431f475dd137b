"""A form with pages in JupyterLab, asked by a Python tool, and the actions of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.browser import NotebookPage

if TYPE_CHECKING:
    from playwright.sync_api import Locator

SCRIPT = (
    '[[replies]]\ntool_calls = [{ name = "plan", arguments = {} }]\n[[replies]]\ntext = "Done."\n'
)
TOOL = """
%load_ext jp_nb
import jp_nb as jp

@jp.tool
def plan(ctx: jp.ToolContext) -> jp.Success | jp.NeedsInput:
    if not ctx.ends:
        return jp.NeedsInput(*FOUR, partial=True, menu=True)
    print("answers", dict(ctx.answers))
    print("ends", {name: end.end for name, end in ctx.ends.items()}, "reply", ctx.reply)
    return jp.Success("noted")
"""
TURN = "%%jp -n -m scripted/plan\nGo."
FOUR = """
FOUR = [
    Question.select('store', 'Which store?', ['Redis', 'Postgres', 'SQLite'], recommended=1,
                    other=True).with_header('Store').with_context('It keeps **sessions**.'),
    Question.select('extras', 'Which extras?', ['logs', 'metrics', 'traces'], multi=True,
                    other=True),
    Question.text('why', 'Why?').with_required(False),
    Question.integer('size', 'How many?', minimum=1, maximum=9),
]
"""
"""The questions of the tool; with the names of `prompt_in_cell.py`."""


WALK_TOOLS = f"""
{TOOL}
from jp_nb import Question
{FOUR}
import asyncio

@jp.tool(run="ask", access=[jp.ConfigRule("assistant.name", write=True)])
def send() -> jp.Success:
    return jp.Success("sent", config={{"assistant": {{"name": "Ada"}}}})

@jp.tool
async def hold() -> str:
    await asyncio.sleep(600)
    return "held"
"""
"""The first cell of tests whose scripts call `plan`, `send` (it needs a permission) and `hold`."""

SELECTED = """() => {
    const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')];
    const [selected] = cells.filter(cell => cell.classList.contains('jp-mod-active'));
    const isCommand = document.querySelector('.jp-Notebook.jp-mod-commandMode') !== null;
    return isCommand && document.activeElement === selected ? cells.indexOf(selected) : -1;
}"""
"""The index of the selected cell; -1 unless it has the focus in command mode."""


def wait_until_selected(page: NotebookPage, cell: int) -> None:
    """Wait until `cell` is selected in command mode, and has the focus."""
    page.page.wait_for_function(f"cell => ({SELECTED})() === cell", arg=cell)


class FormOnPage:
    """The form that is open on a page."""

    def __init__(self, notebook: NotebookPage) -> None:
        self.notebook = notebook
        self.page = notebook.page
        self.box = notebook.form()

    def press(self, label: str) -> None:
        """Click the button with `label`."""
        self.box.get_by_role("button", name=label, exact=True).click()

    def on(self, number: int, count: int = 4) -> Locator:
        """Wait until page `number` is drawn and hears clicks and keys."""
        self.box.get_by_text(f"Question {number} of {count}").wait_for()
        self.page.wait_for_function(DRAWN, arg=self.box.element_handle())
        return self.box

    def on_summary(self) -> Locator:
        """Wait until the summary is drawn and hears clicks and keys; return its rows."""
        rows = self.box.get_by_role("listitem")
        rows.first.wait_for()
        # The form has the focus once the page knows the new step; an earlier click is refused.
        focused = "form => document.activeElement === form"
        self.page.wait_for_function(focused, arg=self.box.element_handle())
        return rows

    def turn(self, label: str, number: int, count: int = 4) -> None:
        """Click a button that leads to page `number`."""
        self.press(label)
        self.on(number, count)

    def wait_for_focus(self, tag: str, name: str) -> None:
        """Wait until a `tag` has the focus whose accessible name, or text, begins with `name`."""
        self.page.wait_for_function(
            f"([tag, name]) => {{ const [is, called] = ({FOCUSED})();"
            " return is === tag && called.startsWith(name); }",
            arg=[tag, name],
        )


DRAWN = """form => [...form.querySelectorAll('.jp-nb-control')].every(
    box => box.querySelector('[aria-labelledby], [aria-label]'))"""
FOCUSED = """() => {
    const { activeElement: at } = document;
    const by = document.getElementById(at.getAttribute("aria-labelledby"));
    const name = at.getAttribute("aria-label") ?? (by ?? at).textContent;
    return [at.tagName.toLowerCase(), name.trim()];
}"""


def axe_of(page: Any, *, contrast: bool = True) -> list[str]:
    """Return the accessibility problems that axe finds in the open form.

    With `contrast`, it must have compared colors, which it can only of text in view.
    """
    from axe_playwright_python.sync_playwright import Axe

    # JupyterLab's body has no height, and the engine takes all in it for hidden: it would look at
    # nothing, and find nothing.
    page.evaluate("document.body.style.height = '100vh'")
    page.locator(".jp-nb-form").evaluate("form => form.scrollIntoView({ block: 'end' })")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    try:
        for _ in range(20):  # a theme that has just changed is drawn over some frames
            found = Axe().run(page, context=".jp-nb-form").response
            looked_at = {each["id"] for each in found["passes"] if each["nodes"]}
            if "color-contrast" in looked_at or not contrast:
                break
            page.evaluate(
                "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
            )
    finally:
        page.evaluate("document.body.style.height = ''")
    expected = {"aria-allowed-attr"}
    if contrast:
        expected.add("color-contrast")
    assert expected <= looked_at
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
