"""Other people's runners, as their users call them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.headless.show import load_conversation
from jp_nb.record import carrier
from tests.headless.conftest import BEGUN, WriteNotebook, contents, printed


def call(*arguments: str | Path, cwd: Path, ok: bool = True) -> str:
    """Run a program of this environment and return what it said."""
    folder = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JP_NB_")}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        list(map(str, arguments)), cwd=cwd, capture_output=True, text=True, env=environment
    )
    assert (done.returncode == 0) is ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def carried(notebook: Any) -> bool:
    models = notebook.metadata.get("widgets", {}).get(carrier.WIDGET_STATE, {}).get("state", {})
    return any(m["model_module"] == "jp-nb" for m in models.values())


LIVE = {
    "conversation": {"id": "jp-c1", "made": "live"},
    "base_config": {},
    "events": [{"type": "chat_request", "timestamp": "2025-01-31 09:00:00.0", "content": "live"}],
}

STOCK = {
    "jupyter execute": ["jupyter", "execute", "--inplace", "talk.ipynb"],
    "nbconvert": [
        "jupyter",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--inplace",
        "talk.ipynb",
    ],
    "papermill": ["papermill", "talk.ipynb", "talk.ipynb"],
}


@pytest.mark.parametrize("command", STOCK.values(), ids=STOCK.keys())
def test_a_stock_runner_carries_the_record_and_the_next_run_finds_it(
    write_notebook: WriteNotebook, command: list[str]
) -> None:
    path = write_notebook("say('one')", "say('two'); flushed()", jp={"version": 1, **LIVE})
    call(*command, cwd=path.parent)
    notebook = read(path)
    assert carried(notebook)
    assert printed(notebook) == BEGUN + "flushed\n"
    document = load_conversation(path)
    assert contents({"events": document.conversation.raw}) == ["one", "two"]
    assert document.others == [LIVE]
    call(*command, cwd=path.parent)
    again = load_conversation(path)
    assert contents({"events": again.conversation.raw}) == ["one", "two"]
    assert again.conversation.id != document.conversation.id
    assert again.others == [LIVE]


PREPROCESSOR = "--Exporter.preprocessors=jp_nb.headless.preprocessor.JpPreprocessor"


def test_nbconvert_with_our_preprocessor_writes_the_record(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one')")
    call(*STOCK["nbconvert"], PREPROCESSOR, cwd=path.parent)
    notebook = read(path)
    assert contents(notebook.metadata.jp) == ["one"]
    assert "widgets" not in notebook.metadata


def test_an_html_export_does_not_show_the_record(write_notebook: WriteNotebook) -> None:
    path = write_notebook("say('one', 'SECRET' + '-ANSWER')")
    call(*STOCK["nbconvert"], cwd=path.parent)
    html = path.with_suffix(".html")
    call("jupyter", "nbconvert", "--to", "html", path.name, cwd=path.parent)
    assert "SECRET-ANSWER" in html.read_text(encoding="utf-8")
    call("jupyter", "nbconvert", "--to", "html", PREPROCESSOR, path.name, cwd=path.parent)
    assert "SECRET-ANSWER" not in html.read_text(encoding="utf-8")


def test_papermill_with_our_engine_writes_the_record(write_notebook: WriteNotebook) -> None:
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


@pytest.mark.parametrize("end", ["1 / 0", "import os; os._exit(1)"], ids=["error", "dead kernel"])
def test_papermill_with_our_engine_keeps_the_record_of_a_failed_run(
    write_notebook: WriteNotebook, end: str
) -> None:
    path = write_notebook("say('one')", "say('two')", end)
    call("papermill", "--engine", "jp", "talk.ipynb", "out.ipynb", cwd=path.parent, ok=False)
    metadata = read(path.with_name("out.ipynb")).metadata
    assert contents(metadata.jp) == ["one", "two"]
    assert "widgets" not in metadata


@pytest.mark.parametrize("flag", ["--nbval", "--nbval-lax"])
def test_nbval_compares_equal_run_after_run(write_notebook: WriteNotebook, flag: str) -> None:
    path = write_notebook(
        "say('one'); flushed()",
        "print(in_cell.home.path.name, len(in_cell.opened.document.others))",
        jp={"version": 1, **LIVE},
    )
    call(*STOCK["jupyter execute"], cwd=path.parent)
    assert "talk.ipynb 1\n" in printed(read(path))
    for _ in range(2):
        said = call(sys.executable, "-m", "pytest", "-q", flag, "talk.ipynb", cwd=path.parent)
        assert "3 passed" in said


def test_the_plugin_names_the_notebook_only_while_its_kernel_starts(
    write_notebook: WriteNotebook,
) -> None:
    path = write_notebook("print(in_cell.home.path.name)")
    call(*STOCK["jupyter execute"], cwd=path.parent)
    path.with_name("test_after.py").write_text(
        "import os\ndef test_it() -> None:\n    assert 'JP_NB_PATH' not in os.environ\n"
    )
    files = ["talk.ipynb", "test_after.py"]
    said = call(sys.executable, "-m", "pytest", "-q", "--nbval", *files, cwd=path.parent)
    assert "3 passed" in said
