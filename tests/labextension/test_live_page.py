"""The record reaches a page, and survives reloads, other pages, other conversations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from tests.support.browser import NotebookPage, OpenNotebook, wait_for_kernel_status
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


WAITS = """import time
stream, store = in_cell.opened.document.conversation, in_cell.opened.store
while store.saved_entries(stream.id) < len(stream): time.sleep(0.02)
print("saved", store.saved_entries(stream.id), "of", len(stream))"""


def test_entries_reach_the_notebook_and_a_new_kernel_reads_them_back(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(
        SETUP, "say('one'); flushed()", WAITS, "print(in_cell.opened.store.save())"
    )
    begin(page, NEW)
    assert in_page(page) is None
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    assert contents(in_page(page)["events"]) == ["one"]
    page.save()  # the kernel hears of it
    page.run_cell(2)
    page.output_text(2, contains="saved 3 of 3")
    page.run_cell(3)
    page.output_text(3, contains=f"kept in this notebook, saved as {page.path.name}")
    assert contents(page.saved().metadata.jp.events) == ["one"]
    page.restart_kernel()
    begin(page, "kept in this notebook; restored, 1 turns")
    page.run_cell(1)
    page.page.wait_for_function(f"{MODEL}.getMetadata('jp').events.length === 6")
    assert len(in_page(page)["events"]) == 6


def test_reloaded_page_gets_the_missed_entries_and_undo_loses_none(
    open_notebook: OpenNotebook,
) -> None:
    many = "import time\nfor i in range(40): say(str(i)); time.sleep(0.25)"
    page = open_notebook(SETUP, "say('one'); flushed()", "say('two'); flushed()", many)
    begin(page, NEW)
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    leave(page)  # nothing was saved
    page.reload()
    page.page.wait_for_function(f"{MODEL}.getMetadata('jp')?.events.length === 3")
    for command in ("notebook:insert-cell-below", "notebook:undo-cell-action"):
        page.command(command)
    page.run_cell(2)
    page.output_text(2, contains="flushed")
    assert contents(in_page(page)["events"]) == ["one", "two"]
    page.run_cell(3)
    page.page.wait_for_function(f"({MODEL}.getMetadata('jp')?.events.length ?? 0) >= 9")
    leave(page)
    page.reload(status="")
    page.page.wait_for_function(f"({MODEL}.getMetadata('jp')?.events.length ?? 0) >= 36")
    kept = contents(in_page(page)["events"])
    assert kept == ["one", "two", *(str(i) for i in range(len(kept) - 2))]
    page.interrupt()


def test_two_views_and_two_tabs_have_one_record_and_one_of_them_saves(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('one')\nprint(in_cell.opened.store.save())")
    other = another_tab(page)
    page.command("docmanager:clone", wait=False)
    page.page.wait_for_function("document.querySelectorAll('.jp-NotebookPanel').length === 2")
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
    assert contents(in_page(page)["events"]) == ["one"]
    assert "others" not in in_page(page)
    other.close()


def test_conversations_that_give_way_to_others_are_kept_also_a_long_one(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(
        SETUP,
        "say('one', 'ä😀' * 400_000); flushed(60)",
        "for name in ('two', 'three'):\n    new(); say(name); flushed(60)",
        "print(in_cell.opened.store.save())",
        "begin()",
    )
    begin(page, NEW)
    for number, expected in ((1, "flushed"), (2, "flushed\nflushed"), (3, "saved as")):
        page.run_cell(number)
        page.output_text(number, contains=expected)
    stored = page.saved().metadata.jp
    assert contents(stored.events) == ["three"]
    assert [contents(other.events) for other in stored.others] == [["two"], ["one"]]
    assert [other.conversation.made for other in stored.others] == ["live", "live"]
    assert stored.others[1].events[2].message == "ä😀" * 400_000
    page.run_cell(4)  # a hello above 4 MB comes in pieces
    page.output_text(4, contains="restored, 1 turns")


@pytest.mark.parametrize(
    ("jp", "said"),
    [
        (doc("one") | {"version": 2}, "kept in memory only: jp.version: this record has version 2"),
        (None, "kept in memory only: the record in this notebook is damaged"),
    ],
    ids=["newer", "null"],
)
def test_unreadable_record_is_left_alone(open_notebook: OpenNotebook, jp: Any, said: str) -> None:
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


def test_read_only_notebook_is_left_alone(open_notebook: OpenNotebook) -> None:
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


def test_record_in_a_widget_is_moved_by_the_first_write_and_not_by_opening(
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


def test_saving_moves_a_record_out_of_its_widget(open_notebook: OpenNotebook) -> None:
    page = open_notebook("1", widgets=carried(doc("one", made="headless")))
    page.save()
    metadata = page.saved().metadata
    assert contents(metadata.jp.events) == ["one"]
    assert "widgets" not in metadata


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
