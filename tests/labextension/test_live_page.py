"""The record reaches a real page and survives what pages go through."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from tests.support.browser import (
    TOKEN,
    Lab,
    NotebookPage,
    OpenNotebook,
    run_cell,
    wait_for_kernel_status,
)
from tests.support.page_actions import MODEL, in_page
from tests.support.scripted_page import SETUP

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def contents(events: Any) -> list[str]:
    return [e["content"] for e in events if e["type"] == "chat_request"]


def is_dirty(page: NotebookPage) -> bool:
    return bool(page.page.evaluate(f"{MODEL}.dirty"))


def reopened(page: NotebookPage, **metadata: Any) -> None:
    """Put `metadata` into the file, and open it anew."""
    page.save()
    leave(page)
    notebook = page.saved()
    notebook.metadata.update(metadata)
    nbformat.write(notebook, page.path)
    page.reload()


def leave(page: NotebookPage) -> None:
    """Close the notebook's page without saving."""
    page.page.goto("about:blank")


def another_tab(page: NotebookPage) -> Page:
    """The same notebook in a second tab of the browser."""
    other = page.page.context.new_page()
    other.goto(page.page.url)
    other.locator(".jp-Notebook .jp-Cell").first.wait_for()
    wait_for_kernel_status(other, "idle")
    return other


def begin(page: NotebookPage, expected: str) -> None:
    """Run the first cell; `expected` is how the line it prints begins."""
    page.run_cell(0)
    said = page.output_text(0, contains="kept").strip()
    assert said.startswith(expected), said


def doc(*requests: str, **head: Any) -> dict[str, Any]:
    events = [
        {"type": "chat_request", "timestamp": f"2025-01-31 09:00:0{i}.0", "content": text}
        for i, text in enumerate(requests)
    ]
    conversation = {"id": "jp-c1", "made": "live", **head}
    return {"version": 1, "conversation": conversation, "base_config": {}, "events": events}


NEW = "kept in this notebook; new"


def test_entries_reach_the_notebook_and_a_new_kernel_reads_them_back(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", "print(in_cell.opened.store.save())")
    begin(page, NEW)
    assert in_page(page) is None
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    assert contents(in_page(page)["events"]) == ["one"]
    page.run_cell(2)
    page.output_text(2, contains=f"kept in this notebook, saved as {page.path.name}")
    assert contents(page.saved().metadata.jp.events) == ["one"]
    page.restart_kernel()
    begin(page, "kept in this notebook; restored, 1 turns")
    page.run_cell(1)
    page.page.wait_for_function(f"{MODEL}.getMetadata('jp').events.length === 6")


def test_who_ever_saves_the_kernel_is_told_what_is_in_the_file(
    open_notebook: OpenNotebook,
) -> None:
    waits = """import time
stream, store = in_cell.opened.document.conversation, in_cell.opened.store
while store.saved_entries(stream.id) < len(stream): time.sleep(0.02)
print("saved", store.saved_entries(stream.id), "of", len(stream))"""
    page = open_notebook(SETUP, "say('one'); flushed()", waits)
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    page.save()
    page.run_cell(2)
    page.output_text(2, contains="saved 3 of 3")


def test_notebook_7(open_notebook: OpenNotebook, lab: Lab) -> None:
    pytest.importorskip("notebook")
    page = open_notebook(SETUP, "say('one')\nprint(in_cell.opened.store.save())")
    page.save()
    classic = page.page.context.new_page()
    classic.goto(f"{lab.url}/notebooks/{page.path.name}?token={TOKEN}")
    cells = classic.locator(".jp-Notebook .jp-CodeCell")
    cells.nth(1).wait_for()
    wait_for_kernel_status(classic, "idle")
    for number, said in enumerate([NEW, "saved as"]):
        run_cell(cells.nth(number))
        cells.nth(number).get_by_text(said).last.wait_for()
    assert contents(page.saved().metadata.jp.events) == ["one"]


def test_entries_arrive_under_run_all(open_notebook: OpenNotebook) -> None:
    cells = [f"say('{i}'); import time; time.sleep(0.2)" for i in range(5)]
    wait = "import os\nwhile not os.path.exists('they arrive'): time.sleep(0.02)"
    page = open_notebook(SETUP, *cells, wait, "flushed()")
    page.command("notebook:run-all-cells", wait=False)
    page.page.wait_for_function(f"({MODEL}.getMetadata('jp')?.events.length ?? 0) >= 3")
    assert page.outputs(7).count() == 0  # they did not wait for the last cell
    page.path.with_name("they arrive").touch()
    page.output_text(7, contains="flushed")
    assert contents(in_page(page)["events"]) == [str(i) for i in range(5)]


def test_a_page_reloaded_while_the_kernel_runs_gets_what_it_missed(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(
        SETUP,
        "import time\nfor i in range(40): say(str(i)); time.sleep(0.5)",
    )
    begin(page, NEW)
    page.run_cell(1)
    page.page.wait_for_function(f"({MODEL}.getMetadata('jp')?.events.length ?? 0) >= 3")
    leave(page)
    page.reload(status="")
    page.page.wait_for_function(f"({MODEL}.getMetadata('jp')?.events.length ?? 0) >= 30")
    kept = contents(in_page(page)["events"])
    assert kept == [str(i) for i in range(len(kept))]
    page.interrupt()


def test_a_page_reloaded_while_the_kernel_is_idle_gets_what_it_missed(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", "say('two'); flushed()")
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    leave(page)  # nothing was saved
    page.reload()
    page.page.wait_for_function(f"{MODEL}.getMetadata('jp')?.events.length === 3")
    page.run_cell(2)
    page.output_text(2, contains="flushed")
    assert contents(in_page(page)["events"]) == ["one", "two"]


def test_two_views_of_one_document(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()")
    page.command("docmanager:clone", wait=False)
    page.page.wait_for_function("document.querySelectorAll('.jp-NotebookPanel').length === 2")
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    assert contents(in_page(page)["events"]) == ["one"]


def test_two_browser_tabs_end_with_the_same(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()")
    other = another_tab(page)
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    other.wait_for_function(f"{MODEL}.getMetadata('jp')?.events.length === 3")
    assert contents(in_page(page)["events"]) == ["one"]
    assert "others" not in in_page(page)
    other.close()


def test_one_of_two_browser_tabs_saves(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('one')\nprint(in_cell.opened.store.save())")
    other = another_tab(page)
    begin(page, NEW)
    written: list[str] = []
    page.page.context.on(
        "request",
        lambda request: (
            written.append(request.url)
            if request.method == "PUT" and page.path.name in request.url
            else None
        ),
    )
    page.run_cell(1)
    page.output_text(1, contains="saved as")
    other.wait_for_function(f"{MODEL}.getMetadata('jp')?.events.length === 3")
    other.wait_for_timeout(500)  # in which it would have saved as well
    assert len(written) == 1
    other.close()


def test_a_new_conversation_and_a_long_one(open_notebook: OpenNotebook) -> None:
    page = open_notebook(
        SETUP,
        "say('one', 'ä😀' * 400_000); flushed(60)",
        "new(); say('two'); flushed(60)",
        "begin()",
    )
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    page.run_cell(2)
    page.output_text(2, contains="flushed")
    stored = in_page(page)
    assert contents(stored["events"]) == ["two"]
    assert stored["others"][0]["events"][2]["message"] == "ä😀" * 400_000
    page.run_cell(3)  # a hello above 4 MB comes in pieces
    page.output_text(3, contains="restored, 1 turns")


def test_a_page_keeps_its_conversations_when_others_begin(open_notebook: OpenNotebook) -> None:
    page = open_notebook(
        SETUP,
        "say('one'); flushed(60)",
        "for name in ('two', 'three'):\n    new(); say(name); flushed(60)",
        "print(in_cell.opened.store.save())",
    )
    begin(page, NEW)
    for number, expected in ((1, "flushed"), (2, "flushed\nflushed"), (3, "saved as")):
        page.run_cell(number)
        page.output_text(number, contains=expected)
    stored = page.saved().metadata.jp
    assert contents(stored.events) == ["three"]
    assert [contents(other.events) for other in stored.others] == [["two"], ["one"]]
    assert [other.conversation.made for other in stored.others] == ["live", "live"]


@pytest.mark.parametrize(
    ("jp", "said"),
    [
        (doc("one") | {"version": 2}, "kept in memory only: jp.version: this record has version 2"),
        ({"conversation": 7}, "kept in memory only: the record in this notebook is damaged"),
        (doc("one") | {"events": [7]}, "kept in memory only: the record in this notebook is dam"),
        (None, "kept in memory only: the record in this notebook is damaged"),
    ],
    ids=["newer", "damaged", "damaged entry", "null"],
)
def test_what_cannot_be_read_is_left_alone(open_notebook: OpenNotebook, jp: Any, said: str) -> None:
    cells = (SETUP, "say('mine'); flushed()", "new(); say('next'); flushed()")
    page = open_notebook(*cells, jp=jp)
    begin(page, said)
    page.run_cell(1)
    page.output_text(1, contains="not flushed")
    assert in_page(page) == jp
    page.run_cell(2)
    page.output_text(2, contains="flushed")
    if isinstance(jp, dict) and jp.get("version") == 2:
        assert in_page(page) == jp
    else:
        assert contents(in_page(page)["events"]) == ["next"]
        assert jp in in_page(page)["others"]


def test_a_read_only_notebook_is_left_alone(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('mine'); flushed()", fresh=True)
    page.page.route(
        "**/api/contents/*.ipynb?*",
        lambda route: _as_read_only(route),
    )
    reopened(page, jp=doc("one"))
    begin(page, "kept in memory only: this notebook is read-only; restored, 1 turns")
    page.run_cell(1)
    page.output_text(1, contains="not flushed")
    assert in_page(page) == doc("one")


def _as_read_only(route: Any) -> None:
    answer = route.fetch()
    content = answer.json()
    content["writable"] = False
    route.fulfill(response=answer, json=content)


WIDGETS = "application/vnd.jupyter.widget-state+json"


def carried(jp: dict[str, Any]) -> dict[str, Any]:
    head = {key: value for key, value in jp.items() if key != "events"}
    names = {"_model_module": "jp-nb", "_model_name": "RecordModel", "_model_module_version": "1"}
    state = {**names, "jp": head, "seen": {}, "events.0": jp["events"]}
    model = {
        "model_name": "RecordModel",
        "model_module": "jp-nb",
        "model_module_version": "1",
        "state": state,
    }
    return {WIDGETS: {"state": {"ab12": model}, "version_major": 2, "version_minor": 0}}


def test_a_carrier_is_lifted_by_the_first_write_and_not_by_looking(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('two'); flushed()")
    errors: list[str] = []
    page.page.on("pageerror", lambda error: errors.append(str(error)))
    reopened(page, widgets=carried(doc("one", made="headless")))
    page.page.wait_for_timeout(500)
    assert not is_dirty(page)
    assert in_page(page) is None
    begin(page, "kept in this notebook; restored, 1 turns")
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    assert contents(in_page(page)["events"]) == ["one", "two"]
    assert in_page(page, "widgets") is None
    assert errors == []


def test_saving_lifts_a_carrier(open_notebook: OpenNotebook) -> None:
    page = open_notebook("1", widgets=carried(doc("one", made="headless")))
    page.save()
    metadata = page.saved().metadata
    assert contents(metadata.jp.events) == ["one"]
    assert "widgets" not in metadata


def test_a_hostile_record_breaks_nothing(open_notebook: OpenNotebook) -> None:
    hostile = {"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}
    page = open_notebook(
        SETUP,
        f"use_tool({hostile!r} | {{'n': 2**60 + 1, 'nan': float('nan'), 'half': '\\ud800'}})\n"
        "flushed()",
        "say('after'); flushed()",
    )
    planted = json.loads(
        '{"__proto__": {"polluted": 1}, "version": 1, "conversation": {"id": "__proto__",'
        ' "__proto__": {"polluted": 1}}, "events": [], "others": [3, {"conversation": {"id": 5}},'
        ' {"__proto__": {"id": "x"}}]}'
    )
    errors: list[str] = []
    page.page.on("pageerror", lambda error: errors.append(str(error)))
    reopened(page, jp=planted)
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    page.run_cell(2)
    page.output_text(2, contains="flushed")
    assert page.page.evaluate("({}).polluted === undefined && [].polluted === undefined")
    assert contents(in_page(page)["events"]) == ["Use the tool.", "after"]
    assert errors == []
    page.save()
    leave(page)
    page.reload()
    begin(page, "kept in this notebook; restored, 2 turns")


def test_another_notebook_on_the_same_kernel_is_left_alone(open_notebook: OpenNotebook) -> None:
    first = open_notebook(SETUP, "say('one'); flushed()")
    kernel = first.page.evaluate(
        "window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.id"
    )
    second = open_notebook("print(in_cell.opened.store.where)", "say('two'); flushed()")
    second.page.evaluate(
        "id => window.jupyterapp.shell.currentWidget.context.sessionContext.changeKernel({ id })",
        kernel,
    )
    second.wait_for_kernel_status("idle")
    begin(first, NEW)
    second.run_cell(1)
    second.output_text(1, contains="flushed")
    assert contents(in_page(first)["events"]) == ["two"]
    assert in_page(second) is None


def test_undo_and_editing_do_not_lose_the_record(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", "say('two'); flushed()")
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    for command in ("notebook:insert-cell-below", "notebook:undo-cell-action"):
        page.command(command)
    page.run_cell(2)
    page.output_text(2, contains="flushed")
    assert contents(in_page(page)["events"]) == ["one", "two"]
