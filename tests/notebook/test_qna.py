"""`%jp qna`: the answered questions that it shows.

Departures from the rows: a bare `%jp qna` lists (RCP-82); a truncated answer is whole with
`get ID`, in the record and in the log, not in another MIME type (RCP-27, RCP-28, RCP-83).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.ipython_shell import IPythonShell
from tests.rendering.markdown_readers import dangers, renderings
from tests.support.fakes import CANCELLED, yes
from tests.support.sessions import AskedNotebook

TABLE = (
    "datetime;question;answer\n"
    '2026-03-02T10:00:00Z;"Which; one?";this\n'
    "2026-03-01T10:00:00Z;Which city?;Delft\nbad row\n"
)


@pytest.fixture
def notebook(folder: Path) -> Iterator[AskedNotebook]:
    made = AskedNotebook(folder)
    yield made
    made.session.close()


@pytest.fixture(params=["log", "record"])
def either(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[AskedNotebook]:
    """A notebook in a workspace that keeps a log, and one in a folder that does not."""
    (bare := tmp_path / "bare").mkdir()
    made = AskedNotebook(folder if request.param == "log" else bare)
    yield made
    made.session.close()


@pytest.mark.req("RCP-27", "RCP-82", "RCP-81", "RCP-75")
def test_newest_answers_are_a_table_with_their_ids(
    either: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    assert either.jp("qna") == ""
    assert "No question has been answered yet: there is no history." in capsys.readouterr().out
    either.ask_user("Which database?", "SQLite")
    either.ask_user("Left open?", CANCELLED)
    either.ask_user("Since when?", "2020")
    table = (
        "id  question         answer  answered by\n"
        "1   Which database?  SQLite  the user\n"
        "2   Since when?      2020    the user"
    )
    assert either.jp("qna") == either.jp("qna list") == table
    shown = either.jp("qna list --limit 1")
    assert "Which database?" not in shown
    assert "1 earlier: `%jp qna list --limit N` shows more" in shown


@pytest.mark.req("RCP-83", "RCP-84", "RCP-82")
def test_long_texts_are_truncated_in_the_table_and_whole_by_id(notebook: AskedNotebook) -> None:
    question = "Which " + "q" * 100 + "?"
    answer = "line\n" + "a|" * 50
    notebook.ask_user(question, answer)
    *_, row = notebook.jp("qna").splitlines()
    assert row.split("  ")[1].strip() == question[:59] + "…"
    assert "line " + "a|" * 17 + "…  the user" in row
    whole = notebook.jp("qna get 1")
    assert whole.splitlines()[1] == question
    assert whole.endswith(answer)
    assert re.fullmatch(
        r"answer 1 · \d{4}-\d\d-\d\d \d\d:\d\d UTC · asked by the assistant · in nb\.ipynb · "
        "answered by the user", whole.splitlines()[0],
    )  # fmt: skip


@pytest.mark.req("RCP-37")
def test_labeled_answer_is_shown_with_its_value(notebook: AskedNotebook) -> None:
    options = [{"label": "Postgres", "value": "pg"}, {"label": "SQLite", "value": "li"}]
    question = {"id": "db", "question": "Which?", "options": options}
    notebook.ends.append(yes("pg"))
    notebook.call("ask", questions=[question])
    assert notebook.jp("qna").endswith("1   Which?    Postgres  the user")
    assert notebook.jp("qna get 1").splitlines()[1:] == ["Which?", "Postgres", 'value: "pg"']


@pytest.mark.req("RCP-84")
def test_questions_and_answers_are_escaped(folder: Path) -> None:
    notebook = AskedNotebook(folder, name="<img src=x onerror=alert(1)>")
    evil = "<img src=x onerror=alert(1)>|[x](javascript:alert(1))`` $x$\u202e\x1b[31m"
    notebook.ask_user(f"Which {evil}?", f"{evil}\n```\n# {evil}")
    bundles: list[dict[str, Any]] = []
    notebook.shell.publish = lambda data, **_: bundles.append(data)  # type: ignore[method-assign]
    notebook.jp("qna")
    notebook.jp("qna get 1")
    assert len(bundles) == 2
    for bundle in bundles:
        assert "\x1b" not in bundle["text/plain"] + bundle["text/markdown"]
        assert "\u202e" not in bundle["text/plain"] + bundle["text/markdown"]
        for html in renderings(bundle["text/markdown"]):
            assert not dangers(html)
    (row,) = [x for x in bundles[0]["text/markdown"].splitlines() if x.startswith("| 1 ")]
    assert row.replace("\\|", "").count("|") == 5  # a bar in a text ends no column
    notebook.session.close()


@pytest.mark.req("RCP-82", "RCP-79", "RCP-80")
def test_search_looks_in_questions_and_answers(
    either: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    either.ask_user("Which database?", "SQLite")
    either.ask_user("Which city is it?", "Delft")
    assert "SQLite" in either.jp("qna search sqlite")
    assert "Delft" not in either.jp("qna search sqlite")
    assert "Delft" in either.jp("qna search city is")
    newest = either.jp("qna search which --limit 1")
    assert "SQLite" not in newest
    assert "1 earlier: `%jp qna search TEXT --limit N` shows more" in newest
    assert either.jp("qna search mongo") == ""
    assert "No question and no answer contains 'mongo'." in capsys.readouterr().out


WRONG_LINES: list[tuple[str, str]] = [
    ("qna lst", "Did you mean `%jp qna list`? Usage: `%jp qna [list | get ID | search TEXT"),
    ("qna everything", "There is no `%jp qna everything`. Usage: `%jp qna [list"),
    ("qna list 5", "`list` takes no words, but got '5'"),
    ("qna get", "`get` takes the id of an answer"),
    ("qna get one", "`get` takes the id of an answer, but got 'one'"),
    ("qna get 1 2", "`get` takes the id of an answer"),
    (f"qna get {'9' * 5000}", "`get` takes the id of an answer"),
    ("qna get 7", "There is no answer with the id 7: the highest id is 1."),
    ("qna get 1 --limit 2", "`--limit` works with `list` and `search` only"),
    ("qna search", "`search` takes the text to search for"),
    ("qna search ' '", "`search` takes the text to search for"),
    ("qna list --limit 0", "a whole number from 1 to 200"),
    ("qna list --limit x", "a whole number from 1 to 200"),
    ("qna list --limit 99999999999999999999", "a whole number from 1 to 200"),
    ("qna import", "`import` takes one file"),
    ("qna import nothing.csv", "does not exist"),
    ("qna import ~no-such-user/x.csv", "is not a valid file name"),
]


@pytest.mark.req("RCP-82", "RCP-77", "RCP-78", "RCP-74")
def test_wrong_line_is_an_error_with_the_remedy(
    notebook: AskedNotebook, subtests: pytest.Subtests
) -> None:
    notebook.ask_user("Which?", "this")
    for line, says in WRONG_LINES:
        with subtests.test(line=line[:40]):
            with pytest.raises(jp.UsageError) as caught:
                notebook.jp(line)
            assert says in str(caught.value)


def test_unknown_id_in_an_empty_history_has_its_own_error(either: AskedNotebook) -> None:
    with pytest.raises(jp.UsageError, match="there is no history"):
        either.jp("qna get 1")


@pytest.mark.req("RCP-69")
def test_shown_answers_are_not_added_to_the_conversation(either: AskedNotebook) -> None:
    either.ask_user("Which database?", "SQLite")
    before = either.stored
    assert "SQLite" in either.jp("qna")
    either.jp("qna get 1")
    either.jp("qna search sql")
    assert either.stored == before


@pytest.mark.req("RCP-69", "RCP-61")
def test_untrusted_notebook_shows_no_answers_and_how_to_trust_it(
    notebook: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.ask_user("Which database?", "SQLite")
    notebook.session.active.revoke()
    table = notebook.log.with_name("qna.csv")
    table.write_text(TABLE)
    for line in ("qna", "qna get 1", "qna search sql"):
        assert notebook.jp(line) == ""
        assert "This notebook is not trusted" in (out := capsys.readouterr().out)
        assert "`%jp trust`" in out
        assert "SQLite" not in out
    with pytest.raises(jp.UsageError, match="not trusted"):
        notebook.jp(f"qna import {table}")
    assert table.exists()


def test_configured_answer_is_marked(folder: Path) -> None:
    with (folder / ".jp" / "config.toml").open("a") as file:
        file.write('[conversation.tools.ask_user.questions.answer]\nanswer = "this"\n')
    notebook = AskedNotebook(folder)
    notebook.ask_user("Which?", None)
    assert notebook.jp("qna").endswith("this    the configuration")
    notebook.session.close()


def test_doctor_tells_where_answers_are_kept(notebook: AskedNotebook, tmp_path: Path) -> None:
    def row(asked: AskedNotebook) -> str:
        (line,) = [x for x in asked.jp("doctor").splitlines() if x.startswith("answer history ")]
        return line

    assert "in the project log .jp/context/qna.jsonl" in row(notebook)
    notebook.jp("config record.project_log=off")
    assert "only in this notebook's record: record.project_log is off" in row(notebook)
    notebook.session.active.revoke()
    assert "the notebook is not trusted (`%jp trust`)" in row(notebook)
    (bare := tmp_path / "bare").mkdir()
    other = AskedNotebook(bare)
    assert "the workspace has no folder `.jp`" in row(other)
    other.session.close()


def test_tab_offers_words_ids_and_files(notebook: AskedNotebook) -> None:
    notebook.ask_user("Which?", "this")
    notebook.ends.append(yes("that"))
    notebook.call("ask_user", question="Which?")

    def offered(line: str) -> list[str]:
        return [
            line[:start] + text
            for start, text in IPythonShell.complete(f"{line}|", notebook.session)
        ]

    assert offered("%jp qn") == ["%jp qna"]
    words = ["list", "get", "search", "import"]
    assert offered("%jp qna ") == [f"%jp qna {word}" for word in words]
    assert offered("%jp qna get ") == ["%jp qna get 2", "%jp qna get 1"]
    assert offered("%jp qna --limit 5 ge") == ["%jp qna --limit 5 get"]
    (notebook.folder / "old.csv").write_text(TABLE)
    assert offered("%jp qna import ol") == ["%jp qna import old.csv"]
    assert offered("%jp qna search ") == ["%jp qna search --limit"]
    assert offered("%jp qna get 1 x") == []


# --- tables ----------------------------------------------------------------------------------


@pytest.mark.req("RCP-56", "RCP-57", "RCP-58", "RCP-60", "RCP-62")
def test_table_is_imported_once_in_order_of_time(
    notebook: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.ask_user("Which database?", "SQLite")
    table = notebook.folder / "old.csv"
    table.write_text(TABLE)
    notebook.jp("qna import old.csv")
    out = capsys.readouterr().out
    assert "2 answers imported from old.csv, 1 skipped" in out
    assert "line 4: 1 columns, expected datetime;question;answer" in out
    shown = [line.split("  ")[0] for line in notebook.jp("qna").splitlines()[1:]]
    assert shown == ["2", "3", "1"]  # oldest first; ids are as they were given
    assert [x["answer"] for x in notebook.read()["entries"]] == ["Delft", "this", "SQLite"]
    notebook.jp("qna import old.csv")
    assert "0 answers imported from old.csv, 2 already known" in capsys.readouterr().out
    assert len(notebook.kept()) == 3
    assert table.read_text() == TABLE


@pytest.mark.req("RCP-60", "RCP-62")
def test_interrupted_import_is_completed_by_the_next_one(
    notebook: AskedNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"2026-03-01T10:{n // 60:02}:{n % 60:02}Z;Q{n}?;A{n}\n" for n in range(250)]
    (notebook.folder / "old.csv").write_text("".join(rows))
    write = os.write
    parts = iter(range(9))

    def break_off(descriptor: int, data: bytes) -> int:
        is_part = b'"question"' in data  # of the import: up to 100 lines
        if is_part and next(parts) == 2:
            raise OSError(5, "the disk is broken")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", break_off)
    with pytest.raises(jp.StorageError, match="the disk is broken"):
        notebook.jp("qna import old.csv")
    monkeypatch.undo()
    notebook.jp("qna import old.csv")
    entries = notebook.read(limit=200)["entries"]
    assert [x["answer"] for x in entries] == [f"A{n}" for n in range(50, 250)]
    assert sorted(path.name for path in notebook.log.parent.glob("qna*")) == [
        "qna.jsonl", "qna_0001.jsonl", "qna_0002.jsonl",
    ]  # fmt: skip
    ids = [json.loads(line)["id"] for path in sorted(notebook.log.parent.glob("qna_*"))
           for line in path.read_text().splitlines()]  # fmt: skip
    assert ids == list(range(1, 201))


@pytest.mark.req("RCP-41", "RCP-60")
def test_other_log_is_imported_and_the_log_itself_is_not(
    notebook: AskedNotebook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", "")
    old = {"datetime": "2026-03-01T10:00:00Z", "question": "Which city?", "answer": "Delft"}
    (notebook.folder / "old.jsonl").write_text(json.dumps(old) + "\n")
    notebook.ask_user("Which database?", "SQLite")
    for said in ("1 answer imported", "0 answers imported from old.jsonl, 1 already known"):
        notebook.jp("qna import old.jsonl")
        assert said in capsys.readouterr().out
    assert [(x["id"], x["answer"]) for x in notebook.read()["entries"]] == [
        (2, "Delft"), (1, "SQLite"),
    ]  # fmt: skip
    with pytest.raises(jp.UsageError, match="is already part of the project log"):
        notebook.jp(f"qna import {notebook.log}")
    assert len(notebook.kept()) == 2


@pytest.mark.req("RCP-59")
def test_table_beside_the_log_is_imported_and_renamed(
    notebook: AskedNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    table = notebook.log.with_name("qna.csv")
    table.parent.mkdir()
    table.with_name("qna.csv.migrated").write_text("of an earlier time")
    table.write_text(TABLE)
    notebook.jp("qna")
    assert "qna.csv was renamed to qna.csv.migrated2" in capsys.readouterr().out
    assert table.with_name("qna.csv.migrated2").read_text() == TABLE
    assert not table.exists()


@pytest.mark.req("RCP-59")
def test_explicit_import_trusts_the_table_beside_the_log(
    notebook: AskedNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", "")
    table = notebook.log.with_name("qna.csv")
    table.parent.mkdir()
    table.write_text(TABLE)
    notebook.jp("qna import .jp/context/qna.csv")
    assert not table.exists()
    assert table.with_name("qna.csv.migrated").read_text() == TABLE
    assert [x["answer"] for x in notebook.read()["entries"]] == ["Delft", "this"]


def test_import_needs_a_log(tmp_path: Path, folder: Path) -> None:
    (bare := tmp_path / "bare").mkdir()
    (bare / "old.csv").write_text(TABLE)
    notebook = AskedNotebook(bare)
    with pytest.raises(jp.UsageError, match=r"Turn it on with `%jp config record\.project_log=on`"):
        notebook.jp("qna import old.csv")
    notebook.jp("config record.project_log=on")
    notebook.jp("qna import old.csv")
    assert len(notebook.kept()) == 2
    notebook.session.close()
