"""Import of questions and answers from a table or another log."""

from __future__ import annotations

import pytest

from tests.kit.question_log_lines import QuestionLogLines

read_rows = QuestionLogLines.import_table

TABLE = (
    "datetime;question;answer\r\n"
    '2026-03-02T10:00:00Z;"Which; ""database""?";"Post\r\ngres"\r\n'
    "2026-03-01 09:00:00;Which city?;Delft\r\n"
)


@pytest.mark.req("RCP-57", "RCP-62")
def test_rows_are_read_with_semicolons_and_quotes_and_sorted_by_time() -> None:
    entries, skipped = read_rows("\ufeff" + TABLE)
    assert skipped == []
    assert [(x["timestamp"], x["question"], x["answer"]) for x in entries] == [
        ("2026-03-01T09:00:00.0Z", "Which city?", "Delft"),
        ("2026-03-02T10:00:00.0Z", 'Which; "database"?', "Post\r\ngres"),
    ]
    without_header = TABLE.partition("\r\n")[2]
    assert read_rows(without_header)[0] == entries


@pytest.mark.req("RCP-58")
def test_bad_rows_are_skipped_with_line_and_reason() -> None:
    entries, skipped = read_rows(
        "2026-02-30T10:00:00Z;Q;A\n2026-03-01;Q;A\na;b\n\n2026-03-01T10:00:00Z;;A\n"
        '2026-03-01T10:00:00Z;"Q"x;A\n2026-03-01T10:00:00+01:00;Q;good\n'
        'datetime;question;answer\n2026-03-01T10:00:00Z;Q; \n2026-03-01T10:00:00Z;"Q;A\n'
    )
    assert [(entry["answer"], entry["timestamp"]) for entry in entries] == [
        ("good", "2026-03-01T09:00:00.0Z")
    ]
    places = [text.partition(":")[0] for text in skipped]
    assert places == ["line 1", "line 2", "line 3", *(f"line {n}" for n in (5, 6, 8, 9, 10))]
    assert "'2026-03-01' is not a date with a time" in skipped[1]
    assert "2 columns, expected datetime;question;answer" in skipped[2]


def test_equal_rows_have_distinct_names_that_stay_the_same() -> None:
    twice = "2026-03-01T10:00:00Z;Q;A\n" * 2
    first, second = (entry["row"] for entry in read_rows(twice)[0])
    assert first != second
    again, _ = read_rows("2026-01-01T00:00:00Z;Other;A\n" + twice)
    assert {first, second} < {entry["row"] for entry in again}


@pytest.mark.req("RCP-41", "RCP-62")
def test_another_log_is_read_without_its_ids_and_signatures() -> None:
    entries, skipped = QuestionLogLines.import_log(
        '{"datetime":"2026-03-02T11:00:00+01:00","question":"Q?","answer":"A"}\n\nbad\n'
        '{"id":7,"timestamp":"2026-03-01T10:00:00Z","question":"Which?","answer":"pg","label":"Pg",'
        '"mode":"choice","trusted":true,"signature":"1:00"}\n'
        '{"timestamp":"2026-03-01T10:00:00Z","question":"Which?","outcome":"declined"}\n'
    )
    assert skipped == ["line 3: not a log entry"]
    assert [{**entry, "row": ""} for entry in entries] == [
        {
            "v": 1, "timestamp": "2026-03-01T10:00:00.0Z", "question": "Which?", "answer": "pg",
            "label": "Pg", "mode": "choice", "row": "",
        },
        {"v": 1, "timestamp": "2026-03-02T10:00:00.0Z", "question": "Q?", "answer": "A", "row": ""},
    ]  # fmt: skip
