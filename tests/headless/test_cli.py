"""`jp-nb` returns the exit code that shells expect, and prints one line about an error."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest

from jp_nb.cli import main
from jp_nb.headless.commands import diagnosis
from tests.headless.reported_notebook import write_walk


def test_mistake_on_the_command_line_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_walk(tmp_path, "1")
    Path("broken.ipynb").write_text("{")
    rows: list[tuple[list[str], int, str]] = [
        (["run", "missing.ipynb"], 2, "there is no notebook missing.ipynb"),
        (["run", "walk.ipynb", "--tools", "recorded"], 2, "--tools selects where a replay takes"),
        (["run", "walk.ipynb", "--record", "a", "--tools", "recorded"], 2, "--replay"),
        (["run", "walk.ipynb", "--json", "walk.ipynb"], 2, "is named like a notebook"),
        (["run", "walk.ipynb", "--junit", "walk.ipynb"], 2, "is named like a notebook"),
        (["show", "walk.ipynb"], 1, "no conversation"),
        (["show", "broken.ipynb"], 1, "broken.ipynb"),
    ]
    before = Path("walk.ipynb").read_bytes()
    for arguments, code, words in rows:
        with subtests.test(arguments=arguments):
            assert main(arguments) == code
            output = capsys.readouterr().err
            assert output.startswith("jp-nb: ")
            assert words in output
            assert output.count("\n") == 1
    assert Path("walk.ipynb").read_bytes() == before


def test_unknown_command_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dance"])
    assert ended.value.code == 2
    assert "dance" in capsys.readouterr().err


def test_interrupted_command_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(diagnosis, "print_diagnosis", interrupted)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "jp-nb: interrupted\n"


@pytest.mark.parametrize("command", ["show a.ipynb", "diff a.ipynb b.ipynb"])
def test_output_that_is_closed_early_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:  # fmt: skip
    """`head` closes the pipe early: `jp-nb show NB | head`."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        entry = {"type": "chat_request", "timestamp": "2026-03-18 12:00:00.0", "content": name}
        jp = {"version": 1, "conversation": {"id": "jp-c1", "made": "live"}, "base_config": {}}
        metadata = {"jp": {**jp, "events": [entry]}}
        nbformat.write(nbformat.v4.new_notebook(metadata=metadata), f"{name}.ipynb")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        assert main(command.split()) == 128 + 13
    assert capsys.readouterr().err == ""


def test_doctor_reports_an_error_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    assert "JupyterLab extension in" in capsys.readouterr().out
    (tmp_path / ".jp").mkdir()
    (tmp_path / ".jp" / "config.toml").write_text('[assistant]\nnmae = "x"\n')
    assert main(["doctor"]) == 1
    assert "did you mean 'assistant.name'?" in capsys.readouterr().out
