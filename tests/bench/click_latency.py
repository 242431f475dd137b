"""Measures the time from a click in JupyterLab to the code that it resumes in the cell.

    python tests/bench/click_latency.py [--clicks 30]

The page notes the time of the click, the cell the time at which it goes on; both clocks are the
machine's. Prints the median and the slowest tenth, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.browser import CHROMIUM_FLAGS, TOKEN, Lab, NotebookPage, start_lab  # noqa: E402

CELL = """
import json, time
resumed = []
for _ in range({clicks}):
    prompter.ask_here(PERMISSION, keeps_record=False)
    resumed.append(time.time() * 1000)
open("resumed.json", "w").write(json.dumps(resumed))
"""
NOTE_CLICKS = """() => {
    window.clicks = [];
    document.addEventListener("click", () => {
        window.clicks.push(performance.timeOrigin + performance.now());
    }, {capture: true});
}"""


def measure(browser: Any, lab: Lab, clicks: int) -> list[float]:
    """Return the milliseconds of each click."""
    shutil.copy(PROJECT / "tests" / "notebook" / "prompt" / "in_cell.py", lab.root)
    path = lab.write("latency.ipynb", ["from in_cell import *", CELL.format(clicks=clicks)])
    url = f"{lab.url}/lab/workspaces/latency/tree/{path.name}?token={TOKEN}&reset"
    notebook = NotebookPage(browser.new_page(), path, url)
    notebook.run_cell(0)
    notebook.wait_for_kernel_status("idle")
    notebook.run_cell(1)
    notebook.form()
    notebook.page.evaluate(NOTE_CLICKS)
    for _ in range(clicks):
        notebook.form().locator(".jp-nb-actions button").first.click()
        notebook.page.wait_for_timeout(300)
    notebook.wait_for_kernel_status("idle")
    resumed = json.loads((lab.root / "resumed.json").read_text())
    clicked = notebook.page.evaluate("window.clicks")
    return [after - before for before, after in zip(clicked, resumed, strict=True)]


def main() -> int:
    """Print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clicks", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        lab, server = start_lab(Path(home))
        try:
            executable = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
            times = measure(browser, lab, options.clicks)
        finally:
            server.terminate()
            server.wait()
    slow = quantiles(times, n=10)[-1]
    print(f"{len(times)} clicks: median {median(times):.1f} ms, slowest tenth {slow:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
