"""The record reaches a page, and survives reloads, other pages, other conversations."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest

from tests.kit.notebook_record import NotebookRecord
from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import MODEL, in_page
from tests.support.scripted_page import SETUP

pytestmark = pytest.mark.browser

NEW = "kept in this notebook; new"
WAITS = """import time
stream, store = in_cell.opened.document.conversation, in_cell.opened.store
while store.count_saved_entries(stream.id) < len(stream): time.sleep(0.02)
print("saved", store.count_saved_entries(stream.id), "of", len(stream))"""
SAVE = "print(in_cell.opened.store.save())"


def contents(events: Any) -> list[str]:
    """Return the user's requests among `events`."""
    return [e["content"] for e in events if e["type"] == "chat_request"]


def reopened(page: NotebookPage, **metadata: Any) -> None:
    """Put `metadata` into the file, and open it again."""
    page.save()
    notebook = page.saved()
    notebook.metadata.update(metadata)
    nbformat.write(notebook, page.path)
    page.reopen()


def begin(page: NotebookPage, expected: str) -> None:
    """Run the first cell; `expected` is the beginning of the line that it prints."""
    page.run_cell(0)
    line = page.output_text(0, contains="kept").strip()
    assert line.startswith(expected), line


def run(page: NotebookPage, cell: int, *, until: str = "flushed") -> None:
    """Run `cell` until its output contains `until`."""
    page.run_cell(cell)
    assert f"not {until}" not in page.output_text(cell, contains=until)


def doc(*requests: str, **head: Any) -> dict[str, Any]:
    events = [
        {"type": "chat_request", "timestamp": f"2025-01-31 09:00:0{i}.0", "content": text}
        for i, text in enumerate(requests)
    ]
    conversation = {"id": "jp-c1", "made": "live", **head}
    return {"version": 1, "conversation": conversation, "base_config": {}, "events": events}


def test_entries_reach_the_notebook_and_a_new_kernel_reads_them_back(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", WAITS, SAVE)
    begin(page, NEW)
    assert in_page(page) is None
    run(page, 1)
    assert contents(in_page(page)["events"]) == ["one"]
    page.save()  # the page reports it to the kernel
    run(page, 2, until="saved 3 of 3")
    run(page, 3, until=f"kept in this notebook, saved as {page.path.name}")
    assert contents(page.saved().metadata.jp.events) == ["one"]
    page.restart_kernel()
    begin(page, "kept in this notebook; restored, 1 turns")
    page.run_cell(1)
    page.page.wait_for_function(f"{MODEL}.getMetadata('jp').events.length === 6")
    assert len(in_page(page)["events"]) == 6


def test_page_that_is_loaded_while_a_cell_runs_gets_the_missed_entries_and_undo_loses_none(
    open_notebook: OpenNotebook,
) -> None:
    many = (
        "import os, time\nwhile not os.path.exists('left'): time.sleep(0.02)\n"
        "for i in range(10): say(str(i))\n"
        "while not os.path.exists('loaded'): time.sleep(0.02)\nflushed()"
    )
    page = open_notebook(SETUP, "say('one'); flushed()", many, "say('two'); flushed()")
    for name in ("left", "loaded"):
        page.path.with_name(name).unlink(missing_ok=True)
    begin(page, NEW)
    run(page, 1)
    page.run_cell(2)
    page.wait_for_kernel_status("busy")
    page.page.goto("about:blank")  # nothing was saved
    page.path.with_name("left").touch()
    page.reload(status="busy")
    page.page.wait_for_function(f"{MODEL}.getMetadata('jp')?.events.length === 33")
    for command in ("notebook:insert-cell-below", "notebook:undo-cell-action"):
        page.command(command)
    page.path.with_name("loaded").touch()
    page.wait_for_kernel_status("idle")
    run(page, 3)
    assert contents(in_page(page)["events"]) == ["one", *map(str, range(10)), "two"]


def test_record_that_may_not_be_written_is_left_alone(open_notebook: OpenNotebook) -> None:
    newer = doc("one") | {"version": 2}
    cells = (SETUP, "say('mine'); flushed()", "new(); say('next'); flushed()")
    page = open_notebook(*cells, jp=newer)
    begin(page, "kept in memory only: jp.version: this record has version 2")
    run(page, 1, until="not flushed")
    run(page, 2, until="not flushed")
    assert in_page(page) == newer

    reopened(page, jp=None)
    begin(page, "kept in memory only: the record in this notebook is damaged")
    run(page, 1, until="not flushed")
    assert in_page(page) is None
    run(page, 2)
    assert contents(in_page(page)["events"]) == ["next"]
    assert None in in_page(page)["others"]

    contents_api = "**/api/contents/*.ipynb?*"
    page.page.route(contents_api, _as_read_only)
    reopened(page, jp=doc("one"))
    page.page.unroute(contents_api)
    begin(page, "kept in memory only: this notebook is read-only; restored, 1 turns")
    run(page, 1, until="not flushed")
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


# As ipywidgets does if the user has it save the states of widgets.
SAVES_WIDGETS = (
    """() => {
    const { context } = window.jupyterapp.shell.currentWidget;
    const states = { state: { shown: {} }, version_major: 2, version_minor: 0 };
    context.saveState.connect((_, state) => {
        if (state === "started") {
            context.model.setMetadata("widgets", { ["""
    + f'"{WIDGETS}"'
    + """]: states });
        }
    });
}"""
)


def test_record_in_a_widget_is_kept_by_opening_and_saving_and_moved_by_the_first_write(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('two'); flushed()")
    errors: list[str] = []
    page.page.on("pageerror", lambda error: errors.append(str(error)))
    reopened(page, widgets=carried(doc("one", made="headless")))
    page.page.wait_for_timeout(300)
    assert not page.page.evaluate(f"{MODEL}.dirty")
    assert in_page(page) is None
    begin(page, "kept in this notebook; restored, 1 turns")
    run(page, 1)
    assert contents(in_page(page)["events"]) == ["one", "two"]
    assert in_page(page, "widgets") is None
    saving = open_notebook("1", widgets=carried(doc("one", made="headless")))
    saving.page.evaluate(SAVES_WIDGETS)
    saving.save()
    metadata: Any = saving.saved().metadata
    assert set(metadata.widgets[WIDGETS].state) == {"shown", "ab12"}
    record: Any = NotebookRecord.read_metadata(metadata)
    assert contents(record["events"]) == ["one"]
    assert errors == []


def test_hostile_record_breaks_nothing(open_notebook: OpenNotebook) -> None:
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
    run(page, 1)
    run(page, 2)
    assert page.page.evaluate("({}).polluted === undefined && [].polluted === undefined")
    assert contents(in_page(page)["events"]) == ["Use the tool.", "after"]
    assert errors == []
    page.save()
    page.reopen()
    begin(page, "kept in this notebook; restored, 2 turns")
