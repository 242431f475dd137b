"""`jp-nb import` and `jp-nb export` preserve a conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

import jp_nb
from jp_nb.cli import main
from jp_nb.headless.commands.record_export import export_notebook
from jp_nb.headless.commands.record_import import import_into_notebook
from tests.headless.jp_folders import (
    GENERATIONS,
    OTHER,
    append_turn,
    changed_events,
    files_in,
    record_in,
    save_again,
    write_folder,
)
from tests.interop.jp_directories import G2, G3, G4, G5, NAME, at, jp_text
from tests.kit.headless_runs import HeadlessRun
from tests.kit.jp_directories import JpDirectory
from tests.kit.notebook_record import open_document
from tests.support.notebook_runs import write_cells


def test_imported_conversation_is_exported_byte_for_byte(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for generation, files in GENERATIONS.items():
        with subtests.test(generation):
            folder = write_folder(tmp_path / generation / NAME, files)
            notebook = tmp_path / f"{generation}.ipynb"
            out = tmp_path / generation / "x"
            assert main(["import", str(folder), str(notebook)]) == 0
            save_again(notebook)
            assert main(["export", str(notebook), str(out)]) == 0
            assert files_in(out) == files


def test_new_notebook_is_created_and_shows_the_conversation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = tmp_path / "a.ipynb"
    assert main(["import", str(write_folder(tmp_path / NAME, G3)), str(notebook)]) == 0
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


def test_active_conversation_is_kept_beside_the_imported_one(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    import_into_notebook(write_folder(tmp_path / OTHER, G2), notebook)
    append_turn(notebook)
    import_into_notebook(write_folder(tmp_path / NAME, G4), notebook)
    document = open_document(notebook)
    assert document.conversation.id == "jp-c17700000001"
    assert document.ids() == {"jp-c17700000001", "jp-c17600000001"}
    arguments = ["export", str(notebook), str(tmp_path / "out"), "--conversation"]
    assert main([*arguments, "jp-c17600000001"]) == 0
    assert b'"And?"' in files_in(tmp_path / "out")["events.json"]


def test_notebook_without_a_conversation_keeps_its_cells(tmp_path: Path) -> None:
    notebook = write_cells(tmp_path / "a.ipynb", "1 + 1")
    import_into_notebook(write_folder(tmp_path / NAME, G4), notebook)
    assert [cell.source for cell in nbformat.read(notebook, as_version=4).cells] == ["1 + 1"]
    assert record_in(notebook).conversation.id == "jp-c17700000001"


def test_second_import_does_nothing_and_another_version_is_refused(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    folder = write_folder(tmp_path / NAME, G4)
    import_into_notebook(folder, notebook)
    before = notebook.read_bytes()
    assert import_into_notebook(folder, notebook) == [
        f"{notebook} already contains jp-c17700000001: nothing to import"
    ]
    assert notebook.read_bytes() == before
    (folder / "events.json").write_bytes(G3["events.json"])
    with pytest.raises(jp_nb.StorageError) as caught:
        import_into_notebook(folder, notebook)
    assert str(folder) in str(caught.value)
    assert str(notebook) in str(caught.value)
    assert notebook.read_bytes() == before


def test_inactive_conversation_is_not_imported_again(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    folder = write_folder(tmp_path / NAME, G5)
    import_into_notebook(folder, notebook)
    import_into_notebook(write_folder(tmp_path / OTHER, G2), notebook)
    assert "nothing to import" in import_into_notebook(folder, notebook)[0]


def test_omitted_files_are_listed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / NAME, G4 | {"photo.png": b"\xff", "note.md": b"n"})
    (folder / "blobs").mkdir()
    output = import_into_notebook(folder, tmp_path / "a.ipynb")
    assert [line.partition(" (")[0] for line in output[1:]] == [
        f"not imported: {folder / 'blobs'}",
        f"not imported: {folder / 'photo.png'}",
    ]
    export_notebook(tmp_path / "a.ipynb", tmp_path / "out")
    assert files_in(tmp_path / "out") == G4 | {"note.md": b"n"}


EXIT_CODES: list[tuple[list[str], int]] = [
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
]


def test_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write_folder(tmp_path / "damaged", G4 | {"events.json": b"["})
    write_folder(tmp_path / "invalid", G4 | {"events.json": b'[{"type": "chat_request"}]'})
    write_folder(tmp_path / "good", G4)
    Path("no.ipynb").write_text("no notebook")
    damaged = nbformat.v4.new_notebook(metadata={"jp": {"conversation": 3}})
    nbformat.write(damaged, "damaged.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), "cells.ipynb")
    import_into_notebook(write_folder(tmp_path / NAME, G4), Path("held.ipynb"))
    before = all_files_in(tmp_path)
    for arguments, code in EXIT_CODES:
        with subtests.test(arguments=arguments):
            assert main(arguments) == code
            if code:
                assert capsys.readouterr().err.startswith("jp-nb: ")
                assert all_files_in(tmp_path) == before


def all_files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_fields_that_jp_cannot_read_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = tmp_path / "a.ipynb"
    import_into_notebook(write_folder(tmp_path / NAME, G5), notebook)
    code = main(["export", str(notebook), str(tmp_path / "out"), "--dialect", "jp-head"])
    assert code == 0
    output = capsys.readouterr().err.splitlines()
    assert any("moon_phase" in line or "cancelled" in line for line in output)
    assert all(line.startswith(("events[", "base_config.")) for line in output)
    written = (tmp_path / "out" / "events.json").read_text()
    assert not any(word in written for word in ("cancelled", "redacted", "outcome", "event_id"))


# --- in a kernel -------------------------------------------------------------------------------


def test_kernel_loads_and_saves_without_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / NAME, G5)
    monkeypatch.chdir(folder)
    jp = JpDirectory.load(Path())
    assert JpDirectory.save(jp, tmp_path / "out").dropped == []
    assert files_in(tmp_path / "out") == G5
    assert JpDirectory.save(jp, tmp_path / "head", "jp-head").dropped
    with pytest.raises(jp_nb.UsageError, match="there is no folder"):
        JpDirectory.load(tmp_path / "none")


# --- continued in JP ---------------------------------------------------------------------------


def continue_in_jp(folder: Path) -> None:
    events = json.loads((folder / "events.json").read_bytes())
    events.append(at(9, "chat_request", content="From JP"))
    (folder / "events.json").write_bytes(jp_text(events))
    (folder / "metadata.json").write_bytes(jp_text({"title": "By JP"}))


@pytest.mark.parametrize("among_others", [False, True])
def test_conversation_that_jp_continued_replaces_the_stored_one(
    among_others: bool, tmp_path: Path
) -> None:
    notebook = tmp_path / "a.ipynb"
    folder = write_folder(tmp_path / NAME, G4)
    import_into_notebook(folder, notebook)
    append_turn(notebook)
    export_notebook(notebook, folder)
    if among_others:
        import_into_notebook(write_folder(tmp_path / OTHER, G2), notebook)
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp["signature"] = "signed"
    nbformat.write(stored, notebook)
    continue_in_jp(folder)
    output = import_into_notebook(folder, notebook)
    assert output == [
        f"{notebook}: jp-c17700000001 'By JP' updated from {folder} (2 turns, 12 entries)"
    ]
    document = open_document(notebook)
    assert len(document.ids()) == 1 + len(document.others) == 1 + among_others
    assert ("signature" in document.extra) == among_others  # of the active conversation
    export_notebook(notebook, tmp_path / "out", conversation="jp-c17700000001")
    assert files_in(tmp_path / "out") == files_in(folder)
    assert "nothing to import" in import_into_notebook(folder, notebook)[0]


@pytest.mark.parametrize(
    "events",
    [
        json.loads(G4["events.json"])[:-1],
        [*json.loads(changed_events(1, content="edited")), at(9, "chat_request", content="x")],
        ["other", *json.loads(G4["events.json"])[1:]],
    ],
)
def test_directory_without_all_entries_replaces_nothing(events: Any, tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    folder = write_folder(tmp_path / NAME, G4)
    import_into_notebook(folder, notebook)
    before = notebook.read_bytes()
    (folder / "events.json").write_bytes(
        jp_text([e if isinstance(e, dict) else {"type": e} for e in events])
    )
    with pytest.raises(jp_nb.StorageError, match="import into another notebook"):
        import_into_notebook(folder, notebook)
    assert notebook.read_bytes() == before


def test_null_is_not_a_record(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    nbformat.write(nbformat.v4.new_notebook(metadata={"jp": None}), notebook)
    import_into_notebook(write_folder(tmp_path / NAME, G4), notebook)
    assert record_in(notebook).conversation.id == "jp-c17700000001"


def test_conversation_of_a_headless_run_is_kept_beside_the_imported_one(tmp_path: Path) -> None:
    notebook = tmp_path / "a.ipynb"
    run = HeadlessRun()
    run.ask("Alone")
    nbformat.write(nbformat.v4.new_notebook(metadata=run.metadata()), notebook)
    import_into_notebook(write_folder(tmp_path / NAME, G4), notebook)
    stored = nbformat.read(notebook, as_version=4).metadata
    assert "widgets" not in stored
    assert stored.jp.conversation.id == "jp-c17700000001"
    assert [other["conversation"]["id"] for other in stored.jp.others] == [run.conversation]
