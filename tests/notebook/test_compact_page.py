"""A conversation that gets too long, in a page of JupyterLab: menu, notice, report."""

from __future__ import annotations

import re

import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.page_actions import picture

pytestmark = pytest.mark.browser

LONG = "word " * 2000
SCRIPT = (
    'summary = "All was <b>well</b>."\n'
    + f'[[replies]]\nreasoning = "{LONG}"\ntext = "An answer."\n' * 2
    + '[[replies]]\nerror = { status = 400, message = "prompt is too long" }\n'
    + '[[replies]]\ntext = "Now it fits."\n'
)


def test_conversation_that_is_too_long_is_summarized_and_restored(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    (lab.root / "long.toml").write_text(SCRIPT, encoding="utf-8")
    asks = ["%%jp -n -m scripted/long\nOne?", "%%jp\nTwo?", "%%jp\nThree?"]
    page = open_notebook("%load_ext jp_nb", *asks, "%jp compact --undo", "%jp compact -s")
    for cell, shown in enumerate(["kept in this notebook", "An answer.", "An answer."]):
        page.run_cell(cell)
        page.output_text(cell, contains=shown)
    page.run_cell(3)
    page.output_text(3, contains="The conversation is longer than the model reads")
    picture(page, "too-long")
    assert "turns 0 to 1 are sent as a summary: about" in page.form().inner_text()
    page.form().get_by_role("button", name=re.compile("^Sum up and try again")).click()
    page.output_text(3, contains="Turns 0 to 1 are sent as a summary from here on")
    page.output_text(3, contains="Now it fits.")
    page.run_cell(4)
    page.output_text(4, contains="taken back; about")
    page.run_cell(5)
    page.output_text(5, contains="All was <b>well</b>.")
    picture(page, "compacted")
