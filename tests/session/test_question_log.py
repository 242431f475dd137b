"""Questions and answers in the log of the workspace: writing, trust, and imported tables.

Departures from the rows: trust is our signature and `%jp trust`, not Jupyter's, which signs
whatever is saved (RCP-71). A failed write is repeated instead of being marked in the
record, which never changes (RCP-53). A question without a user is no event of the log
(RCP-52).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from jp_nb.session.questions import question_log
from jp_nb.storage.question_logs import question_log_file as log_files
from tests.kit.kinds import make
from tests.kit.questions import answered, not_answered
from tests.kit.records import new_event
from tests.support.fakes import CANCELLED
from tests.support.sessions import AskedNotebook
from tests.support.tiers import mostly_deep

OLD = {"datetime": "2026-03-01T10:00:00Z", "question": "Which city?", "answer": "Delft"}
TABLE = "datetime;question;answer\n2026-03-01T10:00:00Z;Which city?;Delft\n"


@pytest.fixture
def notebook(folder: Path) -> Iterator[AskedNotebook]:
    made = AskedNotebook(folder)
    yield made
    made.session.close()


@pytest.fixture
def other_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AskedNotebook]:
    """A notebook of another user that holds one of their answers."""
    monkeypatch.setenv("JP_NB_KEY_FILE", str(folder.parent / "their-key"))
    (elsewhere := folder.parent / "elsewhere").mkdir()
    theirs = AskedNotebook(elsewhere, name="theirs")
    theirs.ask_user("Whose?", "theirs")
    stored = theirs.stored
    theirs.session.close()
    monkeypatch.setenv("JP_NB_KEY_FILE", str(folder.parent / "key"))
    made = AskedNotebook(folder, stored=stored)
    made.take_notices()
    yield made
    made.session.close()


def write_foreign_log(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / ".jp" / "context" / "qna.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.mark.req("RCP-38", "RCP-40", "RCP-63", "RCP-54")
def test_answer_is_logged_with_notebook_cell_and_turn(notebook: AskedNotebook) -> None:
    assert not notebook.log.parent.exists()
    options = {"answer_type": "select", "options": ["Postgres", "SQLite"]}
    notebook.ask_user("Which database?", "SQLite", **options)
    (entry,) = notebook.kept()
    assert {key: entry[key] for key in ("id", "question", "answer", "mode", "trusted")} == {
        "id": 1, "question": "Which database?", "answer": "SQLite", "mode": "choice",
        "trusted": True,
    }  # fmt: skip
    about = ("outcome", "source", "channel", "notebook", "cell", "turn", "conversation")
    assert [entry[key] for key in about] == [
        "answered", "assistant", "form", "nb.ipynb", "nb-1", 0,
        notebook.session.document.conversation.id,
    ]  # fmt: skip
    stored = [raw for raw in notebook.stored["events"] if raw["type"] == "inquiry_response"]
    assert entry["timestamp"] == stored[0]["timestamp"].replace(" ", "T") + "Z"


@pytest.mark.req("RCP-52")
def test_unanswered_question_is_logged_and_not_listed(
    notebook: AskedNotebook,
) -> None:
    notebook.ask_user("Sure?", CANCELLED)
    notebook.ask_user("Now?", not_answered("timed_out", "form"))
    notebook.ask_user("Which?", "this")
    assert [(e["outcome"], e.get("id")) for e in notebook.kept()] == [
        ("cancelled", None), ("timed_out", None), ("answered", 1),
    ]  # fmt: skip
    assert [(e["id"], e["question"]) for e in notebook.read()["entries"]] == [(1, "Which?")]


@pytest.mark.req("RCP-37", "RCP-52")
def test_each_question_of_a_form_is_one_entry(notebook: AskedNotebook) -> None:
    stores = [{"label": "Postgres", "value": "pg"}, {"label": "SQLite", "value": "li"}]
    pages = (
        answered({"selected": ["li", "pg"], "custom": "a file"}, "form"),
        not_answered("declined", "form"),
        answered("Ours\nand theirs", "form"),
    )
    notebook.ends.append(make("form_end", pages))
    call = notebook.call(
        "ask",
        questions=[
            {"id": "db", "question": "Which stores?", "options": stores, "multi": True},
            {"id": "why", "question": "Why?", "mode": "freetext", "required": False},
            {"id": "whose", "question": "Whose?", "mode": "freetext"},
        ],
    )
    assert not call.is_error
    assert [(e.get("id"), e["mode"], e["outcome"]) for e in notebook.kept()] == [
        (1, "choice", "answered"), (None, "freetext", "declined"), (2, "freetext", "answered"),
    ]  # fmt: skip
    first, second = notebook.read()["entries"]
    assert first["answer"] == {"selected": ["li", "pg"], "custom": "a file"}
    assert first["label"] == 'SQLite, Postgres, "a file"'
    assert second["answer"] == "Ours\nand theirs"
    assert notebook.jp("qna search postgres").count("Which stores?") == 1


SECRET = jp_nb.Question.secret("key", "Which key?")
SIGN_IN = jp_nb.Question(
    id="key",
    text="Who?",
    answer_type=make("form_answer", fields=(jp_nb.Question.text("user", "User"), SECRET)),
)


@pytest.mark.parametrize(
    ("question", "answer", "kept"),
    [
        (SECRET, "hunter2-hunter2", []),
        (SIGN_IN, {"user": "ada", "key": "hunter2-hunter2"}, ["Who?"]),
    ],
)
@pytest.mark.req("RCP-36", "RCP-70")
def test_secret_answer_is_written_nowhere(
    notebook: AskedNotebook, folder: Path, question: jp_nb.Question, answer: Any, kept: list[str]
) -> None:
    @jp_nb.tool
    def sign_in(ctx: jp_nb.ToolContext) -> Any:
        if "key" not in ctx.answers:
            return jp_nb.NeedsInput(question)
        return "Signed in."

    try:
        notebook.ends.append(answered(answer, "form"))
        notebook.call("sign_in")
    finally:
        jp_nb.remove_tool("sign_in")
    assert [entry["question"] for entry in notebook.kept()] == kept
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in found if b"hunter2" in path.read_bytes()]
    assert "hunter2" not in json.dumps(notebook.read())


def test_setting_and_folder_decide_whether_a_log_is_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, bool, int]] = [
        ("auto", True, 1), ("auto", False, 0), ("on", False, 1), ("off", True, 0),
    ]  # fmt: skip
    for setting, has_folder, kept in rows:
        with subtests.test(setting=setting, has_folder=has_folder):
            work = tmp_path / f"{setting}-{has_folder}"
            (work / ".jp").mkdir(parents=True) if has_folder else work.mkdir()
            monkeypatch.chdir(work)
            notebook = AskedNotebook(work)
            notebook.jp(f"config record.project_log={setting}")
            notebook.ask_user("Which?", "this")
            assert len(notebook.kept()) == kept
            assert notebook.read()["total"] == 1  # from the record, as there is no log
            notebook.session.close()


@pytest.mark.req("RCP-63", "RCP-64", "RCP-66", "RCP-67", "RCP-70", "HB-14")
def test_untrusted_notebook_neither_writes_nor_reads_the_log(
    other_user: AskedNotebook,
) -> None:
    call = other_user.ask_user("Which?", "mine")
    assert call.content == '{"answer_type":"text","answer":"mine"}'
    assert not other_user.log.parent.exists()
    body = other_user.read()
    assert (body["is_error"], body["untrusted"], body["entries"]) == (True, True, [])
    write_foreign_log(other_user.folder, OLD)
    assert other_user.read()["entries"] == []
    (turn,) = (turn for turn in other_user.session.conversations.log(9) if turn.number == 1)
    assert [inquiry.answer for inquiry in turn.inquiries] == ["mine"]  # it is in the record


@pytest.mark.req("RCP-65")
def test_trust_is_checked_at_each_write(other_user: AskedNotebook) -> None:
    other_user.ask_user("One?", "1")
    other_user.jp("trust --yes")
    other_user.ask_user("Two?", "2")
    other_user.jp("trust --revoke")
    other_user.ask_user("Three?", "3")
    assert [entry["question"] for entry in other_user.kept()] == ["Two?"]
    other_user.jp("trust --yes")
    assert [x["question"] for x in other_user.read()["entries"]] == ["Two?"]


@pytest.mark.req("RCP-71")
def test_notebook_of_the_same_user_is_trusted(notebook: AskedNotebook) -> None:
    notebook.ask_user("Which?", "this")
    assert notebook.read()["total"] == 1
    again = AskedNotebook(notebook.folder, stored=notebook.stored)  # signed by the same user
    assert again.read()["total"] == 1
    again.session.close()


def configure(folder: Path, answer: str) -> None:
    with (folder / ".jp" / "config.toml").open("a") as file:
        file.write(f'[conversation.tools.ask_user.questions.answer]\nanswer = "{answer}"\n')


def test_headless_runs_log_a_configured_answer_once(folder: Path) -> None:
    configure(folder, "this")
    for _ in range(3):
        run = AskedNotebook(folder, headless=True)
        run.ask_user("Which?", None)
        assert [x["answered_by"] for x in run.read()["entries"]] == ["the configuration"]
        run.session.close()
    assert [(e["id"], e["channel"]) for e in AskedNotebook(folder).kept()] == [(1, "configured")]
    file = folder / ".jp" / "config.toml"
    file.write_text(file.read_text().replace('"this"', '"that"'))
    run = AskedNotebook(folder, headless=True)
    run.ask_user("Which?", None)
    assert [e["answer"] for e in run.kept()] == ["this", "that"]
    run.session.close()


@pytest.mark.req("RCP-85")
def test_headless_question_without_an_answer_is_not_logged(folder: Path) -> None:
    first = AskedNotebook(folder)
    first.ask_user("Which?", "this")
    first.session.close()
    before = {path: path.read_bytes() for path in first.log.parent.iterdir()}
    run = AskedNotebook(folder, headless=True)
    assert run.ask_user("Really?", None).is_error
    assert [x["question"] for x in run.read()["entries"]] == ["Which?"]
    assert {path: path.read_bytes() for path in first.log.parent.iterdir()} == before
    run.session.close()


@pytest.mark.req("RCP-48", "RCP-49", "HB-14")
def test_notebooks_of_a_workspace_share_log_and_ids(folder: Path) -> None:
    one = AskedNotebook(folder, name="one")
    two = AskedNotebook(folder, name="two")
    for number in range(105):
        append_question((one, two)[number % 2], number)
    assert one.log.with_name("qna_0001.jsonl").exists()
    assert one.read(limit=200)["total"] == 105
    assert [x["id"] for x in two.read(limit=200)["entries"]] == list(range(1, 106))
    assert {x["notebook"] for x in two.read()["entries"]} == {"one.ipynb", "two.ipynb"}
    assert [x["question"] for x in one.read(action="get", id=1)["entries"]] == ["Number 0?"]
    one.session.close()
    two.session.close()


def append_question(notebook: AskedNotebook, number: int) -> None:
    """Append an answered question as a turn does."""
    stream = notebook.session.document.conversation
    stream.start_turn(new_event("chat_request", content="x"))
    question: Any = {"text": f"Number {number}?", "answer_type": {"type": "text"}}
    source: Any = {"source": "assistant"}
    stream.append(new_event("inquiry_request", id="c.a.1", source=source, question=question))
    metadata: Any = {"end": "answered", "channel": "form"}
    stream.append(
        new_event(
            "inquiry_response",
            id="c.a.1",
            outcome="answered",
            answer=str(number),
            metadata=metadata,
        )
    )


@pytest.mark.req("RCP-53")
def test_failed_write_is_reported_once_and_repeated(
    notebook: AskedNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is written first and never changed, so that the answer there bears no mark."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    calls = [notebook.ask_user("One?", "1"), notebook.ask_user("Two?", "2")]
    assert [call.content for call in calls] == [
        '{"answer_type":"text","answer":"1"}', '{"answer_type":"text","answer":"2"}',
    ]  # fmt: skip
    (said,) = (each for each in notebook.take_notices() if "journal" not in each)
    assert "is in this notebook's record, but not in the project log" in said
    assert "No space left on device" in said
    assert notebook.kept() == []
    monkeypatch.undo()
    notebook.ask_user("Three?", "3")
    assert [(e["id"], e["question"]) for e in notebook.kept()] == [
        (1, "One?"), (2, "Two?"), (3, "Three?"),
    ]  # fmt: skip


def test_too_long_answer_does_not_block_the_next_ones(
    notebook: AskedNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MAX_LOG_FILE_BYTES", 5000)
    notebook.ask_user("Long?", "x" * 5000)
    notebook.ask_user("Short?", "y")
    assert [e["question"] for e in notebook.kept()] == ["Short?"]
    (said,) = notebook.take_notices()
    assert said.startswith("the answer is only in this notebook's record: ")


def test_newest_unwritten_answers_are_kept_for_later(
    notebook: AskedNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(question_log, "MAX_WAITING", 3)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        for number in range(5):
            append_question(notebook, number)
    notebook.ask_user("Now?", "now")
    assert [e["question"] for e in notebook.kept()] == ["Number 3?", "Number 4?", "Now?"]


def test_answers_without_a_log_are_not_logged_later(
    notebook: AskedNotebook,
) -> None:
    notebook.jp("config record.project_log=off")
    notebook.ask_user("Which?", "this")
    notebook.jp("config record.project_log=on")
    notebook.ask_user("Now?", "now")
    assert [e["question"] for e in notebook.kept()] == ["Now?"]


@pytest.mark.req("RCP-50")
def test_damaged_lines_are_skipped_and_reported_once(notebook: AskedNotebook) -> None:
    notebook.ask_user("One?", "1")
    with notebook.log.open("a") as file:
        file.write("damaged\n{}\n")
    notebook.ask_user("Two?", "2")
    assert [x["id"] for x in notebook.read()["entries"]] == [1, 4]
    notebook.read()
    (said,) = notebook.take_notices()
    assert said.startswith("2 lines of the project log in ")
    assert said.endswith("cannot be read: jp_nb ignores them")


def test_repaired_conversation_is_not_logged_again(notebook: AskedNotebook) -> None:
    notebook.ask_user("One?", "1")
    notebook.session.document.conversation.append(
        new_event("tool_call_request", id="open", name="ask_user", arguments={})
    )
    notebook.ask_user("Two?", "2")  # gives the open call a response first
    assert [e["question"] for e in notebook.kept()] == ["One?", "Two?"]


@pytest.mark.req("RCP-67", "RCP-68")
def test_foreign_entries_need_consent_before_a_model_reads_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", "")
    write_foreign_log(
        folder, OLD, {**OLD, "answer": "Rotterdam", "trusted": True, "signature": "1:00"}
    )
    notebook = AskedNotebook(folder)
    notebook.ask_user("Which?", "this")
    body = notebook.read()
    assert [x["answer"] for x in body["entries"]] == ["this"]
    assert body["left_out"].startswith("2 by other authors")
    shown = notebook.jp("qna")
    assert "Rotterdam" in shown
    assert "2 not signed by you" in shown
    assert shown.count("not signed by you") == 3  # each entry as well
    listed = notebook.jp("trust --workspace --yes")
    assert listed == ""
    assert [x["answer"] for x in notebook.read()["entries"]] == ["Delft", "Rotterdam", "this"]
    with notebook.log.open("a") as file:
        file.write(json.dumps(OLD | {"answer": "planted later"}) + "\n")
    assert [x["answer"] for x in notebook.read()["entries"]] == ["this"]
    notebook.session.close()


def test_foreign_entries_are_shown_before_the_user_agrees(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", "")
    write_foreign_log(folder, OLD)
    notebook = AskedNotebook(folder)
    notebook.ends.append(answered(True, "form"))
    shown = notebook.jp("trust --workspace")
    assert "Which city? → Delft" in shown
    assert "qna.jsonl" in shown
    assert notebook.read()["total"] == 1
    notebook.session.close()


def test_headless_run_reads_the_log_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", "")
    write_foreign_log(folder, OLD)
    run = AskedNotebook(folder, headless=True)
    assert [x["answer"] for x in run.read()["entries"]] == ["Delft"]
    run.session.close()


@pytest.fixture
def untrusted_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", "")


@pytest.mark.usefixtures("untrusted_folder")
def test_signed_answers_are_foreign_in_another_workspace(
    notebook: AskedNotebook, folder: Path
) -> None:
    notebook.ask_user("Which database?", "Postgres")
    (other := folder.parent / "other" / ".jp" / "context").mkdir(parents=True)
    (other / "qna.jsonl").write_bytes(notebook.log.read_bytes())
    elsewhere = AskedNotebook(folder.parent / "other")
    assert elsewhere.read()["entries"] == []
    elsewhere.ask_user("Now?", "now")
    assert [x["answer"] for x in elsewhere.read()["entries"]] == ["now"]
    elsewhere.jp("trust --workspace --yes")
    assert len(elsewhere.read()["entries"]) == 2
    elsewhere.session.close()


@pytest.mark.usefixtures("untrusted_folder")
@pytest.mark.parametrize("answers", mostly_deep([3, 110], quick=[3]))
def test_removing_the_newest_line_invalidates_the_older_ones(
    notebook: AskedNotebook, folder: Path, answers: int
) -> None:
    for number in range(answers):
        append_question(notebook, number)
    assert notebook.read(limit=200)["total"] == answers
    lines = notebook.log.read_bytes().splitlines(keepends=True)
    notebook.log.write_bytes(b"".join(lines[:-1]))
    assert notebook.read()["entries"] == []
    notebook.log.write_bytes(b"".join([*lines, lines[0]]))  # an older line again at the end
    assert notebook.read(limit=200)["total"] == answers
    notebook.log.write_bytes(b"".join(lines))
    assert notebook.read(limit=200)["total"] == answers


@pytest.mark.deep
@pytest.mark.usefixtures("untrusted_folder")
def test_answers_stay_valid_after_archives_were_removed(
    notebook: AskedNotebook, folder: Path
) -> None:
    notebook.jp("config record.project_log_archives=1")
    for number in range(320):
        append_question(notebook, number)
    assert len(list(notebook.log.parent.glob("qna_*"))) == 1
    assert notebook.read(limit=200)["total"] == 120


@pytest.mark.req("RCP-56", "RCP-59", "RCP-61")
def test_table_next_to_the_log_is_imported_once_trusted(
    other_user: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    table = other_user.log.with_name("qna.csv")
    table.parent.mkdir()
    table.write_text(TABLE)
    other_user.ask_user("Which?", "mine")
    other_user.read()
    assert table.exists()  # no import without trust
    other_user.jp("trust --yes")
    assert "1 answer imported from qna.csv" in capsys.readouterr().out
    assert not table.exists()
    assert table.with_name("qna.csv.migrated").read_text() == TABLE
    assert [(x["id"], x["answer"]) for x in other_user.read()["entries"]] == [(1, "Delft")]


@pytest.mark.req("RCP-56", "RCP-62")
def test_table_next_to_the_log_is_imported_with_the_first_answer(notebook: AskedNotebook) -> None:
    table = notebook.log.with_name("qna.csv")
    table.parent.mkdir()
    table.write_text(TABLE)
    notebook.ask_user("Which?", "this")
    assert [(x["id"], x["answer"]) for x in notebook.read()["entries"]] == [
        (2, "Delft"), (1, "this"),
    ]  # fmt: skip
    assert notebook.take_notices()[0] == "1 answer imported from qna.csv"


def test_unreadable_table_is_reported_and_answers_are_logged(notebook: AskedNotebook) -> None:
    table = notebook.log.with_name("qna.csv")
    table.parent.mkdir()
    table.write_bytes(b"\xff\xfe\x00")
    notebook.ask_user("Which?", "this")
    assert [e["answer"] for e in notebook.kept()] == ["this"]
    (said,) = notebook.take_notices()
    assert "is not imported" in said
    assert "is not UTF-8" in said
    assert table.exists()


def test_very_long_table_is_imported_only_on_request(
    notebook: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    table = notebook.log.with_name("qna.csv")
    table.parent.mkdir()
    table.write_text("".join(f"2026-03-01T10:00:00Z;Q{n}?;A\n" for n in range(10_001)))
    notebook.ask_user("Which?", "this")
    (said,) = notebook.take_notices()
    assert "10001 answers are too many for an automatic import" in said
    assert table.exists()
    assert len(notebook.kept()) == 1
    notebook.jp(f"qna import {table}")
    assert "10001 answers imported" in capsys.readouterr().out
