"""Write notebooks, run them, and read their outputs and records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.headless.result_writing import join_streams
from jp_nb.headless.runner import run_notebook
from tests.kit.notebook_record import open_document
from tests.support.entries import without_ids

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
PATIENCE_S = 180
PORT_TAKEN = "Address already in use"


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with `arguments` in `folder`."""
    environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "PYTHONWARNINGS": "ignore"}
    return run_program([sys.executable, *arguments], folder, environment)


def run_program(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run `command` in `folder`, and again if another process took a port of its kernel.

    `jupyter_client` chooses the ports of a kernel before the kernel binds them. Runners do not
    start a kernel again that fails for this reason.
    """
    for _ in range(3):
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode == 0 or PORT_TAKEN not in done.stderr:
            break

    return done


def outputs(path: Path) -> list[Any]:
    """Return the outputs of all cells: without execution counts, adjacent streams joined.

    The time of a flush splits a stream, and runners keep the parts.
    """
    notebook = nbformat.read(path, as_version=4)
    join_streams(notebook)
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            found.append({k: v for k, v in output.items() if k not in ("execution_count", "id")})
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def record(path: Path) -> list[Any]:
    """Return the entries without ids and times."""
    entries = open_document(path).conversation.raw
    return [without_ids(entry) | {"timestamp": ""} for entry in entries]


def write_cells(path: Path, *cells: str, **metadata: Any) -> Path:
    """Write a notebook of code cells with fixed ids, and the folders above it."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": kernel, **metadata},
    )
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, path)
    return path


SCRIPT = """
[[replies]]
tool_calls = [{ name = "where", arguments = { city = "Delft", days = "3" } }]
[[replies]]
tool_calls = [{ name = "where", arguments = { town = "Delft" } }]
[[replies]]
text = "Seen."
"""


def write_scripted(folder: Path, *cells: str) -> Path:
    """Write `notes/in.ipynb` with these cells, and the script of its model next to it."""
    path = write_cells(folder / "notes" / "in.ipynb", *cells)
    (path.parent / "tools.toml").write_text(SCRIPT, encoding="utf-8")
    return path


NOON = "2026-03-18 12:00:00.0"


def write_untrusted(path: Path, base_config: dict[str, Any]) -> None:
    """Put an untrusted conversation with `base_config` into the notebook at `path`."""
    made = nbformat.read(path, as_version=4)
    made.metadata["jp"] = {
        "version": 1,
        "conversation": {"id": "jp-c17738399468", "made": "live"},
        "base_config": base_config,
        "events": [
            {"type": "turn_start", "timestamp": NOON},
            {"type": "chat_request", "timestamp": NOON, "content": "Hello."},
            {"type": "chat_response", "timestamp": NOON, "message": "Hello."},
        ],
    }
    nbformat.write(made, path)


# --- cassettes ---------------------------------------------------------------------------------

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
KEY = "sk-test-0123456789abcdef0123"
LOAD = """%load_ext jp_nb
%jp config assistant.model.id={protocol}/m assistant.request.base_backoff_ms:=1"""
WEATHER = '''
import jp_nb as jp

@jp.tool
def weather(city: str, days: int = 1) -> str:
    """Tell the weather.

    Args:
        city: Where.
        days: For how long.
    """
    return f"{city}: sun for {days}"
'''


def run_with(path: Path, mode: str, **settings: str) -> Any:
    """Run the notebook with its cassette in `mode`, and with `settings` (`__` for `.`)."""
    more = {key.replace("__", "."): value for key, value in settings.items()}
    return run_notebook(path, settings={"providers.cassette.mode": mode, **more})


def result_of(path: Path) -> Mapping[str, Any]:
    """Return the record of a run, without ids and times, and its outputs."""
    return {"record": record(path), "outputs": outputs(path)}


# --- tutorials ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tutorial_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Run a tutorial with `jp-nb run`, once for all tests, and return the written notebook."""

    @cache
    def run_once(name: str) -> Path:
        folder = tmp_path_factory.mktemp("tutorial") / "notebooks"
        shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns("*.png"))
        result = run_notebook(folder / name, out=folder / f"run-{name}")
        assert result.ok, result.failure
        return result.path

    return run_once
