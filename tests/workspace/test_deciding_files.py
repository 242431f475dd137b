"""Files that decide something are used only if they are the user's own, and of a bounded size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jp_nb.cli import main
from jp_nb.errors import JpNbError
from jp_nb.session.question_import import read_table
from jp_nb.workspace import answers_file, cassette_file
from jp_nb.workspace.answers_file import parse_answers, read_answers_file
from jp_nb.workspace.cassette_file import read_cassette
from tests.support.cassette_runs import write_cells

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes")

READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "answers": (read_answers_file, '[permissions]\nx = "run"\n'),
    "cassette": (read_cassette, '{"jp_nb":"cassette","version":1}\n'),
    "table": (read_table, "timestamp,question,answer\n"),
}
readers = pytest.mark.parametrize(("read", "text"), READERS.values(), ids=READERS)
GiveAway = Callable[[Path], None]


@readers
def test_file_of_another_user_is_not_used(
    tmp_path: Path, give_away: GiveAway, read: Callable[[Path], object], text: str
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    read(file)
    give_away(file)
    with pytest.raises(JpNbError, match="belongs to another user"):
        read(file)


@readers
def test_file_or_folder_that_others_may_change_is_not_used(
    tmp_path: Path, read: Callable[[Path], object], text: str
) -> None:
    file = tmp_path / "shared" / "file"
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o666)
    with pytest.raises(JpNbError, match="may be changed by everybody"):
        read(file)
    file.chmod(0o600)
    file.parent.chmod(0o777)
    with pytest.raises(JpNbError, match="may be changed by everybody"):
        read(file)


@readers
def test_link_of_another_user_is_not_followed(
    tmp_path: Path, give_away: GiveAway, read: Callable[[Path], object], text: str
) -> None:
    (tmp_path / "real").write_text(text)
    link = tmp_path / "file"
    link.symlink_to("real")
    read(link)
    give_away(link)
    with pytest.raises(JpNbError, match="is a link of another user"):
        read(link)


def test_run_uses_no_answers_file_that_others_may_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = write_cells(tmp_path / "n.ipynb", "1 + 1")
    answers = tmp_path / "n.answers.toml"
    answers.write_text('[permissions]\nx = "run"\n')
    answers.chmod(0o666)
    assert main(["run", str(notebook), "--answers", str(answers)]) != 0
    assert "may be changed by everybody (`chmod go-w`" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "huge", "zero"])
@readers
def test_file_without_an_end_is_an_error(
    tmp_path: Path, kind: str, read: Callable[[Path], object], text: str
) -> None:
    file = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "zero":
        file.symlink_to("/dev/zero")
    else:
        file.write_text(text)
        os.truncate(file, 60_000_000)  # sparse: it takes no space
    refused = r"is not a file|there is no file|has more than \d+ bytes|may be changed by"
    with pytest.raises(JpNbError, match=refused):
        read(file)


def test_check_reads_no_more_of_a_file_than_it_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cassette_file, "MAX_BYTES", 1000)
    monkeypatch.setattr(answers_file, "MAX_BYTES", 1000)
    for name in ("a.cassette.jsonl", "a.answers.toml"):
        (tmp_path / name).write_text("x" * 2000 + "sk-ant-api03-" + "aB3" * 20)
    assert main(["check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.count("has more than 1000 bytes") == 2
    assert len(out.splitlines()) == 2


def test_name_of_a_file_is_safe_in_each_line_of_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "sk-ant-api03-" + "aB3" * 20
    name = "a\x1b]0;owned\x07\nb.answers.toml"
    (tmp_path / name).write_text(f'[questions.t]\nq = ["{key}",\n' + f'"{key}",\n' * 30 + "]\n")
    assert main(["check", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith("and 11 more")
    assert all(line.startswith(str(tmp_path)) for line in lines)
    assert "\x1b" not in "".join(lines)


def test_long_answers_file_is_read_in_linear_time() -> None:
    value = "[\n" + ('  "' + "x" * 90 + '",\n') * 498 + "]\n"
    text = "[questions.t]\n" + "".join(f"q{number} = {value}" for number in range(19))
    began = time.process_time()
    found = parse_answers(text, "a.toml")
    assert time.process_time() - began < 5  # it took 25 s
    assert [each.line for each in found.answers] == [2 + 500 * number for number in range(19)]
