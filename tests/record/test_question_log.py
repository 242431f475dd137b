"""Entries of the question log: their content, validation and signature."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.question_log_lines import QuestionLogLines
from tests.kit.record_view import RecordView
from tests.support.entries import START, new_stream, raw

KEY = b"k" * 32
HERE = QuestionLogLines(KEY, "/home/ada/work")
ELSEWHERE = QuestionLogLines(KEY, "/home/ada/elsewhere")
GOOD: dict[str, Any] = {
    "id": 3, "timestamp": "2026-03-18T13:19:06.5Z", "question": "Q?", "answer": "A",
}  # fmt: skip


def asked(answer_type: Any = None) -> Any:
    question = {"text": "Which?", "answer_type": answer_type or {"type": "text"}}
    return raw("inquiry_request", id="c.q.1", source={"source": "assistant"}, question=question)


def ended(**more: Any) -> Any:
    about = {"end": "answered", "channel": "form"}
    response = raw("inquiry_response", id="c.q.1", outcome="answered", metadata=about)
    return response | {"timestamp": "2026-03-18 13:19:06.5"} | more


def logged(request: dict[str, Any], response: dict[str, Any]) -> Any:
    """Return the log entry of a recorded question, or None if it is not logged."""
    found = RecordView(new_stream(START, request, response)).logged_questions()
    return found[0] if found else None


@pytest.mark.req("RCP-40", "RCP-37")
def test_entry_has_value_label_time_mode_and_source() -> None:
    kind = {"type": "select", "options": [{"value": "pg", "label": "Postgres"}]}
    entry = logged(asked(kind), ended(answer="pg"))
    assert entry == {
        "v": 1,
        "timestamp": "2026-03-18T13:19:06.5Z",
        "question": "Which?",
        "answer": "pg",
        "label": "Postgres",
        "mode": "choice",
        "outcome": "answered",
        "source": "assistant",
        "channel": "form",
    }


def test_entry_names_the_collaborator_who_answered() -> None:
    entry = logged(asked(), ended(answer="A", metadata={"channel": "form", "by": "Ada"}))
    assert entry is not None
    assert entry["by"] == "Ada"
    answer = HERE.read_answer(entry, 1, is_trusted=True)
    assert answer.to_json()["answered_by"] == "the user (Ada)"
    forged = HERE.read_answer(GOOD | {"channel": "form", "by": "the user"}, 2, is_trusted=True)
    assert forged.answered_by == "the user (the user)"
    assert HERE.read_answer(GOOD | {"by": ["Ada"]}, 3, is_trusted=True).outcome.by is None


@pytest.mark.req("RCP-36")
def test_secret_answer_is_not_logged() -> None:
    kind = {"type": "secret"}
    assert logged(asked(kind), ended(outcome="redacted")) is None


@pytest.mark.req("RCP-52")
def test_unanswered_question_has_an_outcome_and_no_answer() -> None:
    for end in ("declined", "cancelled", "timed_out", "interrupted"):
        metadata = {"end": end, "channel": "stdin"}
        entry = logged(asked(), ended(outcome="cancelled", reason="user", metadata=metadata))
        assert entry is not None
        assert entry["outcome"] == end
        assert "answer" not in entry


def test_question_that_no_user_saw_is_not_logged(subtests: pytest.Subtests) -> None:
    for response in [
        ended(outcome="cancelled", reason="no_prompt_backend", metadata={"end": "unavailable"}),
        ended(outcome="cancelled", reason="backend_error", metadata={}),
        ended(answer=None),
        ended(answer="A", timestamp="yesterday"),
    ]:
        with subtests.test(response=response):
            assert logged(asked(), response) is None


def test_marks_are_kept_and_a_blank_answer_is_marked() -> None:
    metadata = {"end": "answered", "channel": "form", "auto": True, "timed_out": True}
    entry = logged(asked(), ended(answer="A", metadata=metadata))
    assert entry is not None
    answer = HERE.read_answer(entry, 1, is_trusted=True)
    assert answer.outcome.marks == {"auto", "timed_out"}
    assert answer.answered_by == "an automatic choice (timed out)"
    blank = logged(asked(), ended(answer=" "))
    assert blank is not None
    assert blank["empty"] is True
    assert HERE.decode(HERE.encode(blank)) == blank


@pytest.mark.req("RCP-51", "RCP-50")
def test_malformed_entry_is_ignored(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        {"question": "  "},
        {"question": None},
        {"answer": " \n"},
        {"answer": None},
        {"timestamp": "2026-02-30T10:00:00Z"},
        {"timestamp": "2026-02-28"},
        {"timestamp": "2026-02-28T10:00:00"},
        {"timestamp": "2026-02-28T10:00:00+25:00"},
        {"timestamp": 5},
        {"id": 0},
        {"id": 2**53},
        {"id": "1"},
        {"id": True},
        {"id": 1.5},
        {"outcome": "lost"},
        {"outcome": ["declined"]},
    ]
    for wrong in rows:
        with subtests.test(wrong=wrong):
            assert HERE.decode(HERE.encode(GOOD)) == GOOD
            assert HERE.decode(HERE.encode(GOOD | wrong)) is None


@pytest.mark.req("RCP-50")
def test_damaged_line_has_no_entry(subtests: pytest.Subtests) -> None:
    for line in [b"", b"{", b"[]", b"\xff\xfe", b'{"id":1e999}', b"[" * 5000]:
        with subtests.test(line=line):
            assert HERE.decode(line) is None


@pytest.mark.req("RCP-41", "RCP-51")
def test_entries_of_three_fields_are_read() -> None:
    for timestamp in (
        "2026-02-28T10:00:00Z",
        "2026-02-28 10:00:00.5+01:00",
        "2024-02-29t10:00:00z",
    ):
        entry = HERE.decode(HERE.encode({"datetime": timestamp, "question": "Q?", "answer": "A"}))
        assert entry is not None
        assert HERE.read_answer(entry, 4, is_trusted=False).words == "A"


TEXT = st.text(st.characters(codec=None), min_size=1).filter(lambda text: bool(text.strip()))
"""Of any characters, halves of a surrogate pair too."""


@given(TEXT, TEXT)
@example("one\u2028two\x85", "three\u2029\nfour")  # lines, for some readers
@pytest.mark.req("RCP-39")
def test_entry_is_one_line_for_any_text(question: str, answer: str) -> None:
    line = HERE.encode(GOOD | {"question": question, "answer": answer})
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    entry = HERE.decode(line)
    assert entry is not None
    if question.isprintable():
        assert entry["question"] == question


@pytest.mark.req("RCP-68")
def test_signature_covers_all_fields_key_and_workspace() -> None:
    entry: dict[str, Any] = HERE.sign(GOOD | {"trusted": True})
    assert HERE.is_valid(entry)
    read = HERE.decode(HERE.encode(entry))
    assert read is not None
    assert HERE.is_valid(read)
    for changed in ({"answer": "B"}, {"id": 4}, {"more": 1}, {"trusted": False}):
        assert not HERE.is_valid(entry | changed)
    assert not QuestionLogLines(b"x" * 32, "/home/ada/work").is_valid(entry)
    assert not ELSEWHERE.is_valid(entry)
    assert not HERE.is_valid(GOOD)
    assert not HERE.is_valid(GOOD | {"signature": "1:é"})
    deep: Any = "A"
    for _ in range(500):
        deep = [deep]
    assert not HERE.is_valid(GOOD | {"answer": deep, "signature": "1:00"})


FIELDS = (jp.Question.text("to", "Town"), jp.Question.integer("days", "Days"))
FORM = jp.Question(id="trip", text="Which trip?", answer_type=make("form_answer", fields=FIELDS))


@pytest.mark.req("RCP-37", "RCP-40")
def test_answers_of_every_kind_are_logged_with_their_label(subtests: pytest.Subtests) -> None:
    rows: list[tuple[jp.Question, Any, str, str | None]] = [
        (jp.Question.text("q", "Q?"), "as it is", "freetext", None),
        (jp.Question.boolean("q", "Q?"), False, "boolean", "No"),
        (jp.Question.number("q", "Q?"), 2.5, "number", "2.5"),
        (
            jp.Question.select("q", "Q?", ["a", jp.Option(value="b", label="Bee")]),
            "b",
            "choice",
            "Bee",
        ),
        (jp.Question.select("q", "Q?", ["a", "b"], multi=True), ["b", "a"], "choice", "b, a"),
        (
            jp.Question.select(
                "q", "Q?", [jp.Option(value="b", label="Bee")], multi=True, other=True
            ),
            {"selected": ["b"], "custom": "my owned_lines"},
            "choice",
            'Bee, "my owned_lines"',
        ),
        (FORM, {"to": "Delft", "days": 2}, "form", "Town: Delft; Days: 2"),
    ]
    for question, answer, mode, words in rows:
        with subtests.test(question=question):
            view = RecordView(new_stream(START))
            view.record_question(question, answer, "auto", tool="plan")
            [entry] = view.logged_questions()
            assert (entry["answer"], entry["mode"], entry.get("label")) == (answer, mode, words)
            assert (entry["source"], entry["auto"]) == ("plan", True)
            assert HERE.decode(HERE.encode(entry)) == entry


def test_signature_is_computed_as_documented() -> None:
    lines = (
        b'"jp_nb question 2"\n"/home/ada/work"\n'
        b'{"answer":"A","id":3.0,"question":"Q?","timestamp":"2026-03-18T13:19:06.5Z"}\n'
    )
    digest = hmac.new(b"k" * 32, lines, "sha256").hexdigest()
    assert HERE.sign(GOOD) == GOOD | {"signature": f"2:{digest}"}


# --- the chain of a log ------------------------------------------------------------------------


def log_of(*answers: str | None) -> tuple[list[bytes], str]:
    """Return the lines of a log and its chain value; None is a line of someone else."""
    entries = [
        None if answer is None else GOOD | {"id": number, "answer": answer}
        for number, answer in enumerate(answers, 1)
    ]
    return HERE.write(*entries, theirs=HERE.encode(GOOD | {"id": 98, "answer": "theirs"}))


def test_own_lines_count_among_lines_of_others() -> None:
    lines, newest = log_of("a", None, "b", "c", None)
    assert HERE.own_lines(lines, newest) == [True, False, True, True, False]
    assert HERE.own_lines([*lines, b"damaged"], newest) == [True, False, True, True, False, False]


@given(st.lists(st.sampled_from(["a", "b", None]), min_size=2, max_size=8), st.data())
def test_no_line_before_a_change_of_the_log_counts(
    answers: list[str | None], data: st.DataObject
) -> None:
    lines, newest = log_of(*answers)
    whole = HERE.own_lines(lines, newest)
    place = data.draw(st.integers(0, len(lines) - 1))
    last = max((n for n, answer in enumerate(answers) if answer), default=-1)
    change = data.draw(st.sampled_from(["remove", "replay", "insert", "swap"]))
    changed = list(lines)
    match change:
        case "remove":
            del changed[place]
        case "replay":
            changed.append(lines[place])
        case "insert":
            changed.insert(place, HERE.encode(GOOD | {"id": 99}))
        case "swap":
            changed[place], changed[place - 1] = changed[place - 1], changed[place]
    for line, counts in zip(changed, HERE.own_lines(changed, newest), strict=True):
        if counts:
            assert whole[lines.index(line)]
    if change == "remove" and place == last:
        assert not any(HERE.own_lines(changed, newest))
    elif change == "remove" and place < last:
        assert not any(HERE.own_lines(changed, newest)[:place])


def test_line_of_another_workspace_or_of_scheme_1_does_not_count() -> None:
    lines, newest = log_of("a", "b")
    assert ELSEWHERE.own_lines(lines, newest) == [False, False]
    assert HERE.own_lines(lines[:1], newest) == [False]  # the newest one was removed
    assert not HERE.is_valid(GOOD | {"signature": f"1:{'0' * 64}"})
