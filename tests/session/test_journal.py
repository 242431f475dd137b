"""The journals of a killed session, and of later sessions."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import jp_nb
from jp_nb.session.session import Session
from tests.kit.records import new_event, parse_event
from tests.kit.sessions import current_session, directive
from tests.session.journals import (
    entry_types,
    journal_files,
    open_session,
    other_conversations,
    read_lines,
)
from tests.session.killed_session import NOTEBOOK, read_saved_notebook, run_killed_session
from tests.support.fake_host import FakeHome, FakeHost, FakeStore
from tests.support.fakes import FakePrompter, yes
from tests.support.interrupts import interrupt_at_step
from tests.support.notebook_runs import NOON

TALK = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n'
QUESTION: dict[str, Any] = {
    "type": "inquiry_request",
    "id": "c1.q",
    "source": {"source": "tool", "name": "x"},
    "question": {"id": "q", "text": "Sure?", "answer_type": {"type": "boolean"}},
}
pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL")


SECOND = ["turn_start", "chat_request", "chat_response", "tool_call_request", "tool_call_request"]


def test_entries_of_a_killed_kernel_are_restored(killed_folder: Path) -> None:
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    assert entry_types(session)[-5:] == SECOND
    assert session.active.trust.trusted
    told = (
        "restored from the journal: 5 entries of this conversation that had not reached the "
        "notebook when its kernel ended"
    )
    assert told in session.notices
    store: Any = session.store
    assert store.entries == session.document.conversation.raw
    assert (killed_folder / "marks").read_text() == "a\n"
    session.close()
    again = open_session(killed_folder, session.document.to_json())
    assert entry_types(again) == entry_types(session)
    assert not [notice for notice in again.notices if "journal" in notice]
    again.close()


def test_journal_is_private_and_equals_the_record(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    head, *rest = read_lines(path)
    assert (head["base"], head["notebook"]) == (0, str(killed_folder / NOTEBOOK))
    entries = [line["entry"] for line in rest if "entry" in line]
    assert [entry["type"] for entry in entries][-5:] == SECOND
    assert entries[:-5] == read_saved_notebook(killed_folder)["events"]
    assert rest[-1]["signature"].startswith("2:")


@pytest.mark.kernel
def test_unsigned_record_is_restored_unsigned(clean_folder: Path) -> None:
    run_killed_session(clean_folder, JP_NB_KEY_FILE=str(clean_folder))  # a folder cannot be a key
    session = open_session(clean_folder, read_saved_notebook(clean_folder))
    assert entry_types(session)[-5:] == SECOND
    assert session.active.trust.why_not == "it is not signed"
    session.close()


def test_changed_journal_is_not_trusted(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    path.write_bytes(path.read_bytes().replace(b"Let me see.", b"Trust me."))
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    assert entry_types(session)[-5:] == SECOND
    assert not session.active.trust.trusted
    session.close()


def test_truncated_journal_is_used_up_to_the_last_complete_line(
    killed_folder: Path, subtests: pytest.Subtests
) -> None:
    [path] = journal_files(killed_folder)
    whole = path.read_bytes()
    rows: list[int] = [1, 40, 400]
    for cut in rows:
        with subtests.test(cut=cut):
            path.write_bytes(whole[:-cut])
            session = open_session(killed_folder, read_saved_notebook(killed_folder))
            here = len(session.document.conversation)
            assert (
                len(read_saved_notebook(killed_folder)["events"])
                <= here
                <= len(read_saved_notebook(killed_folder)["events"]) + 5
            )
            assert any("cannot be read" in notice for notice in session.notices)
            session.configure(directive("cfg", "user.name=Ada"))  # later rows begin a line
            session.close()
            again = open_session(killed_folder, read_saved_notebook(killed_folder))
            assert len(again.document.conversation) == here + 1
            assert not any("cannot be read" in notice for notice in again.notices)
            again.close()


def test_interrupt_at_any_moment_of_a_write_keeps_the_journal_whole_and_usable(
    clean_folder: Path,
) -> None:
    session = open_session(clean_folder, None)
    session.configure(directive("cfg", "user.name=Ada"))
    stream = session.document.conversation
    journal = session.active.journal
    stream.on_change = lambda: None
    interrupts = []
    for number in count(1):
        entry: Any = {"type": "chat_request", "timestamp": NOON, "content": str(number)}
        stream.extend_stored([entry])
        try:
            if not interrupt_at_step(number, journal.write):
                break
        except KeyboardInterrupt as exc:
            interrupts.append(exc)  # a traceback keeps its frames, as IPython does
        writer = Thread(target=journal.write, daemon=True)
        writer.start()
        writer.join(30)
        assert not writer.is_alive()
    assert len(interrupts) > 50
    [path] = journal_files(clean_folder)
    written = [line["entry"] for line in read_lines(path) if "entry" in line]
    assert written == stream.raw
    session.close()


def test_file_that_is_no_journal_is_reported_and_ignored(
    killed_folder: Path, subtests: pytest.Subtests
) -> None:
    rows: list[bytes] = [b"", b"\0" * 300, b"{}\n{}\n", b"[[[[[", b"\xff\xfe\n" * 9]
    [path] = journal_files(killed_folder)
    for garbage in rows:
        with subtests.test(garbage=garbage):
            path.touch(0o600)
            path.write_bytes(garbage)
            session = open_session(killed_folder, read_saved_notebook(killed_folder))
            assert session.document.conversation.raw == read_saved_notebook(killed_folder)["events"]
            assert any("is not a journal" in notice for notice in session.notices) is bool(garbage)
            session.close()


def test_journal_over_the_size_limit_hides_no_other(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    huge = path.with_name(path.name.replace(".0.", ".1."))
    huge.write_bytes(path.read_bytes())
    huge.chmod(0o600)
    os.truncate(huge, 300_000_000)  # a sparse file
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    assert entry_types(session)[-5:] == SECOND
    assert f"{huge} cannot be read: File too large" in session.notices
    session.close()


def test_damaged_line_ends_the_journal(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    written = path.read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(written) if b'"entry"' in line)
    path.write_bytes(b"".join([*written[:last], b'{"entry": "none"}\n', *written[last:]]))
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    ends = max(i for i, line in enumerate(written[:last]) if b'"signature"' in line)
    whole = [json.loads(line) for line in written[:ends]]
    assert session.document.conversation.raw == [x["entry"] for x in whole if "entry" in x]
    assert entry_types(session)[-1] != SECOND[-1]
    assert [notice for notice in session.notices if "cannot be read" in notice]
    session.close()


def test_full_disk_is_reported_once_and_the_turn_continues(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(TALK)
    session = open_session(clean_folder, None)
    session.turns.run("First.", model="scripted/talk")
    [path] = journal_files(clean_folder)
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 100, hard))
    try:
        assert session.turns.run("Second.").text == "two"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    told = [notice for notice in session.notices if "cannot be written (File too large)" in notice]
    assert len(told) == 1
    assert path.read_bytes() == whole
    session.configure(directive("cfg", "user.name=Ada"))  # there is space again: all missing rows
    entries = [line["entry"] for line in read_lines(path) if "entry" in line]
    assert entries == session.document.conversation.raw
    session.close()


def test_failed_rewrite_keeps_the_old_journal(
    killed_folder: Path,
) -> None:
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    [path] = journal_files(killed_folder)
    whole = path.read_bytes()
    beside = path.with_suffix(".new")
    beside.mkdir()  # the rewritten file cannot be placed there
    session.turns.run("Third.")
    assert path.read_bytes() == whole
    told = [notice for notice in session.notices if "journal of this conversation cannot" in notice]
    assert len(told) == 1
    beside.rmdir()
    session.configure(directive("cfg", "user.name=Ada"))
    entries = [line["entry"] for line in read_lines(path) if "entry" in line]
    assert entries == session.document.conversation.raw
    session.close()


@pytest.mark.parametrize("how", ["open to others", "a file", "not to be made"])
def test_unusable_journal_folder_is_reported_once(clean_folder: Path, how: str) -> None:
    (clean_folder / "talk.toml").write_text(TALK)
    place = clean_folder / "data" / "jp" / "journal"
    place.parent.mkdir(parents=True)
    if how == "open to others":
        place.mkdir(mode=0o755)
    elif how == "a file":
        place.write_text("")
    else:
        place.symlink_to(clean_folder / "nowhere" / "at all")
    session = open_session(clean_folder, None)
    assert session.turns.run("First.", model="scripted/talk").text == "one"
    assert session.turns.run("Second.").text == "two"
    told = [notice for notice in session.notices if "journal of this conversation cannot" in notice]
    assert len(told) == 1
    session.close()
    again = open_session(clean_folder, session.document.to_json())
    assert again.document.conversation.raw == session.document.conversation.raw
    again.close()


def test_disabled_journal_is_removed(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(TALK)
    session = open_session(clean_folder, None)
    off = directive("cfg", "record.journal=false")
    session.turns.run("First.", model="scripted/talk", directives=[off])
    assert journal_files(clean_folder) == []
    session.turns.run("Second.", directives=[directive("cfg", "record.journal=true")])
    [path] = journal_files(clean_folder)
    assert [line["entry"]["type"] for line in read_lines(path) if "entry" in line][
        -1
    ] == "chat_response"
    session.configure(off)
    assert journal_files(clean_folder) == []
    session.close()


@pytest.mark.parametrize("wanted", [True, False])
def test_invalid_configuration_files_do_not_affect_the_journal(
    killed_folder: Path, wanted: bool
) -> None:
    first = open_session(killed_folder, read_saved_notebook(killed_folder))
    if not wanted:
        first.configure(directive("cfg", "record.journal=false"))
    (killed_folder / ".jp").mkdir()
    (killed_folder / ".jp" / "config.toml").write_text("[assistant\n")
    first.active.revoke()
    assert bool(journal_files(killed_folder)) is wanted
    first.close()
    second = open_session(killed_folder, read_saved_notebook(killed_folder))
    second.active.accept()
    assert bool(journal_files(killed_folder)) is wanted
    second.close()


def test_two_kernels_of_one_conversation_have_separate_journals(killed_folder: Path) -> None:
    first = open_session(killed_folder, read_saved_notebook(killed_folder))
    second = open_session(killed_folder, read_saved_notebook(killed_folder))
    assert [
        notice for notice in second.notices if notice.startswith("another kernel also has this")
    ]
    assert second.document.conversation.raw == read_saved_notebook(killed_folder)["events"]
    second.configure(directive("cfg", "user.name=Ada"))
    first.configure(directive("cfg", "user.name=Bea"))
    assert len(journal_files(killed_folder)) == 2
    first.close()
    second.close()
    third = open_session(killed_folder, first.document.to_json())
    assert third.document.conversation.raw == first.document.conversation.raw
    assert [notice for notice in third.notices if "has other entries of this conv" in notice]
    assert len(journal_files(killed_folder)) == 2
    assert third.conversations.restore_from_journal()
    assert third.document.conversation.raw == second.document.conversation.raw
    assert third.active.trust.trusted
    assert not third.conversations.restore_from_journal()
    third.close()


@pytest.mark.parametrize("renamed", [False, True])
def test_entries_of_a_second_kernel_are_restored(killed_folder: Path, renamed: bool) -> None:
    (killed_folder / NOTEBOOK).write_text("{}")
    first = open_session(killed_folder, read_saved_notebook(killed_folder))
    first.configure(directive("cfg", "user.name=Ada"))
    path = killed_folder / ("walk.ipynb" if renamed else NOTEBOOK)
    (killed_folder / NOTEBOOK).rename(path)
    page = json.loads(json.dumps(first.document.to_json()))
    second = Session(FakeHost(home=FakeHome(path, stored=page)))
    assert [
        notice for notice in second.notices if notice.startswith("another kernel also has this")
    ]
    second.configure(directive("cfg", "user.name=Bea"))
    second.close()
    first.close()
    third = Session(FakeHost(home=FakeHome(path, stored=read_saved_notebook(killed_folder))))
    while third.conversations.restore_from_journal():
        pass
    held = [third.document.conversation.raw, *(x["events"] for x in other_conversations(third))]
    assert second.document.conversation.raw in held
    third.close()


def test_journal_with_a_missing_beginning_is_not_offered(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    head, first, *rest = path.read_text().splitlines(keepends=True)
    assert "entry" in json.loads(first)
    told = json.dumps(json.loads(head) | {"base": 1, "mark": "of another one"}) + "\n"
    path.write_text(told + "".join(rest))
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    assert [notice for notice in session.notices if f"they stay in {path}" in notice]
    assert not [notice for notice in session.notices if "%jp resume` restores" in notice]
    assert path.exists()
    session.close()


def test_two_matching_journals_are_both_restored(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    path.unlink()
    stored = read_saved_notebook(killed_folder)
    first = open_session(killed_folder, stored)
    second = open_session(killed_folder, stored)
    second.configure(directive("cfg", "user.name=Bea"))
    first.configure(directive("cfg", "user.name=Ada"))
    first.configure(directive("cfg", "user.name=Eve"))
    first.close()
    second.close()
    third = open_session(killed_folder, stored)
    assert third.document.conversation.raw == first.document.conversation.raw
    assert [notice for notice in third.notices if "has other entries of this conv" in notice]
    assert third.conversations.restore_from_journal()
    assert third.document.conversation.raw == second.document.conversation.raw
    third.close()


def test_newest_journal_of_a_conversation_is_found_by_the_beginning_of_its_id(
    killed_folder: Path,
) -> None:
    [path] = journal_files(killed_folder)
    path.unlink()
    stored = read_saved_notebook(killed_folder)
    sessions = [open_session(killed_folder, stored) for _ in range(3)]
    for change_count, session in enumerate(reversed(sessions), start=1):
        for name in ("Ada", "Bea", "Eve")[:change_count]:
            session.configure(directive("cfg", f"user.name={name} {change_count}"))
        session.close()

    later = open_session(killed_folder, stored)
    beginning = later.document.conversation.id[:-1]
    others = [session.document.conversation.raw for session in sessions[1:]]
    for _ in others:
        assert later.conversations.restore_from_journal(beginning)
        assert later.document.conversation.raw in others
    assert not later.conversations.restore_from_journal(beginning)
    later.close()


def test_journal_contained_in_another_is_removed(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    written = path.read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(written) if b'"entry"' in line)
    path.with_name(path.name.replace(".0.", ".1.")).write_bytes(b"".join(written[:last]))
    for each in journal_files(killed_folder):
        each.chmod(0o600)
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    assert entry_types(session)[-5:] == SECOND
    assert journal_files(killed_folder) == [path]
    assert not [notice for notice in session.notices if "other entries" in notice]
    session.close()


def test_duplicate_conversation_is_restored_as_the_active_one(killed_folder: Path) -> None:
    stored = read_saved_notebook(killed_folder)
    session = open_session(killed_folder, stored)
    longer: Any = session.document.to_json()
    session.configure(directive("cfg", "user.name=Ada"))
    session.close()
    active = {**stored, "events": [*longer["events"], *session.document.conversation.raw[-1:]]}
    stored["events"][-1] = {**stored["events"][-1], "message": "Another one."}
    twice = open_session(killed_folder, {**active, "others": [stored]})
    assert twice.document.conversation.raw == active["events"]
    assert not [notice for notice in twice.notices if "other entries" in notice]
    twice.configure(directive("cfg", "user.name=Bea"))
    twice.close()
    again = open_session(killed_folder, {**active, "others": [stored]})
    assert again.document.conversation.raw == twice.document.conversation.raw
    again.close()
    shelved = open_session(killed_folder, {**stored, "others": [twice.document.to_json()]})
    assert shelved.document.conversation.raw == stored["events"]
    assert not [notice for notice in shelved.notices if "other entries" in notice]
    shelved.close()


def leave_unsaved_turn(folder: Path) -> Any:
    """Make a turn that the notebook file does not have; return the content of the file."""
    (folder / "talk.toml").write_text(TALK)
    (folder / NOTEBOOK).touch()
    session = open_session(folder, None)
    session.turns.run("First.", model="scripted/talk")
    stored = json.loads(json.dumps(session.document.to_json()))
    session.turns.run("Second.")
    session.close()
    return stored


def test_copied_notebook_does_not_take_the_journal_of_the_original(
    clean_folder: Path,
) -> None:
    stored = leave_unsaved_turn(clean_folder)
    original = clean_folder / NOTEBOOK
    [path] = journal_files(clean_folder)
    copy = clean_folder / "copy.ipynb"
    copy.touch()
    copied = Session(FakeHost(home=FakeHome(copy, stored=stored)))
    assert copied.document.conversation.raw == stored["events"]
    assert not copied.notices
    copied.close()
    away = original.rename(clean_folder / "drive")  # its drive is not mounted
    copied = Session(FakeHost(home=FakeHome(copy, stored=stored)))
    assert copied.document.conversation.raw == stored["events"]
    [told] = copied.notices
    assert f"for the notebook {original}, which no longer exists. If it is this notebook" in told
    assert copied.conversations.restore_from_journal()
    assert copied.document.conversation.turn_count == 2
    assert path in journal_files(clean_folder)
    copied.close()
    away.rename(original)
    back = open_session(clean_folder, stored)
    assert back.document.conversation.turn_count == 2
    back.close()


def test_renamed_notebook_keeps_its_journal(clean_folder: Path) -> None:
    stored = leave_unsaved_turn(clean_folder)
    renamed = (clean_folder / NOTEBOOK).rename(clean_folder / "renamed.ipynb")
    for content in (stored, None):  # unsaved content is only in the journal
        session = Session(FakeHost(home=FakeHome(renamed, stored=content)))
        assert session.conversations.restore_from_journal() is (content is None)
        assert session.document.conversation.turn_count == 2
        session.close()


def test_replaced_notebook_file_keeps_its_journal(
    clean_folder: Path,
) -> None:
    stored = leave_unsaved_turn(clean_folder)
    new = clean_folder / "new"
    new.touch()
    new.replace(clean_folder / NOTEBOOK)  # some editors save like this
    (clean_folder / "link").symlink_to(clean_folder)
    home = FakeHome(clean_folder / "link" / NOTEBOOK, stored=stored)
    session = Session(FakeHost(home=home))
    assert session.document.conversation.turn_count == 2
    session.close()


def test_reopened_conversation_continues_its_journal(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(TALK)
    session = open_session(clean_folder, None)
    session.turns.run("First.", model="scripted/talk")
    [path] = journal_files(clean_folder)
    first = session.document.conversation.id
    session.conversations.new()
    session.turns.run("First.", model="scripted/talk")
    session.conversations.switch(first)
    session.turns.run("Second.")
    entries = [line["entry"] for line in read_lines(path) if "entry" in line]
    assert entries == session.document.conversation.raw
    assert len(journal_files(clean_folder)) == 2
    session.close()
    after = open_session(clean_folder, None)  # the notebook was never saved
    turns = []
    while after.conversations.restore_from_journal():
        turns.append(after.document.conversation.turn_count)
    assert sorted(turns) == [1, 2]
    assert sum("another conversation in the journal" in each for each in after.notices) == 1
    after.close()


def test_journal_taken_by_another_kernel_is_written_again(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(TALK)
    session = open_session(clean_folder, None)
    session.turns.run("First.", model="scripted/talk")
    stored = json.loads(json.dumps(session.document.to_json()))
    session.conversations.new()
    other = open_session(clean_folder, stored)
    session.conversations.switch(stored["conversation"]["id"])
    session.turns.run("Second.")
    raw = list(session.document.conversation.raw)
    session.close()
    other.close()
    after = open_session(clean_folder, None)
    assert after.conversations.restore_from_journal()
    assert after.document.conversation.raw == raw
    after.close()


def test_dropped_conversation_is_not_restored(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(TALK)
    session = open_session(clean_folder, None)
    session.turns.run("First.", model="scripted/talk")
    first = session.document.conversation.id
    session.conversations.new()
    session.conversations.drop(first)
    session.close()
    after = open_session(clean_folder, None)
    assert not after.notices
    assert not after.conversations.restore_from_journal()
    after.close()


def test_new_notebook_of_an_old_name_does_not_get_its_journal(
    killed_folder: Path,
) -> None:
    host = FakeHost(
        home=FakeHome(killed_folder / "Untitled.ipynb", stored=read_saved_notebook(killed_folder))
    )
    [path] = journal_files(killed_folder)
    path.unlink()
    session = Session(host)
    session.configure(directive("cfg", "user.name=Ada"))
    host.home.path = killed_folder / "walk.ipynb"
    session.configure(directive("cfg", "user.name=Bea"))
    raw = session.document.conversation.raw
    session.close()
    (killed_folder / "Untitled.ipynb").write_text("{}")
    fresh = Session(FakeHost(home=FakeHome(killed_folder / "Untitled.ipynb")))
    assert not [notice for notice in fresh.notices if "the journal" in notice]
    fresh.close()
    renamed = FakeHost(
        home=FakeHome(killed_folder / "walk.ipynb", stored=read_saved_notebook(killed_folder))
    )
    again = Session(renamed)
    assert again.document.conversation.raw == raw
    again.close()


def test_repair_and_branch_are_in_the_journal(killed_folder: Path) -> None:
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    session.turns.run("Third.")
    [path] = journal_files(killed_folder)
    assert [
        x["entry"] for x in read_lines(path) if "entry" in x
    ] == session.document.conversation.raw
    session.conversations.undo()
    branch = session.document.conversation
    [other] = [each for each in journal_files(killed_folder) if each != path]
    assert [line["entry"] for line in read_lines(other) if "entry" in line] == branch.raw
    assert read_lines(other)[0]["conversation"]["parent"] == branch.properties["parent"]
    session.close()


def test_revoked_signature_is_not_in_the_journal(killed_folder: Path) -> None:
    session = open_session(killed_folder, read_saved_notebook(killed_folder))
    session.active.revoke()
    session.close()
    again = open_session(killed_folder, read_saved_notebook(killed_folder))
    assert entry_types(again)[-5:] == SECOND
    assert not again.active.trust.trusted
    again.close()


def test_headless_run_replaces_journals_of_headless_runs(killed_folder: Path) -> None:
    [path] = journal_files(killed_folder)
    for made in ("live", "headless"):
        head, rest = path.read_text().split("\n", 1)
        said = json.loads(head) | {"notebook": str(killed_folder / NOTEBOOK)}
        said["conversation"]["made"] = made
        path.write_text(json.dumps(said) + "\n" + rest)
        Session(FakeHost(home=FakeHome(killed_folder / NOTEBOOK, headless=True))).close()
        assert bool(journal_files(killed_folder)) is (made == "live")


@pytest.mark.parametrize("made", ["live", "headless"])
def test_journals_of_headless_runs_are_not_offered(
    killed_kernel: Path, killed_folder: Path, made: str
) -> None:
    [path] = journal_files(killed_folder)
    text = path.read_text().replace(str(killed_kernel), str(killed_folder))
    path.write_text(text.replace('"made":"live"', f'"made":"{made}"'))
    session = open_session(killed_folder, None)
    told = [notice for notice in session.notices if "has a conversation" in notice]
    assert bool(told) is session.conversations.restore_from_journal() is (made == "live")
    session.close()


def test_journal_contains_no_secret_answer(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(
        '[[replies]]\ntool_calls = [{name = "log_in"}]\n[[replies]]\ntext = "In."\n'
    )

    @jp_nb.tool
    def log_in() -> str:
        word = jp_nb.ask(jp_nb.Question.secret("word", "The password?"))
        return f"logged in with {word}"

    host = FakeHost(FakePrompter(yes("hunter-2-7f3a")), FakeHome(clean_folder / NOTEBOOK))
    session = Session(host)
    with current_session(session):
        assert session.turns.run("Go.", model="scripted/talk").text == "In."
    jp_nb.remove_tool("log_in")
    [path] = journal_files(clean_folder)
    assert b"logged in with" in path.read_bytes()
    assert b"hunter-2-7f3a" not in path.read_bytes()
    session.close()


def test_saved_entries_are_removed_from_the_journal(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(TALK)
    session = open_session(clean_folder, None)
    session.turns.run("First.", model="scripted/talk")
    stream = session.document.conversation
    store = session.store
    assert isinstance(store, FakeStore)
    count = len(stream)
    store.saved[stream.id] = count - 1
    session.configure(directive("cfg", "user.name=Ada"))
    [path] = journal_files(clean_folder)
    assert read_lines(path)[0]["base"] == 0
    store.saved[stream.id] = len(stream)
    session.turns.run("Second.")
    head, *rest = read_lines(path)
    assert head["base"] == count + 1
    assert [line["entry"] for line in rest if "entry" in line] == stream.raw[count + 1 :]
    store.saved[stream.id] = len(stream)
    session.close()
    assert journal_files(clean_folder) == []


def test_new_conversations_do_not_look_at_each_journal(
    clean_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean_folder / "talk.toml").write_text(TALK * 3)
    session = open_session(clean_folder, None)
    session.turns.run("First.", model="scripted/talk")
    journals = journal_files(clean_folder)
    looked_at: list[tuple[str, str]] = []

    def counted(name: str, call: Any, path: Any, **options: Any) -> Any:
        looked_at.append((name, str(path)))
        return call(path, **options)

    for name in ("scandir", "stat", "lstat"):
        monkeypatch.setattr(os, name, partial(counted, name, getattr(os, name)))
    for _ in range(5):
        session.turns.run("Again.", new=True, model="scripted/talk")
    monkeypatch.undo()
    assert len(journal_files(clean_folder)) == len(journals) + 5
    assert ("scandir", str(journals[0].parent)) not in looked_at
    assert not {str(path) for path in journals} & {path for _, path in looked_at}
    session.close()


def test_saved_state_before_a_repair_does_not_count(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(TALK + TALK)
    session = open_session(clean_folder, None)
    session.turns.run("First.", model="scripted/talk")
    stream = session.document.conversation
    store = session.store
    assert isinstance(store, FakeStore)
    stream.start_turn(new_event("chat_request", content="Second."))
    stream.append(new_event("tool_call_request", id="c1", name="x", arguments={}))
    stream.append(parse_event({**QUESTION, "timestamp": stream.raw[-1]["timestamp"]}))
    store.saved[stream.id] = before = len(stream)
    session.turns.run("Third.")  # a repair leaves the same number of entries
    [path] = journal_files(clean_folder)
    assert read_lines(path)[0]["base"] == 0
    assert [line["entry"] for line in read_lines(path) if "entry" in line] == stream.raw
    store.saved[stream.id] = before + 1
    session.configure(directive("cfg", "user.name=Ada"))
    store.saved[stream.id] = count = len(stream)
    session.configure(directive("cfg", "user.name=Bea"))
    assert read_lines(path)[0]["base"] == count
    session.close()


def test_renamed_notebook_has_a_right_base_after_a_failed_write(
    clean_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = FakeHome(clean_folder / NOTEBOOK)
    session = Session(FakeHost(home=home))
    session.configure(directive("cfg", "user.name=Ada"))

    # The notebook file has the entry, so the journal would begin with the next one.
    store: Any = session.store
    store.saved[session.document.conversation.id] = 1
    with monkeypatch.context() as broken_disk:
        broken_disk.setattr(os, "replace", _fail_to_write)
        session.configure(directive("cfg", "user.name=Bob"))

    home.path = clean_folder / "renamed.ipynb"
    session.configure(directive("cfg", "user.name=Cy"))
    [path] = journal_files(clean_folder)
    header, *lines = read_lines(path)
    assert header["notebook"] == str(home.path)
    assert (header["base"], header["mark"]) == (0, sha256().hexdigest())
    assert sum("entry" in line for line in lines) == 3
    session.close()


def _fail_to_write(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
