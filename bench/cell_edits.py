"""Measure how long a JupyterLab page needs to apply ten edits in a large notebook.

    python -m bench.cell_edits [--rounds 5] [--cells 200] [--megabytes 20]

Each round opens a notebook whose cells have outputs of this size in total, lets a scripted model
propose ten edits, and clicks on Apply. Proposals are ten replacements, and a mixture with
insertions, moves, and deletions, which draw cells anew. Milliseconds, as median and maximum:

- transaction: the page changes the shared model of the notebook
- drawn: from this transaction's start to the second frame that the browser draws after its end
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import nbformat
import tomlkit
from playwright.sync_api import Browser, sync_playwright

from tests.support.browser import CHROMIUM_FLAGS, TOKEN, Lab, NotebookPage, start_lab
from tests.support.page_actions import MODEL, click

EDITS: Final = 10
REQUEST: Final = "%%jp -m scripted/edits -t cells\nTidy up."
WATCH: Final = f"""() => {{
    const shared = {MODEL}.sharedModel;
    const transact = shared.transact.bind(shared);
    window.measured = [];
    shared.transact = (change, ...rest) => {{
        const start = performance.now();
        transact(change, ...rest);
        const end = performance.now();
        requestAnimationFrame(() => requestAnimationFrame(() => {{
            window.measured.push([end - start, performance.now() - start]);
        }}));
    }};
}}"""


def read_source(number: int) -> str:
    return f"value_{number} = {number}\nprint(value_{number})"


def make_edit(op: str, number: int, **fields: Any) -> dict[str, Any]:
    digest = hashlib.sha256(read_source(number).encode()).hexdigest()
    return {"op": op, "cell": f"cell-{number}", "version": digest[:12], **fields}


def propose_replacements(cells: int) -> list[dict[str, Any]]:
    numbers = range(0, cells, cells // EDITS)
    return [make_edit("replace", each, source=f"new_{each} = {each}") for each in numbers][:EDITS]


def propose_mixture(cells: int) -> list[dict[str, Any]]:
    step = cells // EDITS
    moved = [make_edit("move", each * step, after="end") for each in range(3)]
    deleted = [make_edit("delete", each * step) for each in range(3, 5)]
    replaced = [make_edit("replace", each * step, source="new = 1") for each in range(5, 7)]
    inserted = [
        {"op": "insert", "after": f"cell-{each * step}", "source": "inserted = 1"}
        for each in range(7, EDITS)
    ]
    return [*moved, *deleted, *replaced, *inserted]


PROPOSALS: Final = {"ten replacements": propose_replacements, "mixture": propose_mixture}


def write_work(
    path: Path, edits: Sequence[dict[str, Any]], *, cells: int, megabytes: float
) -> None:
    """Write the notebook, and the script of its model."""
    size = int(megabytes * 1_000_000 / cells)
    line = "0123456789" * 8 + "\n"
    text = line * (size // len(line))

    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    notebook.cells = [nbformat.v4.new_code_cell(code) for code in ("%load_ext jp_nb", REQUEST)]
    for number in range(cells):
        output = nbformat.v4.new_output("stream", name="stdout", text=text)
        cell = nbformat.v4.new_code_cell(read_source(number), id=f"cell-{number}", outputs=[output])
        notebook.cells.append(cell)

    nbformat.write(notebook, path)
    call = {"name": "edit_cells", "arguments": {"edits": list(edits), "why": "It is untidy."}}
    script = tomlkit.dumps({"replies": [{"tool_calls": [call]}, {"text": "That is all."}]})
    (path.parent / "edits.toml").write_text(script, encoding="utf-8")


def measure(browser: Browser, lab: Lab, path: Path) -> tuple[float, float]:
    """Return the milliseconds of the transaction, and until the browser has drawn the page."""
    url = f"{lab.url}/lab/workspaces/edits/tree/{path.name}?token={TOKEN}&reset"
    page = NotebookPage(browser.new_page(), path, url)
    page.run_cell(0)
    page.run_cell(1)
    page.form().get_by_text("It is untidy.").wait_for()

    page.page.evaluate(WATCH)
    click(page, f"Apply {EDITS} edits")
    page.output_text(1, contains="That is all.")
    transaction, drawn = max(page.page.evaluate("window.measured"))
    page.page.close()
    return transaction, drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--megabytes", type=float, default=20)
    options = parser.parse_args()

    home = Path(tempfile.mkdtemp())
    lab, server = start_lab(home)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=CHROMIUM_FLAGS
            )
            for name, propose in PROPOSALS.items():
                edits = propose(options.cells)
                rounds = []
                for number in range(options.rounds):  # each with a kernel of its own
                    path = lab.root / f"{name.split()[0]}-{number}.ipynb"
                    write_work(path, edits, cells=options.cells, megabytes=options.megabytes)
                    rounds.append(measure(browser, lab, path))
                _print(name, rounds)
            browser.close()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(home, ignore_errors=True)


def _print(name: str, rounds: Sequence[tuple[float, float]]) -> None:
    for part, times in zip(("transaction", "drawn"), zip(*rounds, strict=True), strict=True):
        print(f"{name}, {part}: median {median(times):.0f} ms, at most {max(times):.0f} ms")


if __name__ == "__main__":
    main()
