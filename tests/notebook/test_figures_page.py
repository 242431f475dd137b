"""A tool returns a figure: the page shows it once, below its call, also after a reload."""

from __future__ import annotations

import json

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.figure_tools import CLOSED
from tests.support.page_actions import LOAD, load, outputs, picture

pytestmark = pytest.mark.browser

SCRIPT = """
[[replies]]
text = "Let me draw."
tool_calls = [{ name = "plot", arguments = { power = 2 } }]
[[replies]]
expect = "[image: power 2, image/png 400×300]"
tool_calls = [{ name = "hold", arguments = {} }]
[[replies]]
text = "A curve that rises."
[[replies]]
expect = "[image: power 2, image/png 400×300]"
text = "It still rises."
"""
HOLD = """
@jp.tool
def hold(ctx: jp.ToolContext) -> jp.Outcome:
    '''Wait for a person.'''
    if not ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("on", "Go on?"))
    return jp.Success("on")
"""


@pytest.fixture(autouse=True)
def script(lab: Lab) -> None:
    (lab.root / "figures.toml").write_text(SCRIPT, encoding="utf-8")


def drawn(page: NotebookPage) -> int:
    return page.outputs(1).locator("img[src^='data:image/png']").count()


def test_figure_is_shown_once_while_the_turn_runs_and_after_a_reload(
    open_notebook: OpenNotebook,
) -> None:
    cells = (f"{LOAD}\n{CLOSED}{HOLD}", "%%jp -m scripted/figures\nDraw.", "%%jp\nAnd now?")
    page = open_notebook(*cells)
    load(page)
    page.run_cell(1)
    page.form()  # the turn still runs: the figure is there already
    assert drawn(page) == 1
    page.save()
    page.reload(status="")
    page.form().get_by_role("button", name="Yes", exact=True).click()
    text = page.output_text(1, contains="A curve that rises.")
    assert "plot(power=2) · 1 image" in text
    assert drawn(page) == 1
    picture(page, "figure-of-a-tool")
    page.wait_for_record("record.events.filter(e => e.type === 'image').length === 1")
    page.save()
    shown = outputs(page, 1)
    kinds = ["image" if "image/png" in output["data"] else "text" for output in shown]
    assert kinds == ["text", "image", "text"]
    assert all(output["metadata"] == {} for output in shown)
    (kept,) = (e for e in page.saved().metadata["jp"]["events"] if e["type"] == "image")
    assert "".join(shown[1]["data"]["image/png"].split()) == kept["data"]
    assert json.dumps(page.saved().metadata).count(kept["data"]) == 1
    page.restart_kernel()
    page.run_cell(0)
    page.run_cell(2)
    page.output_text(2, contains="It still rises.")
    page.save()
    assert sum(e["type"] == "image" for e in page.saved().metadata["jp"]["events"]) == 1
