"""Journal files where others remove theirs, and where there are no locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jp_nb.storage.journals.journal_folder import JournalFolder

REMOVE_EVERY = 32


fcntl = pytest.importorskip("fcntl", reason="flock")


def test_sweep_tolerates_a_file_that_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = JournalFolder(tmp_path / "journal")
    own = folder.create("jp-c1")
    other = folder.create("jp-c2")
    own.append(b"old")
    for file in (own, other):
        os.utime(file.path, (0, 0))
    own.close()
    opens = os.open

    def late(path: Path | str, flags: int, *mode: int) -> int:
        if str(path) == str(other.path):
            other.close(remove=True)
        return opens(path, flags, *mode)

    monkeypatch.setattr(os, "open", late)
    folder.remove_old()
    assert list(folder.path.iterdir()) == []


def test_old_temporary_files_are_swept(tmp_path: Path) -> None:
    folder = JournalFolder(tmp_path / "journal")
    own = folder.create("jp-c1")
    old = own.path.with_name("jp-c2.0.new")
    fresh = own.path.with_name("jp-c3.0.new")
    for path in (old, fresh):
        path.touch(0o600)
    os.utime(old, (0, 0))
    folder.remove_old()
    assert sorted(folder.path.iterdir()) == sorted([own.path, fresh])
    own.close()


def test_old_files_are_removed_before_the_first_new_file_and_each_32nd(tmp_path: Path) -> None:
    folder = JournalFolder(tmp_path / "journal")
    removed = []
    for number in range(2 * REMOVE_EVERY):
        folder.path.mkdir(0o700, exist_ok=True)
        (old := folder.path / "jp-c0.0.jsonl").touch(0o600)
        os.utime(old, (0, 0))
        folder.create(f"jp-c{number + 1}").close()
        removed += [] if old.exists() else [number]
    assert removed == [0, REMOVE_EVERY]


def test_failed_creation_without_locks_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        made.append(descriptor)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    folder = JournalFolder(tmp_path / "journal")
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        folder.create("jp-c1")
    assert list(folder.path.iterdir()) == []
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(made[0])
