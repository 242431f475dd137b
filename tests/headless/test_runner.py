"""`run_notebook` writes outputs and record, also if the run fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import jp_nb as jp
from jp_nb.headless.result_writing import join_streams
from jp_nb.headless.runner import run_notebook
from tests.headless.conftest import (
    BEGUN,
    LIVE,
    WIDGET_STATE,
    WriteNotebook,
    contents,
    printed,
    read,
    write_talk,
)
from tests.kit.notebook_record import open_document

ENVIRONMENT = (
    "import os; print({k: v for k, v in os.environ.items() if k.startswith('JP_NB_')}); "
    "print(os.getcwd())"
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A successful run that was written to another file.

    The notebook already has a conversation and metadata of the user, and gets a widget.
    """
    folder = tmp_path_factory.mktemp("finished")
    path = write_talk(
        folder,
        "say('one')",
        ENVIRONMENT,
        "print(get_ipython().kernel.parent.curve_secretkey is not None)",
        "import ipywidgets; ipywidgets.IntSlider(value=3)",
        "print(0, flush=True); print(1, flush=True)",
        "say('two'); flushed()",
        mine={"a": 1},
        jp={"version": 1, **LIVE},
    )
    before = path.read_bytes()
    result = run_notebook(
        path,
        out=folder / "out.ipynb",
        strict=True,
        overrides=["a=1", "b:=[2]"],
    )
    assert result.ok
    assert [end.cell for end in result.cells if end.status == "passed"] == [0, 1, 2, 3, 4, 5, 6]
    assert path.read_bytes() == before
    return result


def test_record_is_in_the_metadata(finished: Any) -> None:
    notebook = read(finished.path)
    assert contents(notebook.metadata.jp) == ["one", "two"]
    assert notebook.metadata.jp.conversation.made == "headless"
    output = printed(notebook)
    assert output.startswith(BEGUN)
    assert output.endswith("flushed\n")


def test_live_conversation_is_kept_beside_that_of_the_run(finished: Any) -> None:
    assert read(finished.path).metadata.jp.others == [LIVE]


def test_other_metadata_and_widgets_are_kept(finished: Any) -> None:
    metadata = read(finished.path).metadata
    assert metadata.mine == {"a": 1}
    models = metadata.widgets[WIDGET_STATE].state.values()
    widgets = {"@jupyter-widgets/controls", "@jupyter-widgets/base"}
    assert {m.model_module for m in models} == widgets, "the carrier of the record is gone"


def test_kernel_is_started_with_the_notebook_and_the_options(finished: Any) -> None:
    output = printed(read(finished.path))
    path = finished.path.with_name("talk.ipynb")
    assert str({"JP_NB_PATH": str(path), "JP_NB_STRICT": "1"})[1:-1] in output
    assert json.dumps(["a=1", "b:=[2]"]) in output
    assert str(path.parent) in output.splitlines()


def test_connection_to_the_kernel_is_encrypted(finished: Any) -> None:
    assert "\nTrue\n" in printed(read(finished.path))


def test_pieces_of_a_stream_are_joined_in_the_written_notebook(finished: Any) -> None:
    assert [output.text for output in read(finished.path).cells[5].outputs] == ["0\n1\n"]


def test_conversation_is_found_in_the_record_and_in_its_carrier(
    finished: Any, tmp_path: Path
) -> None:
    assert open_document(finished.path).conversation.turn_count == 2
    notebook = read(finished.path)
    path = tmp_path / "talk.ipynb"
    head = {k: v for k, v in notebook.metadata.jp.items() if k != "events"}
    state = {"jp": head, "events.0": notebook.metadata.jp.events}
    widget = {"model_module": "jp-nb", "model_name": "RecordModel", "state": state}
    del notebook.metadata["jp"]
    notebook.metadata.widgets = {WIDGET_STATE: {"state": {"a": widget}}}
    nbformat.write(notebook, path)
    assert open_document(path).conversation.turn_count == 2
    carried = notebook.metadata.widgets[WIDGET_STATE].state.a.state
    carried["events.0"][1] = {"type": "chat_request"}
    nbformat.write(notebook, path)
    with pytest.raises(jp.StorageError, match=r"talk\.ipynb: .*events\[1\]"):
        open_document(path)
    del notebook.metadata["widgets"]
    nbformat.write(notebook, path)
    with pytest.raises(jp.StorageError, match="contains no conversation"):
        open_document(path)


def test_failing_cell_ends_the_run_and_the_record_is_written(
    write_notebook: WriteNotebook, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_notebook("say('one')", "say('two'); 1 / 0", "print('never')")
    result = run_notebook(path)
    assert result.failure is not None
    assert (result.failure.cell, result.failure.name) == (2, "ZeroDivisionError")
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one", "two"]
    assert notebook.cells[2].outputs[-1].ename == "ZeroDivisionError"
    assert notebook.cells[3].outputs == []
    assert "widgets" not in notebook.metadata
    assert "encryption" not in capfd.readouterr().err, "no warning of the kernel"


def test_adjacent_outputs_of_one_stream_are_joined() -> None:
    def stream(name: str, text: str) -> Any:
        return nbformat.v4.new_output("stream", name=name, text=text)

    shown = nbformat.v4.new_output("display_data", data={"text/plain": "x"})
    pieces = [stream("stdout", "a"), stream("stdout", "\n"), shown, stream("stdout", "b")]
    more = [stream("stderr", "c"), stream("stderr", "d"), shown, shown]
    cell = nbformat.v4.new_code_cell("", outputs=[*pieces, *more])
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A"), cell])
    join_streams(notebook)
    texts = [(each.get("name"), each.get("text")) for each in cell.outputs]
    streams = [("stdout", "a\n"), (None, None), ("stdout", "b"), ("stderr", "cd")]
    assert texts == [*streams, (None, None), (None, None)]


# --- further runs ------------------------------------------------------------------------------


@pytest.mark.runners
def test_second_run_writes_the_same_and_one_that_continues_appends(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("say('one'); flushed()")
    first = run_notebook(path).notebook.cells
    assert run_notebook(path).notebook.cells == first
    assert contents(read(path).metadata.jp) == ["one"]
    assert "others" not in read(path).metadata.jp
    run_notebook(path, continue_=True)
    assert contents(read(path).metadata.jp) == ["one", "one"]
    assert "restored, 1 turns" in printed(read(path))


LOSES = """
from jp_nb.notebook.page.carrier_store import CarrierStore
publish = CarrierStore._publish

def lossy(self, touched):
    touched.pop("events.0", None)
    publish(self, touched)

CarrierStore._publish = lossy
"""


def find_carriers(notebook: Any) -> list[Any]:
    """Return the states of the widgets that hold the record; a run leaves only damaged ones."""
    models = notebook.metadata.widgets[WIDGET_STATE].state.values()
    return [model.state for model in models if model.model_module == "jp-nb"]


@pytest.mark.runners
def test_incomplete_record_fails_its_run_and_no_later_one(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one')", LOSES, "say('two')")
    result = run_notebook(path)
    assert result.failure is not None
    assert (result.failure.cell, result.failure.name) == (None, "StorageError")
    assert "did not receive the whole record" in result.failure.message
    damaged = read(path)
    [kept] = find_carriers(damaged)
    assert "one" in json.dumps(kept)
    damaged.cells = [nbformat.v4.new_code_cell("1 + 1")]
    nbformat.write(damaged, path)
    assert run_notebook(path).ok
    assert find_carriers(read(path)) == [kept]


@pytest.mark.runners
@pytest.mark.parametrize("starts", [2, 3])
def test_kernel_that_does_not_start_is_started_once_more(
    write_notebook: WriteNotebook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, starts: int
) -> None:
    """A start fails if another process takes the port of the kernel."""
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
    with pytest.raises(jp.UsageError, match="'late' of talk"):
        run_notebook(path)
    assert path.read_bytes() == before
