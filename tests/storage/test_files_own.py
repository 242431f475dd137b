"""Files that decide something are used only if they are the user's own, and of a bounded size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import jp_nb as jp
from jp_nb.cli import main
from jp_nb.session.questions.answer_import import read_table
from jp_nb.storage import files
from tests.kit.answers import PreparedAnswers
from tests.kit.cassettes import CassetteFile
from tests.support.notebook_runs import write_cells

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes")

GiveAway = Callable[[Path], None]


def test_file_of_another_user_is_not_read(tmp_path: Path, give_away: GiveAway) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    assert files.read_owned_file(file) == b"text"
    give_away(file)
    with pytest.raises(Exception, match="belongs to another user"):
        files.read_owned_file(file)


def test_file_or_folder_that_others_may_change_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "shared" / "file"
    file.parent.mkdir()
    file.write_text("text")
    for place, mode in ((file, 0o666), (file.parent, 0o777)):
        before = place.stat().st_mode
        place.chmod(mode)
        with pytest.raises(Exception, match="is writable for everyone"):
            files.read_owned_file(file)
        place.chmod(before)
    assert files.read_owned_file(file) == b"text"


def test_file_that_a_group_may_change_is_read_if_the_group_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    file.chmod(0o664)
    monkeypatch.setattr(files, "_is_private_group", lambda _: True)
    assert files.read_owned_file(file) == b"text"
    monkeypatch.setattr(files, "_is_private_group", lambda _: False)
    with pytest.raises(Exception, match="is writable for its group"):
        files.read_owned_file(file)


def test_group_of_root_is_private_and_a_group_of_others_is_not() -> None:
    assert files._is_private_group(0)
    assert not files._is_private_group(987_654)


@pytest.mark.parametrize("owned", ["link", "target", "folder of the target"])
def test_link_is_followed_if_it_and_its_target_are_the_users_own(
    tmp_path: Path, give_away: GiveAway, owned: str
) -> None:
    target = tmp_path / "elsewhere" / "real"
    target.parent.mkdir()
    target.write_text("text")
    link = tmp_path / "file"
    link.symlink_to(target)
    assert files.read_owned_file(link) == b"text"
    give_away({"link": link, "target": target}.get(owned, target.parent))
    with pytest.raises(Exception, match=r"belongs to another user"):
        files.read_owned_file(link)


@pytest.mark.parametrize("foreign", ["shared", "shared/link", "shared/folder", "way"])
def test_each_link_on_the_way_is_the_users_own(
    tmp_path: Path, give_away: GiveAway, foreign: str
) -> None:
    for name in ("real", "shared", "own"):
        (tmp_path / name).mkdir()
    (tmp_path / "real" / "file").write_text("text")
    (tmp_path / "way").symlink_to(tmp_path / "real")
    (tmp_path / "shared" / "folder").symlink_to("../way")
    (tmp_path / "shared" / "link").symlink_to("folder/file")
    (tmp_path / "own" / "file").symlink_to("../shared/link")
    assert files.read_owned_file(tmp_path / "own" / "file") == b"text"
    give_away(tmp_path / foreign)
    with pytest.raises(Exception, match=f"{foreign} .*belongs to another user"):
        files.read_owned_file(tmp_path / "own" / "file")
    is_owned = files.is_owned_folder(tmp_path / "shared" / "folder")
    assert is_owned is (foreign not in ("shared/folder", "way"))


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises((OSError, RuntimeError)):
        files.read_owned_file(tmp_path / "a")
    assert not files.is_owned_folder(tmp_path / "a")


def test_pipe_device_and_long_file_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_text("x" * 101)
    for file in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "long"):
        refused = r"is not a file|has more than 100 bytes|is writable for"
        with pytest.raises(Exception, match=refused):
            files.read_owned_file(file, max_bytes=100)
    (tmp_path / "long").write_text("x" * 100)
    assert len(files.read_owned_file(tmp_path / "long", max_bytes=100)) == 100


def test_each_reader_refuses_a_foreign_file_and_one_that_is_too_long(
    tmp_path: Path, give_away: GiveAway, subtests: pytest.Subtests
) -> None:
    readers: dict[str, tuple[Callable[[Path], object], str]] = {
        "answers": (PreparedAnswers, '[permissions]\nx = "run"\n'),
        "cassette": (
            lambda path: CassetteFile(path).exchanges(),
            '{"jp_nb":"cassette","version":1}\n',
        ),
        "table": (read_table, "timestamp,question,answer\n"),
    }
    for name, (read, text) in readers.items():
        with subtests.test(name=name):
            file = tmp_path / name
            file.write_text(text)
            read(file)
            os.truncate(file, 60_000_000)  # sparse: it takes no space
            with pytest.raises(jp.JpNbError, match=r"has more than \d+ bytes"):
                read(file)
            give_away(file)
            with pytest.raises(jp.JpNbError, match="belongs to another user"):
                read(file)


def test_run_refuses_an_answers_file_that_others_may_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = write_cells(tmp_path / "n.ipynb", "1 + 1")
    answers = tmp_path / "n.answers.toml"
    answers.write_text('[permissions]\nx = "run"\n')
    answers.chmod(0o666)
    assert main(["run", str(notebook), "--answers", str(answers)]) != 0
    assert "is writable for everyone (make it private with `chmod go-w`)" in capsys.readouterr().err


def test_check_refuses_files_that_are_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"a.cassette.jsonl": 50_000_000, "a.answers.toml": 5_000_000}
    for name, limit in limits.items():
        (tmp_path / name).write_text("sk-ant-api03-" + "aB3" * 20)
        os.truncate(tmp_path / name, limit + 1)  # sparse: it takes no space

    assert main(["check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    for limit in limits.values():
        assert f"has more than {limit} bytes" in out
    assert len(out.splitlines()) == 2


def test_check_escapes_file_names(
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


@pytest.mark.deep
def test_long_answers_file_is_read_in_linear_time() -> None:
    value = "[\n" + ('  "' + "x" * 90 + '",\n') * 498 + "]\n"
    text = "[questions.t]\n" + "".join(f"q{number} = {value}" for number in range(19))
    began = time.process_time()
    found = PreparedAnswers(text).list()
    assert time.process_time() - began < 5  # it took 25 s
    assert [each["line"] for each in found] == [2 + 500 * number for number in range(19)]
