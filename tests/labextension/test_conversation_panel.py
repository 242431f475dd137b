"""The side panel with the conversations of the notebook, and its commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.page_actions import LOAD, answer, assert_harmless, load, picture, question

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

SOURCES = """Array.from(window.jupyterapp.shell.currentWidget.content.model.cells,
    cell => cell.sharedModel.getSource())"""
SCRIPT = (
    question(question="Ship it?", answer_type="boolean")
    + '[[replies]]\ntext = "Shipped."\nusage = { input_tokens = 1200, output_tokens = 34 }\n'
)
COUNT_READS = """() => {
    const { sharedModel } = window.jupyterapp.shell.currentWidget.content.model;
    const read = sharedModel.getMetadata.bind(sharedModel);
    window.reads = [];
    sharedModel.getMetadata = key => {
        if (key === undefined) window.reads.push(new Error().stack);
        return read(key);
    };
}"""
HOSTILE = "<img src=x onerror='window.pwned = 1'><h1>big</h1>"


@pytest.fixture(autouse=True)
def scripts(lab: Lab) -> None:
    (lab.root / "ship.toml").write_text(SCRIPT, encoding="utf-8")


def open_panel(page: NotebookPage) -> Locator:
    """Open the panel in a fresh page: later tests would find it open, and little room beside it."""
    page.command("jp-nb:show-conversations")
    panel = page.page.locator("#jp-nb-conversations")
    panel.wait_for()
    return panel


def sources(page: NotebookPage) -> Any:
    return page.page.evaluate(SOURCES)


@pytest.mark.req("PAGE-6")
@pytest.mark.parametrize("classic", [False, True], ids=["lab", "notebook"])
def test_panel_shows_turns_and_types_commands_that_do_not_run(
    open_notebook: OpenNotebook, classic: bool
) -> None:
    cells = (LOAD, "%%jp -n -m scripted/ship\nGo.", "1", *["2"] * 30)
    page = open_notebook(*cells, classic=classic, fresh=True)
    load(page)
    panel = open_panel(page)
    panel.get_by_text("No question is open.").wait_for()
    page.run_cell(1)
    page.form().wait_for()
    panel.get_by_text("A question waits in cell 2.").wait_for()
    page.page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.scrollToItem(32, 'end').then(() => null)"
    )
    panel.get_by_role("button", name="Show: Show the question").click()
    page.page.wait_for_function(
        "() => { const box = document.querySelector('.jp-nb-form').getBoundingClientRect();"
        " return box.top >= 0 && box.bottom <= window.innerHeight; }"
    )
    answer(page, "Yes")
    page.output_text(1, contains="Shipped.")
    page.wait_for_kernel_status("idle")

    panel.get_by_text("1  Go.").wait_for()
    panel.get_by_text("Tool ask_user").wait_for()
    panel.get_by_text("Question: Ship it? (answered)").wait_for()
    panel.get_by_text("No question is open.").wait_for()
    assert panel.locator(".jp-nb-bar").count() == 1
    panel.get_by_role("button", name="Fork: %jp fork 1").focus()
    page.page.keyboard.press("Enter")
    page.page.wait_for_function(f"() => {SOURCES}.includes('%jp fork 1')")
    typed = sources(page).index("%jp fork 1")
    page.page.wait_for_timeout(300)
    assert page.cell(typed).locator(".jp-InputPrompt").inner_text().strip() == "[ ]:"

    page.command("jp-nb:new-request")
    page.page.keyboard.type("Hello")
    assert "%%jp\nHello" in sources(page)
    if not classic:
        picture(page, "panel")
        page.page.set_viewport_size({"width": 800, "height": 700})
        picture(page, "panel-800")


def stores_open_panel(response: Any) -> bool:
    """Return True if JupyterLab has stored a layout in which the panel is open on the right."""
    request = response.request
    if "api/workspaces" not in response.url or request.method != "PUT":
        return False
    # JupyterLab may store other parts of the workspace before the layout.
    layout = json.loads(request.post_data)["data"].get("layout-restorer:data", {})
    return bool(layout.get("right", {}).get("current") == "jp-nb-conversations")


@pytest.mark.req("PAGE-6")
def test_open_panel_is_there_after_a_reload_and_commands_follow_the_cell(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook("1", "2", fresh=True)
    with page.page.expect_response(stores_open_panel):
        open_panel(page)

    page.page.reload()
    page.cell(0).wait_for()
    page.page.locator("#jp-nb-conversations").wait_for()

    page.page.evaluate(
        """() => {
            window.changes = 0;
            window.jupyterapp.commands.commandChanged.connect((_, { id }) => {
                window.changes += id === 'jp-nb:new-request' ? 1 : 0;
            });
            window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1;
        }"""
    )
    page.page.wait_for_function("window.changes > 0")


@pytest.mark.req("PAGE-7")
def test_hostile_record_is_text_and_types_nothing(open_notebook: OpenNotebook) -> None:
    events = [
        {"type": "turn_start"},
        {"type": "chat_request", "content": HOSTILE},
        {"type": "tool_call_request", "id": "c", "name": HOSTILE},
        {"type": "inquiry_request", "id": "q", "question": {"text": HOSTILE}},
    ]
    others = [
        {"conversation": {"id": "jp-c1\n!touch pwned", "title": HOSTILE}, "events": []},
        {"conversation": {"id": "jp-c2", "title": "Good"}, "events": []},
    ]
    record = {"version": 1, "conversation": {"id": "jp-c3"}, "events": events, "others": others}
    page = open_notebook("1", fresh=True, jp=record)
    panel = open_panel(page)
    panel.get_by_text("Good").wait_for()
    assert panel.get_by_text(HOSTILE).count() == 4
    assert panel.locator("img, h1").count() == 0
    assert panel.get_by_role("button", name="Switch").count() == 1
    assert_harmless(page)
    assert sources(page) == ["1"]


def long_record(turns: int, characters: int) -> dict[str, Any]:
    """Return a record with `turns`, each with a tool's result of `characters` and a question."""
    events: list[dict[str, Any]] = []
    for number in range(1, turns + 1):
        request = f"Request {number}: describe the table of month {number}."
        usage = {"input_tokens": 1000 + 37 * number, "output_tokens": 10 * number}
        call = f"call-{number}"
        asked = f"question-{number}"
        events += [
            {"type": "turn_start"},
            {"type": "chat_request", "content": request},
            {"type": "tool_call_request", "id": call, "name": "read_file", "arguments": {}},
            {"type": "tool_call_response", "id": call, "content": "x" * characters},
            {"type": "inquiry_request", "id": asked, "question": {"text": f"Keep {number}?"}},
            {"type": "inquiry_response", "id": asked, "outcome": "answered"},
            {"type": "chat_response", "content": "Done.", "metadata": {"usage": usage}},
        ]
    return {"version": 1, "conversation": {"id": "jp-c9", "title": "Months"}, "events": events}


@pytest.mark.req("PAGE-6")
def test_panel_with_50_turns_and_a_long_record_reads_it_only_when_it_changes(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook("1", fresh=True, jp=long_record(50, 100_000))
    panel = open_panel(page)
    panel.get_by_text("50  Request 50").wait_for()
    assert panel.locator(".jp-nb-bar").count() == 50
    assert panel.get_by_role("button", name="Fork").count() == 50
    assert panel.get_by_role("button", name="Undo").count() == 1
    picture(page, "panel-50-turns")

    page.page.evaluate(COUNT_READS)
    page.cell(0).locator(".cm-content").click()
    page.page.keyboard.type("2 + 2")
    page.run_cell(0)  # also draws the open question, which has no part in the record
    page.output_text(0, contains="4")
    page.page.evaluate("() => new Promise(done => setTimeout(done, 1500))")
    assert page.page.evaluate("window.reads") == []

    page.page.evaluate(
        "() => { const { model } = window.jupyterapp.shell.currentWidget.content;"
        " const jp = model.getMetadata('jp');"
        " jp.events.push({ type: 'turn_start' }, { type: 'chat_request', content: 'More' });"
        " model.setMetadata('jp', jp); }"
    )
    panel.get_by_text("51  More").wait_for()
    assert page.page.evaluate("window.reads") != []
