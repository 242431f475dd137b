"""The messages of kernel and page have the fields of the table; others change nothing."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from tests.labextension.page_protocol import FIELDS, misfits
from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import MODEL
from tests.support.scripted_page import SETUP

pytestmark = pytest.mark.browser

_NUMBERS = count(1)
CAPTURE = """kernel => {
    const heard = window.heard ??= [];
    kernel.anyMessage.connect((_, { direction, msg }) => {
        const { comm_id, data } = msg.content;
        if (String(comm_id).startsWith("jp_nb.document") && data && Object.keys(data).length) {
            heard.push([direction === "send" ? "page" : "kernel", JSON.stringify(data)]);
        }
    });
}"""
OPENED = "window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"
# A second connection, which receives the kernel's messages while the notebook is closed.
BESIDE = f"""window.jupyterapp.serviceManager.kernels.connectTo({{ model: {OPENED}.model }})"""
JP = f"{MODEL}.getMetadata('jp')"
REQUESTS = f"{JP}.events.filter(e => e.type === 'chat_request').map(e => e.content)"
LONG = "'ä😀' * 400_000 + 'x' * 3_500_000"
SHOWS = """from jp_nb.notebook.display.cell_output import OutputFactory
ip = get_ipython()
show = OutputFactory(ip.display_pub.publish, kernel=ip.kernel)()
show({'text/plain': 'shown'}, update=False, final=False)
import os, time
while not os.path.exists('seen again'): time.sleep(0.02)"""


def run(page: NotebookPage, cell: int, *, until: str = "flushed") -> None:
    """Run `cell` until its output contains `until`."""
    page.run_cell(cell)
    assert f"not {until}" not in page.output_text(cell, contains=until)


def contents(events: Any) -> list[str]:
    """Return the user's requests among `events`."""
    return [e["content"] for e in events if e["type"] == "chat_request"]


def test_messages_have_the_fields_of_the_table_and_keep_all_conversations(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(
        SETUP,
        f"say('zero'); flushed(60); say('one', {LONG}); flushed(60)",
        "print(len(in_cell.opened.store.requests.ask_cells(None).result(30)) > 100)\n"
        "from jp_nb.notebook.prompt.running_cell.current_page import can_show_input_box\n"
        "print(can_show_input_box())\n"
        "in_cell.opened.store.replaced(); flushed(60)",
        "for name in ('two', 'three'):\n    new(); say(name); flushed(60)",
        "print(in_cell.opened.store.save())",
        "begin(); print('pulled', bool(in_cell.opened.store.pull(60)))",
        SHOWS,
    )
    page.path.with_name("seen again").unlink(missing_ok=True)
    page.page.evaluate(f"() => ({CAPTURE})({OPENED})")
    run(page, 0, until="kept in this notebook; new")
    run(page, 1, until="flushed\nflushed")
    run(page, 2)
    run(page, 3, until="flushed\nflushed")
    run(page, 4, until="saved as")
    stored = page.saved().metadata.jp
    assert contents(stored.events) == ["three"]
    assert [contents(other.events) for other in stored.others] == [["two"], ["zero", "one"]]
    assert [other.conversation.made for other in stored.others] == ["live", "live"]
    assert stored.others[1].events[-1].message == "ä😀" * 400_000 + "x" * 3_500_000
    run(page, 5, until="restored, 1 turns")  # the page sends a hello above 4 MB in pieces
    page.output_text(5, contains="pulled True")
    run(page, 6, until="shown")
    page.page.evaluate(f"() => ({CAPTURE})({BESIDE})")
    page.reopen(status="busy")
    page.output_text(6, contains="shown")
    page.path.with_name("seen again").touch()
    page.wait_for_kernel_status("idle")
    heard = [(who, json.loads(text)) for who, text in page.page.evaluate("window.heard")]
    assert [found for who, message in heard for found in misfits(who, message)] == []
    kinds = {(who, message["type"]) for who, message in heard}
    table = {(who, kind) for who, kinds in FIELDS.items() for kind in kinds}
    of_failures = {("page", "nack"), ("page", "save_failed")}
    # `bye`: test_shared_document.py; `want` and `seen`: test_lost_form_page.py
    # `ended`: test_page.py; `document` and `edit`: test_edit_cells_page.py
    # `run` and `ran`: test_cell_runs_page.py
    elsewhere = {("page", kind) for kind in ("bye", "want", "seen")}
    elsewhere |= {("kernel", kind) for kind in ("ended", "document", "edit", "run", "ran")}
    assert table - kinds == of_failures | elsewhere


PLANT = """
from comm import create_comm

def of_the_page(message):
    # To the page, in the state that it has.
    delivery = in_cell.opened.store._delivery
    return {"to": delivery.page, "expect": delivery.content.copy.state, **message}

def plant(*messages, comm_id='jp_nb.document.planted', target='jp_nb.document', mine=False):
    comm = in_cell.opened.store._link._comm
    if not mine:
        comm = create_comm(target_name=target, comm_id=comm_id)
    for message in messages:
        comm.send(message)
"""
EVIL = {
    "version": 1,
    "conversation": {"id": "evil", "made": "live"},
    "base_config": {},
    "events": [],
}


FORGED_ENDS: list[dict[str, Any]] = [
    {"request": "unknown", "cell": "x", "seconds": 1},
    {"request": ["r"], "cell": {}, "seconds": 1},
    {"cell": None, "seconds": "<img src=x>"},
    {"request": "r", "cell": "x", "seconds": 10**12, "sent": -1, "received": 0.5},
]


def messages_of_strangers(path: str) -> list[dict[str, Any]]:
    """Return messages that change nothing."""
    head = {"v": 2, "ctl": True, "seq": 900}
    good = {**head, "path": path}
    put = {"put": {"jp": EVIL}, "state": "evil"}
    old = {**good, "v": 1}  # of a kernel of an earlier release
    return [
        {**head, "type": "write", **put},
        {**head, "type": "write", **put, "path": ""},
        {**head, "type": "write", **put, "path": None},
        {**head, "type": "write", **put, "path": [path]},
        {**head, "type": "write", **put, "path": f"{path}.other"},
        {**head, "type": "chunk", "id": 1, "i": 0, "of": 1, "text": json.dumps(put)},
        {**head, "type": "show", "to": "", "cell": "x", "code": "1", "outputs": []},
        {**good, "type": "write", **put, "v": 3},
        {**good, "type": "write", **put, "v": "2"},
        {**old, "type": "switch", "doc": EVIL},
        {**old, "type": "exchange", "doc": EVIL, "kept": []},
        {**old, "type": "append", "stream": "evil", "base": 0, "events": [{"type": "x"}]},
        {**old, "type": "chunk", "id": 1, "i": 0, "of": 1, "text": json.dumps(EVIL)},
        {**good, "type": "switch", "doc": EVIL},
        {**good, "type": "write", **put},
        {**good, "type": "write", **put, "to": "another page"},
        {**good, "type": "write", **put, "to": ["another page"]},
        {**good, "type": "Write", **put},
        {**good, "type": ["write"], **put},
        {**good, "type": "__proto__", **put},
        {**good, "type": "constructor", **put},
        {**good, "type": "chunk", "id": 1, "i": 0, "of": 10**12, "text": "["},
        {**good, "type": "chunk", "id": 1, "i": -1, "of": 2, "text": "["},
        {**good, "type": "chunk", "id": 1, "i": 0, "of": 1, "text": "["},
        {**good, "type": "show", "to": "another page", "cell": "x", "code": "1", "outputs": []},
        {**good, "type": "show", "to": 7, "cell": "x", "code": "1", "outputs": []},
        {**good, "type": "show", "cell": "x", "code": "1", "outputs": [7]},
        *({**good, "type": "ended", **forged} for forged in FORGED_ENDS),
        {**good, "type": "run", "to": "another page", "cell": "x", "source": "1"},
        {**good, "type": "ran", "to": 7, "cell": "x", "source": "1", "count": 1, "outputs": []},
    ]


BAD_PARTS: list[dict[str, Any]] = [
    {"expect": "another state", "put": {"jp": EVIL}},
    {"put": {"kernelspec": {}}},
    {"put": {"jp": EVIL, "language_info": {}}},
    {"put": {"__proto__": {}}},
    {"put": [EVIL]},
    {"drop": ["kernelspec"]},
    {"put": {"jp": EVIL}, "state": 7},
    {"put": {"jp": EVIL}, "copies": {"length": 1}},
    {"put": {"jp": EVIL}, "copies": [7]},
    {"put": {"jp": EVIL}, "copies": [[0, 0]]},
    {"put": {"jp": EVIL}, "copies": [[0, "__proto__"]]},
    {"extend": {"at": 3, "events": [None, 7, "x", []] * 4}},
    {"extend": {"at": 2, "events": []}},
    {"extend": {"at": 10**15, "events": []}},
    {"extend": {"at": "3", "events": []}},
    {"extend": {"at": 3, "events": [], "head": 7}},
    {"extend": {"at": 3, "events": [], "head": {"events": []}}},
    {"extend": {"at": 3, "events": [], "removed": ["events"]}},
    {"extend": {"at": 3, "events": [], "removed": 7}},
]


def bad_writes(path: str) -> list[dict[str, Any]]:
    """Return writes to the page, in its present state, that it refuses."""
    good = {"v": 2, "ctl": True, "seq": 900, "path": path, "type": "write", "state": "evil"}
    writes = [{**good, **parts} for parts in BAD_PARTS]
    pieces = [{"i": 0, "of": 10**12, "text": "["}, {"i": -1, "of": 2, "text": "["}]
    pieces += [{"i": 0, "of": 1, "text": text} for text in ("[", "[]", '{"put": 7}')]
    return writes + [{**good, "type": "chunk", "id": 1, **piece} for piece in pieces]


FAILS_ONCE = """() => {
    const { model } = window.jupyterapp.shell.currentWidget.context;
    const set = model.setMetadata;
    model.setMetadata = () => {
        model.setMetadata = set;
        throw new Error("not now");
    };
}"""
WRITE_CELL = """source => window.jupyterapp.shell.currentWidget.context.model
    .cells.get(3).sharedModel.setSource(source)"""


def plant(page: NotebookPage, call: str) -> None:
    """Have the kernel send messages, in a cell."""
    number = next(_NUMBERS)
    # The traceback of a failed cell repeats its source, which does not contain this text.
    page.page.evaluate(WRITE_CELL, f"import json\n{call}\nprint('planted', 'as', {number})")
    run(page, 3, until=f"planted as {number}")
    page.wait_for_kernel_status("idle")


def test_forged_broken_and_repeated_messages_change_nothing(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", PLANT, "", "say('two'); flushed()")
    for cell in (0, 1, 2):
        page.run_cell(cell)
    page.output_text(1, contains="flushed")
    page.wait_for_kernel_status("idle")
    forged = messages_of_strangers(page.path.name)
    bad = bad_writes(page.path.name)
    before = page.page.evaluate(f"JSON.stringify([{JP}, {MODEL}.metadata])")
    for messages, change in ((forged, "list"), (bad, "map(of_the_page, {})")):
        sent = f"json.loads({json.dumps(messages)!r})"
        changed = change.format(sent) if "{}" in change else sent
        plant(page, f"plant(*{changed}, mine=True)")
        assert page.page.evaluate(f"JSON.stringify([{JP}, {MODEL}.metadata])") == before
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 5
    assert page.page.locator(".jp-nb-end").count() == 0
    run(page, 4)
    assert page.page.evaluate(REQUESTS) == ["one", "two"]

    # Entries that could not be written are not acknowledged, so they are sent again.
    page.page.evaluate(FAILS_ONCE)
    page.page.evaluate(WRITE_CELL, "say('three'); flushed(30)")
    run(page, 3)
    assert page.page.evaluate(REQUESTS) == ["one", "two", "three"]

    # A forged write that fits is not the kernel's: the kernel's next one finds another state.
    parts = {"extend": {"at": 9, "events": [{"type": "chat_request", "content": "forged"}]}}
    [write] = [{**each, **parts} for each in bad if each.get("put") == {"kernelspec": {}}]
    del write["put"]
    plant(page, f"plant(of_the_page({write!r}), mine=True)")
    assert page.page.evaluate(REQUESTS)[-1] == "forged"
    run(page, 4, until="not flushed")
    assert page.page.evaluate(REQUESTS)[-1] == "forged"
    page.page.evaluate(WRITE_CELL, "print(in_cell.opened.store.location)")
    run(page, 3, until="this notebook contains different entries of the same conversation")

    # The page follows a comm that a cell opens, and accepts no forged message on it either.
    before = page.page.evaluate(f"JSON.stringify([{JP}, {MODEL}.metadata])")
    plant(page, f"plant(*json.loads({json.dumps(forged)!r}))")
    assert page.page.evaluate(f"JSON.stringify([{JP}, {MODEL}.metadata])") == before


@pytest.mark.deep
def test_second_notebook_on_the_kernel_has_no_part_of_the_record_of_a_renamed_one(
    open_notebook: OpenNotebook,
) -> None:
    first = open_notebook(SETUP, PLANT, "say('one'); flushed()", "say('three'); flushed(30)")
    kernel = first.page.evaluate(f"{OPENED}.id")
    switch = {"v": 2, "seq": 9, "type": "write", "put": {"jp": EVIL}, "state": "evil"}
    second = open_notebook(
        f"plant({switch!r}, {switch | {'path': ''}!r}, mine=True)\nprint('planted')",
        "say('two'); flushed()",
    )
    second.page.evaluate(
        "id => window.jupyterapp.shell.currentWidget.context.sessionContext.changeKernel({ id })",
        kernel,
    )
    second.wait_for_kernel_status("idle")
    for cell in (0, 1):
        first.run_cell(cell)
    run(first, 2)
    before = first.page.evaluate(f"JSON.stringify({JP})")
    run(second, 0, until="planted")
    second.wait_for_kernel_status("idle")
    first.wait_for_kernel_status("idle")
    assert first.page.evaluate(f"JSON.stringify({JP})") == before
    run(second, 1)
    assert first.page.evaluate(REQUESTS) == ["one", "two"]
    first.page.evaluate(
        "name => window.jupyterapp.shell.currentWidget.context.rename(name)",
        f"renamed-{first.path.name}",
    )
    run(first, 3)
    assert first.page.evaluate(REQUESTS) == ["one", "two", "three"]
    assert second.page.evaluate(f"{JP} === undefined")
