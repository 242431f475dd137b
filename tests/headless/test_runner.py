"""`run_notebook`: outputs and record are written whatever happens, and the old file is safe."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless import files
from jp_nb.headless.runner import join_streams, print_transcript, run_notebook
from jp_nb.headless.show import load_conversation
from jp_nb.record import carrier
from tests.headless.conftest import BEGUN, WriteNotebook, contents, printed


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def test_the_record_is_in_the_metadata_and_no_carrier_is_left(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("say('one')", "say('two'); flushed()")
    seen: list[int] = []
    result = run_notebook(path, on_cell=lambda number, cell: seen.append(number))
    assert result.ok
    assert seen == [0, 1, 2]
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one", "two"]
    assert notebook.metadata.jp.conversation.made == "headless"
    assert "widgets" not in notebook.metadata
    assert printed(notebook) == BEGUN + "flushed\n"


def test_nobody_listens_to_what_a_kernel_is_sent(
    write_notebook: WriteNotebook, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_notebook("print(get_ipython().kernel.parent.curve_secretkey is not None)")
    run_notebook(path)
    assert printed(read(path)) == BEGUN + "True\n"
    assert "encryption" not in capfd.readouterr().err


def test_a_second_run_replaces_the_first_and_one_that_continues_appends(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("say('one')")
    run_notebook(path)
    run_notebook(path)
    assert contents(read(path).metadata.jp) == ["one"]
    assert "others" not in read(path).metadata.jp
    run_notebook(path, continue_=True)
    assert contents(read(path).metadata.jp) == ["one", "one"]
    assert "restored, 1 turns" in printed(read(path))


def test_two_runs_write_the_same_outputs(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one'); flushed()")
    first = run_notebook(path).notebook.cells
    assert run_notebook(path).notebook.cells == first


LOSES = """
from jp_nb.notebook.document.carrier_store import CarrierStore
publish = CarrierStore._publish

def lossy(self, touched):
    touched.pop("events.0", None)
    publish(self, touched)

CarrierStore._publish = lossy
"""


def test_a_record_that_does_not_arrive_whole_is_an_error_of_the_run(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("say('one')", LOSES, "say('two')")
    result = run_notebook(path)
    assert result.failure is not None
    assert (result.failure.name, result.failure.cell) == ("StorageError", None)
    assert "did not reach the notebook whole" in result.failure.message
    [kept] = carrier.unreadable(read(path).metadata)
    assert "one" in json.dumps(kept)


def test_damage_of_an_earlier_run_is_no_error_of_this_one(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one')", LOSES, "say('two')")
    assert not run_notebook(path).ok
    damaged = read(path)
    damaged.cells = [nbformat.v4.new_code_cell("1 + 1")]
    nbformat.write(damaged, path)
    assert carrier.unreadable(read(path).metadata)
    assert run_notebook(path).ok
    assert carrier.unreadable(read(path).metadata)  # it stays where it is


def test_a_failing_cell_keeps_what_was_there(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one')", "say('two'); 1 / 0", "print('never')")
    result = run_notebook(path)
    assert result.failure is not None
    assert (result.failure.cell, result.failure.name) == (2, "ZeroDivisionError")
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one", "two"]
    assert notebook.cells[2].outputs[-1].ename == "ZeroDivisionError"
    assert notebook.cells[3].outputs == []
    assert "widgets" not in notebook.metadata


def test_a_kernel_that_dies_leaves_a_record(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one')", "say('two')", "say('three'); import os; os._exit(1)")
    result = run_notebook(path)
    assert result.failure is not None
    assert result.failure.name == "DeadKernelError"
    assert contents(read(path).metadata.jp)[:2] == ["one", "two"]


def test_a_cell_that_takes_too_long_fails(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one'); import time; time.sleep(600)")
    result = run_notebook(path, timeout=12)  # the first cell imports all that it uses
    assert result.failure is not None
    assert result.failure.name == "TimeoutError"
    assert contents(read(path).metadata.jp) == ["one"]


def test_the_kernel_is_told_what_it_runs(write_notebook: WriteNotebook, tmp_path: Path) -> None:
    path = write_notebook(
        "import os; print({k: v for k, v in os.environ.items() if k.startswith('JP_NB_')})",
        "print(os.getcwd())",
    )
    out = tmp_path / "elsewhere.ipynb"
    before = path.read_bytes()
    run_notebook(path, out=out, strict=True, continue_=True, overrides=["a=1", "b:=[2]"])
    said = printed(read(out))
    assert str({"JP_NB_PATH": str(path), "JP_NB_STRICT": "1", "JP_NB_CONTINUE": "1"})[1:-1] in said
    assert json.dumps(["a=1", "b:=[2]"]) in said
    assert str(tmp_path) in said.splitlines()
    assert path.read_bytes() == before


def test_a_live_conversation_survives_a_headless_run(write_notebook: WriteNotebook) -> None:
    events = [{"type": "chat_request", "timestamp": "2025-01-31 09:00:00.0", "content": "live"}]
    live = {"conversation": {"id": "jp-c1", "made": "live"}, "base_config": {}, "events": events}
    path = write_notebook("say('one')", jp={"version": 1, **live})
    run_notebook(path)
    assert read(path).metadata.jp.others == [live]
    run_notebook(path)
    assert read(path).metadata.jp.others == [live]


def test_other_metadata_and_widgets_are_kept(write_notebook: WriteNotebook) -> None:
    path = write_notebook(
        "say('one')", "import ipywidgets; ipywidgets.IntSlider(value=3)", mine={"a": 1}
    )
    run_notebook(path)
    metadata = read(path).metadata
    assert metadata.mine == {"a": 1}
    models = metadata.widgets[carrier.WIDGET_STATE].state.values()
    assert {m.model_module for m in models} <= {
        "@jupyter-widgets/controls",
        "@jupyter-widgets/base",
    }
    assert contents(metadata.jp) == ["one"]


def test_a_notebook_without_a_conversation_gets_no_record(write_notebook: WriteNotebook) -> None:
    path = write_notebook("1 + 1", setup="x = 1")
    run_notebook(path)
    assert "jp" not in read(path).metadata


def test_a_file_that_is_no_notebook_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text("{")
    with pytest.raises(StorageError, match="is not a notebook"):
        run_notebook(path)
    assert path.read_text() == "{"
    with pytest.raises(StorageError, match="No such file"):
        run_notebook(tmp_path / "gone.ipynb")


def test_a_kernel_that_is_not_installed_is_named(write_notebook: WriteNotebook) -> None:
    path = write_notebook(kernelspec={"name": "fortran-77", "display_name": "F"})
    before = path.read_bytes()
    with pytest.raises(UsageError, match="fortran-77"):
        run_notebook(path)
    assert path.read_bytes() == before


def test_adjacent_outputs_of_one_stream_are_joined() -> None:
    def stream(name: str, text: str) -> Any:
        return nbformat.v4.new_output("stream", name=name, text=text)

    shown = nbformat.v4.new_output("display_data", data={"text/plain": "x"})
    pieces = [stream("stdout", "a"), stream("stdout", "\n"), shown, stream("stdout", "b")]
    cell = nbformat.v4.new_code_cell("", outputs=[*pieces, stream("stderr", "c"), shown, shown])
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A"), cell])
    join_streams(notebook)
    texts = [(each.get("name"), each.get("text")) for each in cell.outputs]
    streams = [("stdout", "a\n"), (None, None), ("stdout", "b"), ("stderr", "c")]
    assert texts == [*streams, (None, None), (None, None)]


def test_what_is_printed_is_in_one_piece_whenever_it_was_sent(
    write_notebook: WriteNotebook,
) -> None:
    cell = (
        "import sys\nfor n in range(3):\n    print(n, flush=True)\n"
        "display('x')\nprint(3, flush=True)\nprint(4, file=sys.stderr, flush=True)"
    )
    path = write_notebook(setup=cell)
    run_notebook(path)
    outputs = read(path).cells[0].outputs
    assert [each.get("name") for each in outputs] == ["stdout", None, "stdout", "stderr"]
    assert [each.text for each in outputs if "text" in each] == ["0\n1\n2\n", "3\n", "4\n"]


def test_what_is_written_to_a_pipe_goes_through_it(tmp_path: Path) -> None:
    """As with `/dev/stdout`; and who may replace it has a `/dev/null` afterwards."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR)
    files.write_notebook(nbformat.v4.new_notebook(), path)
    assert b'"cells": []' in os.read(reader, 10_000)
    os.close(reader)
    assert path.is_fifo()


@pytest.mark.parametrize("starts", [2, 3])
def test_a_kernel_that_does_not_start_is_started_once_more(
    write_notebook: WriteNotebook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, starts: int
) -> None:
    """As when another one takes a port before it does."""
    times = tmp_path / "times"
    ends = f"from pathlib import Path as P; t = P({str(times)!r}); t.open('a').write('x')\n"
    ends += f"if len(t.read_text()) < {starts}: raise SystemExit(1)\n"
    ends += "from ipykernel.kernelapp import launch_new_instance as go; go()"
    spec = tmp_path / "kernels" / "late" / "kernel.json"
    spec.parent.mkdir(parents=True)
    arguments = [sys.executable, "-c", ends, "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": arguments, "display_name": "L", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    path = write_notebook("1", setup="2", kernelspec={"name": "late", "display_name": "L"})
    before = path.read_bytes()
    if starts == 2:
        assert run_notebook(path).ok
        return
    with pytest.raises(UsageError, match="'late' of talk"):
        run_notebook(path)
    assert path.read_bytes() == before


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text("old")
    path.chmod(0o640)
    link = tmp_path / "link.ipynb"
    link.symlink_to(path)
    notebook = nbformat.v4.new_notebook(metadata={"half": "\ud83d"})
    files.write_notebook(notebook, link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert json.loads(path.read_text())["metadata"]["half"] == "\ud83d"
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        files.write_notebook(nbformat.v4.new_notebook(), path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.ipynb", "n.ipynb"]


def test_a_transcript_is_readable(write_notebook: WriteNotebook) -> None:
    path = write_notebook("6 * 7", "print('\\x1b[31mred\\x1b[0m')", "1 / 0")
    out = io.StringIO()
    print_transcript(run_notebook(path).notebook, out)
    assert out.getvalue().endswith(
        "In [2]: 6 * 7\n42\n\n"
        "In [3]: print('\\x1b[31mred\\x1b[0m')\nred\n\n"
        "In [4]: 1 / 0\nZeroDivisionError: division by zero\n\n"
    )


def test_show_reads_the_record_wherever_it_is(
    write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    path = write_notebook("say('one')")
    run_notebook(path)
    assert load_conversation(path).conversation.turn_count == 1
    notebook = read(path)
    head = {k: v for k, v in notebook.metadata.jp.items() if k != "events"}
    state = {"jp": head, "events.0": notebook.metadata.jp.events}
    widget = {"model_module": "jp-nb", "model_name": "RecordModel", "state": state}
    del notebook.metadata["jp"]
    notebook.metadata.widgets = {carrier.WIDGET_STATE: {"state": {"a": widget}}}
    nbformat.write(notebook, path)
    assert load_conversation(path).conversation.turn_count == 1
    carried = notebook.metadata.widgets[carrier.WIDGET_STATE].state.a.state
    carried["events.0"][1] = {"type": "chat_request"}
    nbformat.write(notebook, path)
    with pytest.raises(StorageError, match=r"talk\.ipynb: .*events\[1\]"):
        load_conversation(path)
    del notebook.metadata["widgets"]
    nbformat.write(notebook, path)
    with pytest.raises(StorageError, match="holds no conversation"):
        load_conversation(path)
