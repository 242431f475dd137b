"""The tutorials, read and answered with the keyboard alone."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Lab, NotebookPage, Notebooks, Pages

pytestmark = [pytest.mark.browser, pytest.mark.deep]

TUTORIALS = Path(__file__).parents[2] / "notebooks"
FOLDERS = ("commands", "scripts", "servers")

# What takes the keys: an element of the form, or the cell `id` after `count` cells have run.
TAKES_KEYS = """([id, count]) => {
    const { content, sessionContext } = window.jupyterapp.shell.currentWidget;
    const element = document.activeElement;
    const form = element?.closest(".jp-nb-form[role='group']");
    if (form) {
        // For 300 ms after it gets the focus, a form ignores keys (SETTLE_MS in formfocus.ts).
        form.takesKeysAt ??= performance.now() + 350;
        if (performance.now() < form.takesKeysAt) return "";
        if (element.tagName === "TEXTAREA" || element.type === "text") return "text";
        if (element.closest(".jp-nb-actions")) return "button";
        const isOption = ["radio", "checkbox"].includes(element.type);
        return isOption && !element.closest(".jp-nb-item") ? "option" : "other";
    }
    if (document.querySelector(".jp-nb-form[role='group']") || window.inputs < count) return "";
    const isIdle = sessionContext.kernelDisplayStatus === "idle";
    const isNext = content.activeCell.model.id === id && content.node.contains(element);
    return isIdle && isNext ? "cell" : "";
}"""

# The keys that answer at an element with the focus: the first option or button, or some text.
# Edits are checked already, and a form that has the focus itself chooses nothing before Tab.
ANSWERS = {
    "text": ("3", "Control+Enter"),
    "option": ("Space", "Control+Enter"),
    "button": ("Enter",),
    "other": ("Tab",),
}
MAX_STEPS = 30

COUNT = """() => {
    window.clicks = 0;
    window.inputs = 0;
    for (const type of ["pointerdown", "mousedown"]) {
        document.addEventListener(type, () => { window.clicks++; }, { capture: true });
    }
    const { sessionContext } = window.jupyterapp.shell.currentWidget;
    sessionContext.iopubMessage.connect((_, message) => {
        window.inputs += message.header.msg_type === "execute_input";
    });
}"""


def wait_for_keys(page: NotebookPage, cell: str, count: int) -> str:
    """Wait until the next cell or a form takes keys, and return what does."""
    found = page.page.wait_for_function(TAKES_KEYS, arg=[cell, count])
    return str(found.json_value())


def answer_until_the_next_cell(page: NotebookPage, cell: str, count: int) -> int:
    """Answer all forms of the running cell; return their number of steps."""
    for step in range(MAX_STEPS):
        found = wait_for_keys(page, cell, count)
        if found == "cell":
            return step
        for key in ANSWERS[found]:
            page.page.keyboard.press(key)
        page.page.wait_for_timeout(300)
    raise AssertionError(f"the cell before {cell} still asks after {MAX_STEPS} answers")


def has_error(cell: Any) -> bool:
    return any(output.output_type == "error" for output in cell.get("outputs", []))


@pytest.mark.parametrize(
    ("name", "has_forms"),
    [
        ("01-quickstart", True),
        ("02-tools", True),
        ("03-tools-that-change-config", True),
        ("04-forms", True),
        ("05-tool-bench", True),
        ("06-in-ci", True),
    ],
)
def test_tutorial_needs_no_mouse(lab: Lab, pages: Pages, name: str, has_forms: bool) -> None:
    path = lab.root / f"{name}.ipynb"
    for file in TUTORIALS.glob(f"{name}.*"):
        shutil.copy(file, lab.root)
    for folder in FOLDERS:
        shutil.copytree(TUTORIALS / folder, lab.root / folder, dirs_exist_ok=True)
    notebooks = Notebooks(lab, pages, name)
    page = notebooks.open_file(path)
    page.page.evaluate(COUNT)
    stored = page.saved().cells
    steps = 0

    count = 0
    for cell, following in pairwise(stored):
        assert wait_for_keys(page, cell.id, count) == "cell"
        page.page.keyboard.press("Shift+Enter")
        count += cell.cell_type == "code"
        steps += answer_until_the_next_cell(page, following.id, count)

    assert (steps > 0) is has_forms
    assert page.page.evaluate("window.clicks") == 0
    page.save()
    saved = {cell.id: cell for cell in page.saved().cells}  # an applied edit inserts a cell
    for before in stored[:-1]:
        after = saved[before.id]
        assert has_error(after) is has_error(before), after.source
        assert bool(after.get("outputs")) is bool(before.get("outputs")), after.source
    notebooks.close()
