"""Takes the pictures of README, guide, and tutorials from the real pages.

python -m tools.screenshot
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from playwright.sync_api import sync_playwright

from jp_nb.headless.runner import run_notebook
from tests.support.browser import CHROMIUM_FLAGS, TOKEN, Lab, NotebookPage, start_lab
from tests.support.loopback import LoopbackServer
from tools.record_tutorial import BATCH_RECORDING, EDITS_RECORDING

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
            _take_review(browser, lab)
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


def _take_review(browser: Browser, lab: Lab) -> None:
    """Run the messy notebook of the tutorial about edits up to the review."""
    tutorial = nbformat.read(NOTEBOOKS / EDITS_RECORDING.notebook, as_version=4)
    [writes] = [cell.source for cell in tutorial.cells if cell.id == "messy"]
    messy = lab.root / "messy.ipynb"

    with LoopbackServer(EDITS_RECORDING.replies) as server:
        load = f"%load_ext jp_nb\n%jp config providers.llm.llamacpp.base_url={server.url}"
        written = writes.replace('"%load_ext jp_nb"', repr(load)).replace("messy.ipynb", str(messy))
        subprocess.run([sys.executable, "-c", written], check=True)
        notebook = nbformat.read(messy, as_version=4)
        notebook.metadata["kernelspec"] = tutorial.metadata["kernelspec"]
        nbformat.write(notebook, messy)
        _take(browser, lab, messy.name, "review.png", lambda page: None)


def _take_report(browser: Browser, home: Path) -> None:
    """Run the tutorial about a batch, and take the picture of its report."""
    work = home / "batch"
    work.mkdir()
    notebook = nbformat.read(NOTEBOOKS / BATCH_RECORDING.notebook, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("tempfile.mkdtemp()", repr(str(work)))
    shutil.copy((NOTEBOOKS / BATCH_RECORDING.notebook).with_suffix(".cassette.jsonl"), home)
    nbformat.write(notebook, home / BATCH_RECORDING.notebook)
    run_notebook(home / BATCH_RECORDING.notebook)

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
