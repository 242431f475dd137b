"""Takes the README's picture from the real page: a cell of the quickstart that waits for an answer.

python -m tests.screenshot
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.support.browser import CHROMIUM_FLAGS, TOKEN, NotebookPage, start_lab

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def main() -> None:
    home = Path(tempfile.mkdtemp())
    lab, server = start_lab(home)
    try:
        path = lab.root / "01-quickstart.ipynb"
        shutil.copy(NOTEBOOKS / path.name, path)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=CHROMIUM_FLAGS
            )
            context = browser.new_context(viewport={"width": 1180, "height": 760})
            url = f"{lab.url}/lab/workspaces/readme/tree/{path.name}?token={TOKEN}&reset"
            page = NotebookPage(context.new_page(), path, url)
            page.command("application:toggle-left-area")
            page.cell(0).click()
            while not page.page.locator(".jp-nb-form:visible").count():
                page.command("notebook:run-cell-and-select-next", wait=False)
                page.page.wait_for_timeout(1500)
            form = page.form()
            form.get_by_text("Dunes").click()
            form.scroll_into_view_if_needed()
            page.page.wait_for_timeout(1500)
            page.page.screenshot(path=NOTEBOOKS / "quickstart.png")
            browser.close()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
