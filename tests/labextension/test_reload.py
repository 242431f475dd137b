"""A page that is loaded again, or runs its cell again, while a cell of ours runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import (
    KERNEL_STATUS,
    PATIENCE_MS,
    Lab,
    NotebookPage,
    OpenNotebook,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

QUESTION = (
    '[[replies]]\ntext = "A **word** before."\ntool_calls = [{ name = "ask_user", arguments = '
    '{ question = "Ship it?", answer_type = "boolean" } }]\n'
)
SCRIPTS = {
    "one": f'{QUESTION}[[replies]]\ntext = "Shipped."\n{QUESTION}[[replies]]\ntext = "Again."\n',
    "endless": f'[[replies]]\ntext = "{"word " * 3000}"\nchunk_ms = 400\n',
    "tools": '[[replies]]\ntool_calls = [{ name = "hold", arguments = {} }]\n'
    '[[replies]]\ntext = "Went on."\n',
}
LOAD = """
%load_ext jp_nb
import jp_nb as jp

@jp.tool
def hold() -> str:
    import os, time
    while not os.path.exists("let go"): time.sleep(0.02)
    return "held"
"""
NEVER_IDLE = """() => {
    const said = window.saidIdle = [];
    const { sessionContext } = window.jupyterapp.shell.currentWidget.context;
    sessionContext.statusChanged.connect((_, status) => { if (status === "idle") said.push(1); });
    return sessionContext.kernelDisplayStatus;
}"""


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    for name, text in SCRIPTS.items():
        (lab.root / f"{name}.toml").write_text(text, encoding="utf-8")


def begun(open_notebook: OpenNotebook, script: str) -> NotebookPage:
    """A notebook whose second cell runs a turn. Nothing of it is saved."""
    page = open_notebook(LOAD, f"%%jp -m scripted/{script}\nGo.", "print(6 * 7)")
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    return page


def is_busy(page: Page) -> None:
    page.wait_for_function(KERNEL_STATUS, arg="busy", timeout=PATIENCE_MS)


def answer(page: NotebookPage) -> None:
    form = page.form()
    form.get_by_role("button", name="Yes", exact=True).click()
    submit = form.get_by_role("button", name="Submit")
    if submit.count():
        submit.click()


def test_a_reload_before_the_first_save_brings_the_form_back(
    open_notebook: OpenNotebook,
) -> None:
    page = begun(open_notebook, "one")
    page.form()
    for _ in range(2):
        page.reload(status="busy")
        page.form()
        assert page.cell(1).locator(".jp-nb-form:visible").count() == 1
        assert "*" in page.cell(1).locator(".jp-InputPrompt").inner_text()
    page.run_cell(2)  # waits behind
    answer(page)
    text = page.output_text(1, contains="Shipped.")
    assert "Ship it? → Yes" in text
    page.output_text(2, contains="42")
    page.wait_for_kernel_status("idle")
    page.save()
    saved = page.saved()
    (output,) = saved.cells[1].outputs
    assert set(output["data"]) == {"text/plain", "text/markdown"}
    assert output["metadata"] == {}
    assert saved.metadata["jp"]["events"][-1]["message"] == "Shipped."
