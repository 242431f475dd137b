"""The messages of kernel and page have the fields of the table; others change nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.labextension.page_protocol import FIELDS, misfits
from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.scripted_page import SETUP

pytestmark = pytest.mark.browser

CAPTURE = """() => {
    const said = window.said = [];
    const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    kernel.anyMessage.connect((_, { direction, msg }) => {
        const { comm_id, data } = msg.content;
        if (String(comm_id).startsWith("jp_nb.document") && data && Object.keys(data).length) {
            said.push([direction === "send" ? "page" : "kernel", JSON.stringify(data)]);
        }
    });
}"""
JP = "window.jupyterapp.shell.currentWidget.context.model.getMetadata('jp')"
METADATA = "window.jupyterapp.shell.currentWidget.context.model.metadata"


def said(page: NotebookPage) -> list[tuple[str, dict[str, Any]]]:
    return [(who, json.loads(text)) for who, text in page.page.evaluate("window.said")]


def test_every_message_has_the_fields_of_the_table(open_notebook: OpenNotebook) -> None:
    long = "use_tool({'text': 'x' * 5_000_000}); flushed(60)"
    page = open_notebook(
        SETUP,
        "say('one'); flushed()",
        "print(len(in_cell.opened.store.ask_cells(None).result(30)) > 100)\n"
        "print(in_cell.opened.store.save())",
        f"{long}; in_cell.opened.store.replaced(); flushed(60)\n"
        "new(); say('two'); flushed(60); print(bool(in_cell.opened.store.pull(60)))",
        "from jp_nb.notebook.display_publisher import DisplayPublisher\n"
        "ip = get_ipython()\n"
        "show = DisplayPublisher(ip.display_pub.publish, kernel=ip.kernel)()\n"
        "show({'text/plain': 'shown'}, update=False, final=False)\n"
        "import os, time\nwhile not os.path.exists('seen again'): time.sleep(0.02)",
        fresh=True,
    )
    page.page.evaluate(CAPTURE)
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    page.run_cell(2)
    page.output_text(2, contains="saved as")
    page.run_cell(3)
    page.output_text(3, contains="True")
    messages = said(page)
    page.run_cell(4)
    page.output_text(4, contains="shown")
    page.page.goto("about:blank")
    page.page.add_init_script(f"({WHEN_THERE})()")
    page.reload(status="busy")
    page.output_text(4, contains="shown")
    page.path.with_name("seen again").touch()
    page.wait_for_kernel_status("idle")
    messages += said(page)
    assert [found for who, message in messages for found in misfits(who, message)] == []
    kinds = {(who, message["type"]) for who, message in messages}
    table = {(who, kind) for who, kinds in FIELDS.items() for kind in kinds}
    of_what_goes_wrong = {("page", "nack"), ("page", "save_failed")}
    assert table - kinds == of_what_goes_wrong | {("page", "bye")}  # and of shared documents


WHEN_THERE = f"""() => {{
    const look = () => {{
        const context = window.jupyterapp?.shell?.currentWidget?.sessionContext;
        if (context?.session?.kernel) ({CAPTURE})();
        else setTimeout(look, 5);
    }};
    look();
}}"""
PLANT = """
from comm import create_comm

def plant(*messages, comm_id='jp_nb.document.planted', target='jp_nb.document', mine=False):
    comm = in_cell.opened.store._comm if mine else create_comm(target_name=target, comm_id=comm_id)
    for message in messages:
        comm.send(message)
"""
EVIL = {
    "version": 1,
    "conversation": {"id": "evil", "made": "live"},
    "base_config": {},
    "events": [],
}


def messages_of_strangers(path: str) -> list[dict[str, Any]]:
    """Messages that must change nothing."""
    head = {"v": 1, "ctl": True, "seq": 900}
    good = {**head, "path": path}
    return [
        {**head, "type": "switch", "doc": EVIL},
        {**head, "type": "switch", "doc": EVIL, "path": ""},
        {**head, "type": "switch", "doc": EVIL, "path": None},
        {**head, "type": "switch", "doc": EVIL, "path": [path]},
        {**head, "type": "switch", "doc": EVIL, "path": f"{path}.other"},
        {**head, "type": "append", "stream": "", "base": 0, "events": [{"type": "x"}]},
        {**head, "type": "chunk", "id": 1, "i": 0, "of": 1, "text": json.dumps(EVIL)},
        {**head, "type": "show", "to": "", "cell": "x", "code": "1", "outputs": []},
        {**good, "type": "switch", "doc": EVIL, "v": 2},
        {**good, "type": "switch", "doc": EVIL, "v": "1"},
        {**good, "type": "switch", "doc": {**EVIL, "version": 2}},
        {**good, "type": "switch", "doc": 7},
        {**good, "type": "exchange", "doc": EVIL},
        {**good, "type": "exchange", "doc": 7, "kept": []},
        {**good, "type": "exchange", "doc": EVIL, "kept": {"length": 1}},
        {**good, "type": "exchange", "doc": EVIL, "kept": [7]},
        {**good, "type": "exchange", "doc": EVIL, "kept": [[0, "evil", 0]]},
        {**good, "type": "exchange", "doc": EVIL, "kept": [[0, "__proto__", 0]]},
        {**good, "type": "Switch", "doc": EVIL},
        {**good, "type": ["switch"], "doc": EVIL},
        {**good, "type": "__proto__", "doc": EVIL},
        {**good, "type": "constructor", "doc": EVIL},
        {**good, "type": "append", "stream": "evil", "base": 0, "events": []},
        {**good, "type": "chunk", "id": 1, "i": 0, "of": 10**12, "text": "["},
        {**good, "type": "chunk", "id": 1, "i": -1, "of": 2, "text": "["},
        {**good, "type": "chunk", "id": 1, "i": 0, "of": 1, "text": "["},
        {**good, "type": "show", "to": "another page", "cell": "x", "code": "1", "outputs": []},
        {**good, "type": "show", "to": 7, "cell": "x", "code": "1", "outputs": []},
        {**good, "type": "show", "cell": "x", "code": "1", "outputs": [7]},
    ]


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
    page.page.evaluate(WRITE_CELL, f"import json\n{call}\nprint('planted')")
    page.run_cell(3)
    page.output_text(3, contains="planted")
    page.wait_for_kernel_status("idle")


def test_forged_and_broken_messages_change_nothing(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", PLANT, "", "say('two'); flushed()")
    for cell in (0, 1, 2):
        page.run_cell(cell)
    page.output_text(1, contains="flushed")
    page.wait_for_kernel_status("idle")
    stream = page.page.evaluate(f"{JP}.conversation.id")
    good = {"v": 1, "seq": 900, "path": page.path.name, "type": "append", "stream": stream}
    bad = [
        {**good, "base": 0, "events": [None, 7, "x", []] * 4},
        *(
            {**good, "base": 3, "events": [], "head": head}
            for head in (7, {"conversation": {"id": "evil"}}, {"conversation": 7})
        ),
        {**good, "base": 3, "events": [], "head": {"base_config": []}},
        {**good, "base": 3, "events": [], "head": {"signature": {}}},
    ]
    forged = messages_of_strangers(page.path.name)
    before = page.page.evaluate(f"JSON.stringify([{JP}, {METADATA}])")
    for messages, mine in ((forged, False), (forged, True), (bad, True)):
        plant(page, f"plant(*json.loads({json.dumps(messages)!r}), mine={mine})")
        assert page.page.evaluate(f"JSON.stringify([{JP}, {METADATA}])") == before
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 5
    page.run_cell(4)
    page.output_text(4, contains="flushed")


def test_entries_that_could_not_be_written_are_not_acknowledged_when_sent_again(
    open_notebook: OpenNotebook,
) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", PLANT, "")
    for cell in (0, 1, 2):
        page.run_cell(cell)
    page.output_text(1, contains="flushed")
    stream, base = page.page.evaluate(f"[{JP}.conversation.id, {JP}.events.length]")
    append = {"v": 1, "seq": 900, "path": page.path.name, "type": "append", "stream": stream}
    append |= {"base": base, "events": [{"type": "sent again"}]}
    page.page.evaluate(FAILS_ONCE)
    plant(page, f"plant(*[{append!r}] * 2, mine=True)")
    assert page.page.evaluate(f"{JP}.events.slice({base})") == append["events"]


def test_second_notebook_on_the_kernel_has_no_part_of_the_record(
    open_notebook: OpenNotebook,
) -> None:
    first = open_notebook(SETUP, PLANT, "say('one'); flushed()")
    kernel = first.page.evaluate(
        "window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.id"
    )
    switch = {"v": 1, "seq": 9, "type": "switch", "doc": EVIL}
    second = open_notebook(
        f"plant({switch!r}, {switch | {'path': ''}!r}, mine=True)\nprint('planted')",
        "say('two'); flushed()",
    )
    second.page.evaluate(
        "id => window.jupyterapp.shell.currentWidget.context.sessionContext.changeKernel({ id })",
        kernel,
    )
    second.wait_for_kernel_status("idle")
    for cell in (0, 1, 2):
        first.run_cell(cell)
    first.output_text(2, contains="flushed")
    before = first.page.evaluate(f"JSON.stringify({JP})")
    second.run_cell(0)
    second.output_text(0, contains="planted")
    second.wait_for_kernel_status("idle")
    first.wait_for_kernel_status("idle")
    assert first.page.evaluate(f"JSON.stringify({JP})") == before
    second.run_cell(1)
    second.output_text(1, contains="flushed")
    contents = f"{JP}.events.filter(e => e.type === 'chat_request').map(e => e.content)"
    assert first.page.evaluate(contents) == ["one", "two"]
    assert second.page.evaluate(f"{JP} === undefined")


def test_renamed_notebook_keeps_its_record(open_notebook: OpenNotebook) -> None:
    page = open_notebook(SETUP, "say('one'); flushed()", "say('two'); flushed(30)")
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.output_text(1, contains="flushed")
    page.page.evaluate(
        "name => window.jupyterapp.shell.currentWidget.context.rename(name)",
        f"renamed-{page.path.name}",
    )
    page.run_cell(2)
    page.output_text(2, contains="flushed")
    contents = f"{JP}.events.filter(e => e.type === 'chat_request').map(e => e.content)"
    assert page.page.evaluate(contents) == ["one", "two"]
