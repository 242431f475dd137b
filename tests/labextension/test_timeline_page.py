"""`%jp timeline` in a narrow page: a picture that can be read, and its table."""

from __future__ import annotations

import pytest
import tomlkit

from tests.support.browser import Lab, OpenNotebook
from tests.support.page_actions import LOAD, picture

pytestmark = pytest.mark.browser

SHOW_FILES = "() => window.jupyterapp.commands.execute('filebrowser:activate')"
SIZES = """image => ({
    drawn: image.getBoundingClientRect().width,
    natural: image.naturalWidth,
    visible: image.parentElement.clientWidth,
    scrolled: image.parentElement.scrollLeft,
    outside: image.closest('.jp-OutputArea-output').scrollWidth
        - image.closest('.jp-OutputArea-output').clientWidth,
})"""


@pytest.mark.req("CELL-38")
def test_timeline_can_be_read_beside_the_file_browser_at_800_px(
    lab: Lab, open_notebook: OpenNotebook
) -> None:
    called = {"name": "describe_tools", "arguments": {"tools": ["describe_tools"]}}
    replies = [{"text": "Let me look.", "tool_calls": [called]}, {"text": "That is all."}]
    script = tomlkit.dumps({"replies": replies})
    (lab.root / "steps.toml").write_text(script, encoding="utf-8")
    page = open_notebook(LOAD, "%%jp -m scripted/steps\nGo.", "%jp timeline")
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.output_text(1, contains="That is all.")

    page.page.set_viewport_size({"width": 800, "height": 700})
    page.page.evaluate(SHOW_FILES)
    page.run_cell(2)
    image = page.cell(2).locator("img.jp-nb-picture")
    image.wait_for()
    image.scroll_into_view_if_needed()
    sizes = image.evaluate(SIZES)
    assert sizes["visible"] < 600
    assert sizes["drawn"] == sizes["natural"] == 720
    assert sizes["outside"] <= 0
    picture(page, "timeline-800")

    scroller = image.locator("xpath=..")
    scroller.focus()
    page.page.keyboard.press("ArrowRight")
    page.page.wait_for_function(
        "image => image.parentElement.scrollLeft > 0", arg=image.element_handle()
    )

    title = image.get_attribute("alt") or ""
    assert title.startswith("Timeline of turn 1: ")
    page.cell(2).get_by_text("Steps as a table").click()
    for step in ("request 1", "describe_tools", "request 2"):
        page.cell(2).get_by_role("cell", name=step, exact=True).wait_for()
    picture(page, "timeline-800-table")
