"""Imports and exports follow no link, wait for no pipe, and replace no file of other programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.cli import main
from jp_nb.headless.commands.record_export import export_notebook
from jp_nb.headless.commands.record_import import import_into_notebook
from tests.headless.jp_folders import (
    OTHER,
    append_turn,
    changed_events,
    files_in,
    record_in,
    write_folder,
)
from tests.interop.jp_directories import BASE, G1, G2, G3, G4, NAME, jp_text
from tests.kit.jp_directories import JpDirectory

MAX_OTHER_BYTES = 65_536
MAX_DIRECTORY_FILE_BYTES = 67_108_864


# --- files that an export replaces -------------------------------------------------------------


def test_export_replaces_the_same_conversation(notebook: Path, tmp_path: Path) -> None:
    for name in (NAME, "17700000001", "elsewhere"):
        folder = write_folder(tmp_path / "out" / name, G4)
        (folder / "mine.txt").write_text("mine")
        (folder / "events.json.tmp").write_text("half")
        append_turn(notebook)
        export_notebook(notebook, folder)
        assert b'"And?"' in (folder / "events.json").read_bytes()
        assert (folder / "mine.txt").read_text() == "mine"
        assert not (folder / "events.json.tmp").exists()
        export_notebook(notebook, folder, "jp-head")
        export_notebook(notebook, folder)


def test_export_keeps_existing_notes(tmp_path: Path) -> None:
    import_into_notebook(
        write_folder(tmp_path / NAME, G4 | {"notes.md": b"old"}), tmp_path / "a.ipynb"
    )
    (tmp_path / NAME / "notes.md").write_bytes(b"new")
    export_notebook(tmp_path / "a.ipynb", tmp_path / NAME)
    assert (tmp_path / NAME / "notes.md").read_bytes() == b"new"


def test_export_writes_only_changed_files(notebook: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "out", G4)
    append_turn(notebook)
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    export_notebook(notebook, folder)
    after = {path.name: path.stat().st_ino for path in folder.iterdir()}
    changed = {name for name, number in after.items() if before[name] != number}
    assert changed == {"events.json", "metadata.json"}


OF_OTHERS: list[tuple[str, dict[str, bytes]]] = [
    ("out", {"thesis.txt": b"years of work"}),
    (OTHER, {"thesis.txt": b"years of work"}),
    ("out", {"events.json": b"[]", "metadata.json": b"{}"}),
    ("out", {"events.json": b"no JSON"}),
    ("out", {"events.json": b'[{"type": "chat_request", "timestamp": "x"}]'}),
    (OTHER, G1),
    (NAME, {"events.json": G4["events.json"][:-3] + b',{"type": "x", "timestamp": "later"}]'}),
    ("out", {"events.json": G4["events.json"][:-3] + b',{"type": "x", "timestamp": "later"}]'}),
]


def test_export_replaces_nothing_else(
    notebook: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    dialects: tuple[Any, ...] = ("native", "jp-head")
    for number, (name, files) in enumerate(OF_OTHERS):
        with subtests.test(name=name, files=files):
            folder = write_folder(tmp_path / str(number) / name, files)
            for dialect in dialects:
                with pytest.raises(jp.StorageError, match="another"):
                    export_notebook(notebook, folder, dialect)
            assert files_in(folder) == files


def test_interrupted_export_can_be_repeated(notebook: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "out", {"metadata.json": G4["metadata.json"]})
    export_notebook(notebook, folder)
    assert files_in(folder) == G4


def test_folder_with_folders_in_it_is_not_empty(notebook: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "inner").mkdir(parents=True)
    with pytest.raises(jp.StorageError, match="something else"):
        export_notebook(notebook, tmp_path / "out")


def test_events_are_written_last(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    replace = os.replace

    def watched(source: str, target: Path) -> None:
        order.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    export_notebook(notebook, tmp_path / "out")
    assert order == ["metadata.json", "base_config.json", "events.json"]


def test_failed_export_leaves_the_old_files(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "out", G4)
    append_turn(notebook)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(jp.StorageError, match="No space left"):
        export_notebook(notebook, folder)
    assert files_in(folder) == G4


@pytest.mark.skipif(os.name == "nt", reason="no symbolic links for everybody")
def test_link_at_the_temporary_name_is_not_followed(notebook: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("safe")
    folder = write_folder(tmp_path / "out", {"metadata.json": G4["metadata.json"]})
    (folder / "events.json.tmp").symlink_to(tmp_path / "victim")
    export_notebook(notebook, folder)
    assert (tmp_path / "victim").read_text() == "safe"
    assert files_in(folder) == G4


# --- untrusted files ---------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name == "nt", reason="links and pipes for everybody")


def text_of(notebook: Path) -> str:
    return notebook.read_text(encoding="utf-8")


@posix
def test_import_follows_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("PRIVATE")
    folder = write_folder(tmp_path / NAME, G4 | {"mine.md": b"mine"})
    (folder / "notes.txt").symlink_to(tmp_path / "id_rsa")
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    (folder / "all").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.txt")
    output = import_into_notebook(folder, tmp_path / "a.ipynb")
    assert "PRIVATE" not in text_of(tmp_path / "a.ipynb")
    origin = record_in(tmp_path / "a.ipynb").conversation.origin
    assert origin.files == {"mine.md": "mine"}
    assert origin.left_out == ["all", "gone.txt", "notes.txt", "pipe.txt"]
    assert len(output) == 5


@posix
def test_link_pipe_or_folder_in_place_of_a_file_is_refused(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    import_into_notebook(write_folder(tmp_path / "good" / NAME, G4), tmp_path / "b.ipynb")
    makes: dict[str, Callable[[Path, Path], object]] = {
        "link": Path.symlink_to,
        "pipe": lambda path, _: os.mkfifo(path),
        "folder": lambda path, _: path.mkdir(),
    }
    names = ("metadata.json", "base_config.json", "events.json")
    for (kind, make), name in product(makes.items(), names):
        with subtests.test(kind=kind, name=name):
            folder = write_folder(tmp_path / kind / name / NAME, G4)
            moved = (folder / name).rename(tmp_path / kind / name / "moved")
            make(folder / name, moved)
            found = f"{name}: expected a regular file"
            with pytest.raises(jp.StorageError, match=found):
                import_into_notebook(folder, tmp_path / "a.ipynb")
            assert not (tmp_path / "a.ipynb").exists()
            with pytest.raises(jp.StorageError, match=f"{name}: expected a regular file"):
                export_notebook(tmp_path / "b.ipynb", folder)
            assert moved.read_bytes() == G4[name]


@posix
def test_link_that_appears_after_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "id_rsa").write_text("PRIVATE")
    folder = write_folder(tmp_path / NAME, G4)
    (folder / "notes.txt").symlink_to(tmp_path / "id_rsa")
    os.mkfifo(folder / "pipe.txt")
    regular = (folder / "events.json").stat()
    monkeypatch.setattr(Path, "lstat", lambda self: regular)
    files, skipped = JpDirectory.read_files(folder)
    assert files == G4
    assert skipped == ["notes.txt", "pipe.txt"]


@posix
def test_link_at_the_name_of_another_file_stays(notebook: Path, tmp_path: Path) -> None:
    import_into_notebook(
        write_folder(tmp_path / OTHER, G2 | {"notes.md": b"x"}), tmp_path / "b.ipynb"
    )
    folder = write_folder(tmp_path / "out", G2)
    (folder / "notes.md").symlink_to(tmp_path / "nowhere")
    assert export_notebook(tmp_path / "b.ipynb", folder).others == []
    assert (folder / "notes.md").is_symlink()


@posix
def test_pipe_at_the_temporary_name_is_replaced(notebook: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "out", {"metadata.json": G4["metadata.json"]})
    os.mkfifo(folder / "events.json.tmp")
    export_notebook(notebook, folder)
    assert files_in(folder) == G4


def test_other_files_are_read_up_to_a_total_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"a.txt": b"a" * (MAX_OTHER_BYTES - 1), "b.txt": b"bb", "c.txt": b"c", "d.txt": b""}
    folder = write_folder(tmp_path / NAME, G4 | others)
    opened: list[str] = []
    really = os.open

    def watched(path: Any, *arguments: Any) -> int:
        opened.append(Path(path).name)
        return really(path, *arguments)

    monkeypatch.setattr(os, "open", watched)
    files, skipped = JpDirectory.read_files(folder)
    assert files == G4 | {"a.txt": others["a.txt"], "c.txt": b"c"}
    assert skipped == ["b.txt", "d.txt"]
    assert "d.txt" not in opened


def test_file_that_is_too_long_is_omitted(tmp_path: Path) -> None:
    for size in (MAX_OTHER_BYTES, MAX_OTHER_BYTES + 1):
        files, skipped = JpDirectory.read_files(
            write_folder(tmp_path / str(size), {"a.txt": b"a" * size})
        )
        assert [*files, *skipped] == ["a.txt"]
        assert bool(skipped) == (size > MAX_OTHER_BYTES)


def test_file_of_jp_that_is_too_long_is_refused(
    tmp_path: Path,
) -> None:
    events = b"[]".ljust(MAX_DIRECTORY_FILE_BYTES)
    folder = write_folder(tmp_path / NAME, {"base_config.json": b"{}", "events.json": events})
    JpDirectory.load(folder)
    with (folder / "events.json").open("ab") as file:
        file.write(b" ")
    with pytest.raises(jp.StorageError, match=r"events\.json: more than"):
        JpDirectory.load(folder)


# --- directories that were changed since -------------------------------------------------------


CHANGES: list[tuple[str, bytes, str]] = [
    ("events.json", changed_events(1, content="edited"), r"events\[1\]"),
    ("events.json", changed_events(8, message="edited"), r"events\[8\]"),
    ("events.json", changed_events(1, extra=None), r"events\[1\]"),
    ("events.json", jp_text(json.loads(G4["events.json"])[::-1]), r"events\[1\]"),
    ("events.json", jp_text(json.loads(G4["events.json"]) * 2), r"events\[9\]"),
    ("base_config.json", jp_text({**BASE, "style": {}}), "base_config"),
    ("base_config.json", b"{}", "base_config"),
    ("base_config.json", b"no JSON", "base_config"),
    ("metadata.json", b"no JSON", "metadata"),
    ("metadata.json", b"[]", "metadata"),
    ("base_config.json", b"\xff", "utf-8"),
]


def test_export_does_not_undo_changes_in_the_directory(
    notebook: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    append_turn(notebook)
    dialects: tuple[Any, ...] = ("native", "jp-head")
    for number, (name, content, place) in enumerate(CHANGES):
        with subtests.test(name=name, content=content[:60]):
            folder = write_folder(tmp_path / str(number) / NAME, G4 | {name: content})
            for dialect in dialects:
                with pytest.raises(jp.StorageError, match=f"{place}.*export to another folder"):
                    export_notebook(notebook, folder, dialect)
            assert files_in(folder) == G4 | {name: content}


def test_export_does_not_change_the_layout_of_a_directory(tmp_path: Path) -> None:
    import_into_notebook(write_folder(tmp_path / NAME, G3), tmp_path / "a.ipynb")
    folder = tmp_path / "out"
    export_notebook(tmp_path / "a.ipynb", folder, "jp-head")
    before = files_in(folder)
    with pytest.raises(jp.StorageError, match="base_config"):
        export_notebook(tmp_path / "a.ipynb", folder)
    assert files_in(folder) == before


def test_base_configuration_is_not_written_again(notebook: Path, tmp_path: Path) -> None:
    compact = json.dumps(BASE).encode()
    folder = write_folder(tmp_path / "out", G4 | {"base_config.json": compact})
    append_turn(notebook)
    export_notebook(notebook, folder)
    assert files_in(folder)["base_config.json"] == compact
    assert b'"And?"' in files_in(folder)["events.json"]


def test_title_and_labels_of_jp_are_kept(notebook: Path, tmp_path: Path) -> None:
    there = {"title": "Renamed", "last_activated_at": "2026-03-01 00:00:00.0",
             "pinned_at": "2026-03-01 00:00:00.0", "labels": {"a": "b"}}  # fmt: skip
    folder = write_folder(tmp_path / "out", G4 | {"metadata.json": jp_text(there)})
    export_notebook(notebook, folder)
    assert files_in(folder)["metadata.json"] == jp_text(there)
    append_turn(notebook)
    export_notebook(notebook, folder)
    written = json.loads(files_in(folder)["metadata.json"])
    assert written.pop("last_activated_at") > there.pop("last_activated_at")
    assert written == there


def test_empty_conversation_with_notes_is_exported_again(tmp_path: Path) -> None:
    files = {"base_config.json": b"{}\n", "events.json": b"[]\n", "notes.md": b"n"}
    import_into_notebook(write_folder(tmp_path / NAME, files), tmp_path / "a.ipynb")
    export_notebook(tmp_path / "a.ipynb", tmp_path / "out")
    export_notebook(tmp_path / "a.ipynb", tmp_path / "out")
    assert files_in(tmp_path / "out") == files


def test_new_notebook_or_directory_is_not_written_through_a_link(
    notebook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    exported = write_folder(tmp_path / "work" / NAME, G4)
    link = tmp_path / "work" / "link.ipynb"
    link.symlink_to(tmp_path / "home" / "new.ipynb")
    assert main(["import", str(exported), str(link)]) != 0
    assert "which does not exist" in capsys.readouterr().err
    (tmp_path / "work" / "out").symlink_to(tmp_path / "home")
    assert main(["export", str(notebook), str(tmp_path / "work" / "out")]) != 0
    assert not any((tmp_path / "home").iterdir())
