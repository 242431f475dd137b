"""`jp-nb show`, `import` and `export`: damaged records, and lines safe for a terminal."""

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
    OTHER,
    files_in,
    write_folder,
)
from tests.interop.jp_directories import G2, G4, NAME, at, jp_text
from tests.kit.jp_directories import JpDirectory
from tests.kit.notebook_record import open_document

# --- damage ------------------------------------------------------------------------------------


def damage(notebook: Path) -> None:
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp.events.append({"type": "chat_request", "timestamp": "x"})
    nbformat.write(stored, notebook)


def test_readable_part_of_a_damaged_record_is_shown(
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
    with pytest.raises(jp_nb.StorageError, match=r"events\[9\]"):
        open_document(notebook)


@pytest.mark.req("CELL-38")
def test_timeline_of_a_turn_is_printed(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(notebook), "--timeline", "1"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("Timeline of turn 1: ")
    assert "request 1" in first
    assert main(["show", str(notebook), "--timeline"]) == 0
    last = capsys.readouterr().out
    assert last.startswith("Timeline of turn ")
    for missing in ("0", "99"):
        assert main(["show", str(notebook), "--timeline", missing]) != 0
        assert f"There is no turn {missing}." in capsys.readouterr().err


@pytest.mark.parametrize("head", [None, 3, {}])
def test_intact_conversation_beside_a_damaged_one_is_exported(
    notebook: Path, tmp_path: Path, head: Any
) -> None:
    import_into_notebook(write_folder(tmp_path / OTHER, G2), notebook)
    damage(notebook)
    if head is not None:
        stored = nbformat.read(notebook, as_version=4)
        stored.metadata.jp["conversation"] = head
        nbformat.write(stored, notebook)
    export_notebook(notebook, tmp_path / "out", conversation="jp-c17700000001")
    assert files_in(tmp_path / "out") == G4
    for wanted in (None, "jp-c17600000001"):
        with pytest.raises(jp_nb.StorageError):
            export_notebook(notebook, tmp_path / "no", conversation=wanted)
    if head is None:
        with pytest.raises(jp_nb.UsageError, match="has no conversation jp-c1; it has jp-c176"):
            export_notebook(notebook, tmp_path / "no", conversation="jp-c1")
    assert not (tmp_path / "no").exists()


def test_record_of_a_newer_release_is_not_exported(notebook: Path, tmp_path: Path) -> None:
    import_into_notebook(write_folder(tmp_path / OTHER, G2), notebook)
    stored = nbformat.read(notebook, as_version=4)
    stored.metadata.jp["version"] = 2
    nbformat.write(stored, notebook)
    with pytest.raises(jp_nb.StorageError, match="version 2"):
        export_notebook(notebook, tmp_path / "out", conversation="jp-c17700000001")


# --- printed lines -----------------------------------------------------------------------------

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


def test_show_prints_no_control_characters(
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
    text = notebook.read_text(encoding="utf-8").replace("Why tides?", "\\ud83d\x7f?")
    notebook.write_text(text, encoding="utf-8")
    assert main(["show", str(notebook), "--json"]) == 0
    out = capsys.readouterr().out
    assert "\\ud83d\\u007f?" in out
    assert out.isascii()


def test_import_prints_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = G4 | {"metadata.json": jp_text({"title": f"a{ESCAPES}\nforged"}), "x\x1b[1m": b""}
    folder = write_folder(tmp_path / f"17700000001-{ESCAPES}".replace("/", ""), files)
    notebook = tmp_path / "a\x1b[1m\x9b1m\nforged.ipynb"
    for words in (" imported ", "nothing to import"):
        assert main(["import", str(folder), str(notebook)]) == 0
        lines = printed(capsys).splitlines()
        assert words in lines[0]
        assert not any(line.startswith("forged") for line in lines)


def test_export_prints_no_control_characters(
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
    written = [line.rpartition("/")[2] for line in text.splitlines() if "imported with" in line]
    assert [line.split()[0] for line in written] == ["notes.md", "setup.py"]
    assert main(arguments) == 0
    assert "imported with" not in printed(capsys)
    evil(notebook, id=f"jp{ESCAPES}\nforged")
    assert main([*arguments, "--conversation", f"b{ESCAPES}\nforged"]) == 2
    assert "\n" not in printed(capsys).strip()


@pytest.mark.parametrize("path", ["~nobody-of-that-name/x", "a\0b"])
def test_impossible_path_is_an_error(
    notebook: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(notebook), path]) == 2
    assert main(["import", path, str(notebook)]) == 2
    assert main(["show", path]) == 2
    assert printed(capsys).count("jp-nb: ") == 3


def test_nul_in_a_path_is_an_error(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / NAME, G4)
    with pytest.raises(jp_nb.UsageError, match="NUL"):
        import_into_notebook(folder, Path("a\0b"))
    jp = JpDirectory.load(folder)
    with pytest.raises(jp_nb.UsageError, match="NUL"):
        JpDirectory.save(jp, Path("a\0b"))
    with pytest.raises(jp_nb.UsageError, match="NUL"):
        JpDirectory.load(Path("a\0b"))


def test_tilde_is_expanded(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(tmp_path)

    for text, folder in [("~/x", home / "x"), ("y", tmp_path / "y")]:
        assert main(["export", str(notebook), text]) == 0
        assert (folder / "events.json").is_file()
