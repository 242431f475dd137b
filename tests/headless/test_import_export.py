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
from jp_nb.headless.import_export import export_directory, import_directory
from jp_nb.headless.show import load_conversation
from jp_nb.interop import jp_directories, jp_files
from jp_nb.interop.jp_directories import (
    folder_at,
    load_directory,
    read_files,
    save_directory,
)
from jp_nb.interop.jp_files import MAX_OTHER_BYTES, Dialect
from jp_nb.record.document import Document
from jp_nb.record.events import ChatRequest
from jp_nb.record.timestamps import utc_now
from tests.support.executor import Executor, begin
from tests.support.jp_directories import BASE, G1, G2, G3, G4, G5, NAME, at, jp_text

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
    assert [line.partition(" (")[0] for line in told[1:]] == [
        f"left out: {folder / 'blobs'}",
        f"left out: {folder / 'photo.png'}",
    ]
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
    replace = os.replace

    def watched(source: str, target: Path) -> None:
        order.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
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
    export_directory(notebook, folder)
    assert (tmp_path / "victim").read_text() == "safe"
    assert found(folder) == G4


# --- what a kernel uses ------------------------------------------------------------------------


def test_a_kernel_loads_and_saves_without_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lay(tmp_path / NAME, G5)
    monkeypatch.chdir(folder)
    jp = load_directory(Path(), clock=lambda: datetime.now(UTC))
    assert save_directory(jp, tmp_path / "out").dropped == []
    assert found(tmp_path / "out") == G5
    assert save_directory(jp, tmp_path / "head", "jp-head").dropped
    with pytest.raises(UsageError, match="there is no folder"):
        load_directory(tmp_path / "none", clock=utc_now)


# --- files of a stranger -----------------------------------------------------------------------

posix = pytest.mark.skipif(os.name == "nt", reason="links and pipes for everybody")


def text_of(notebook: Path) -> str:
    return notebook.read_text(encoding="utf-8")


@posix
def test_an_import_follows_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("PRIVATE")
    folder = lay(tmp_path / NAME, G4 | {"mine.md": b"mine"})
    (folder / "notes.txt").symlink_to(tmp_path / "id_rsa")
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    (folder / "all").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.txt")
    told = import_directory(folder, tmp_path / "a.ipynb")
    assert "PRIVATE" not in text_of(tmp_path / "a.ipynb")
    origin = record(tmp_path / "a.ipynb").conversation.origin
    assert origin.files == {"mine.md": "mine"}
    assert origin.left_out == ["all", "gone.txt", "notes.txt", "pipe.txt"]
    assert len(told) == 5


@posix
@pytest.mark.parametrize("name", ["metadata.json", "base_config.json", "events.json"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_file_of_jp_that_is_none_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    folder = lay(tmp_path / NAME, G4)
    (folder / name).rename(tmp_path / "moved")
    if kind == "link":
        (folder / name).symlink_to(tmp_path / "moved")
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).mkdir()
    with pytest.raises(StorageError, match=f"{name}: expected a file, found a link or no file"):
        import_directory(folder, tmp_path / "a.ipynb")
    assert not (tmp_path / "a.ipynb").exists()
    import_directory(lay(tmp_path / "good" / NAME, G4), tmp_path / "b.ipynb")
    with pytest.raises(StorageError, match=f"{name}: expected a file"):
        export_directory(tmp_path / "b.ipynb", folder)
    assert (tmp_path / "moved").read_bytes() == G4[name]


@posix
def test_a_link_that_appears_in_the_middle_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "id_rsa").write_text("PRIVATE")
    folder = lay(tmp_path / NAME, G4)
    (folder / "notes.txt").symlink_to(tmp_path / "id_rsa")
    os.mkfifo(folder / "pipe.txt")
    regular = (folder / "events.json").stat()
    monkeypatch.setattr(Path, "lstat", lambda self: regular)
    files, left_out = read_files(folder)
    assert files == G4
    assert left_out == ["notes.txt", "pipe.txt"]


@posix
def test_a_link_at_the_name_of_another_file_stays(notebook: Path, tmp_path: Path) -> None:
    import_directory(lay(tmp_path / OTHER, G2 | {"notes.md": b"x"}), tmp_path / "b.ipynb")
    folder = lay(tmp_path / "out", G2)
    (folder / "notes.md").symlink_to(tmp_path / "nowhere")
    assert export_directory(tmp_path / "b.ipynb", folder).others == []
    assert (folder / "notes.md").is_symlink()


@posix
def test_a_pipe_at_the_temporary_name_is_taken_away(notebook: Path, tmp_path: Path) -> None:
    folder = lay(tmp_path / "out", {"metadata.json": G4["metadata.json"]})
    os.mkfifo(folder / "events.json.tmp")
    export_directory(notebook, folder)
    assert found(folder) == G4


def test_other_files_are_read_until_their_room_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"a.txt": b"a" * (MAX_OTHER_BYTES - 1), "b.txt": b"bb", "c.txt": b"c", "d.txt": b""}
    folder = lay(tmp_path / NAME, G4 | others)
    opened: list[str] = []
    really = os.open

    def watched(path: Any, *arguments: Any) -> int:
        opened.append(Path(path).name)
        return really(path, *arguments)

    monkeypatch.setattr(os, "open", watched)
    files, left_out = read_files(folder)
    assert files == G4 | {"a.txt": others["a.txt"], "c.txt": b"c"}
    assert left_out == ["b.txt", "d.txt"]
    assert "d.txt" not in opened


@pytest.mark.parametrize("size", [MAX_OTHER_BYTES, MAX_OTHER_BYTES + 1])
def test_another_file_that_is_too_long_is_left_out(size: int, tmp_path: Path) -> None:
    files, left_out = read_files(lay(tmp_path / NAME, {"a.txt": b"a" * size}))
    assert [*files, *left_out] == ["a.txt"]
    assert bool(left_out) == (size > MAX_OTHER_BYTES)


def test_a_file_of_jp_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (jp_directories, jp_files):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 1000)
    folder = lay(tmp_path / NAME, {"base_config.json": b"{}", "events.json": b"[]".ljust(1000)})
    load_directory(folder, clock=utc_now)
    (folder / "events.json").write_bytes(b"[]".ljust(1001))
    with pytest.raises(StorageError, match=r"events\.json: more than"):
        load_directory(folder, clock=utc_now)


# --- what somebody did in a directory since ----------------------------------------------------


def changed(entry: int, **fields: Any) -> bytes:
    events = json.loads(G4["events.json"])
    events[entry] |= fields
    return jp_text(events)


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("events.json", changed(1, content="edited"), r"events\[1\]"),
        ("events.json", changed(8, message="edited"), r"events\[8\]"),
        ("events.json", changed(1, extra=None), r"events\[1\]"),
        ("events.json", jp_text(json.loads(G4["events.json"])[::-1]), r"events\[1\]"),
        ("events.json", jp_text(json.loads(G4["events.json"]) * 2), r"events\[9\]"),
        ("base_config.json", jp_text({**BASE, "style": {}}), "base_config"),
        ("base_config.json", b"{}", "base_config"),
        ("base_config.json", b"no JSON", "base_config"),
        ("metadata.json", b"no JSON", "metadata"),
        ("metadata.json", b"[]", "metadata"),
        ("base_config.json", b"\xff", "utf-8"),
    ],
)
def test_what_was_changed_in_a_directory_is_not_undone(
    notebook: Path, tmp_path: Path, name: str, content: bytes, place: str
) -> None:
    folder = lay(tmp_path / "out" / NAME, G4 | {name: content})
    go_on(notebook)
    dialects: tuple[Dialect, ...] = ("native", "jp-head")
    for dialect in dialects:
        with pytest.raises(StorageError, match=f"{place}.*export to another folder"):
            export_directory(notebook, folder, dialect)
    assert found(folder) == G4 | {name: content}


def test_another_layout_than_that_of_a_directory_is_not_put_into_it(tmp_path: Path) -> None:
    import_directory(lay(tmp_path / NAME, G3), tmp_path / "a.ipynb")
    folder = tmp_path / "out"
    export_directory(tmp_path / "a.ipynb", folder, "jp-head")
    before = found(folder)
    with pytest.raises(StorageError, match="base_config"):
        export_directory(tmp_path / "a.ipynb", folder)
    assert found(folder) == before


def test_a_base_configuration_is_written_once(notebook: Path, tmp_path: Path) -> None:
    compact = json.dumps(BASE).encode()
    folder = lay(tmp_path / "out", G4 | {"base_config.json": compact})
    go_on(notebook)
    export_directory(notebook, folder)
    assert found(folder)["base_config.json"] == compact
    assert b'"And?"' in found(folder)["events.json"]


def test_what_jp_says_about_a_conversation_stays(notebook: Path, tmp_path: Path) -> None:
    there = {"title": "Renamed", "last_activated_at": "2026-03-01 00:00:00.0",
             "pinned_at": "2026-03-01 00:00:00.0", "labels": {"a": "b"}}  # fmt: skip
    folder = lay(tmp_path / "out", G4 | {"metadata.json": jp_text(there)})
    export_directory(notebook, folder)
    assert found(folder)["metadata.json"] == jp_text(there)
    go_on(notebook)
    export_directory(notebook, folder)
    written = json.loads(found(folder)["metadata.json"])
    assert written.pop("last_activated_at") > there.pop("last_activated_at")
    assert written == there


def test_an_empty_conversation_with_notes_is_exported_again(tmp_path: Path) -> None:
    files = {"base_config.json": b"{}\n", "events.json": b"[]\n", "notes.md": b"n"}
    import_directory(lay(tmp_path / NAME, files), tmp_path / "a.ipynb")
    export_directory(tmp_path / "a.ipynb", tmp_path / "out")
    export_directory(tmp_path / "a.ipynb", tmp_path / "out")
    assert found(tmp_path / "out") == files


# --- going on in both --------------------------------------------------------------------------


def jp_goes_on(folder: Path) -> None:
    events = json.loads((folder / "events.json").read_bytes())
    events.append(at(9, "chat_request", content="From JP"))
    (folder / "events.json").write_bytes(jp_text(events))
    (folder / "metadata.json").write_bytes(jp_text({"title": "By JP"}))


@pytest.mark.parametrize("among_others", [False, True])
def test_what_jp_went_on_with_takes_over(among_others: bool, tmp_path: Path) -> None:
    notebook, folder = tmp_path / "a.ipynb", lay(tmp_path / NAME, G4)
    import_directory(folder, notebook)
    go_on(notebook)
    export_directory(notebook, folder)
    if among_others:
        import_directory(lay(tmp_path / OTHER, G2), notebook)
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp["signature"] = "signed"
    nbformat.write(stored, notebook)
    jp_goes_on(folder)
    told = import_directory(folder, notebook)
    assert told == [
        f"{notebook}: jp-c17700000001 'By JP' taken over as it went on in {folder} "
        "(2 turns, 12 entries)"
    ]
    document = load_conversation(notebook)
    assert len(document.ids()) == 1 + len(document.others) == 1 + among_others
    assert ("signature" in document.extra) == among_others  # of the one that is active
    export_directory(notebook, tmp_path / "out", conversation="jp-c17700000001")
    assert found(tmp_path / "out") == found(folder)
    assert "nothing to do" in import_directory(folder, notebook)[0]


@pytest.mark.parametrize(
    "events",
    [
        json.loads(G4["events.json"])[:-1],
        [*json.loads(changed(1, content="edited")), at(9, "chat_request", content="x")],
        ["other", *json.loads(G4["events.json"])[1:]],
    ],
)
def test_what_is_not_all_in_a_directory_is_not_taken_over(events: Any, tmp_path: Path) -> None:
    notebook, folder = tmp_path / "a.ipynb", lay(tmp_path / NAME, G4)
    import_directory(folder, notebook)
    before = notebook.read_bytes()
    (folder / "events.json").write_bytes(
        jp_text([e if isinstance(e, dict) else {"type": e} for e in events])
    )
    with pytest.raises(StorageError, match="drop one of them"):
        import_directory(folder, notebook)
    assert notebook.read_bytes() == before


def test_null_is_no_record(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    nbformat.write(nbformat.v4.new_notebook(metadata={"jp": None}), notebook)
    import_directory(lay(tmp_path / NAME, G4), notebook)
    assert record(notebook).conversation.id == "jp-c17700000001"


def test_what_a_headless_run_left_moves_to_the_others(tmp_path: Path) -> None:
    notebook, executor = tmp_path / "a.ipynb", Executor()
    document, _ = begin(executor)
    document.conversation.start_turn(ChatRequest(content="Alone"))
    nbformat.write(nbformat.v4.new_notebook(metadata=executor.metadata()), notebook)
    import_directory(lay(tmp_path / NAME, G4), notebook)
    stored = nbformat.read(notebook, as_version=4).metadata
    assert "widgets" not in stored
    assert stored.jp.conversation.id == "jp-c17700000001"
    assert [other["conversation"]["id"] for other in stored.jp.others] == [document.conversation.id]


# --- damage ------------------------------------------------------------------------------------


def damage(notebook: Path) -> None:
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp.events.append({"type": "chat_request", "timestamp": "x"})
    nbformat.write(stored, notebook)


def test_a_damaged_record_is_shown_as_far_as_it_can_be_read(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(notebook)
    assert main(["show", str(notebook)]) == 1
    shown = capsys.readouterr()
    assert "Why tides?" in shown.out
    assert shown.err == "jp-nb: events[9].content: Field required\n"
    assert main(["show", str(notebook), "--json"]) == 1
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["events"]) == 10
    assert "events[9].content" in shown.err
    with pytest.raises(StorageError, match=r"events\[9\]"):
        load_conversation(notebook)


@pytest.mark.parametrize("head", [None, 3, {}])
def test_another_conversation_is_exported_from_beside_a_damaged_one(
    notebook: Path, tmp_path: Path, head: Any
) -> None:
    import_directory(lay(tmp_path / OTHER, G2), notebook)
    damage(notebook)
    if head is not None:
        stored = nbformat.read(notebook, as_version=4)
        stored.metadata.jp["conversation"] = head
        nbformat.write(stored, notebook)
    export_directory(notebook, tmp_path / "out", conversation="jp-c17700000001")
    assert found(tmp_path / "out") == G4
    for wanted in (None, "jp-c17600000001"):
        with pytest.raises(StorageError):
            export_directory(notebook, tmp_path / "no", conversation=wanted)
    if head is None:
        with pytest.raises(UsageError, match="has no conversation jp-c1, it has jp-c176"):
            export_directory(notebook, tmp_path / "no", conversation="jp-c1")
    assert not (tmp_path / "no").exists()


def test_nothing_is_exported_of_a_record_of_a_newer_release(notebook: Path, tmp_path: Path) -> None:
    import_directory(lay(tmp_path / OTHER, G2), notebook)
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp["version"] = 2
    nbformat.write(stored, notebook)
    with pytest.raises(StorageError, match="version 2"):
        export_directory(notebook, tmp_path / "out", conversation="jp-c17700000001")


# --- what is printed ---------------------------------------------------------------------------

ESCAPES = "\x1b[2J\x9b1m\x1b]0;evil\x07"


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert not set(text) & {"\x1b", "\x9b", "\x07"}
    return text


def evil(notebook: Path, **head: Any) -> None:
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp.conversation.update(head)
    nbformat.write(stored, notebook)


def test_show_prints_nothing_that_a_terminal_acts_on(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil(notebook, id=f"jp{ESCAPES}\nforged", title=f"a{ESCAPES}\nforged")
    assert main(["show", str(notebook)]) == 0
    assert "forged" not in printed(capsys).splitlines()
    assert main(["show", str(notebook), "--json"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert "\x1b" not in out
    assert json.loads(out)["conversation"]["title"] == f"a{ESCAPES}\nforged"
    damage(notebook)
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp.events.append(at(9, "inquiry_response", id="x", outcome=f"o{ESCAPES}"))
    nbformat.write(stored, notebook)
    assert main(["show", str(notebook)]) == 1
    assert "events[9]" in printed(capsys)


def test_half_a_character_is_printed_as_json(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = text_of(notebook).replace("Why tides?", "\\ud83d\x7f?")
    notebook.write_text(text, encoding="utf-8")
    assert main(["show", str(notebook), "--json"]) == 0
    out = capsys.readouterr().out
    assert "\\ud83d\\u007f?" in out
    assert out.isascii()


def test_import_prints_nothing_that_a_terminal_acts_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = G4 | {"metadata.json": jp_text({"title": f"a{ESCAPES}\nforged"}), "x\x1b[1m": b""}
    folder = lay(tmp_path / f"17700000001-{ESCAPES}".replace("/", ""), files)
    notebook = tmp_path / "a\x1b[1m\x9b1m\nforged.ipynb"
    for words in (" imported ", "nothing to do"):
        assert main(["import", str(folder), str(notebook)]) == 0
        lines = printed(capsys).splitlines()
        assert words in lines[0]
        assert not any(line.startswith("forged") for line in lines)


def test_export_prints_nothing_that_a_terminal_acts_on(
    notebook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp.base_config[f"a{ESCAPES}\nforged"] = 1
    stored.metadata.jp.conversation.origin["files"] = {"setup.py": "x", "notes.md": "y"}
    nbformat.write(stored, notebook)
    folder = tmp_path / "out\x1b[1m\x9b1m\nforged"
    arguments = ["export", str(notebook), str(folder), "--dialect", "jp-head"]
    assert main(arguments) == 0
    text = printed(capsys)
    assert not any(line.startswith("forged") for line in text.splitlines())
    written = [line.rpartition("/")[2] for line in text.splitlines() if "came with" in line]
    assert [line.split()[0] for line in written] == ["notes.md", "setup.py"]
    assert main(arguments) == 0
    assert "came with" not in printed(capsys)
    evil(notebook, id=f"jp{ESCAPES}\nforged")
    assert main([*arguments, "--conversation", f"b{ESCAPES}\nforged"]) == 2
    assert "\n" not in printed(capsys).strip()


@pytest.mark.parametrize("path", ["~nobody-of-that-name/x", "a\0b"])
def test_a_path_that_there_cannot_be_is_said_to_be_one(
    notebook: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(notebook), path]) == 2
    assert main(["import", path, str(notebook)]) == 2
    assert main(["show", path]) == 2
    with pytest.raises(UsageError):
        folder_at(path, Path())
    assert printed(capsys).count("jp-nb: ") == 3


def test_no_notebook_has_nul_in_its_name(tmp_path: Path) -> None:
    folder = lay(tmp_path / NAME, G4)
    with pytest.raises(UsageError, match="NUL"):
        import_directory(folder, Path("a\0b"))
    jp = load_directory(folder, clock=utc_now)
    with pytest.raises(UsageError, match="NUL"):
        save_directory(jp, Path("a\0b"))
    with pytest.raises(UsageError, match="NUL"):
        load_directory(Path("a\0b"), clock=utc_now)


def test_a_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert folder_at("~/x", Path("below")) == tmp_path / "x"
    assert folder_at("x", Path("below")) == Path("below") / "x"
