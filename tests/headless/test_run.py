"""`jp-nb run`: options, reports, and links through which it does not write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

import jp_nb as jp
from jp_nb.cli import main
from jp_nb.headless.commands import run
from tests.headless.reported_notebook import ANSWER, LOAD, PLAN, TOOLS, write_walk
from tests.kit.kinds import make
from tests.support.notebook_runs import write_cells
from tests.support.sessions import make_session

# --- links -----------------------------------------------------------------------------------

ASK = "%%jp -m scripted/hello\nHello?"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder outside of the notebook's folder, in which nothing may change."""
    folder = tmp_path / "home"
    folder.mkdir()
    mine = write_cells(folder / "mine.ipynb", "1 + 1")
    text = mine.read_text()
    mine.write_text(
        text.replace('"metadata": {\n  "kernelspec"', '"metadata": {"jp": {}, "kernelspec"')
    )
    assert mine.read_text() != text, "there is something to strip"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    yield folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "hello.toml").write_text('[[replies]]\ntext = "Hello."\n')
    return write_cells(tmp_path / "work" / "talk.ipynb", "%load_ext jp_nb", ASK)


def test_link_to_a_new_file_elsewhere_is_refused_before_the_run(
    home: Path, talk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    monkeypatch.chdir(talk.parent)
    before = talk.read_bytes()
    for name, options in [
        ("talk.cassette.jsonl", ["--record"]),
        ("talk.cassette.jsonl", ["--replay-or-record"]),
        ("out.xml", ["--junit", "out.xml"]),
        ("out.json", ["--json", "out.json"]),
        ("out.toml", ["--answers-template", "out.toml"]),
        ("out.ipynb", ["-o", "out.ipynb"]),
    ]:
        with subtests.test(options=options):
            link = talk.parent / name
            link.symlink_to(home / f".profile{link.suffix}")
            assert main(["run", "talk.ipynb", *options]) != 0
            link.unlink()
            assert name in capsys.readouterr().err
            assert talk.read_bytes() == before


def test_notebook_that_links_out_of_its_folder_is_not_written(
    home: Path, talk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = talk.parent / "link.ipynb"
    link.symlink_to(home / "mine.ipynb")
    for command in (["run"], ["strip"]):
        assert main([*command, str(link)]) != 0
        assert "a link points to" in capsys.readouterr().err


def test_cassette_of_a_session_refuses_a_link(
    home: Path, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(talk.parent)
    (talk.parent / "talk.cassette.jsonl").symlink_to(home / ".bash_profile")
    (talk.parent / "tapes").symlink_to(home)
    session = make_session()
    modes: tuple[Any, ...] = ("record", "replay-or-record")
    for mode, name in product(modes, ("talk.cassette.jsonl", "tapes/talk.cassette.jsonl")):
        with pytest.raises(jp.ConfigError, match="link"):
            session.active.cassettes.choose(mode, name)


# --- runs ------------------------------------------------------------------------------------

Outcome = tuple[int, str]


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Run `jp-nb` in the folder of the test, and return its exit code and its messages."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Outcome:
        status = main(arguments)
        return status, capsys.readouterr().err

    return call


@pytest.mark.runners
def test_reports_of_a_run_list_the_open_decisions(
    command: Callable[..., Outcome], tmp_path: Path
) -> None:
    write_walk(tmp_path, LOAD, TOOLS, ANSWER, PLAN)
    status, _ = command("run", "walk.ipynb", "--junit", "reports/walk.xml", "--json", "walk.json")
    assert status == 0
    suite = ElementTree.parse(tmp_path / "reports" / "walk.xml").getroot()[0]
    assert (suite.get("name"), suite.get("failures")) == ("walk.ipynb", "0")
    report = json.loads((tmp_path / "walk.json").read_text())
    assert report["ok"] is True
    [undecided] = report["undecided"]
    assert (undecided["kind"], undecided["times"]) == ("question", 1)
    assert undecided["what"] == "question place of plan: Where do you walk?"
    output = suite.findtext("system-out", "")
    assert output.startswith(f"open decision: {undecided['what']}: ")


@pytest.mark.runners
def test_failed_run_ends_with_1_and_its_reports_hold_no_key(
    command: Callable[..., Outcome], tmp_path: Path
) -> None:
    key = "sk-abcdefgh1234567890123"
    write_walk(tmp_path, f"raise ValueError('no such key: {key[:5]}' '{key[5:]}')")
    status, output = command("run", "walk.ipynb", "--junit", "walk.xml", "--json", "walk.json")
    assert status == 1
    assert output == "jp-nb: ValueError in cell 2: no such key: (set, not shown)\n"
    assert ElementTree.parse(tmp_path / "walk.xml").getroot()[0].get("failures") == "1"
    assert json.loads((tmp_path / "walk.json").read_text())["ok"] is False
    assert key not in (tmp_path / "walk.xml").read_text() + (tmp_path / "walk.json").read_text()


def test_unwritable_report_is_an_error_beside_the_failure(
    command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_walk(tmp_path, "1 / 0")
    (tmp_path / "walk.xml").mkdir()
    failure = make("run_failure", 1, "ZeroDivisionError", "division by zero")
    result = make("run_result", path, nbformat.read(path, as_version=4), failure)
    monkeypatch.setattr(run, "run_notebook", lambda *_, **__: result)
    status, output = command("run", "walk.ipynb", "--junit", "walk.xml")
    assert status == 1
    assert "ZeroDivisionError in cell 2" in output
    assert "walk.xml cannot be written" in output


def test_options_are_passed_to_the_run(
    command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_walk(tmp_path, "1")
    (tmp_path / "a.toml").touch()
    given: dict[str, Any] = {}

    def run_notebook(notebook: Path, **options: Any) -> Any:
        given.update(options, notebook=notebook)
        return make("run_result", path, nbformat.v4.new_notebook())

    monkeypatch.setattr(run, "run_notebook", run_notebook)
    options = ["--strict", "--continue", "-c", "a=1", "--cfg", "b:=2", "-o", "out.ipynb"]
    more = ["--answers", "a.toml", "--replay", "--tools", "recorded"]
    assert command("run", "walk.ipynb", *options, *more) == (0, "")
    assert given == {
        "notebook": Path("walk.ipynb"),
        "out": Path("out.ipynb"),
        "strict": True,
        "continue_": True,
        "overrides": ["a=1", "b:=2"],
        "answers": Path("a.toml"),
        "timeout": None,
        "run_timeout": None,
        "run_inserted": False,
        "settings": {
            "providers.cassette.mode": "replay",
            "providers.cassette.path": str(tmp_path / "walk.cassette.jsonl"),
            "providers.cassette.tools": "recorded",
        },
    }
