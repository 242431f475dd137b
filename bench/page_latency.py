"""Measures how long a real JupyterLab page takes, in milliseconds: median and slowest tenth.

    python bench/page_latency.py [--times 30] [--beside CHECKOUT] [--rounds 3]

- From a click to the code that it resumes in the cell: the page notes the time of the click, the
  cell the time at which it continues; both clocks are the machine's.
- A form of ten questions: from the call that asks to its first page as the browser has drawn it,
  from a click on Next to the next page, and from the last click to the code that it resumes.
- The handshake by which `%load_ext` finds the record in the page.
- An entry of 1 KB on its way into the page's notebook, until the page says that it is there.
- A turn of a scripted model: from the start of the cell until the page knows that it has ended.

With `--beside`, the rounds alternate with those of another checkout, which has its own environment
in `.venv`, so a busy machine slows both equally. Then the ratios of the medians are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any

PROJECT_VARIABLE = "JP_NB_MEASURED_CHECKOUT"
PROJECT = Path(os.environ.get(PROJECT_VARIABLE) or Path(__file__).resolve().parents[1])
sys.path.insert(0, str(PROJECT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.support.browser import CHROMIUM_FLAGS, TOKEN, Lab, NotebookPage, start_lab  # noqa: E402

CLICKS = """
import json, time
resumed = []
for _ in range({times}):
    prompter.ask_in_cell(PERMISSION, keeps_record=False)
    resumed.append(time.time() * 1000)
open("resumed.json", "w").write(json.dumps(resumed))
"""
FORMS = """
import json, time
QUESTIONS = [
    Question.select(f"q{{n}}", f"Which {{n}}?", ["a", "b", "c"], multi=n % 2 == 0, other=True)
    for n in range(10)
]
asked, resumed = [], []
for _ in range({times}):
    asked.append(time.time() * 1000)
    prompter.ask_in_cell(
        FormPrompt(tuple(map(QuestionPrompt, QUESTIONS)), partial=True), keeps_record=False
    )
    resumed.append(time.time() * 1000)
    time.sleep(0.5)
open("forms.json", "w").write(json.dumps([asked, resumed]))
"""
RECORD = """
import json
shakes, appends = [], []
for _ in range({times}):
    begin()
    shakes.append(document.handshake * 1000)
    say("x" * 1000)
    flushed()
    appends.append(document.opened.store.latency * 1000)
open("record.json", "w").write(json.dumps([shakes, appends]))
"""
RUN_CELL = """async () => {
    const { commands, shell } = window.jupyterapp;
    const { content } = shell.currentWidget;
    content.activeCellIndex = 1;
    const began = performance.now();
    await commands.execute("notebook:run-cell");
    return performance.now() - began;
}"""
NOTE_CLICKS = """() => {
    window.clicks = [];
    document.addEventListener("click", () => {
        window.clicks.push(performance.timeOrigin + performance.now());
    }, {capture: true});
}"""

NOTE_PAGES = """() => {
    const now = () => performance.timeOrigin + performance.now();
    const box = ".jp-nb-form[role='group'] .jp-nb-control input";
    window.pages = [];
    let last = null;
    const look = () => {
        const first = document.querySelector(box);
        if (first && first !== last) window.pages.push(now());
        last = first ?? last;
        requestAnimationFrame(look);
    };
    look();
}"""


def opened(browser: Any, lab: Lab, name: str, *cells: str) -> NotebookPage:
    """A page with the notebook `name`, whose first cell ran."""
    path = lab.write(f"{name}.ipynb", cells)
    url = f"{lab.url}/lab/workspaces/{name}/tree/{path.name}?token={TOKEN}&reset"
    notebook = NotebookPage(browser.new_page(), path, url)
    notebook.run_cell(0)
    notebook.wait_for_kernel_status("idle")
    return notebook


def measure_record(browser: Any, lab: Lab, times: int) -> tuple[list[float], list[float]]:
    """The milliseconds of each handshake and of each entry."""
    shutil.copy(PROJECT / "tests" / "kit" / "page_in_cell.py", lab.root / "document.py")
    load = "import document\nfrom document import *"
    notebook = opened(browser, lab, "record", load, RECORD.format(times=times), "print('done')")
    notebook.run_cell(1)
    notebook.run_cell(2)
    notebook.output_text(2, contains="done")
    shakes, appends = json.loads((lab.root / "record.json").read_text())
    notebook.page.close()
    return shakes, appends


def measure_clicks(browser: Any, lab: Lab, times: int) -> list[float]:
    """The milliseconds of each click."""
    shutil.copy(PROJECT / "tests" / "kit" / "prompt_in_cell.py", lab.root / "in_cell.py")
    cells = ["from in_cell import *", CLICKS.format(times=times)]
    notebook = opened(browser, lab, "clicks", *cells)
    notebook.run_cell(1)
    notebook.form()
    notebook.page.evaluate(NOTE_CLICKS)
    for _ in range(times):
        notebook.form().locator(".jp-nb-actions button").first.click()
        notebook.page.wait_for_timeout(300)
    notebook.wait_for_kernel_status("idle")
    resumed = json.loads((lab.root / "resumed.json").read_text())
    clicked = notebook.page.evaluate("window.clicks")
    notebook.page.close()
    return [after - before for before, after in zip(clicked, resumed, strict=True)]


def measure_forms(browser: Any, lab: Lab, times: int) -> tuple[list[float], ...]:
    """The milliseconds until a form is drawn, from page to page, and until it is submitted."""
    shutil.copy(PROJECT / "tests" / "kit" / "prompt_in_cell.py", lab.root / "in_cell.py")
    notebook = opened(browser, lab, "forms", "from in_cell import *", FORMS.format(times=times))
    page = notebook.page
    page.evaluate(NOTE_PAGES)
    notebook.run_cell(1)
    notebook.form()
    page.evaluate(NOTE_CLICKS)
    for _ in range(times):
        form = notebook.form()
        for number in range(1, 10):
            form.get_by_text(f"Question {number} of 10").wait_for()
            form.get_by_role("button", name="Next", exact=True).click()
        form.get_by_role("button", name="Submit", exact=True).click()
        form.get_by_role("button", name="Send as it is", exact=True).click()
        page.wait_for_function("!document.querySelector('.jp-nb-form')")
    notebook.wait_for_kernel_status("idle")
    asked, resumed = json.loads((lab.root / "forms.json").read_text())
    pages, clicks = page.evaluate("[window.pages, window.clicks]")
    page.close()
    shown = [min(at for at in pages if at > began) - began for began in asked]
    sent = [end - max(at for at in clicks if at < end) for end in resumed]
    turned = [
        min(at for at in pages if at > click) - click
        for place, click in enumerate(clicks)
        if place % 11 < 9  # after them come Submit and the summary
    ]
    return shown, turned, sent


def measure_turns(browser: Any, lab: Lab, times: int) -> list[float]:
    """The milliseconds of each cell with a turn."""
    (lab.root / "short.toml").write_text('[[replies]]\ntext = "Yes."\n')
    cells = ["%load_ext jp_nb", "%%jp -n -m scripted/short\nIs it?"]
    notebook = opened(browser, lab, "turns", *cells)
    notebook.page.evaluate(RUN_CELL)  # the first one loads more
    turns = [notebook.page.evaluate(RUN_CELL) for _ in range(times)]
    notebook.page.close()
    return turns


def measure(times: int) -> dict[str, list[float]]:
    """Return the milliseconds of each measured time, by its name."""
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        lab, server = start_lab(Path(home))
        try:
            executable = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
            turns = measure_turns(browser, lab, times)
            clicks = measure_clicks(browser, lab, times)
            forms, pages, submits = measure_forms(browser, lab, max(3, times // 3))
            shakes, appends = measure_record(browser, lab, times)
        finally:
            server.terminate()
            server.wait()

    return {
        "clicks": clicks,
        "forms of ten questions, drawn": forms,
        "pages turned": pages,
        "forms submitted": submits,
        "handshakes": shakes,
        "entries": appends,
        "turns": turns,
    }


def measure_checkout(checkout: Path, times: int) -> dict[str, list[float]]:
    """Measure `checkout` in another process, with its environment."""
    done = subprocess.run(
        [checkout / ".venv" / "bin" / "python", __file__, "--json", f"--times={times}"],
        env={**os.environ, PROJECT_VARIABLE: str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured: dict[str, list[float]] = json.loads(done.stdout)
    return measured


def compare(checkout: Path, times: int, rounds: int) -> None:
    """Print the medians of this checkout and of `checkout`, and their ratios."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for number in range(rounds):
        turn = [(PROJECT, ours), (checkout, theirs)]
        if number % 2:
            turn.reverse()
        for place, collected in turn:
            for what, found in measure_checkout(place, times).items():
                collected.setdefault(what, []).extend(found)

    for what, found in ours.items():
        here = median(found)
        there = median(theirs[what])
        print(f"{what}: {here:.1f} ms, beside {there:.1f} ms, ratio {here / there:.2f}")


def main() -> int:
    """Print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=3, help="rounds with another checkout")
    parser.add_argument("--json", action="store_true", help="print each time as JSON")
    options = parser.parse_args()
    if options.beside:
        compare(options.beside.resolve(), options.times, options.rounds)
        return 0

    measured = measure(options.times)
    if options.json:
        print(json.dumps(measured))
        return 0

    for what, times in measured.items():
        slow = quantiles(times, n=10)[-1]
        print(f"{len(times)} {what}: median {median(times):.1f} ms, slowest tenth {slow:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
