"""Tests of outcomes that processes print."""

from __future__ import annotations

import json
import logging
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import ValidationError

import jp_nb as jp
from jp_nb.toolkit.command_tools.outcome_reading import read_outcome
from tests.kit.kinds import make

MAX_QUESTIONS = 50


FIELD = {"id": "f", "text": "F", "answer_type": {"type": "text"}}
INNER = {"type": "form", "fields": [FIELD]}
SELECT = {"type": "select", "options": ["a", "b"]}


def asked(**fields: Any) -> str:
    question = {"id": "q", "text": "Why?", "answer_type": {"type": "text"}} | fields
    return json.dumps({"type": "needs_input", "question": question})


def several(*each: dict[str, Any]) -> str:
    questions = [json.loads(asked(**fields))["question"] for fields in each]
    return json.dumps({"type": "needs_input", "questions": questions})


def test_outcome_is_read_with_defaults_and_without_unknown_fields(
    subtests: pytest.Subtests,
) -> None:
    rows = [
        ('{"type":"success","content":"x"}', jp.Success("x")),
        ('\n  {"type":"success","content":""}\n\n', jp.Success("")),
        ('\ufeff{"type":"success","content":"x"}', jp.Success("x")),
        ('{"content":"x","type":"success","more":[1],"malformed":"no"}', jp.Success("x")),
        ('{"type":"success","content":"x","config":{"user":{"name":"B"}},"unset":["a.b"]}',
         jp.Success("x", config={"user": {"name": "B"}}, unset=("a.b",))),
        ('{"type":"success","content":"x","config":null,"unset":null}', jp.Success("x")),
        ('{"type":"success","content":"x","config":{},"unset":[]}', jp.Success("x")),
        ('{"type":"error","message":"m","trace":["a","b"],"transient":true}',
         make("failure", "m", trace=("a", "b"), transient=True)),
        ('{"type":"error","message":"m"}', make("failure", "m")),
        ('{"type":"error","message":"m","trace":null,"transient":null}', make("failure", "m")),
        ('{"type":"error","message":"m","trace":"one","transient":"very"}', make("failure", "m")),
    ]  # fmt: skip
    for text, outcome in rows:
        with subtests.test(text=text):
            assert read_outcome(text) == outcome


def test_other_output_is_no_outcome(subtests: pytest.Subtests) -> None:
    rows = [
        "", "sunny", "3", "null", '"success"', "[]", "{}", '{"answer": 42}',
        '{"type":"done","content":"x"}', '{"type":["success"],"content":"x"}', '{"type":"success"}',
        '{"type":"success","content":5}', '{"type":"error"}', '{"type":"error","message":null}',
        '{"type":"success","content":"x"} trailing',
        '{"type":"success","content":"x"}{"type":"success","content":"y"}',
        '{"type":"success","content":"x"',
        '{"type":"success","content":"x","config":' + "[" * 100_000,
        '{"type":"success","content":"x","config":' + '{"a":' * 200_000 + "1" + "}" * 200_001,
    ]  # fmt: skip
    for text in rows:
        with subtests.test(text=text):
            assert read_outcome(text) is None


def test_malformed_change_leaves_a_success_with_a_reason(
    subtests: pytest.Subtests,
) -> None:
    rows = [
        '"config":[1]', '"config":"assistant.name=x"', '"config":false', '"config":{"a":NaN}',
        '"config":{"a":[-Infinity]}', '"config":{"a":1e999}', '"config":{"a":' + "9" * 5000 + "}",
        '"config":' + '{"a":' * 200 + "1" + "}" * 200,
        '"unset":"a.b"', '"unset":[1]', '"unset":{"a":1}',
        '"config":{"user":{"name":"B"}},"unset":[null]',
    ]  # fmt: skip
    for change in rows:
        with subtests.test(change=change):
            outcome = read_outcome('{"type":"success","content":"x",' + change + "}")
            assert isinstance(outcome, jp.Success)
            assert (outcome.content, outcome.config, outcome.unset) == ("x", None, ())
            assert outcome.malformed
            assert "malformed" not in outcome.model_dump()


def test_unusual_numbers_in_other_fields_are_ignored(subtests: pytest.Subtests) -> None:
    rows: list[str] = ['"x":NaN', '"x":' + "9" * 5000, '"config":{"a":12345}']
    for change in rows:
        with subtests.test(change=change):
            outcome = read_outcome('{"type":"success","content":"x",' + change + "}")
            assert isinstance(outcome, jp.Success)
            assert outcome.malformed is None


def test_both_spellings_of_an_answer_type_are_read(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any]] = [
        ({"type": "boolean"}, make("boolean_answer")),
        (SELECT, make("select_answer", options=("a", "b"))),
        ("Boolean", make("boolean_answer")),
        ("Text", make("text_answer")),
        ({"Select": {"options": ["a", "b"]}}, make("select_answer", options=("a", "b"))),
    ]
    for spelled, read in rows:
        with subtests.test(spelled=spelled):
            outcome = read_outcome(
                asked(answer_type=spelled, pre_amble="before", persistence="none")
            )
            assert isinstance(outcome, jp.NeedsInput)
            question = outcome.question
            assert (question.answer_type, question.context) == (read, "before")
            assert (question.persistence, question.exclusive) == ("none", False)


def test_malformed_question_is_an_error_with_its_place(
    subtests: pytest.Subtests,
) -> None:
    for text, named in [
        ('{"type":"needs_input"}', "question"),
        ('{"type":"needs_input","question":null}', "question"),
        ('{"type":"needs_input","question":["q"]}', "question"),
        ('{"type":"needs_input","questions":[]}', "questions"),
        ('{"type":"needs_input","questions":{"id":"q"}}', "questions"),
        ('{"type":"needs_input","questions":[7]}', "questions.0"),
        (several({}, {"answer_type": "Date"}), "questions.1.answer_type"),
        (several({}, {}), "same id"),
        (asked(answer_type={"type": "select"}), "options"),
        (asked(answer_type={"type": "select", "options": []}), "options"),
        (asked(answer_type={"type": "select", "options": [None]}), "options"),
        (asked(answer_type=SELECT | {"multi": "yes"}), "`question.answer_type.multi`: "),
        (
            asked(answer_type=SELECT | {"options": ["a", {"label": "b"}]}),
            "`question.answer_type.options.1.value`: ",
        ),
        (asked(answer_type=SELECT | {"options": ["a", "a"]}), "the same value"),
        (asked(answer_type={"type": "number", "min": 3}), "`question.answer_type.min`: "),
        (asked(answer_type={"type": "number", "minimum": 3, "maximum": 2}), "no number is from 3"),
        (asked(answer_type={"type": "integer", "minimum": "3"}), "question.answer_type.minimum"),
        (asked(answer_type={"type": "text", "format": "phone"}), "question.answer_type.format"),
        (asked(answer_type={"type": "form"}), "question.answer_type.fields"),
        (asked(answer_type={"type": "url", "url": ""}), "question.answer_type.url"),
        (asked(answer_type={"type": "form", "fields": [FIELD, FIELD]}), "same id"),
        (
            asked(answer_type={"type": "form", "fields": [FIELD | {"answer_type": INNER}]}),
            "a form cannot contain another form",
        ),
        (
            asked(
                answer_type={
                    "type": "form",
                    "fields": [
                        FIELD,
                        FIELD | {"answer_type": {"type": "select", "options": [{"value": []}]}},
                    ],
                }
            ),
            "`question.answer_type.fields.1.answer_type.options.0.value",
        ),
        (several({}, {"required": "no"}), "`questions.1.required`: "),
        (several({}, {"header": 5}), "`questions.1.header`: "),
        (asked(exclusiv=True), "`question.exclusiv`: "),
        ('{"type":"needs_input","question":{},"questions":[{}]}', "remove one"),
        (asked(answer_type={"Select": "a"}), "answer_type"),
        (asked(answer_type={"type": "date"}), "answer_type"),
        (asked(answer_type="Date"), "answer_type"),
        (asked(answer_type=7), "answer_type"),
        (asked(answer_type=None), "`question.answer_type` is missing"),
        ('{"type":"needs_input","question":{"id":"q","text":"Why?"}}', "answer_type` is missing"),
        (asked(id=None), "question.id"),
        ('{"type":"needs_input","question":{"text":"Why?","answer_type":"Text"}}', "question.id"),
        (asked(text=5), "question.text"),
        (asked(persistence="forever"), "question.persistence"),
        (asked(default=float("nan")), "number"),
        (asked(default=json.loads("[" * 300 + "]" * 300)), "levels"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(jp.ToolError, match="asked an invalid question") as caught:
                read_outcome(text)
            assert named in str(caught.value)


def test_several_questions_round_trip_in_order() -> None:
    written = {"type": "needs_input", "questions": [
        {"id": "a", "text": "Why?", "answer_type": {"type": "text"}},
        {"id": "b", "text": "Which?", "answer_type": SELECT, "exclusive": True},
    ]}  # fmt: skip
    outcome = read_outcome(json.dumps(written))
    second = jp.Question.select("b", "Which?", ["a", "b"]).with_exclusive()
    assert outcome == jp.NeedsInput(jp.Question.text("a", "Why?"), second)
    assert outcome.model_dump() == written == jp.NeedsInput.model_validate(written).model_dump()


def test_every_kind_of_question_round_trips(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        {"type": "number", "minimum": 0, "below": 1.5},
        {"type": "integer", "maximum": 2**70},
        {"type": "text", "format": "date", "lines": False},
        {
            "type": "select",
            "options": [{"value": 1, "label": "One", "description": "d"}, "b"],
            "multi": True,
            "other": True,
            "recommended": 1,
            "min_picks": 1,
            "max_picks": 2,
        },
        {"type": "form", "fields": [FIELD, {**FIELD, "id": "g", "required": False}]},
    ]
    for answer_type in rows:
        with subtests.test(answer_type=answer_type):
            text = asked(answer_type=answer_type, header="H", required=False)
            outcome = read_outcome(text)
            assert isinstance(outcome, jp.NeedsInput)
            assert outcome.model_dump() == json.loads(text)


def test_single_question_is_written_without_a_list() -> None:
    question = jp.Question.text("q", "Why?")
    one = jp.NeedsInput(question)
    assert (
        one
        == jp.NeedsInput(question=question)
        == jp.NeedsInput.model_validate({"question": question})
    )
    assert (one.question, one.questions) == (question, (question,))
    assert one.model_dump() == json.loads(asked())


def test_zero_duplicate_and_too_many_questions_are_refused(subtests: pytest.Subtests) -> None:
    rows: list[Iterable[Any]] = ["", "qq", range(MAX_QUESTIONS + 1)]
    for ids in rows:
        with subtests.test(ids=ids), pytest.raises(ValidationError):
            jp.NeedsInput(*(jp.Question.text(str(each), "Why?") for each in ids))


def test_error_of_a_malformed_question_does_not_quote_the_tool() -> None:
    with pytest.raises(jp.ToolError) as caught:
        read_outcome(asked(text=["hunter2"], default="hunter2"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "outcome",
    [
        {"type": "error", "message": "m", "config": {"user": {"name": "hunter2"}}},
        {"type": "error", "message": "m", "unset": ["user.name"]},
        json.loads(asked()) | {"config": {"user": {"name": "hunter2"}}},
    ],
)
def test_change_in_an_error_or_question_is_ignored_with_a_warning(
    outcome: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    plain = {key: value for key, value in outcome.items() if key not in ("config", "unset")}
    with caplog.at_level(logging.WARNING):
        assert read_outcome(json.dumps(outcome)) == read_outcome(json.dumps(plain))
    [record] = caplog.records
    assert outcome["type"] in record.getMessage()
    assert "hunter2" not in record.getMessage()


def test_lone_surrogate_is_replaced() -> None:
    outcome = read_outcome('{"type":"success","content":"a\\ud83db \\ud83d\\ude00"}')
    assert outcome == jp.Success("a?b 😀")


COUNT = 300_000
LARGE = {
    "lists": "[" + ",".join(["[]"] * COUNT) + "]",
    "an object with lists": '{"a": [' + ",".join(["[]"] * COUNT) + "]}",
    "a success with objects": '{"type": "success", "content": "x", "y": ['
    + ",".join(["{}"] * COUNT)
    + "]}",
    "many keys": "{" + ",".join(f'"{number}":1' for number in range(COUNT)) + "}",
    "a text that never ends": '{"' + '\\"' * COUNT,
    "quotes": '{"' * COUNT,
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_json_of_a_program_is_a_text_and_takes_no_memory(kind: str) -> None:
    tracemalloc.start()
    try:
        assert read_outcome(LARGE[kind]) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(LARGE[kind])


def test_outcome_with_a_long_text_is_read() -> None:
    content = 'a, "b" [c] {d}\n' * COUNT
    outcome = read_outcome(json.dumps({"type": "success", "content": content}))
    assert outcome == jp.Success(content)
