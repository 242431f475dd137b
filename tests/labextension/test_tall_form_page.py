"""The cell of a tall form at the end of a long notebook, after the answer."""

from __future__ import annotations

import pytest

from tests.labextension.edit_proposals import ASK, write_script
from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, click

pytestmark = pytest.mark.browser

OTHERS = 60
REQUEST = OTHERS + 1

WINDOW = """windowingMode => {
    const { content } = window.jupyterapp.shell.currentWidget;
    content.notebookConfig = { ...content.notebookConfig, windowingMode };
}"""

# The pixels of the answer that the user sees, or 0 if it is not drawn.
ANSWER_IN_VIEW = """() => {
    const { content } = window.jupyterapp.shell.currentWidget;
    const outputs = Array.from(content.node.querySelectorAll('.jp-OutputArea-output'));
    const answer = outputs.find(({ textContent }) => textContent.includes('That is all.'));
    if (!answer) return 0;
    const { top, bottom } = answer.getBoundingClientRect();
    const view = content.outerNode.getBoundingClientRect();
    return Math.max(0, Math.min(bottom, view.bottom) - Math.max(top, view.top));
}"""

# The page has drawn all that happened before.
DRAWN = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"

SCROLL_TO_TOP = """() => {
    const { outerNode } = window.jupyterapp.shell.currentWidget.content;
    return new Promise(done => {
        outerNode.addEventListener("scroll", () => done(outerNode.scrollTop), { once: true });
        outerNode.scrollTop = 0;
    });
}"""
SCROLL_TOP = "() => window.jupyterapp.shell.currentWidget.content.outerNode.scrollTop"
CLICK_REJECT = """() => {
    const buttons = Array.from(document.querySelectorAll(".jp-nb-actions button"));
    buttons.find(({ textContent }) => textContent.includes("Reject")).click();
}"""


def open_tall_review(lab: Lab, open_notebook: OpenNotebook, mode: str) -> NotebookPage:
    """Open a review, taller than the page, in the last cell of a notebook."""
    write_script(
        lab,
        *(
            {"op": "insert", "source": "\n".join(f"y{edit} = {line}" for line in range(30))}
            for edit in range(4)
        ),
    )
    page = open_notebook(LOAD, *(f"x = {number}" for number in range(OTHERS)), ASK)
    page.page.evaluate(WINDOW, mode)
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.page.evaluate(
        "index => window.jupyterapp.shell.currentWidget.content.scrollToItem(index)", REQUEST
    )
    request = page.page.locator(f"[data-windowed-list-index='{REQUEST}']")
    request.wait_for()
    request.locator(".jp-InputPrompt").click()
    page.page.keyboard.press("Control+Enter")
    page.form().get_by_text("It is untidy.").wait_for()
    return page


@pytest.mark.req("PAGE-8")
@pytest.mark.parametrize("mode", ["contentVisibility", "full"])
def test_answer_to_a_tall_form_at_the_end_is_in_view(
    lab: Lab, open_notebook: OpenNotebook, mode: str
) -> None:
    page = open_tall_review(lab, open_notebook, mode)
    click(page, "Reject")

    page.page.wait_for_function(f"() => ({ANSWER_IN_VIEW})() > 0")
    page.wait_for_kernel_status("idle")
    page.page.evaluate(DRAWN)
    assert page.page.evaluate(ANSWER_IN_VIEW) > 0


@pytest.mark.req("PAGE-8")
def test_form_that_the_user_has_scrolled_away_does_not_move_the_page(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    page = open_tall_review(lab, open_notebook, "contentVisibility")
    assert page.page.evaluate(SCROLL_TO_TOP) == 0
    page.page.evaluate(CLICK_REJECT)

    page.wait_for_record("record.events.at(-1).type === 'chat_response'")
    page.wait_for_kernel_status("idle")
    page.page.evaluate(DRAWN)
    assert page.page.evaluate(SCROLL_TOP) == 0
