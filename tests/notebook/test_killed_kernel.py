"""A kernel that is killed at each step of a batch: only committed changes survive.

The page that keeps the record is played here, so that it outlives the kernel as a real one does.
Tools wait at gates, which are files, and say so in others: nothing depends on how long things take.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from tests.support.cells import calls, error, events, value, well_formed
from tests.support.kernel_client import KERNEL_PYTHON, PATIENCE, FrontEnd, Message
from tests.support.notebook_runs import write_cells
from tests.support.scripted_page import View

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]

PROVISIONAL = "provisional-7f3a"
CONSENTED = "consented-51c0"
PATHS = ["assistant.name", "user.name"]
CONFIGURED = """
[assistant]
name = "Before"
[user]
name = "Someone"
[conversation.tools.look]
result = "ask"
"""
TOOLS = """
import asyncio
from pathlib import Path
import jp_nb as jp
from jp_nb import ConfigRule

VALUE = "-".join({parts!r})  # not in the source, and so not in what IPython keeps of that
GATES = Path({gates!r})

def reached(step: str) -> None:
    (GATES / f"{{step}} is reached").touch()

async def passed(gate: str) -> None:
    reached(gate)
    while not (GATES / gate).exists():
        await asyncio.sleep(0.01)

@jp.tool(access=[ConfigRule("user", write=True, apply="unattended")])
async def settle() -> jp.Outcome:
    '''Settle it.'''
    await passed("settle")
    return jp.Success("Settled.", config={{"user": {{"name": VALUE}}}})

@jp.tool(access=[ConfigRule("assistant", write=True)])
async def rename() -> jp.Outcome:
    '''Rename it.'''
    await passed("rename")
    return jp.Success("Renamed.", config={{"assistant": {{"name": VALUE}}}})

@jp.tool
async def look() -> str:
    '''Look at it.'''
    await passed("look")
    return "Looked."

@jp.tool
async def last() -> str:
    '''Do what comes last.'''
    await passed("last")
    return "Last."
"""
MARKING = """
import jp_nb as jp
from pathlib import Path

def mark(word: str) -> str:
    with Path("marks").open("a") as file:
        file.write(word + "\\n")
    return f"{word} is done"

@jp.tool
async def measure() -> str:
    '''Measure it.'''
    return mark("measure")

@jp.tool(run="ask")
async def deploy() -> str:
    '''Deploy it.'''
    return mark("deploy")
"""
HOOK = """
import os, signal, time
from jp_nb.agent.turn_state import TurnRecord
from jp_nb.record.entries.events import ToolCallResponse

def held(gate: str) -> None:
    reached(gate)
    while not (GATES / gate).exists():
        time.sleep(0.01)

def add(record, *entries, add=TurnRecord.add, **more):
    if not any(isinstance(entry, ToolCallResponse) for entry in entries):
        return add(record, *entries, **more)
    held("the commit")
    add(record, *entries, **more)
    if (GATES / "nothing is after the commit").exists():
        os.kill(os.getpid(), signal.SIGKILL)  # before the page receives it
    held("what is after the commit")

TurnRecord.add = add
(GATES / "pid").write_text(str(os.getpid()))
"""
NAMES = ("settle", "rename", "look", "last")
WORDS = " ".join(f"word{number}" for number in range(8))
BATCH = ", ".join(f'{{ name = "{name}" }}' for name in NAMES)
ENDLESS = f'[[replies]]\ntext = "{"continuing " * 1000}"\nchunk_ms = 50\n'
SCRIPTS = {
    "batch": f'[[replies]]\ntext = "{WORDS}"\nchunk_ms = 30\ntool_calls = [{BATCH}]\n{ENDLESS}',
    "waiting": calls(("measure", {}), ("deploy", {})) + '[[replies]]\ntext = "Both done."\n',
    "after": calls(("rename", {})) + '[[replies]]\nexpect = "Renamed."\ntext = "So be it."\n',
    "headless": f"[[replies]]\ntool_calls = [{{ name = 'settle' }}]\n{ENDLESS}",
}


def until(condition: Callable[[], Any], about: str) -> None:
    ends = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < ends, f"not in {PATIENCE} s: {about}"
        sleep(0.01)


def holding(folder: Path, text: str) -> list[str]:
    """The files below `folder` that hold `text`."""
    return [
        path
        for place, _, names in os.walk(folder)  # a kernel that starts makes files and removes them
        for path in (os.path.join(place, name) for name in names)
        if text.encode() in _content(path)
    ]


def _content(path: str) -> bytes:
    if not os.path.isfile(path):  # a socket, or it is gone
        return b""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return b""


def deltas(record: Any) -> list[Message]:
    """The changes of the configuration by tools in a stored record."""
    found = [entry for entry in record["events"] if entry["type"] == "config_delta"]
    return [entry for entry in found if "proposed_by" in entry.get("metadata", {})]


def responses(record: Any) -> list[str]:
    entries = record["events"]
    return [entry["content"] for entry in entries if entry["type"] == "tool_call_response"]


# --- a folder, a page, and kernels ---------------------------------------------------------------


class Notebook(FrontEnd):
    """A front end whose page keeps the record in its `view`, as our lab extension does.

    Attributes:
        loaded: The text that loading the extension printed.
    """

    loaded = ""

    def __init__(self, client: BlockingKernelClient, manager: KernelManager, view: View) -> None:
        super().__init__(client, manager)
        self.view = view
        self.gates = Path(manager.connection_file).parent / "gates"
        self.value = self.record_comm = ""

    def receive(self, timeout: float) -> list[Message]:
        came = super().receive(timeout)
        for message in came:
            content = message["content"]
            if content.get("target_name") == "jp_nb.document":
                self.record_comm = content["comm_id"]
                self._send(self.view.hello())
            elif (
                message["header"]["msg_type"] == "comm_msg"
                and content["comm_id"] == self.record_comm
            ):
                self._send(self.view.answer(content["data"]))
        return came

    def _send(self, data: Message | None) -> None:
        if data is None:
            return
        content = {
            "comm_id": self.record_comm,
            "data": {"v": self.view.protocol, "page": self.view.page, **data},
        }
        self.client.control_channel.send(self.client.session.msg("comm_msg", content))

    def until(self, condition: Callable[[], Any], about: str) -> None:
        """Answer the kernel until `condition` holds."""
        until(lambda: self.receive(0.0) is not None and condition(), about)

    # --- steps of a batch ----------------------------------------------------------------------

    def define(self, value: str) -> None:
        """Have tools that propose `value`."""
        self.value = value
        assert self.run(TOOLS.format(parts=value.split("-"), gates=str(self.gates))) == ""

    def open(self, gate: str) -> None:
        (self.gates / gate).touch()

    def reached(self, gate: str) -> None:
        """Wait until something waits at `gate`."""
        self.until(lambda: is_reached(self.gates, gate), gate)

    def shows(self, text: str) -> None:
        """Wait until the cell shows `text`."""
        self.wait(lambda m: text in m["content"].get("data", {}).get("text/plain", ""))

    def kill(self) -> None:
        """Kill the kernel, see it gone, and let what it had sent arrive."""
        provisioner: Any = self.manager.provisioner
        os.kill(provisioner.pid, signal.SIGKILL)
        assert provisioner.process.wait(PATIENCE) == -signal.SIGKILL
        while self.receive(0.2):
            pass


def is_reached(gates: Path, gate: str) -> bool:
    return (gates / f"{gate} is reached").exists()


def prepared(folder: Path) -> dict[str, str]:
    """An environment whose every file is below `folder`, where a notebook's folder is prepared."""
    (folder / "gates").mkdir()
    work = folder / "work"
    (work / ".jp").mkdir(parents=True)
    (work / ".jp" / "config.toml").write_text(CONFIGURED)
    for name, text in SCRIPTS.items():
        (work / f"{name}.toml").write_text(text)
    variables = {
        "HOME": "home",
        "TMPDIR": "tmp",
        "IPYTHONDIR": "home/ipython",
        **{f"XDG_{kind}_HOME": f"home/xdg/{kind}" for kind in ("CONFIG", "DATA", "CACHE", "STATE")},
        **{f"JUPYTER_{kind}_DIR": f"home/jupyter/{kind}" for kind in ("CONFIG", "DATA", "RUNTIME")},
    }
    places = {variable: folder / place for variable, place in variables.items()}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    given = {name: text for name, text in os.environ.items() if not name.startswith("JP_")}
    return {**given, **{variable: str(place) for variable, place in places.items()}}


class Kernels:
    """The kernels that one notebook has, one after the other; the next one starts in advance.

    Attributes:
        current: The notebook on the kernel that it has now; None if a test left it in disorder.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.current: Notebook | None = None
        self._environment = prepared(folder)
        self._stack = stack
        self._count = 0
        self._ahead = self._start()

    def open(self, view: View) -> Notebook:
        """Open the notebook of `view` with a new kernel."""
        manager = self._ahead
        self._ahead = self._start()
        client = manager.blocking_client()
        client.start_channels(hb=False)  # that of a dead kernel takes half a second to stop
        self._stack.callback(client.stop_channels)
        client.wait_for_ready(timeout=60)
        notebook = Notebook(client, manager, view)
        notebook.loaded = notebook.run("%load_ext jp_nb")
        assert "kept in this notebook" in notebook.loaded, notebook.loaded
        return notebook

    def _start(self) -> KernelManager:
        self._count += 1
        name = str(self.folder / f"k{self._count}")
        manager = KernelManager(transport="ipc", ip=name, connection_file=f"{name}.json")
        argv = [KERNEL_PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        manager._kernel_spec = KernelSpec(argv=argv, display_name="", language="python")
        manager.start_kernel(cwd=str(self.folder / "work"), env=self._environment)
        self._stack.callback(manager.cleanup_resources)
        self._stack.callback(manager.shutdown_kernel, now=True)
        return manager


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    with ExitStack() as stack:
        yield Kernels(tmp_path_factory.mktemp("killed"), stack)


# --- the steps, in order -------------------------------------------------------------------------

Step = Callable[[Notebook], None]


def the_model_answers(notebook: Notebook) -> None:
    notebook.start("%%jp -n -m scripted/batch\nContinue.")
    notebook.shows("word1")


def the_first_tool_runs(notebook: Notebook) -> None:
    notebook.reached("settle")


def a_grant_let_a_change_count(notebook: Notebook) -> None:
    notebook.open("settle")
    notebook.shows(f'user.name: "Someone" → "{notebook.value}" — applied by a grant')


def the_other_change_is_on_screen(notebook: Notebook) -> None:
    notebook.open("rename")
    notebook.form("Configuration delta proposed by tool 'rename'")


def both_are_approved_and_others_run(notebook: Notebook) -> None:
    notebook.click("Apply changes")
    notebook.shows(f'assistant.name: "Before" → "{notebook.value}" — applied by you (form)')


def a_result_is_on_screen(notebook: Notebook) -> None:
    notebook.open("look")
    notebook.form("Deliver look result to assistant?")


def one_response_is_missing(notebook: Notebook) -> None:
    notebook.click("Deliver the result")
    notebook.shows("✓ look")


def the_commit_begins(notebook: Notebook) -> None:
    notebook.open("last")
    notebook.reached("the commit")


def the_commit_is_on_its_way(notebook: Notebook) -> None:
    notebook.open("the commit")
    notebook.reached("what is after the commit")


def the_page_has_the_commit(notebook: Notebook) -> None:
    notebook.until(lambda: deltas(notebook.view.jp), "the page has the change")


def the_model_is_asked_again(notebook: Notebook) -> None:
    notebook.open("what is after the commit")
    notebook.shows("continuing")


BEFORE: list[Step] = [
    the_model_answers,
    the_first_tool_runs,
    a_grant_let_a_change_count,
    the_other_change_is_on_screen,
    both_are_approved_and_others_run,
    a_result_is_on_screen,
    one_response_is_missing,
    the_commit_begins,
]
IN_BETWEEN: list[Step] = [the_commit_is_on_its_way]
AFTER: list[Step] = [the_page_has_the_commit, the_model_is_asked_again]
STEPS = [*BEFORE, *IN_BETWEEN, *AFTER]


@pytest.mark.kernel
@pytest.mark.req("R078-124")
@pytest.mark.parametrize("step", [the_commit_begins, the_page_has_the_commit])
def test_change_is_recorded_whole_or_not_at_all(kernels: Kernels, step: Step) -> None:
    kill_at(kernels, step)


@pytest.mark.deep
@pytest.mark.req("R078-124")
@pytest.mark.parametrize("step", STEPS)
def test_change_is_recorded_whole_or_not_at_all_at_every_step(kernels: Kernels, step: Step) -> None:
    kill_at(kernels, step)


def kill_at(kernels: Kernels, step: Step) -> None:
    """Kill the kernel at `step`, and continue in the next one."""
    notebook = kernels.current or kernels.open(View())
    kernels.current = None
    for left in notebook.gates.iterdir():
        left.unlink()
    notebook.messages.clear()
    notebook.models.clear()
    notebook.define(f"{PROVISIONAL}-{STEPS.index(step)}")
    notebook.run(HOOK)
    for each in STEPS[: STEPS.index(step) + 1]:
        each(notebook)
    notebook.kill()
    record = notebook.view.jp
    committed = step not in BEFORE  # the journal has it at once, and the page soon
    assert step in IN_BETWEEN or bool(deltas(record)) is committed
    if deltas(record):
        assert_whole(record, notebook.value)
    else:
        assert_nowhere([record, notebook.view.received], notebook.value)
    assert_in_the_journal_alone(kernels.folder, notebook.value, if_at_all=committed)
    assert_only_shown(notebook)
    heir = kernels.open(View(copy.deepcopy(record)))
    assert_the_next_kernel_continues(heir, notebook.value if committed else "Before")
    kernels.current = heir


def assert_whole(record: Any, value: str) -> None:
    [change] = deltas(record)
    assert change["delta"] == {"assistant": {"name": value}, "user": {"name": value}}
    assert sorted(change["claims"]) == PATHS
    assert responses(record) == ["Settled.", "Renamed.", "Looked.", "Last."]


def assert_nowhere(sent: Any, value: str) -> None:
    assert value not in json.dumps(sent)
    assert responses(sent[0]) == []


def assert_in_the_journal_alone(folder: Path, value: str, *, if_at_all: bool) -> None:
    found = {Path(path).parent.name for path in holding(folder, value)}
    assert found == ({"journal"} if if_at_all else set())


def assert_only_shown(notebook: Notebook) -> None:
    """Check that proposed values are only in the record, outputs, and forms."""
    for message in notebook.messages:
        kind = message["header"]["msg_type"]
        content = message["content"]
        if kind in ("comm_open", "comm_msg", "comm_close"):
            assert content["comm_id"] in (notebook.record_comm, *notebook.models)
        elif notebook.value in json.dumps(content):
            assert kind in ("display_data", "update_display_data")


def assert_the_next_kernel_continues(notebook: Notebook, name: str) -> None:
    """The same notebook in a new kernel: the record is whole, and a change with consent counts."""
    for gate in NAMES:
        notebook.open(gate)
    notebook.define(CONSENTED)
    in_force = notebook.start("%jp config assistant.name")
    notebook.finish(in_force)
    assert error(notebook, in_force) is None
    assert f'"{name}"' in notebook.displays(in_force)[0]["text/plain"]
    turn = notebook.start("%%jp -m scripted/after\nName yourself.", cell_id="another cell")
    notebook.form("Configuration delta proposed by tool 'rename'")
    notebook.click("Apply changes")
    notebook.finish(turn)
    assert error(notebook, turn) is None, error(notebook, turn)
    shown = notebook.displays(turn)[-1]["text/plain"]
    assert f'assistant.name: "{name}" → "{CONSENTED}" — applied by you (form)' in shown
    assert shown.endswith("So be it.")
    entries = events(notebook)
    assert sum(entry["type"] == "turn_start" for entry in entries) == 2
    assert well_formed(entries)
    assert value(notebook, "jp.conversation().config.assistant.name") == CONSENTED
    notebook.until(lambda: CONSENTED in str(deltas(notebook.view.jp)[-1:]), "the page has it too")


# --- results and permissions ---------------------------------------------------------------------


@pytest.mark.kernel
def test_finished_result_survives_the_kernel_while_another_call_waits(kernels: Kernels) -> None:
    notebook = kernels.open(View())
    marks = kernels.folder / "work" / "marks"
    notebook.run(MARKING)
    notebook.start("%%jp -m scripted/waiting\nMeasure, then deploy.")
    notebook.form("Run the tool `deploy`?")
    notebook.until(lambda: holding(kernels.folder / "home", "measure is done"), "it is kept")
    notebook.kill()
    record = copy.deepcopy(notebook.view.jp)
    assert responses(record) == []

    heir = kernels.open(View(record))
    assert (
        "turn 1 was interrupted. measure has finished: the result is kept, and it does not run "
        "again. deploy was waiting for your permission and did not run, even if a cell still shows "
        '"Waiting for your permission". Continue it: `%jp resume`' in heir.loaded
    )
    heir.until(lambda: responses(heir.view.jp) == ["measure is done"], "the page has the result")
    refused = heir.start("%jp resume")
    heir.finish(refused)
    said = "".join((error(heir, refused) or {})["traceback"])
    assert (
        "`deploy` is not defined in this kernel. Run the cell that defines it, then `%jp resume`"
        in said
    )

    heir.run(MARKING)
    resumed = heir.start("%jp resume")
    heir.form("Run the tool `deploy`?")
    heir.click("Run deploy")
    heir.finish(resumed)
    assert error(heir, resumed) is None
    assert "measure has finished: the result is kept" in heir.printed(resumed)
    assert heir.displays(resumed)[-1]["text/plain"].endswith("Both done.")
    assert marks.read_text().split() == ["measure", "deploy"]
    heir.until(lambda: len(responses(heir.view.jp)) == 2, "the page has both results")
    assert responses(heir.view.jp) == ["measure is done", "deploy is done"]
    assert well_formed(events(heir))
    assert value(
        heir,
        '__import__("jp_nb.session").session.get_session().active.trust.trusted',
    )


# --- headless ------------------------------------------------------------------------------------


def running(folder: Path) -> subprocess.Popen[bytes]:
    """`jp-nb run` of a notebook whose tool changes the configuration as its grant allows."""
    folder.mkdir()
    environment = prepared(folder)
    path = folder / "work" / "a.ipynb"
    tools = TOOLS.format(parts=PROVISIONAL.split("-"), gates=str(folder / "gates"))
    cells = ["%load_ext jp_nb", tools, HOOK, "%%jp -m scripted/headless\nContinue."]
    write_cells(path, *cells)
    (folder / "gates" / "settle").touch()
    return subprocess.Popen(
        [sys.executable, "-m", "jp_nb.cli", "run", path.name],
        cwd=path.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.runners
@pytest.mark.req("R078-124")
def test_run_whose_kernel_is_killed_writes_only_what_was_committed(
    tmp_path: Path,
) -> None:
    before = tmp_path / "before the commit"
    after = tmp_path / "after it"
    folders = (before, after)
    runs = [running(folder) for folder in folders]  # at once: each takes its time to end
    try:
        for folder in folders:
            until(partial(is_reached, folder / "gates", "the commit"), "the commit begins")
        assert_in_the_journal_alone(before, PROVISIONAL, if_at_all=False)
        os.kill(int((before / "gates" / "pid").read_text()), signal.SIGKILL)
        for gate in ("nothing is after the commit", "the commit"):
            (after / "gates" / gate).touch()
        assert [run.wait(PATIENCE) for run in runs] == [1, 1]
    finally:
        for run in runs:
            run.kill()
    assert written(before) == []
    assert written(after) == [{"user": {"name": PROVISIONAL}}]


def written(folder: Path) -> list[Any]:
    """Return the changes of tools in the record of a killed run, their only place."""
    path = folder / "work" / "a.ipynb"
    notebook = nbformat.read(path, as_version=4)
    record = notebook.metadata.pop("jp")
    changes = [change["delta"] for change in deltas(record)]
    assert (PROVISIONAL in json.dumps(record)) is bool(changes)
    assert PROVISIONAL not in json.dumps(notebook.metadata)
    path.unlink()  # the output of the cell shows what was proposed
    assert holding(folder, PROVISIONAL) == []
    return changes
