"""Takes the pictures of README, guide, and tutorials from the real pages.

python -m tools.screenshot
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from playwright.sync_api import sync_playwright

from jp_nb.headless.runner import run_notebook
from tests.support.browser import CHROMIUM_FLAGS, TOKEN, Lab, NotebookPage, start_lab
from tools.record_tutorial import BATCH_TUTORIAL

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def main() -> None:
    home = Path(tempfile.mkdtemp())
    lab, server = start_lab(home)
    try:
        shutil.copytree(NOTEBOOKS, lab.root, dirs_exist_ok=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=CHROMIUM_FLAGS
            )
            _take(browser, lab, "01-quickstart.ipynb", "quickstart.png", _choose)
            _take(browser, lab, "04-forms.ipynb", "forms.png", _fill)
            _take_report(browser, home)
            browser.close()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(home, ignore_errors=True)


def _take(
    browser: Browser, lab: Lab, notebook: str, picture: str, fill: Callable[[NotebookPage], None]
) -> None:
    """Run `notebook` up to its first form, have it filled, and take the picture."""
    context = browser.new_context(viewport={"width": 1180, "height": 760})
    url = f"{lab.url}/lab/workspaces/{picture[:-4]}/tree/{notebook}?token={TOKEN}&reset"
    page = NotebookPage(context.new_page(), lab.root / notebook, url)
    page.command("application:toggle-left-area")
    page.cell(0).click()
    while not page.page.locator(".jp-nb-form:visible").count():
        page.command("notebook:run-cell-and-select-next", wait=False)
        page.page.wait_for_timeout(1500)
    fill(page)
    page.form().scroll_into_view_if_needed()
    page.page.wait_for_timeout(1500)
    page.page.screenshot(path=NOTEBOOKS / picture)
    context.close()


def _take_report(browser: Browser, home: Path) -> None:
    """Run the tutorial about a batch, and take the picture of its report."""
    work = home / "batch"
    work.mkdir()
    notebook = nbformat.read(NOTEBOOKS / BATCH_TUTORIAL, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("tempfile.mkdtemp()", repr(str(work)))
    shutil.copy((NOTEBOOKS / BATCH_TUTORIAL).with_suffix(".cassette.jsonl"), home)
    nbformat.write(notebook, home / BATCH_TUTORIAL)
    run_notebook(home / BATCH_TUTORIAL)

    page = browser.new_page(viewport={"width": 1100, "height": 850})
    page.goto((work / "OUT" / "report.html").as_uri())
    page.locator("#rows td.name").first.wait_for()
    # The name of this computer is in no document.
    page.locator("#totals").evaluate(
        "node => { node.textContent = node.textContent.split(' · started')[0]; }"
    )
    page.screenshot(path=NOTEBOOKS / "report.png")
    page.close()


def _choose(page: NotebookPage) -> None:
    page.form().get_by_text("Dunes").click()


def _fill(page: NotebookPage) -> None:
    page.form().get_by_role("button", name="Next").click()
    page.form().get_by_text("Topics").wait_for()
    for topic in ("Tools", "Plots"):
        page.form().get_by_text(topic, exact=True).click()
    page.form().locator("textarea").fill("Maps of our own data")
    page.page.keyboard.press("Shift+Tab")  # no box to write in has the focus


if __name__ == "__main__":
    main()
