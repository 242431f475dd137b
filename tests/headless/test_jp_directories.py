"""`jp-nb import` and `jp-nb export`: through a notebook and back, and never over anything."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.cli import main
from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.jp_directories import export_directory, import_directory
from jp_nb.headless.show import load_conversation
from jp_nb.notebook.document.jp_directories import load_directory, save_directory
from jp_nb.record.document import Document
from jp_nb.record.events import ChatRequest
from jp_nb.record.jp_files import Dialect
from jp_nb.record.timestamps import utc_now
from tests.record.test_jp_files import G1, G2, G3, G4, G5, NAME

GENERATIONS = {"G1": G1, "G2": G2, "G3": G3, "G4": G4, "G5": G5}
OTHER = "17600000001-on-clouds"


def lay(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def found(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def resaved(notebook: Path) -> None:
    """As a server saves it."""
    nbformat.write(nbformat.read(notebook, as_version=4), notebook)


def record(notebook: Path) -> Any:
    return nbformat.read(notebook, as_version=4).metadata.jp


def go_on(notebook: Path) -> None:
    """Append a turn, as a run does."""
    stored = nbformat.read(notebook, as_version=4)
    document = Document.load(json.loads(json.dumps(stored.metadata.jp)), clock=utc_now)
    document.conversation.start_turn(ChatRequest(content="And?"))
    stored.metadata["jp"] = document.to_json()
    nbformat.write(stored, notebook)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_an_imported_conversation_is_exported_byte_for_byte(
    generation: str, tmp_path: Path
) -> None:
    files = GENERATIONS[generation]
    notebook = tmp_path / "a.ipynb"
    assert main(["import", str(lay(tmp_path / NAME, files)), str(notebook)]) == 0
    resaved(notebook)
    assert main(["export", str(notebook), str(tmp_path / "out" / "x")]) == 0
    assert found(tmp_path / "out" / "x") == files


def test_a_notebook_is_made_and_shows_the_conversation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = tmp_path / "a.ipynb"
    assert main(["import", str(lay(tmp_path / NAME, G3)), str(notebook)]) == 0
    assert "jp-c17700000001 'On tides' imported (1 turn, " in capsys.readouterr().out
    made = nbformat.read(notebook, as_version=4)
    nbformat.validate(made)
    assert [cell.source for cell in made.cells] == ["%load_ext jp_nb"]
    assert made.metadata.jp.conversation.made == "imported"
    assert "signature" not in made.metadata.jp
    assert main(["show", str(notebook)]) == 0
    shown = capsys.readouterr().out
    assert "On tides" in shown
    assert "Why tides?" in shown
    assert 'look(deep=["x", 4], path="ä") → line line' in shown
    assert main(["show", "--json", str(notebook)]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"]["origin"]["directory"] == NAME


def test_the_active_conversation_moves_to_the_others(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    import_directory(lay(tmp_path / OTHER, G2), notebook)
    go_on(notebook)
    import_directory(lay(tmp_path / NAME, G4), notebook)
    document = load_conversation(notebook)
    assert document.conversation.id == "jp-c17700000001"
    assert document.ids() == {"jp-c17700000001", "jp-c17600000001"}
    arguments = ["export", str(notebook), str(tmp_path / "out"), "--conversation"]
    assert main([*arguments, "jp-c17600000001"]) == 0
    assert b'"And?"' in found(tmp_path / "out")["events.json"]


def test_a_notebook_without_conversation_keeps_its_cells(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    cells = [nbformat.v4.new_code_cell("1 + 1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), notebook)
    import_directory(lay(tmp_path / NAME, G4), notebook)
    assert [cell.source for cell in nbformat.read(notebook, as_version=4).cells] == ["1 + 1"]
    assert record(notebook).conversation.id == "jp-c17700000001"


def test_importing_twice_does_nothing_and_another_version_is_refused(tmp_path: Path) -> None:
    notebook, folder = tmp_path / "a.ipynb", lay(tmp_path / NAME, G4)
    import_directory(folder, notebook)
    before = notebook.read_bytes()
    assert import_directory(folder, notebook) == [
        f"{notebook} already holds jp-c17700000001: nothing to do"
    ]
    assert notebook.read_bytes() == before
    (folder / "events.json").write_bytes(G3["events.json"])
    with pytest.raises(StorageError) as caught:
        import_directory(folder, notebook)
    assert str(folder) in str(caught.value)
    assert str(notebook) in str(caught.value)
    assert notebook.read_bytes() == before


def test_a_conversation_among_the_others_counts_as_held(tmp_path: Path) -> None:
    notebook, folder = tmp_path / "a.ipynb", lay(tmp_path / NAME, G5)
    import_directory(folder, notebook)
    import_directory(lay(tmp_path / OTHER, G2), notebook)
    assert "nothing to do" in import_directory(folder, notebook)[0]


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    folder = lay(tmp_path / NAME, G4 | {"photo.png": b"\xff", "note.md": b"n"})
    (folder / "blobs").mkdir()
    told = import_directory(folder, tmp_path / "a.ipynb")
    assert [line.partition(" (")[0] for line in told[1:]] == [f"left out: {folder / 'photo.png'}"]
    export_directory(tmp_path / "a.ipynb", tmp_path / "out")
    assert found(tmp_path / "out") == G4 | {"note.md": b"n"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["import", "nowhere", "a.ipynb"], 2),
        (["import", "empty", "a.ipynb"], 1),
        (["import", "damaged", "a.ipynb"], 1),
        (["import", "invalid", "a.ipynb"], 1),
        (["import", "good", "no.ipynb"], 1),
        (["import", "good", "damaged.ipynb"], 1),
        (["export", "nowhere.ipynb", "out"], 2),
        (["export", "cells.ipynb", "out"], 1),
        (["export", "held.ipynb", "out", "--conversation", "jp-c1"], 2),
        (["export", "held.ipynb", "held.ipynb"], 1),
        (["export", "held.ipynb", "held.ipynb/out"], 1),
        (["export", "held.ipynb", "out", "--dialect", "jp-head"], 0),
    ],
)
def test_exit_codes(
    arguments: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    lay(tmp_path / "damaged", G4 | {"events.json": b"["})
    lay(tmp_path / "invalid", G4 | {"events.json": b'[{"type": "chat_request"}]'})
    lay(tmp_path / "good", G4)
    Path("no.ipynb").write_text("no notebook")
    damaged = nbformat.v4.new_notebook(metadata={"jp": {"conversation": 3}})
    nbformat.write(damaged, "damaged.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), "cells.ipynb")
    import_directory(lay(tmp_path / NAME, G4), Path("held.ipynb"))
    before = found_files(tmp_path)
    assert main(arguments) == code
    if code:
        assert capsys.readouterr().err.startswith("jp-nb: ")
        assert found_files(tmp_path) == before


def found_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_jp_cannot_read_is_printed_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = tmp_path / "a.ipynb"
    import_directory(lay(tmp_path / NAME, G5), notebook)
    code = main(["export", str(notebook), str(tmp_path / "out"), "--dialect", "jp-head"])
    assert code == 0
    told = capsys.readouterr().err.splitlines()
    assert any("moon_phase" in line or "cancelled" in line for line in told)
    assert all(line.startswith(("events[", "base_config.")) for line in told)
    written = (tmp_path / "out" / "events.json").read_text()
    assert not any(word in written for word in ("cancelled", "redacted", "outcome", "event_id"))


# --- where an export goes ----------------------------------------------------------------------


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "a.ipynb"
    import_directory(lay(tmp_path / "source" / NAME, G4), path)
    return path


def test_an_export_goes_over_the_same_conversation(notebook: Path, tmp_path: Path) -> None:
    for name in (NAME, "17700000001", "elsewhere"):
        folder = lay(tmp_path / "out" / name, G4)
        (folder / "mine.txt").write_text("mine")
        (folder / "events.json.tmp").write_text("half")
        go_on(notebook)
        export_directory(notebook, folder)
        assert b'"And?"' in (folder / "events.json").read_bytes()
        assert (folder / "mine.txt").read_text() == "mine"
        assert not (folder / "events.json.tmp").exists()
        export_directory(notebook, folder, "jp-head")
        export_directory(notebook, folder)


def test_notes_that_are_there_are_left_alone(tmp_path: Path) -> None:
    import_directory(lay(tmp_path / NAME, G4 | {"notes.md": b"old"}), tmp_path / "a.ipynb")
    (tmp_path / NAME / "notes.md").write_bytes(b"new")
    export_directory(tmp_path / "a.ipynb", tmp_path / NAME)
    assert (tmp_path / NAME / "notes.md").read_bytes() == b"new"


def test_files_that_would_be_the_same_are_not_written(notebook: Path, tmp_path: Path) -> None:
    folder = lay(tmp_path / "out", G4)
    go_on(notebook)
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    export_directory(notebook, folder)
    after = {path.name: path.stat().st_ino for path in folder.iterdir()}
    changed = {name for name, number in after.items() if before[name] != number}
    assert changed == {"events.json", "metadata.json"}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("out", {"thesis.txt": b"years of work"}),
        (OTHER, {"thesis.txt": b"years of work"}),
        ("out", {"events.json": b"[]", "metadata.json": b"{}"}),
        ("out", {"events.json": b"no JSON"}),
        ("out", {"events.json": b'[{"type": "chat_request", "timestamp": "x"}]'}),
        (OTHER, G1),
        (NAME, {"events.json": G4["events.json"][:-3] + b',{"type": "x", "timestamp": "later"}]'}),
        ("out", {"events.json": G4["events.json"][:-3] + b',{"type": "x", "timestamp": "later"}]'}),
    ],
)
def test_an_export_goes_over_nothing_else(
    notebook: Path, tmp_path: Path, name: str, files: dict[str, bytes]
) -> None:
    folder = lay(tmp_path / "there" / name, files)
    dialects: tuple[Dialect, ...] = ("native", "jp-head")
    for dialect in dialects:
        with pytest.raises(StorageError, match="another"):
            export_directory(notebook, folder, dialect)
    assert found(folder) == files


def test_an_export_that_was_interrupted_is_finished(notebook: Path, tmp_path: Path) -> None:
    folder = lay(tmp_path / "out", {"metadata.json": G4["metadata.json"]})
    export_directory(notebook, folder)
    assert found(folder) == G4


def test_a_folder_with_folders_in_it_is_not_empty(notebook: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "inner").mkdir(parents=True)
    with pytest.raises(StorageError, match="something else"):
        export_directory(notebook, tmp_path / "out")


def test_files_are_written_in_an_order_that_stays_readable(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        order.append(Path(target).name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    export_directory(notebook, tmp_path / "out")
    assert order == ["metadata.json", "base_config.json", "events.json"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lay(tmp_path / "out", G4)
    go_on(notebook)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        export_directory(notebook, folder)
    assert found(folder) == G4


@pytest.mark.skipif(os.name == "nt", reason="no symbolic links for everybody")
def test_a_link_at_the_temporary_name_is_not_followed(notebook: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("safe")
    folder = lay(tmp_path / "out", {"metadata.json": G4["metadata.json"]})
    (folder / "events.json.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(StorageError):
        export_directory(notebook, folder)
    assert (tmp_path / "victim").read_text() == "safe"


# --- what a kernel uses ------------------------------------------------------------------------


def test_a_kernel_loads_and_saves_without_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lay(tmp_path / NAME, G5)
    monkeypatch.chdir(folder)
    jp = load_directory(Path(), clock=lambda: datetime.now(UTC))
    assert save_directory(jp, tmp_path / "out") == []
    assert found(tmp_path / "out") == G5
    assert save_directory(jp, tmp_path / "head", "jp-head")
    with pytest.raises(UsageError, match="there is no folder"):
        load_directory(tmp_path / "none", clock=utc_now)
