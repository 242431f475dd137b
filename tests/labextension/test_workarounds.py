"""The behavior of JupyterLab that `js/src/` works around: a test that fails says that one can go.

`docs/browser.md` lists the workarounds with their upstream issues. These tests use cells that
`jp_nb` does not touch.
"""

from __future__ import annotations

import pytest

from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import MODEL

pytestmark = pytest.mark.browser

KERNEL = "window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"
CAN_GO = (
    "JupyterLab does it itself now: remove the workaround ({}), if 4.4 is not supported any more"
)

# The outputs of the document, which all pages share; the change has no signal of the cell.
TRUST = f"""() => {{
    const {{ sharedModel, outputs }} = {MODEL}.cells.get(0);
    const written = [];
    sharedModel.ymodel.get("outputs").observe(event => written.push(event));
    outputs.trusted = false;
    outputs.trusted = true;
    return written.length;
}}"""
# As another page of a shared document changes it: one output replaced, and one added, at once.
REMOTE = f"""() => {{
    const cell = {MODEL}.cells.get(0);
    const output = text => {{
        const data = {{ "text/plain": text }};
        return {{ output_type: "display_data", data, metadata: {{}} }};
    }};
    cell.outputs.fromJSON(["a", "b", "c"].map(output));
    cell.sharedModel.transact(() => {{
        cell.sharedModel.updateOutputs(0, 1, [output("A")]);
    }});
    const texts = outputs => outputs.map(({{ data }}) => data["text/plain"]).join("");
    return [texts(cell.outputs.toJSON()), texts(cell.sharedModel.getOutputs())];
}}"""
SECOND_CONNECTION = f"""() => {{
    const {{ kernels }} = window.jupyterapp.serviceManager;
    const second = kernels.connectTo({{ model: {KERNEL}.model }});
    const found = [{KERNEL}.handleComms, second.handleComms];
    second.dispose();
    return found;
}}"""
TWO_WIDGETS = """import ipywidgets
from IPython.display import display
first, second = ipywidgets.HTML("one"), ipywidgets.HTML("two")
shown = display(first, display_id="probe")"""
REPLACE = "shown.update(second); first.close()\nprint('replaced')"
COMM = """from comm import create_comm
nobody, closed = create_comm(target_name="nobody.listens"), []
nobody.on_close(lambda message: closed.append(1))"""
SHELL_COMM = f"""() => {{
    const comm = {KERNEL}.createComm("probe.shell");
    comm.open();
    comm.send({{ text: "hello" }});
}}"""
WAITS = """import time
heard = []
def opened(comm, message): comm.on_msg(lambda message: heard.append(1))
get_ipython().kernel.comm_manager.register_target("probe.shell", opened)
print("ready")"""
RUNS = """print('runs', flush=True)
until = time.monotonic() + 3
while time.monotonic() < until and not heard: time.sleep(0.05)
print(len(heard), 'messages')"""


def run(page: NotebookPage, cell: int, *, until: str) -> str:
    page.run_cell(cell)
    return page.output_text(cell, contains=until)


def test_workarounds_for_outputs_and_comms_are_still_needed(open_notebook: OpenNotebook) -> None:
    cells = ["print('x')", TWO_WIDGETS, REPLACE, COMM, "print(len(closed), 'closed')", WAITS, RUNS]
    page = open_notebook(*cells)
    run(page, 0, until="x")
    page.wait_for_kernel_status("idle")

    assert page.page.evaluate(TRUST) > 0, CAN_GO.format("changeHere")
    seen, stored = page.page.evaluate(REMOTE)
    assert stored == "Abc"
    assert seen != stored, CAN_GO.format("changeHere in dropCopies")
    assert page.page.evaluate(SECOND_CONNECTION) == [True, False], CAN_GO.format("onIOPub")

    page.run_cell(1)
    page.outputs(1).get_by_text("one").wait_for()
    run(page, 2, until="replaced")
    page.wait_for_kernel_status("idle")
    shown = page.outputs(1).get_by_text("two")
    assert not shown.is_visible(), CAN_GO.format("show")

    page.run_cell(3)
    page.wait_for_kernel_status("idle")
    # The page closes the comm after the kernel is idle.
    for _ in range(20):
        closed = run(page, 4, until="closed")
        page.wait_for_kernel_status("idle")
        if closed.startswith("1 "):
            break
    assert closed.startswith("1 "), CAN_GO.format("registerCommTarget")

    run(page, 5, until="ready")
    page.run_cell(6)
    page.output_text(6, contains="runs")
    page.page.evaluate(SHELL_COMM)
    found = page.output_text(6, contains="messages")
    assert "0 messages" in found, CAN_GO.format("sendControlMessage")


def test_outputs_of_a_running_cell_are_still_lost_when_the_notebook_is_opened_again(
    open_notebook: OpenNotebook,
) -> None:
    source = (
        "import os, time\nprint('before')\n"
        "while not os.path.exists('seen'): time.sleep(0.02)\nprint('after')"
    )
    page = open_notebook(source)
    page.path.with_name("seen").unlink(missing_ok=True)
    run(page, 0, until="before")
    page.save()
    page.reopen(status="")
    state = page.page.evaluate(f"{MODEL}.cells.get(0).executionState")
    assert state != "running", CAN_GO.format("setRunning")
    page.path.with_name("seen").touch()
    page.wait_for_kernel_status("idle")
    texts = page.page.evaluate(f"JSON.stringify({MODEL}.cells.get(0).outputs.toJSON())")
    assert "before" in texts
    assert "after" not in texts, CAN_GO.format("Showing")
