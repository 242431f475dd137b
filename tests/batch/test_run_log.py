"""The log of a batch: written line by line, read as the state of each run."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import jp_nb as jp
from tests.batch.log_lines import BATCH, ended, started
from tests.kit.batch_folders import BatchFolder

WALK = started("walk-1", parameters={"city": "Delft"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.jsonl"


def test_last_line_of_a_run_is_its_state(path: Path) -> None:
    BatchFolder(path.parent).append(
        BATCH,
        WALK,
        ended("walk-1", "failed"),
        WALK,
        ended("walk-1", seconds=2.5, notebook="walk-1.ipynb"),
        started("talk-2", "talk.ipynb"),
        started("far-3", type="skipped", reason="1,000 tokens were used"),
    )
    runs = BatchFolder(path.parent).runs()
    assert [(each.run, each.outcome, each.is_done) for each in runs] == [
        ("walk-1", "passed", True),
        ("talk-2", "unknown", False),
        ("far-3", "over_budget", False),
    ]
    assert runs[0].parameters == {"city": "Delft"}
    assert runs[0].output == "walk-1.ipynb"
    assert [each["pid"] for each in BatchFolder(path.parent).batches()] == [4711]


@pytest.mark.parametrize("torn", [b"{", b'{"type": "started", "run": "x"', b"\xc3", b"{}"])
def test_torn_last_line_is_ignored_and_then_removed(path: Path, torn: bytes) -> None:
    BatchFolder(path.parent).append(BATCH, WALK)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert [each.run for each in BatchFolder(path.parent).runs()] == ["walk-1"]

    BatchFolder(path.parent).append(ended("walk-1"))
    assert path.read_bytes().startswith(whole)
    assert [each.outcome for each in BatchFolder(path.parent).runs()] == ["passed"]


@pytest.mark.req("BATCH-4", "BATCH-29")
def test_line_that_does_not_reach_the_disk_is_an_error_and_is_removed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BatchFolder(path.parent).append(BATCH, WALK)
    whole = path.read_bytes()

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(jp.StorageError, match=r"runs\.jsonl cannot be written: Input/output error"):
        BatchFolder(path.parent).append(ended("walk-1"))
    assert path.read_bytes() == whole


def test_file_that_is_one_torn_line_becomes_empty(path: Path) -> None:
    path.write_bytes(b"x" * 200_000)
    BatchFolder(path.parent).append()
    assert path.read_bytes() == b""


def test_line_of_a_later_version_is_refused(path: Path) -> None:
    path.write_text(json.dumps({"type": "batch", "version": 2, "shape": "unknown"}) + "\n")
    with pytest.raises(jp.StorageError, match=r"line 1 of .*later version.*update jp_nb"):
        BatchFolder(path.parent).runs()


@pytest.mark.parametrize("line", ["[]", "nonsense", '{"type": "ended"}', '{"type": "other"}'])
def test_damaged_line_is_named(path: Path, line: str) -> None:
    BatchFolder(path.parent).append(BATCH)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(jp.StorageError, match="line 2 of"):
        BatchFolder(path.parent).runs()


def test_text_that_no_file_can_store_is_replaced(path: Path) -> None:
    BatchFolder(path.parent).append(started("a", parameters={"x": "\ud800"}))
    assert BatchFolder(path.parent).runs()[0].parameters == {"x": "\ufffd"}
