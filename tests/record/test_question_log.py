"""Entries of the question log: their content, validation and signature."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretBytes

import jp_nb as jp
from jp_nb.agent.question_entries import make_closing_entry, make_inquiry_request
from jp_nb.record.events import InquirySource, decode_event
from jp_nb.record.outcomes import QuestionOutcome
from jp_nb.record.question_history import make_entry, read_logged_answer
from jp_nb.storage.question_log_file import (
    LogLine,
    decode_log_entry,
    encode_log_entry,
    extend_chain,
    has_valid_signature,
    mark_own_lines,
    sign_entry,
)
from tests.kit.kinds import is_kind
from tests.kit.questions import answer_type as kit_answer_type
from tests.kit.records import new_event

KEY = SecretBytes(b"k" * 32)
HERE = "/home/ada/work"
GOOD: dict[str, Any] = {
    "id": 3, "timestamp": "2026-03-18T13:19:06.5Z", "question": "Q?", "answer": "A",
}  # fmt: skip


def asked(answer_type: Any = None) -> Any:
    question = {"text": "Which?", "answer_type": answer_type or {"type": "text"}}
    return new_event(
        "inquiry_request", id="c.q.1", source={"source": "assistant"}, question=question
    )


def ended(**more: Any) -> Any:
    raw = {"type": "inquiry_response", "id": "c.q.1", "timestamp": "2026-03-18 13:19:06.5"}
    about = {"end": "answered", "channel": "form"}
    entry = decode_event(raw | {"outcome": "answered", "metadata": about} | more, 0)
    assert is_kind(entry, "inquiry_response")
    return entry


@pytest.mark.req("RCP-40", "RCP-37")
def test_entry_has_value_label_time_mode_and_source() -> None:
    kind = {"type": "select", "options": [{"value": "pg", "label": "Postgres"}]}
    entry = make_entry(asked(kind), ended(answer="pg"))
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
    entry = make_entry(asked(), ended(answer="A", metadata={"channel": "form", "by": "Ada"}))
    assert entry is not None
    assert entry["by"] == "Ada"
    answer = read_logged_answer(entry, 1, is_trusted=True)
    assert answer.to_json()["answered_by"] == "the user (Ada)"
    forged = read_logged_answer(GOOD | {"channel": "form", "by": "the user"}, 2, is_trusted=True)
    assert forged.answered_by == "the user (the user)"
    assert read_logged_answer(GOOD | {"by": ["Ada"]}, 3, is_trusted=True).outcome.by is None


@pytest.mark.req("RCP-36")
def test_secret_answer_is_not_logged() -> None:
    kind = {"type": "secret"}
    assert make_entry(asked(kind), ended(outcome="redacted")) is None


@pytest.mark.req("RCP-52")
def test_unanswered_question_has_an_outcome_and_no_answer() -> None:
    for end in ("declined", "cancelled", "timed_out", "interrupted"):
        metadata = {"end": end, "channel": "stdin"}
        entry = make_entry(asked(), ended(outcome="cancelled", reason="user", metadata=metadata))
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
            assert make_entry(asked(), response) is None


def test_marks_are_kept_and_a_blank_answer_is_marked() -> None:
    metadata = {"end": "answered", "channel": "form", "auto": True, "timed_out": True}
    entry = make_entry(asked(), ended(answer="A", metadata=metadata))
    assert entry is not None
    answer = read_logged_answer(entry, 1, is_trusted=True)
    assert answer.outcome.marks == {"auto", "timed_out"}
    assert answer.answered_by == "an automatic choice (timed out)"
    blank = make_entry(asked(), ended(answer=" "))
    assert blank is not None
    assert blank["empty"] is True
    assert decode_log_entry(encode_log_entry(blank)) == blank


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
    ]
    for wrong in rows:
        with subtests.test(wrong=wrong):
            assert decode_log_entry(encode_log_entry(GOOD)) == GOOD
            assert decode_log_entry(encode_log_entry(GOOD | wrong)) is None


@pytest.mark.req("RCP-50")
def test_damaged_line_has_no_entry(subtests: pytest.Subtests) -> None:
    for line in [b"", b"{", b"[]", b"\xff\xfe", b'{"id":1e999}', b"[" * 5000]:
        with subtests.test(line=line):
            assert decode_log_entry(line) is None


@pytest.mark.req("RCP-41", "RCP-51")
def test_entries_of_three_fields_are_read() -> None:
    for timestamp in (
        "2026-02-28T10:00:00Z",
        "2026-02-28 10:00:00.5+01:00",
        "2024-02-29t10:00:00z",
    ):
        entry = decode_log_entry(
            encode_log_entry({"datetime": timestamp, "question": "Q?", "answer": "A"})
        )
        assert entry is not None
        assert read_logged_answer(entry, 4, is_trusted=False).words == "A"


TEXT = st.text(st.characters(codec=None), min_size=1).filter(lambda text: bool(text.strip()))
"""Of any characters, halves of a surrogate pair too."""


@given(TEXT, TEXT)
@example("one\u2028two\x85", "three\u2029\nfour")  # lines, for some readers
@pytest.mark.req("RCP-39")
def test_entry_is_one_line_for_any_text(question: str, answer: str) -> None:
    line = encode_log_entry(GOOD | {"question": question, "answer": answer})
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    entry = decode_log_entry(line)
    assert entry is not None
    if question.isprintable():
        assert entry["question"] == question


@pytest.mark.req("RCP-68")
def test_signature_covers_all_fields_key_and_workspace() -> None:
    entry: dict[str, Any] = sign_entry(GOOD | {"trusted": True}, KEY, HERE)
    assert has_valid_signature(entry, KEY, HERE)
    read = decode_log_entry(encode_log_entry(entry))
    assert read is not None
    assert has_valid_signature(read, KEY, HERE)
    for changed in ({"answer": "B"}, {"id": 4}, {"more": 1}, {"trusted": False}):
        assert not has_valid_signature(entry | changed, KEY, HERE)
    assert not has_valid_signature(entry, SecretBytes(b"x" * 32), HERE)
    assert not has_valid_signature(entry, KEY, "/home/ada/elsewhere")
    assert not has_valid_signature(GOOD, KEY, HERE)
    assert not has_valid_signature(GOOD | {"signature": "1:é"}, KEY, HERE)
    deep: Any = "A"
    for _ in range(500):
        deep = [deep]
    assert not has_valid_signature(GOOD | {"answer": deep, "signature": "1:00"}, KEY, HERE)


FIELDS = (jp.Question.text("to", "Town"), jp.Question.integer("days", "Days"))
FORM = jp.Question(
    id="trip", text="Which trip?", answer_type=kit_answer_type("form", fields=FIELDS)
)


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
    auto = QuestionOutcome("answered", "form", frozenset({"auto"}))
    for question, answer, mode, words in rows:
        with subtests.test(question=question):
            request = make_inquiry_request("c.q.1", InquirySource.tool("plan"), question)
            response = make_closing_entry("c.q.1", question, auto, answer)
            entry = make_entry(request, response.stamped("2026-03-18 13:19:06.5"))
            assert entry is not None
            assert (entry["answer"], entry["mode"], entry.get("label")) == (answer, mode, words)
            assert (entry["source"], entry["auto"]) == ("plan", True)
            assert decode_log_entry(encode_log_entry(entry)) == entry


def test_signature_is_computed_as_documented() -> None:
    lines = (
        b'"jp_nb question 2"\n"/home/ada/work"\n'
        b'{"answer":"A","id":3.0,"question":"Q?","timestamp":"2026-03-18T13:19:06.5Z"}\n'
    )
    digest = hmac.new(b"k" * 32, lines, "sha256").hexdigest()
    assert sign_entry(GOOD, KEY, HERE) == GOOD | {"signature": f"2:{digest}"}


# --- the chain of a log ------------------------------------------------------------------------


def log_of(*answers: str | None) -> tuple[list[bytes], str]:
    """Return the lines of a log and its chain value; None is a line of someone else."""
    lines: list[bytes] = []
    value = newest = ""
    for number, answer in enumerate(answers, 1):
        entry = GOOD | {"id": number, "answer": answer or "theirs"}
        if answer is not None:
            entry = sign_entry(entry | {"after": value}, KEY, HERE)
        lines.append(encode_log_entry(entry))
        value = extend_chain(value, lines[-1])
        newest = newest if answer is None else value
    return lines, newest


def owned_lines(lines: list[bytes], newest: str, workspace: str = HERE) -> list[bool]:
    read = [LogLine(line, decode_log_entry(line)) for line in lines]
    return [line.is_own for line in mark_own_lines(read, KEY, workspace, newest)]


def test_own_lines_count_among_lines_of_others() -> None:
    lines, newest = log_of("a", None, "b", "c", None)
    assert owned_lines(lines, newest) == [True, False, True, True, False]
    assert owned_lines([*lines, b"damaged"], newest) == [True, False, True, True, False, False]


@given(st.lists(st.sampled_from(["a", "b", None]), min_size=2, max_size=8), st.data())
def test_no_line_before_a_change_of_the_log_counts(
    answers: list[str | None], data: st.DataObject
) -> None:
    lines, newest = log_of(*answers)
    whole = owned_lines(lines, newest)
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
            changed.insert(place, encode_log_entry(GOOD | {"id": 99}))
        case "swap":
            changed[place], changed[place - 1] = changed[place - 1], changed[place]
    for line, counts in zip(changed, owned_lines(changed, newest), strict=True):
        if counts:
            assert whole[lines.index(line)]
    if change == "remove" and place == last:
        assert not any(owned_lines(changed, newest))
    elif change == "remove" and place < last:
        assert not any(owned_lines(changed, newest)[:place])


def test_line_of_another_workspace_or_of_scheme_1_does_not_count() -> None:
    lines, newest = log_of("a", "b")
    assert owned_lines(lines, newest, "/home/ada/other") == [False, False]
    assert owned_lines(lines[:1], newest) == [False]  # the newest one was removed
    assert not has_valid_signature(GOOD | {"signature": f"1:{'0' * 64}"}, KEY, HERE)
