"""Requests of a batch: recorded by all workers, replayed alike, and held after a 429."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.kit.batch_folders import BatchFolder
from tests.kit.batches import BatchBench
from tests.support.loopback import LoopbackServer, Received, Reply
from tests.support.notebook_runs import KEY, LOAD, write_cells

pytestmark = pytest.mark.runners

ASK = "%%jp\nHow is {{city}}?"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a notebook that asks about a city, and with three cities."""
    path = write_cells(tmp_path / "talk.ipynb", "city = ''", LOAD.format(protocol="anthropic"), ASK)
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    (tmp_path / "cities.csv").write_text("city\nDelft\nEdam\nGouda\n")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return tmp_path


def batch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jp_nb.cli", "run", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def notebooks(folder: Path) -> dict[str, bytes]:
    """Return the notebooks of a batch by their parameter, whatever their digests."""
    return {path.name.rpartition("-")[0]: path.read_bytes() for path in folder.glob("*.ipynb")}


def answer(request: Received) -> Reply:
    body = json.dumps(request.body)
    city = next(name for name in ("Delft", "Edam", "Gouda") if f"How is {name}?" in body)
    return Reply(text=f"{city} is sunny.")


@pytest.mark.req("BATCH-15", "BATCH-16", "BATCH-17")
def test_recording_of_two_workers_replays_to_the_same_notebooks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["talk.ipynb", "--each", "cities.csv"]
    with LoopbackServer(answer) as server:
        monkeypatch.setenv("JP_CFG_PROVIDERS__LLM__ANTHROPIC__BASE_URL", server.url)
        done = batch(folder, *arguments, "-o", "OUT", "--workers", "2", "--record")
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 3
    assert "3 exchanges recorded in" in done.stderr
    states = BatchFolder(folder / "OUT").runs()
    assert [(each.requests, each.tokens.input, each.tokens.output) for each in states] == [
        (1, 11, 7)
    ] * 3
    for path in (folder / "OUT").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    (folder / "cities.csv").write_text("city\nGouda\nDelft\nEdam\n")
    done = batch(folder, *arguments, "-o", "OUT2", "--workers", "1", "--replay")
    assert done.returncode == 0, done.stderr
    assert notebooks(folder / "OUT2") == notebooks(folder / "OUT")

    cassette = folder / "talk.cassette.jsonl"
    recorded = cassette.read_bytes()
    done = batch(folder, *arguments, "-o", "OUT3", "--workers", "2", "--replay-or-record")
    assert done.returncode == 0, done.stderr
    assert cassette.read_bytes() == recorded, "nothing was added"


@pytest.mark.req("BATCH-15")
def test_cassette_of_a_run_gets_its_recording(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("talk.ipynb", "--each", "cities.csv")
    with LoopbackServer(answer) as server:
        monkeypatch.setenv("JP_CFG_PROVIDERS__LLM__ANTHROPIC__BASE_URL", server.url)
        monkeypatch.chdir(folder)
        first, *_ = BatchBench(folder).plan(*arguments)
        own = folder / f"{first['run']}.cassette.jsonl"
        own.write_text("")
        done = batch(folder, *arguments, "-o", "OUT", "--workers", "2", "--record")
    assert done.returncode == 0, done.stderr
    assert "Delft is sunny" in own.read_text()
    of_notebook = (folder / "talk.cassette.jsonl").read_text()
    found = [f"{city} is sunny" in of_notebook for city in ("Delft", "Edam", "Gouda")]
    assert found == [False, True, True]


@pytest.mark.req("BATCH-15")
def test_recording_of_a_batch_that_stops_early_keeps_what_the_cassette_has(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["talk.ipynb", "--each", "cities.csv", "--workers", "1", "--record"]
    cassette = folder / "talk.cassette.jsonl"
    with LoopbackServer(answer) as server:
        monkeypatch.setenv("JP_CFG_PROVIDERS__LLM__ANTHROPIC__BASE_URL", server.url)
        done = batch(folder, *arguments, "-o", "OUT")
        assert done.returncode == 0, done.stderr
        recorded = cassette.read_bytes()

        done = batch(folder, *arguments, "-o", "OUT2", "--max-total-tokens", "1")
    assert done.returncode == 1
    assert "3 exchanges recorded in" in done.stderr
    assert "It keeps those that it had, because not all runs have passed" in done.stderr
    assert cassette.read_bytes() == recorded


@pytest.mark.req("BATCH-15")
def test_recording_without_requests_leaves_the_cassette_unchanged(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_cells(tmp_path / f"{name}.ipynb", "1")
    cassette = tmp_path / "a.cassette.jsonl"
    cassette.write_text('{"jp_nb":"cassette","version":1}\n')
    before = cassette.read_bytes()

    done = batch(tmp_path, "a.ipynb", "b.ipynb", "-o", "OUT", "--replay-or-record")
    assert done.returncode == 0, done.stderr
    assert "0 exchanges recorded in" in done.stderr
    assert cassette.read_bytes() == before


@pytest.mark.req("BATCH-14")
def test_a_429_slows_the_other_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cities.csv").write_text("city\nDelft\nEdam\n")
    times = "import time; begun = time.time()"
    cells = [times, ASK, "print(time.time() - begun)"]
    until_refused = "while not os.path.exists('refused'): time.sleep(0.02)"
    wait = f"import os\nif city == 'Edam':\n    {until_refused}\n    time.sleep(0.5)"
    load = LOAD.format(protocol="anthropic")
    path = write_cells(folder / "talk.ipynb", "city = ''", "import time", load, wait, *cells)
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))

    def refuse_first(request: Received) -> Reply:
        if not (folder / "refused").exists():
            (folder / "refused").touch()
            return Reply(status=429, headers={"retry-after": "4"})
        return answer(request)

    with LoopbackServer(refuse_first) as server:
        monkeypatch.setenv("JP_CFG_PROVIDERS__LLM__ANTHROPIC__BASE_URL", server.url)
        done = batch(folder, "talk.ipynb", "--each", "cities.csv", "-o", "OUT", "--workers", "2")
    assert done.returncode == 0, done.stderr
    waits = {}
    for state in BatchFolder(folder / "OUT").runs():
        last = nbformat.read(folder / "OUT" / state.output, as_version=4).cells[-1]
        waits[state.parameters["city"]] = float(last.outputs[0].text)
    assert waits["Edam"] > 2, "it did not get the 429 and waited all the same"
