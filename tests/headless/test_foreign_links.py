"""Links that someone else left where the program writes: nothing outside of the folder changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.cli import main
from jp_nb.config.tree.provider_config import CassetteMode
from jp_nb.errors import ConfigError
from tests.support.cassette_runs import write_cells
from tests.support.in_process import new_session

ASK = "%%jp -m scripted/hello\nHello?"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder that no link of another one may reach."""
    folder = tmp_path / "home"
    folder.mkdir()
    mine = write_cells(folder / "mine.ipynb", "1 + 1")
    text = mine.read_text()
    mine.write_text(
        text.replace('"metadata": {\n  "kernelspec"', '"metadata": {"jp": {}, "kernelspec"')
    )
    assert mine.read_text() != text  # something to strip
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    yield folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "hello.toml").write_text('[[replies]]\ntext = "Hello."\n')
    return write_cells(tmp_path / "work" / "talk.ipynb", "%load_ext jp_nb", ASK)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("talk.cassette.jsonl", ["--record"]),
        ("talk.cassette.jsonl", ["--replay-or-record"]),
        ("out.xml", ["--junit", "out.xml"]),
        ("out.json", ["--json", "out.json"]),
        ("out.toml", ["--answers-template", "out.toml"]),
        ("out.ipynb", ["-o", "out.ipynb"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_run_refuses_a_link_to_a_new_file_before_it_runs_anything(
    home: Path,
    talk: Path,
    name: str,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(talk.parent)
    link = talk.parent / name
    link.symlink_to(home / f".profile{link.suffix}")
    before = talk.read_bytes()
    assert main(["run", "talk.ipynb", *options]) != 0
    assert name in capsys.readouterr().err
    assert talk.read_bytes() == before


def test_notebook_that_is_a_link_out_of_its_folder_is_not_written(
    home: Path, talk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = talk.parent / "link.ipynb"
    link.symlink_to(home / "mine.ipynb")
    for command in (["run"], ["strip"]):
        assert main([*command, str(link)]) != 0
        assert "a link leads to" in capsys.readouterr().err


def test_import_writes_no_notebook_through_a_link(
    home: Path, talk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(talk)]) == 0
    exported = talk.parent / "exported"
    assert main(["export", str(talk), str(exported)]) == 0
    link = talk.parent / "link.ipynb"
    link.symlink_to(home / "new.ipynb")
    assert main(["import", str(exported), str(link)]) != 0
    assert "no such file exists" in capsys.readouterr().err
    (talk.parent / "out").symlink_to(home)
    assert main(["export", str(talk), str(talk.parent / "out")]) != 0


@pytest.mark.parametrize("mode", ["record", "replay-or-record"])
def test_cassette_command_refuses_a_link(
    home: Path, talk: Path, mode: CassetteMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(talk.parent)
    (talk.parent / "talk.cassette.jsonl").symlink_to(home / ".bash_profile")
    (talk.parent / "tapes").symlink_to(home)
    session = new_session()
    for name in ("talk.cassette.jsonl", "tapes/talk.cassette.jsonl"):
        with pytest.raises(ConfigError, match="link"):
            session.active.cassettes.choose(mode, name)


def test_pytest_records_on_no_link(home: Path, talk: Path) -> None:
    (talk.parent / "talk.cassette.jsonl").symlink_to(home / ".bash_profile")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--jp", "--jp-record", talk],
        cwd=talk.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "is a link to" in done.stdout
