"""Stock runners: nbconvert, `jupyter execute`, papermill, and nbval in pytest."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.headless.conftest import (
    BEGUN,
    LIVE,
    WIDGET_STATE,
    WriteNotebook,
    contents,
    printed,
    read,
)
from tests.kit.notebook_record import open_document
from tests.support.notebook_runs import run_program

pytestmark = pytest.mark.runners
TIERS = "pip install -e '.[tiers]'"


def call(*arguments: str | Path, cwd: Path, ok: bool = True) -> str:
    """Run a program of this environment and return its output."""
    folder = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JP_NB_")}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    done = run_program(list(map(str, arguments)), cwd, environment)
    assert (done.returncode == 0) is ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def has_carrier(notebook: Any) -> bool:
    """Return True if a widget of `notebook` holds the record."""
    models = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    return any(m["model_module"] == "jp-nb" for m in models.values())


EXECUTE = ["jupyter", "execute", "--inplace", "talk.ipynb"]
NBCONVERT = ["jupyter", "nbconvert", "--to", "notebook", "--execute", "--inplace", "talk.ipynb"]


def test_record_of_a_stock_runner_is_carried_and_replaced_by_the_next_run(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("say('one')", "say('two'); flushed()", jp={"version": 1, **LIVE})
    call(*EXECUTE, cwd=path.parent)
    notebook = read(path)
    assert has_carrier(notebook)
    assert printed(notebook) == BEGUN + "flushed\n"
    document = open_document(path)
    assert contents({"events": document.conversation.raw}) == ["one", "two"]
    assert document.others == [LIVE]
    call(*EXECUTE, cwd=path.parent)
    again = open_document(path)
    assert contents({"events": again.conversation.raw}) == ["one", "two"]
    assert again.conversation.id != document.conversation.id
    assert again.others == [LIVE]


PREPROCESSOR = "--Exporter.preprocessors=jp_nb.headless.preprocessor.JpPreprocessor"


def test_preprocessor_for_nbconvert_writes_the_record(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one')")
    call(*NBCONVERT, PREPROCESSOR, cwd=path.parent)
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one"]
    assert "widgets" not in notebook.metadata


def test_html_export_with_the_preprocessor_does_not_hold_the_record(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("say('one', 'SECRET' + '-ANSWER')")
    call(*NBCONVERT, cwd=path.parent)
    html = path.with_suffix(".html")
    call("jupyter", "nbconvert", "--to", "html", path.name, cwd=path.parent)
    assert "SECRET-ANSWER" in html.read_text(encoding="utf-8")
    call("jupyter", "nbconvert", "--to", "html", PREPROCESSOR, path.name, cwd=path.parent)
    assert "SECRET-ANSWER" not in html.read_text(encoding="utf-8")


def test_papermill_engine_writes_the_record_and_joins_streams(
    write_notebook: WriteNotebook,
) -> None:
    pytest.importorskip("papermill", reason=TIERS)
    pieces = "print(1, end='', flush=True)\nprint(flush=True)\nprint(2)"
    path = write_notebook("say(f'one {x}')", pieces, jp={"version": 1, **LIVE})
    notebook = read(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]}))
    nbformat.write(notebook, path)
    call("papermill", "--engine", "jp", "talk.ipynb", "out.ipynb", "-p", "x", "7", cwd=path.parent)
    made = read(path.with_name("out.ipynb"))
    metadata = made.metadata
    assert [output.text for output in made.cells[-1].outputs] == ["1\n2\n"]
    assert contents(metadata.jp) == ["one 7"]
    assert metadata.jp.others == [LIVE]
    assert "widgets" not in metadata


def test_papermill_engine_can_be_imported_before_papermill(tmp_path: Path) -> None:
    pytest.importorskip("papermill", reason=TIERS)
    code = (
        "from jp_nb.headless.{module} import {name} as first\n"
        "import sys, papermill.engines\n"
        "engine = papermill.engines.papermill_engines.get_engine('jp')\n"
        "print(engine.__name__, first.__name__)"
    )
    engine = code.format(module="papermill_engine", name="JpEngine")
    done = call("python", "-c", engine, cwd=tmp_path)
    assert done.split() == ["JpEngine", "JpEngine"]

    client = code.format(module="papermill_client", name="RecordingEngine")
    done = call("python", "-c", client, cwd=tmp_path)
    assert done.split() == ["JpEngine", "RecordingEngine"]


@pytest.mark.parametrize("end", ["1 / 0", "import os; os._exit(1)"], ids=["error", "dead kernel"])
def test_papermill_engine_keeps_the_record_of_a_failed_run(
    write_notebook: WriteNotebook, end: str
) -> None:
    pytest.importorskip("papermill", reason=TIERS)
    path = write_notebook("say('one')", "say('two')", end)
    call("papermill", "--engine", "jp", "talk.ipynb", "out.ipynb", cwd=path.parent, ok=False)
    metadata = read(path.with_name("out.ipynb")).metadata
    assert contents(metadata.jp) == ["one", "two"]
    assert "widgets" not in metadata


def test_nbval_passes_and_knows_the_notebook(write_notebook: WriteNotebook) -> None:
    """The kernel gets the path in an environment variable that other tests do not have."""
    pytest.importorskip("nbval", reason=TIERS)
    path = write_notebook(
        "say('one'); flushed()",
        "print(in_cell.home.path.name, len(in_cell.opened.document.others))",
        jp={"version": 1, **LIVE},
    )
    call(*EXECUTE, cwd=path.parent)
    assert "talk.ipynb 1\n" in printed(read(path))
    path.with_name("test_after.py").write_text(
        "import os\ndef test_it() -> None:\n    assert 'JP_NB_PATH' not in os.environ\n"
    )
    files = ["talk.ipynb", "test_after.py"]
    output = call(sys.executable, "-m", "pytest", "-q", "--nbval", *files, cwd=path.parent)
    assert "4 passed" in output
