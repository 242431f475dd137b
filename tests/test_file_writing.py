"""Writing of files in folders with links of other users."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jp_nb import file_writing

WRITERS: dict[str, Callable[[Path], object]] = {
    "replace": lambda path: file_writing.replace_file(path, b"new"),
    "open": lambda path: os.close(
        file_writing.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    ),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mine.json").write_text("mine")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@writers
def test_link_out_of_the_folder_is_refused(folder: Path, write: Any) -> None:
    link = folder / "report.json"
    for target in ("../home/new.json", "../home/mine.json"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        with pytest.raises(OSError, match="remove the link, or name the target file"):
            write(link)
    assert [path.name for path in (folder.parent / "home").iterdir()] == ["mine.json"]
    assert (folder.parent / "home" / "mine.json").read_text() == "mine"
    assert link.is_symlink()


@writers
def test_chain_of_links_is_followed_to_its_end(folder: Path, write: Any) -> None:
    (folder / "report.json").symlink_to("second.json")
    (folder / "second.json").symlink_to("../home/mine.json")
    with pytest.raises(OSError, match="outside of"):
        write(folder / "report.json")
    (folder / "a.json").symlink_to("b.json")
    (folder / "b.json").symlink_to("a.json")
    with pytest.raises(OSError, match="link"):
        write(folder / "a.json")


@writers
def test_link_to_another_type_of_file_or_to_none_is_refused(folder: Path, write: Any) -> None:
    (folder / "config").write_text("mine")
    (folder / "report.json").symlink_to("config")
    with pytest.raises(OSError, match="a file of another type"):
        write(folder / "report.json")
    (folder / "other.json").symlink_to("none.json")
    with pytest.raises(OSError, match="which does not exist"):
        write(folder / "other.json")


@writers
def test_link_of_another_user_is_refused(
    folder: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "real.json").write_text("old")
    (folder / "report.json").symlink_to("real.json")
    monkeypatch.setattr(file_writing, "_belongs_to_user", lambda _: False)
    with pytest.raises(OSError, match="a link that belongs to another user"):
        write(folder / "report.json")


@writers
def test_own_link_to_a_file_of_the_folder_stays_a_link(folder: Path, write: Any) -> None:
    (folder / "kept").mkdir()
    (folder / "kept" / "real.json").write_text("old")
    (folder / "report.json").symlink_to("kept/real.json")
    write(folder / "report.json")
    assert (folder / "report.json").is_symlink()
    assert (folder / "kept" / "real.json").read_text() in ("new", "")


def test_linked_folder_out_of_its_folder_is_refused(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent / "home")
    with pytest.raises(OSError, match="outside of"):
        file_writing.resolve_write_target(folder / "out" / "new.json", folder=folder)
    named = folder.parent / "home" / "new.json"  # the user named another folder
    assert file_writing.resolve_write_target(named, folder=folder) == named
    assert (
        file_writing.resolve_write_target(folder / "out" / "new.json")
        == folder / "out" / "new.json"
    )


def test_stream_of_the_shell_is_written_to_and_stays(capfd: pytest.CaptureFixture[str]) -> None:
    before = os.lstat("/dev/stdout")
    os.write(1, b"before, ")
    file_writing.replace_file(Path("/dev/stdout"), b"report")
    file_writing.replace_file(Path(os.devnull), b"report")
    assert os.path.samestat(os.lstat("/dev/stdout"), before)
    assert capfd.readouterr().out == "before, report"
    assert Path(os.devnull).is_char_device()


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="a folder in memory, of Linux")
def test_links_in_shared_memory_are_links_of_files() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        (folder / "real.json").write_text("old")
        (folder / "report.json").symlink_to("real.json")
        file_writing.replace_file(folder / "report.json", b"new")
        assert (folder / "real.json").read_text() == "new"

        (folder / "out.json").symlink_to("/etc/hostname")
        with pytest.raises(OSError, match="remove the link, or name the target file"):
            file_writing.resolve_write_target(folder / "out.json")


def test_pipe_is_not_opened_as_a_file(folder: Path) -> None:
    os.mkfifo(folder / "report.json")
    with pytest.raises(OSError, match="report"):
        file_writing.open_file(folder / "report.json", os.O_WRONLY)
