"""Notebook files are written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest

import jp_nb as jp
from jp_nb.headless import files
from jp_nb.headless.runner import run_notebook
from tests.headless.conftest import write_talk


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(jp.StorageError, match="No space left"):
        files.write_notebook(nbformat.v4.new_notebook(), path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.ipynb", "n.ipynb"]


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """`/dev/stdout` may be a pipe, and root could even replace `/dev/null`."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR)
    files.write_notebook(nbformat.v4.new_notebook(), path)
    assert b'"cells": []' in os.read(reader, 10_000)
    os.close(reader)
    assert path.is_fifo()


def test_file_that_is_not_a_notebook_is_not_run_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text("{")
    with pytest.raises(jp.StorageError, match="is not a notebook"):
        run_notebook(path)
    assert path.read_text() == "{"
    with pytest.raises(jp.StorageError, match="No such file"):
        run_notebook(tmp_path / "gone.ipynb")


def test_missing_kernel_is_named_and_the_notebook_stays(tmp_path: Path) -> None:
    path = write_talk(tmp_path, kernelspec={"name": "fortran-77", "display_name": "F"})
    before = path.read_bytes()
    with pytest.raises(jp.UsageError, match="fortran-77"):
        run_notebook(path)
    assert path.read_bytes() == before
