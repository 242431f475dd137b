"""The project log: files and ids, concurrent and killed writers, damage and limits."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.storage.file_locks import hold_file_lock
from jp_nb.storage.question_logs import question_log_file as question_log
from jp_nb.storage.question_logs.question_log_file import QuestionLogFile
from tests.storage.log_writers import Writer, check, entry

MAX_LOG_FILE_BYTES = 2_500_000
EACH = 300
"""Answers that each process writes while others are killed; the bench has more of them."""
KILLS = 4
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX")


@pytest.fixture
def log(tmp_path: Path) -> QuestionLogFile:
    return QuestionLogFile(tmp_path)


def add(log: QuestionLogFile, *answers: Any, **more: Any) -> None:
    log.append([{**entry("test", number), "answer": answer, **more}
                for number, answer in enumerate(answers)])  # fmt: skip


def answered(log: QuestionLogFile) -> list[tuple[int, Any]]:
    return [(number, each["answer"]) for number, each in log.read().answered]


def names(log: QuestionLogFile) -> list[str]:
    return sorted(path.name for path in log.folder.glob("qna*"))


def lines(log: QuestionLogFile, name: str = "qna.jsonl") -> list[str]:
    return (log.folder / name).read_text(encoding="utf-8").splitlines()


# --- writing and reading ---------------------------------------------------------------------


@pytest.mark.req("RCP-38", "RCP-39", "RCP-42", "RCP-54")
def test_answer_is_a_numbered_line_in_a_new_folder(log: QuestionLogFile) -> None:
    assert not log.exists()
    contents = log.read()
    assert (contents.lines, contents.last, contents.unread) == ([], 0, [])
    assert not log.folder.parent.exists()  # to read makes nothing
    add(log, "one\ntwo", "b")
    assert log.exists()
    first, second = map(json.loads, lines(log))
    assert (first["id"], first["answer"]) == (1, "one\ntwo")
    assert second["id"] == 2


@pytest.mark.req("RCP-43", "RCP-44", "RCP-45", "RCP-46", "RCP-47", "RCP-48", "RCP-49", "HB-14")
def test_file_is_archived_after_100_lines_and_ids_continue(log: QuestionLogFile) -> None:
    for number in range(100):
        add(log, number)
    assert names(log) == ["qna.jsonl"]
    before = answered(log)
    add(log, "the 101st")
    assert names(log) == ["qna.jsonl", "qna_0001.jsonl"]
    assert len(lines(log)) == 1
    for number in range(250):
        add(log, number)
    assert names(log) == ["qna.jsonl", *(f"qna_000{n}.jsonl" for n in (1, 2, 3))]
    found = answered(log)
    assert found[:100] == before
    assert [number for number, _ in found] == list(range(1, 352))
    assert found[100] == (101, "the 101st")


@pytest.mark.req("RCP-43")
def test_blank_and_damaged_lines_count_towards_a_full_file(log: QuestionLogFile) -> None:
    add(log, "a")
    with log.path.open("ab") as file:
        file.write(b"\n" * 50 + b"damaged\n" * 49)
    add(log, "b")
    assert names(log) == ["qna.jsonl", "qna_0001.jsonl"]
    assert log.read().damaged == 49


@pytest.mark.req("RCP-46")
def test_next_archive_number_follows_the_highest(log: QuestionLogFile) -> None:
    add(log, *range(100))
    for number in (3, 9999):
        log.path.with_name(f"qna_{number:04d}.jsonl").write_bytes(b"")
    add(log, "x")
    add(log, *range(100))
    assert names(log) == [
        "qna.jsonl", "qna_0003.jsonl", "qna_10000.jsonl", "qna_10001.jsonl", "qna_9999.jsonl",
    ]  # fmt: skip
    assert [number for number, _ in answered(log)] == list(range(1, 202))


@pytest.mark.req("RCP-46")
def test_file_that_cannot_be_archived_grows_and_is_reported(
    log: QuestionLogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(log, *range(100))

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "not allowed")

    monkeypatch.setattr(os, "rename", refuse)
    added = log.append([entry("test", 1)])
    assert "is full and cannot be archived: not allowed" in added.problems[0]
    assert len(lines(log)) == 101


@pytest.mark.req("RCP-47")
def test_configured_number_of_archives_is_kept(tmp_path: Path) -> None:
    log = QuestionLogFile(tmp_path, max_archives=2)
    add(log, *range(450))
    assert names(log) == ["qna.jsonl", "qna_0003.jsonl", "qna_0004.jsonl"]
    assert [number for number, _ in answered(log)] == list(range(201, 451))


# --- what others left there ------------------------------------------------------------------


@pytest.mark.req("RCP-41", "RCP-42", "RCP-50")
def test_old_entries_are_numbered_by_position_also_after_damage(
    log: QuestionLogFile,
) -> None:
    old = {"datetime": "2026-03-01T10:00:00Z", "question": "Q?"}
    log.folder.mkdir(parents=True)
    text = [json.dumps(old | {"answer": answer}) for answer in ("a", "b", "c")]
    log.path.write_text("\n".join(text) + "\n")
    assert answered(log) == [(1, "a"), (2, "b"), (3, "c")]
    text[1] = "damaged"
    log.path.write_text("\n".join(text))  # and no end of the last line
    assert answered(log) == [(1, "a"), (3, "c")]
    add(log, "new")
    assert answered(log) == [(1, "a"), (3, "c"), (4, "new")]
    assert log.read().damaged == 1
    add(log, *range(100))
    assert answered(log)[:3] == [(1, "a"), (3, "c"), (4, "new")]


def test_torn_last_line_damages_no_other_line(log: QuestionLogFile) -> None:
    add(log, "a", "b")
    log.path.write_bytes(log.path.read_bytes()[:-10])
    add(log, "c")
    assert answered(log) == [(1, "a"), (3, "c")]
    assert log.read().damaged == 1


def test_ids_continue_after_edited_archives(log: QuestionLogFile) -> None:
    add(log, *range(101))
    add(log, "now the archive was looked at")
    archive = log.folder / "qna_0001.jsonl"
    more = {**entry("another", 1), "id": 500}
    archive.write_text(archive.read_text() + json.dumps(more) + "\n")  # merged, by hand or by git
    add(log, "x")
    assert answered(log)[-1] == (501, "x")


def test_writer_killed_between_two_files_needs_no_repair(log: QuestionLogFile) -> None:
    add(log, *range(100))
    log.path.rename(log.folder / "qna_0001.jsonl")
    assert log.append([entry("test", 1)]).problems == ()
    assert [number for number, _ in answered(log)] == list(range(1, 102))
    assert names(log) == ["qna.jsonl", "qna_0001.jsonl"]


def test_largest_possible_id_is_an_error_and_nothing_is_written(log: QuestionLogFile) -> None:
    add(log, "a")
    with log.path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**entry("test", 1), "answer": "planted", "id": 2**53 - 1}) + "\n")
    before = lines(log)
    with pytest.raises(jp.StorageError, match="delete that line"):
        add(log, "b")
    assert lines(log) == before
    log.path.write_text(f"{before[0]}\n", encoding="utf-8")
    add(log, "b")
    assert answered(log) == [(1, "a"), (2, "b")]


def test_reading_a_log_creates_nothing(log: QuestionLogFile) -> None:
    log.folder.mkdir(parents=True)
    log.path.write_text(json.dumps({**entry("test", 0), "answer": "A"}))  # torn, and without a lock
    before = {path.name: path.read_bytes() for path in log.folder.iterdir()}
    assert answered(log) == [(1, "A")]
    assert {path.name: path.read_bytes() for path in log.folder.iterdir()} == before


def test_repeated_answer_is_omitted_on_request(log: QuestionLogFile) -> None:
    def append(answer: str, **more: Any) -> int:
        given = {**entry("test", 0), "source": "ask", "answer": answer, **more}
        return log.append([given], if_new=True).written

    assert [append("A"), append("A"), append("B"), append("A")] == [1, 0, 1, 1]
    assert append("A", source="other") == 1  # who asks in the same words asks something else
    assert append("A", question="Other?") == 1
    assert append("A") == 0


def test_imported_row_is_written_once_also_if_archived(log: QuestionLogFile) -> None:
    row = {**entry("test", 0), "answer": "A", "row": "1"}
    assert log.append([row]).written == 1
    add(log, *range(150))
    add(log, "now the archive was looked at")
    assert len(names(log)) == 2
    told = log.append([row, {**row, "row": "2"}])
    assert (told.written, told.known) == (1, 1)


def test_entry_without_an_answer_has_no_id(log: QuestionLogFile) -> None:
    add(log, "a")
    outcome = {key: value for key, value in entry("t", 1).items() if key != "answer"}
    log.append([outcome | {"outcome": "declined"}])
    add(log, "b")
    assert answered(log) == [(1, "a"), (2, "b")]
    assert len(lines(log)) == 3


def test_unreadable_archive_is_reported_and_nothing_is_written(
    log: QuestionLogFile,
) -> None:
    """An unread file may hold any number: it would be given a second time."""
    add(log, *range(101))
    archive = log.folder / "qna_0001.jsonl"
    archive.unlink()
    archive.mkdir()
    contents = log.read()
    assert [number for number, _ in contents.answered] == [101]
    assert "qna_0001.jsonl" in contents.unread[0]
    with pytest.raises(jp.StorageError, match=r"the answers are not written: .*qna_0001\.jsonl"):
        add(log, "x")


# --- whose files these are -------------------------------------------------------------------


@posix
@pytest.mark.parametrize("name", ["qna.jsonl", ".qna.lock"])
def test_log_is_not_written_through_a_link(log: QuestionLogFile, tmp_path: Path, name: str) -> None:
    """A foreign folder may hold a link to any file of the user."""
    log.folder.mkdir(parents=True)
    theirs = tmp_path / "profile"
    theirs.write_text("mine\n")
    (log.folder / name).symlink_to(theirs)
    with pytest.raises(jp.StorageError, match=r"qna"):
        add(log, "x")
    assert theirs.read_text() == "mine\n"


@posix
def test_linked_or_shared_log_folder_is_refused(log: QuestionLogFile, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    log.folder.parent.mkdir()
    log.folder.symlink_to(tmp_path / "elsewhere")
    for act in (log.read, lambda: add(log, "x")):
        with pytest.raises(jp.StorageError, match="is a link: replace it by a folder"):
            act()
    log.folder.unlink()
    log.folder.mkdir()
    log.folder.chmod(0o777)
    with pytest.raises(jp.StorageError, match="is not private"):
        add(log, "x")
    assert list(log.folder.iterdir()) == []


# --- failures --------------------------------------------------------------------------------


def test_partial_write_is_rolled_back(
    log: QuestionLogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(log, "a")
    before = log.path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda at, data: write(at, data[: len(data) // 2]))
    with pytest.raises(jp.StorageError, match="cannot be written"):
        add(log, "b")
    assert log.path.read_bytes() == before
    monkeypatch.undo()

    def full(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(jp.StorageError, match="the disk is broken"):
        add(log, "b")
    monkeypatch.undo()
    assert log.path.read_bytes() == before
    add(log, "b")
    assert answered(log) == [(1, "a"), (2, "b")]


def test_answer_over_the_size_limit_is_refused(log: QuestionLogFile) -> None:
    with pytest.raises(jp.StorageError, match="too long for the project log"):
        add(log, "x" * MAX_LOG_FILE_BYTES)
    add(log, *(["x" * (MAX_LOG_FILE_BYTES // 2)] * 3))
    assert names(log) == ["qna.jsonl"]
    add(log, "y")
    assert names(log) == ["qna.jsonl", "qna_0001.jsonl"]  # though it had three lines
    assert [number for number, _ in answered(log)] == [1, 2, 3, 4]


def test_logs_over_the_size_limit_are_not_read(
    log: QuestionLogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(log, *range(101))
    monkeypatch.setattr(question_log, "MAX_LOG_BYTES", log.path.stat().st_size)
    for act in (log.read, lambda: add(log, "x")):
        with pytest.raises(jp.StorageError, match="move old files away"):
            act()


@pytest.mark.req("RCP-55")
def test_lock_of_another_process_is_awaited_and_then_reported(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from jp_nb.storage.file_locks import hold_file_lock\n"
        f"with hold_file_lock(Path({str(path)!r})):\n"
        "    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(jp.StorageError, match="another process has locked"),
            hold_file_lock(path, timeout_s=0.05),
        ):
            pytest.fail("two had the lock")
        threading.Timer(0.2, other.kill).start()
        with hold_file_lock(path):  # a killed process gives it back
            assert other.wait() != 0


# --- several processes -----------------------------------------------------------------------


@pytest.mark.req("RCP-55", "RCP-49")
def test_two_processes_write_without_lost_torn_or_duplicate_lines(tmp_path: Path) -> None:
    each = 110  # a file is set aside meanwhile
    writers = [Writer(tmp_path, "a"), Writer(tmp_path, "b")]
    threads = [threading.Thread(target=writer.run, args=(1, each)) for writer in writers]
    for thread in threads:
        thread.start()
    log = QuestionLogFile(tmp_path)
    reads = 0
    while any(thread.is_alive() for thread in threads):
        contents = log.read()  # also while a file is set aside
        assert [number for number, _ in contents.answered] == list(range(1, contents.last + 1))
        assert not contents.damaged
        reads += 1
    assert reads
    assert [len(writer.said) for writer in writers] == [each, each]
    check(tmp_path, writers)
    assert len(QuestionLogFile(tmp_path).read().answered) == 2 * each


@pytest.mark.deep
@pytest.mark.req("RCP-55")
def test_killed_writer_loses_no_acknowledged_line(tmp_path: Path) -> None:
    killed = Writer(tmp_path, "killed")
    other = Writer(tmp_path, "other")
    beside = threading.Thread(target=other.run, args=(1, EACH))
    beside.start()
    killed.run_killed(EACH, random.Random(12), KILLS)
    beside.join()
    assert killed.kills == KILLS
    check(tmp_path, [killed, other], kills=KILLS)
    assert sorted(set(killed.said)) == list(range(1, EACH + 1))


# --- any entries -----------------------------------------------------------------------------

ENTRIES = st.lists(
    st.builds(
        lambda question, answer: {**entry("t", 1), "question": question, "answer": answer},
        st.text(min_size=1).filter(lambda text: bool(text.strip())),
        st.text(min_size=1).filter(lambda text: bool(text.strip()))
        | st.integers(-(2**53), 2**53)
        | st.booleans()
        | st.lists(st.text()),
    ),
    max_size=40,
)


@given(st.lists(ENTRIES, max_size=4), st.integers(1, 7))
@pytest.mark.req("RCP-48", "RCP-49")
def test_any_answers_are_read_back_in_order_across_files(
    batches: list[list[Any]], full: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_log, "MAX_LOG_LINES", full)
        written: list[Any] = []
        for batch in batches:
            QuestionLogFile(Path(folder)).append(batch)
            written += batch
            found = QuestionLogFile(Path(folder)).read().answered
            assert [number for number, _ in found] == list(range(1, len(written) + 1))
            assert [(e["question"], e["answer"]) for _, e in found] == [
                (e["question"], e["answer"]) for e in written
            ]


@given(st.integers(1, 30), st.sets(st.integers(0, 29)), st.binary(max_size=40), st.integers(1, 7))
@pytest.mark.req("RCP-42", "RCP-50")
def test_undamaged_lines_keep_their_ids(count: int, lost: set[int], junk: bytes, full: int) -> None:
    junk = b"#" + junk.replace(b"\n", b"")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_log, "MAX_LOG_LINES", full)
        log = QuestionLogFile(Path(folder))
        add(log, *range(count))
        at = 0
        for path in [*sorted(log.folder.glob("qna_*")), log.path]:
            found = path.read_bytes().split(b"\n")[:-1]
            places = range(at, at + len(found))
            kept = [junk if n in lost else line for n, line in zip(places, found, strict=True)]
            path.write_bytes(b"\n".join(kept) + b"\n")
            at += len(found)
        left = [(n + 1, n) for n in range(count) if n not in lost]
        assert answered(log) == left
        assert log.read().damaged == count - len(left)
        add(log, "new")
        assert answered(log) == [*left, (count + 1, "new")]


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_file_of_any_bytes_is_read_and_appended_to(parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = QuestionLogFile(Path(folder))
        log.folder.mkdir(parents=True)
        log.path.write_bytes(b"\n".join(parts))
        before = log.read()
        add(log, "new")
        found = answered(log)
        assert found[-1] == (before.last + 1, "new")
        assert len(found) == len(before.answered) + 1
