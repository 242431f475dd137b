"""What is kept of a question outside of the record, and which entries are refused."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretBytes

from jp_nb.agent.questions import answered, inquiry_request
from jp_nb.record.events import InquirySource
from jp_nb.record.question_entry import (
    chained,
    entry_of,
    is_signed,
    owned,
    past_answer,
    read_line,
    signed,
    to_line,
)
from jp_nb.tooling.question import FormAnswer, Question
from jp_nb.tooling.select_kind import Option

KEY = SecretBytes(b"k" * 32)
HERE = "/home/ada/work"
GOOD: dict[str, Any] = {
    "id": 3, "timestamp": "2026-03-18T13:19:06.5Z", "question": "Q?", "answer": "A",
}  # fmt: skip


def asked(answer_type: Any = None, **more: Any) -> dict[str, Any]:
    question = {"text": "Which?", "answer_type": answer_type or {"type": "text"}}
    return {"source": {"source": "assistant"}, "question": question} | more


def ended(**more: Any) -> dict[str, Any]:
    about = {"end": "answered", "channel": "form"}
    return {"timestamp": "2026-03-18 13:19:06.5", "outcome": "answered", "metadata": about} | more


@pytest.mark.req("RCP-40", "RCP-37")
def test_an_entry_has_value_label_time_mode_and_where_it_is_from() -> None:
    kind = {"type": "select", "options": [{"value": "pg", "label": "Postgres"}]}
    entry = entry_of(asked(kind), ended(answer="pg"))
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


def test_who_answered_is_kept_where_several_people_share_the_notebook() -> None:
    entry = entry_of(asked(), ended(answer="A", metadata={"channel": "form", "by": "Ada"}))
    assert entry is not None
    assert entry["by"] == "Ada"
    answer = past_answer(entry, 1, vouched=True)
    assert answer.to_json()["answered_by"] == "the user (Ada)"
    forged = past_answer(GOOD | {"channel": "form", "by": "the user"}, 2, vouched=True)
    assert forged.answered_by == "the user (the user)"
    assert past_answer(GOOD | {"by": ["Ada"]}, 3, vouched=True).by is None


@pytest.mark.req("RCP-36")
def test_nothing_is_kept_of_a_secret_in_any_form() -> None:
    kind = {"type": "secret"}
    assert entry_of(asked(kind), ended(outcome="redacted")) is None


@pytest.mark.parametrize("end", ["declined", "cancelled", "timed_out", "interrupted"])
@pytest.mark.req("RCP-52")
def test_a_question_that_was_seen_and_not_answered_is_an_outcome_without_an_answer(
    end: str,
) -> None:
    metadata = {"end": end, "channel": "stdin"}
    entry = entry_of(asked(), ended(outcome="cancelled", reason="user", metadata=metadata))
    assert entry is not None
    assert entry["outcome"] == end
    assert "answer" not in entry


@pytest.mark.parametrize(
    "response",
    [
        ended(outcome="cancelled", reason="no_prompt_backend", metadata={"end": "unavailable"}),
        ended(outcome="cancelled", reason="backend_error", metadata={}),
        ended(answer=None),
        ended(answer="A", timestamp="yesterday"),
    ],
)
def test_where_nobody_was_asked_nothing_is_kept(response: dict[str, Any]) -> None:
    assert entry_of(asked(), response) is None


def test_marks_are_kept_and_a_blank_answer_is_marked() -> None:
    metadata = {"end": "answered", "channel": "form", "auto": True, "timed_out": True}
    entry = entry_of(asked(), ended(answer="A", metadata=metadata))
    assert entry is not None
    answer = past_answer(entry, 1, vouched=True)
    assert answer.marks == ("auto", "timed_out")
    assert answer.answered_by == "nobody (picked when the time was over)"
    blank = entry_of(asked(), ended(answer=" "))
    assert blank is not None
    assert blank["empty"] is True
    assert read_line(to_line(blank)) == blank


@pytest.mark.req("RCP-51", "RCP-50")
def test_an_entry_that_is_not_well_formed_is_none(subtests: pytest.Subtests) -> None:
    for wrong in [
        {"question": ""},
        {"question": "  "},
        {"question": None},
        {"answer": ""},
        {"answer": " \n"},
        {"answer": None},
        {"timestamp": "2026-02-30T10:00:00Z"},
        {"timestamp": "2026-02-28T25:00:00Z"},
        {"timestamp": "2026-02-28"},
        {"timestamp": "2026-02-28T10:00:00"},
        {"timestamp": "2026-02-28T10:00:00+25:00"},
        {"timestamp": "yesterday"},
        {"timestamp": 5},
        {"id": 0},
        {"id": 2**53},
        {"id": "1"},
        {"id": True},
        {"id": 1.5},
        {"outcome": "lost"},
    ]:
        with subtests.test(wrong=wrong):
            assert read_line(to_line(GOOD)) == GOOD
            assert read_line(to_line(GOOD | wrong)) is None


@pytest.mark.req("RCP-50")
def test_a_damaged_line_is_none(subtests: pytest.Subtests) -> None:
    for line in [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"id":1e999}', b"[" * 5000]:
        with subtests.test(line=line):
            assert read_line(line) is None


@pytest.mark.parametrize(
    "timestamp", ["2026-02-28T10:00:00Z", "2026-02-28 10:00:00.5+01:00", "2024-02-29t10:00:00z"]
)
@pytest.mark.req("RCP-41", "RCP-51")
def test_the_form_of_three_fields_is_read(timestamp: str) -> None:
    entry = read_line(to_line({"datetime": timestamp, "question": "Q?", "answer": "A"}))
    assert entry is not None
    assert past_answer(entry, 4, vouched=False).words == "A"


TEXT = st.text(st.characters(codec=None), min_size=1).filter(lambda text: bool(text.strip()))
"""Of any characters, halves of a surrogate pair too."""


@given(TEXT, TEXT)
@example("one\u2028two\x85", "three\u2029\nfour")  # lines, for some readers
@pytest.mark.req("RCP-39")
def test_an_entry_is_one_line_whatever_is_in_it(question: str, answer: str) -> None:
    line = to_line(GOOD | {"question": question, "answer": answer})
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    entry = read_line(line)
    assert entry is not None
    if question.isprintable():
        assert entry["question"] == question


@pytest.mark.req("RCP-68")
def test_a_signature_is_of_all_that_an_entry_says() -> None:
    entry = signed(GOOD | {"trusted": True}, KEY, HERE)
    assert is_signed(entry, KEY, HERE)
    read = read_line(to_line(entry))
    assert read is not None
    assert is_signed(read, KEY, HERE)
    for changed in ({"answer": "B"}, {"id": 4}, {"more": 1}, {"trusted": False}):
        assert not is_signed(entry | changed, KEY, HERE)
    assert not is_signed(entry, SecretBytes(b"x" * 32), HERE)
    assert not is_signed(entry, KEY, "/home/ada/elsewhere")
    assert not is_signed(GOOD, KEY, HERE)
    assert not is_signed(GOOD | {"signature": "1:é"}, KEY, HERE)
    deep: Any = "A"
    for _ in range(500):
        deep = [deep]
    assert not is_signed(GOOD | {"answer": deep, "signature": "1:00"}, KEY, HERE)


FIELDS = (Question.text("to", "Town"), Question.integer("days", "Days"))
FORM = Question(id="trip", text="Which trip?", answer_type=FormAnswer(fields=FIELDS))


@pytest.mark.req("RCP-37", "RCP-40")
def test_questions_of_every_kind_are_kept_with_their_words(subtests: pytest.Subtests) -> None:
    for question, answer, mode, words in [
        (Question.text("q", "Q?"), "as it is", "freetext", None),
        (Question.boolean("q", "Q?"), False, "boolean", "No"),
        (Question.number("q", "Q?"), 2.5, "number", "2.5"),
        (Question.integer("q", "Q?"), 3, "integer", "3"),
        (Question.select("q", "Q?", ["a", Option(value="b", label="Bee")]), "b", "choice", "Bee"),
        (Question.select("q", "Q?", ["a", "b"], multi=True), ["b", "a"], "choice", "b, a"),
        (Question.select("q", "Q?", ["a", "b"], multi=True), [], "choice", "none of these"),
        (
            Question.select("q", "Q?", [Option(value="b", label="Bee")], multi=True, other=True),
            {"selected": ["b"], "custom": "my own"},
            "choice",
            'Bee, "my own"',
        ),
        (FORM, {"to": "Delft", "days": 2}, "form", "Town: Delft; Days: 2"),
    ]:
        with subtests.test(question=question):
            request = inquiry_request("c.q.1", InquirySource.tool("plan"), question)
            response = answered("c.q.1", question, answer, "form", ["auto"])
            entry = entry_of(request.to_raw(), response.stamped("2026-03-18 13:19:06.5").to_raw())
            assert entry is not None
            assert (entry["answer"], entry["mode"], entry.get("label")) == (answer, mode, words)
            assert (entry["source"], entry["auto"]) == ("plan", True)
            assert read_line(to_line(entry)) == entry


def test_a_signature_can_be_checked_by_what_the_documents_say() -> None:
    lines = (
        b'"jp_nb question 2"\n"/home/ada/work"\n'
        b'{"answer":"A","id":3.0,"question":"Q?","timestamp":"2026-03-18T13:19:06.5Z"}\n'
    )
    digest = hmac.new(b"k" * 32, lines, "sha256").hexdigest()
    assert signed(GOOD, KEY, HERE) == GOOD | {"signature": f"2:{digest}"}


# --- the chain of a log ------------------------------------------------------------------------


def log_of(*answers: str | None) -> tuple[list[bytes], str]:
    """Return the lines of a log and its chain value; None is a line of someone else."""
    lines: list[bytes] = []
    value = newest = ""
    for number, answer in enumerate(answers, 1):
        entry = GOOD | {"id": number, "answer": answer or "theirs"}
        if answer is not None:
            entry = signed(entry | {"after": value}, KEY, HERE)
        lines.append(to_line(entry))
        value = chained(value, lines[-1])
        newest = newest if answer is None else value
    return lines, newest


def own(lines: list[bytes], newest: str, workspace: str = HERE) -> list[bool]:
    return owned([(line, read_line(line)) for line in lines], KEY, workspace, newest)


def test_own_lines_count_beside_those_of_others() -> None:
    lines, newest = log_of("a", None, "b", "c", None)
    assert own(lines, newest) == [True, False, True, True, False]
    assert own([*lines, b"damaged"], newest) == [True, False, True, True, False, False]


@given(st.lists(st.sampled_from(["a", "b", None]), min_size=2, max_size=8), st.data())
def test_no_line_before_a_change_of_the_log_counts(
    answers: list[str | None], data: st.DataObject
) -> None:
    lines, newest = log_of(*answers)
    whole = own(lines, newest)
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
            changed.insert(place, to_line(GOOD | {"id": 99}))
        case "swap":
            changed[place], changed[place - 1] = changed[place - 1], changed[place]
    for line, counts in zip(changed, own(changed, newest), strict=True):
        if counts:
            assert whole[lines.index(line)]
    if change == "remove" and place == last:
        assert not any(own(changed, newest))
    elif change == "remove" and place < last:
        assert not any(own(changed, newest)[:place])


def test_line_of_another_workspace_or_of_scheme_1_does_not_count() -> None:
    lines, newest = log_of("a", "b")
    assert own(lines, newest, "/home/ada/other") == [False, False]
    assert not is_signed(GOOD | {"signature": f"1:{'0' * 64}"}, KEY, HERE)
