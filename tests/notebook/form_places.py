"""Places of the open form in a page: `do` executes commands and expects the form in one place."""

from __future__ import annotations

from tests.support.browser import NotebookPage

PATIENCE_S = 30  # for the first form of a kernel on a busy machine
STAYS_MS = 400  # the page looks after its form in this interval
LIVE_FORMS = """() => [...document.querySelectorAll(".jp-nb-form[role='group']")].filter(
    form => form.checkVisibility() && !form.closest(".jupyter-widgets-disconnected")
).length"""
STAYS_ONE_FORM = f"""stays => {{
    if (({LIVE_FORMS})() !== 1) {{
        window.oneFormSince = null;
        return false;
    }}
    window.oneFormSince ??= performance.now();
    return performance.now() - window.oneFormSince >= stays;
}}"""
PLACES = """() => [...document.querySelectorAll(".jp-nb-form[role='group']")].filter(
    form => form.checkVisibility()
).map(form => {
    const cells = [...document.querySelectorAll(".jp-Notebook .jp-Cell")];
    return form.closest(".jp-nb-dock") ? "above" : cells.indexOf(form.closest(".jp-Cell"));
})"""


def wait_for_one_form(page: NotebookPage) -> None:
    """Wait until exactly one form is visible and live, and stays so.

    A form whose output JupyterLab clears is gone until the page puts it elsewhere.
    """
    page.page.evaluate("() => { window.oneFormSince = null; }")
    page.page.wait_for_function(STAYS_ONE_FORM, arg=STAYS_MS, timeout=PATIENCE_S * 1000)


def run_and_wait(page: NotebookPage, cell: int = 1) -> None:
    """Run `cell`, which asks, select it, and wait for its form."""
    page.cell(cell).locator(".jp-InputPrompt").click()
    page.command("notebook:run-cell", wait=False)
    wait_for_one_form(page)


def do(page: NotebookPage, *commands: str, place: int | str) -> None:
    """Execute commands for the selected cells, and wait until the only form is in `place`.

    It is the index of a cell, or `above` the notebook.
    """
    for command in commands:
        page.command(f"notebook:{command}")
    page.page.wait_for_function(f"place => ({PLACES})().join() === String(place)", arg=place)
    page.page.wait_for_timeout(STAYS_MS)
    assert page.page.evaluate(PLACES) == [place]
