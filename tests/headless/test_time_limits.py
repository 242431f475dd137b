"""`jp-nb run --timeout` and `--run-timeout`: hanging cells and tools, and kernels that die."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jp_nb.cli import main
from jp_nb.headless.kernels import execution
from tests.headless.conftest import read
from tests.support.cells import calls
from tests.support.notebook_runs import write_cells

pytestmark = pytest.mark.runners

LOAD = "%load_ext jp_nb"
TOOLS = """
import asyncio, os, signal, time
import jp_nb as jp

@jp.tool
def sleeps() -> str:
    time.sleep(600)

@jp.tool(thread=True)
def sleeps_in_thread() -> str:
    time.sleep(600)

@jp.tool
async def waits() -> str:
    await asyncio.sleep(600)

@jp.tool
def quick() -> str:
    return "done"

@jp.tool
def ends_the_kernel() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
"""
STUBBORN = """
import time
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        print("no", flush=True)
"""


def write_turn(folder: Path, *tools: str) -> Path:
    """Write a notebook whose third cell calls `tools` in one response."""
    script = calls(("quick", {})) + calls(*((name, {}) for name in tools))
    (folder / "work.toml").write_text(f'{script}[[replies]]\ntext = "end"\n')
    ask = "%%jp -m scripted/work\nWork."
    return write_cells(folder / "work.ipynb", LOAD, TOOLS, ask, "print('never')")


def run(path: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Run `jp-nb run`; return the exit code and the lines on stderr."""
    code = main(["run", str(path), *options])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return code, [line for line in err.splitlines() if line.startswith("jp-nb:")]


@pytest.mark.parametrize("tool", ["sleeps", "sleeps_in_thread", "waits"])
def test_tool_that_hangs_is_named_with_its_cell_and_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str
) -> None:
    path = write_turn(tmp_path, tool)
    code, lines = run(path, "--timeout", "4", "--json", f"{tmp_path}/r.json", capsys=capsys)
    sentence = f"the cell did not end within 4 s, the limit of each cell; running tool: {tool}"
    assert (code, lines) == (1, [f"jp-nb: TimeoutError in cell 3: {sentence}"])
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["failure"] == {"cell": 2, "name": "TimeoutError", "message": sentence}
    assert [cell["status"] for cell in report["cells"]] == ["passed", "passed", "failed", "not run"]
    notebook = read(path)
    assert "quick" in str(notebook.cells[2].outputs), "the outputs so far"
    assert notebook.cells[3].outputs == []
    turns = report["turns"]
    assert [call["name"] for call in turns[0]["tool_calls"]] == ["quick", tool]


def test_limit_of_the_run_names_the_cell_that_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_cells(tmp_path / "a.ipynb", "print('first')", "import time; time.sleep(600)")
    junit = tmp_path / "r.xml"
    code, lines = run(path, "--run-timeout", "5", "--junit", str(junit), capsys=capsys)
    sentence = "the run did not end within 5 s, the limit of the run"
    assert (code, lines) == (1, [f"jp-nb: TimeoutError in cell 2: {sentence}"])
    [failure] = ElementTree.parse(junit).iter("failure")
    assert failure.get("message") == f"TimeoutError: {sentence}"
    assert read(path).cells[0].outputs[0].text == "first\n"


def test_each_cell_has_the_whole_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["import time; time.sleep(1.5)"] * 3
    path = write_cells(tmp_path / "a.ipynb", *cells)
    assert run(path, "--timeout", "4", "--run-timeout", "60", capsys=capsys) == (0, [])


@pytest.mark.parametrize(
    "code",
    [STUBBORN, f"try:\n    {'import time; time.sleep(600)'}\nexcept KeyboardInterrupt: pass"],
)
def test_cell_that_ignores_the_interrupt_is_the_last(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    code: str,
) -> None:
    monkeypatch.setattr(execution, "PATIENCE_S", 1.0)
    path = write_cells(tmp_path / "a.ipynb", code, "print('never')")
    status, lines = run(path, "--timeout", "2", capsys=capsys)
    sentence = "the cell did not end within 2 s, the limit of each cell"
    assert (status, lines) == (1, [f"jp-nb: TimeoutError in cell 1: {sentence}"])
    assert read(path).cells[1].outputs == []


def test_kernel_that_dies_is_reported_with_its_cell_and_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_turn(tmp_path, "ends_the_kernel")
    code, lines = run(path, "--json", f"{tmp_path}/r.json", capsys=capsys)
    sentence = "Kernel died; running tool: ends_the_kernel"
    assert (code, lines) == (1, [f"jp-nb: DeadKernelError in cell 3: {sentence}"])
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["cells"][2]["error"] == f"DeadKernelError: {sentence}"
    assert "done" in json.dumps(read(path).metadata.jp), "the record so far, from the journal"


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", ""])
def test_limit_that_is_no_time_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "a.ipynb", f"--timeout={value}"])
    assert ended.value.code == 2
    assert "expected a number of seconds above 0" in capsys.readouterr().err


def test_run_says_in_one_line_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_cells(tmp_path / "a.ipynb", "print('first')", "1 / 0", "print('never')")
    assert main(["run", str(path), "-o", str(tmp_path / "b.ipynb")]) == 1
    [line] = capsys.readouterr().out.splitlines()
    cells = "3 cells, 1 failed, 1 not run, 0 turns, 0 tool calls"
    assert line == f"jp-nb: {tmp_path}/b.ipynb: {cells}. Outputs and record are in the file."
