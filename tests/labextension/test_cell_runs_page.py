"""The user applies and runs cells in a page: their outputs, numbers, and history."""

from __future__ import annotations

from typing import Any

import pytest

from tests.labextension.edit_proposals import ASK, on, propose, result
from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, MODEL, click

pytestmark = pytest.mark.browser

FACTS = f"""id => {{
    const found = Array.from({MODEL}.cells).find(cell => cell.id === id);
    if (!found) return null;
    const {{ executionCount, executionState, isDirty, trusted, outputs }} = found;
    const kept = outputs.toJSON();
    return {{ executionCount, executionState, isDirty, trusted, outputs: kept }};
}}"""
SLOW = """import time
from IPython.display import HTML, display
from pathlib import Path
print('first line')
display(HTML('<b class="of-the-run">bold</b>'))
while not Path('continue').exists():
    time.sleep(0.05)
print('last line')
6 * 7"""


def facts(page: NotebookPage, cell: str) -> Any:
    return page.page.evaluate(FACTS, cell)


def shown_in_turn(page: NotebookPage) -> str:
    """Return what the cell with the request shows."""
    return "\n".join(page.outputs(1).all_inner_texts())


@pytest.mark.req("CELL-23", "CELL-24")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook-7"])
def test_outputs_appear_in_the_turn_and_then_in_their_own_cell(
    lab: Lab, open_notebook: OpenNotebook, classic: bool
) -> None:
    (lab.root / "continue").unlink(missing_ok=True)
    page = open_notebook(LOAD, ASK, classic=classic)
    propose(
        lab,
        page,
        on("replace", "a", "one", source=SLOW, run=True),
        on("replace", "b", "two", source="1 / 0", run=True),
        on("replace", "c", "three", source="never = 1", run=True),
    )
    click(page, "Apply 3 edits and run")
    page.outputs(1).get_by_text("first line", exact=True).wait_for()
    page.outputs(1).locator(".of-the-run").wait_for()
    page.cell(2).get_by_text("[*]").wait_for()
    assert page.cell(2).locator(".jp-OutputArea-output").count() == 0

    (lab.root / "continue").touch()
    page.output_text(1, contains="That is all.")
    page.wait_for_kernel_status("idle")

    ran = facts(page, "a")
    assert (ran["executionCount"], ran["executionState"], ran["isDirty"]) == (3, "idle", False)
    assert ran["trusted"] is True
    assert [each["output_type"] for each in ran["outputs"]] == [
        "stream",
        "display_data",
        "stream",
        "execute_result",
    ]
    assert ran["outputs"][0]["text"] == "first line\n"
    assert ran["outputs"][3]["execution_count"] == 3
    page.cell(2).locator(".of-the-run").wait_for()

    failed = facts(page, "b")
    assert failed["executionCount"] == 4
    assert [each["output_type"] for each in failed["outputs"]] == ["error"]
    assert facts(page, "c")["executionCount"] is None
    assert facts(page, "c")["executionState"] == "idle"
    page.outputs(1).get_by_text("first line", exact=True).wait_for(state="hidden")
    assert page.outputs(1).locator(".of-the-run").count() == 0
    assert "ZeroDivisionError" in result(page)

    # The running cell keeps its number, and the next cell continues behind the others.
    page.page.evaluate(
        f"() => {MODEL}.sharedModel.insertCell(6, {{ cell_type: 'code', source: 'print(Out)' }})"
    )
    page.run_cell(6)
    assert "{3: 42}" in page.output_text(6, contains="42")
    counts = page.page.evaluate(f"() => Array.from({MODEL}.cells, cell => cell.executionCount)")
    assert counts == [1, 2, 3, 4, None, 7, 5]


@pytest.mark.req("CELL-24")
def test_outputs_stay_in_the_turn_if_the_page_cannot_store_them(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    (lab.root / "continue").unlink(missing_ok=True)
    page = open_notebook(LOAD, ASK)
    propose(lab, page, on("replace", "a", "one", source=SLOW, run=True))
    click(page, "Apply 1 edit and run")
    page.outputs(1).get_by_text("first line", exact=True).wait_for()
    page.page.evaluate(f"() => {MODEL}.cells.get(2).sharedModel.setSource('typed meanwhile')")
    (lab.root / "continue").touch()
    page.output_text(1, contains="That is all.")
    page.wait_for_kernel_status("idle")
    kept = facts(page, "a")
    assert (kept["outputs"], kept["executionState"]) == ([], "idle")
    shown = shown_in_turn(page)
    assert "first line" in shown
    assert "last line" in shown


@pytest.mark.req("CELL-23", "CELL-24")
def test_interrupt_ends_the_cell_with_its_error(lab: Lab, open_notebook: OpenNotebook) -> None:
    (lab.root / "continue").unlink(missing_ok=True)
    page = open_notebook(LOAD, ASK)
    propose(lab, page, on("replace", "a", "one", source=SLOW, run=True))
    click(page, "Apply 1 edit and run")
    page.outputs(1).get_by_text("first line", exact=True).wait_for()
    page.interrupt()
    page.form().get_by_text("Interrupted: ").wait_for()
    click(page, "End the turn")
    page.wait_for_kernel_status("idle")
    ended = facts(page, "a")
    assert ended["executionState"] == "idle"
    assert [each["output_type"] for each in ended["outputs"]][-1] == "error"
    assert ended["outputs"][-1]["ename"] == "KeyboardInterrupt"
