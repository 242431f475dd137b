"""Questions: shape on the wire, defaults, what fits as an answer."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from jp_nb.tooling.question import Question

CONSTRUCTORS = [
    Question.text("q", "Why?"),
    Question.boolean("q", "Sure?"),
    Question.select("q", "Which?", ["a", "b"]),
    Question.secret("q", "Password?"),
]


@pytest.mark.req("R083-53", "R083-54", "R083-56")
@pytest.mark.parametrize("question", CONSTRUCTORS)
def test_constructors_leave_exclusive_and_persistence_at_defaults_that_are_not_written(
    question: Question,
) -> None:
    assert (question.exclusive, question.persistence) == (False, "turn")
    assert set(question.model_dump()) == {"id", "text", "answer_type"}


@pytest.mark.req("R083-53")
def test_text_makes_a_question_and_is_what_it_asks() -> None:
    question = Question.text(id="q", text="Why?")
    assert question.text == "Why?"
    assert question == Question.free_text("q", "Why?") == Question(id="q", text="Why?")
    assert repr(question).startswith("Question(id='q', text='Why?', answer_type=TextAnswer(")
    assert Question.model_json_schema()["required"] == ["id", "text"]
    assert copy.deepcopy(question).with_context("c").text == "Why?"
    with pytest.raises(AttributeError, match="text"):
        question.text = "Who?"  # type: ignore[misc]


@pytest.mark.req("R083-53", "R083-54", "R083-56", "R083-57")
def test_a_copy_with_another_text_has_nothing_of_the_old_one() -> None:
    question = Question.boolean("q", "Is it hunter2?").model_copy(update={"text": "Is it?"})
    assert (question.text, question.wording) == ("Is it?", "Is it?")
    assert "hunter2" not in repr(question)
    assert question == Question.boolean("q", "Is it?")


def test_setters_set_one_field_each_and_what_is_set_is_written() -> None:
    question = (
        Question.boolean("q", "Sure?")
        .with_context("line 1\nline 2")
        .with_default(False)
        .with_exclusive()
        .with_persistence("none")
    )
    assert question.model_dump() == {
        "id": "q",
        "text": "Sure?",
        "answer_type": {"type": "boolean"},
        "context": "line 1\nline 2",
        "default": False,
        "exclusive": True,
        "persistence": "none",
    }
    assert Question.model_validate(question.model_dump()) == question


@pytest.mark.req("R083-54")
def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError):
        Question.model_validate({"id": "q", "text": "t", "persistence": "conversation"})


@pytest.mark.req("R083-55")
def test_a_question_without_the_new_fields_reads_with_their_defaults() -> None:
    question = Question.model_validate(
        {"id": "q", "text": "Sure?", "answer_type": {"type": "boolean"}}
    )
    assert (question.exclusive, question.persistence, question.context) == (False, "turn", None)


@pytest.mark.req("R083-57")
def test_the_older_name_of_context_is_read_and_never_written() -> None:
    question = Question.model_validate({"id": "q", "text": "t", "pre_amble": "above"})
    assert question.context == "above"
    assert "pre_amble" not in question.model_dump()


@pytest.mark.parametrize(
    ("older", "kind"),
    [("Boolean", "boolean"), ("Text", "text"), ({"Select": {"options": ["a"]}}, "select")],
)
def test_older_spellings_of_answer_types_are_read(older: Any, kind: str) -> None:
    question = Question.model_validate({"id": "q", "text": "t", "answer_type": older})
    assert question.answer_type.type == kind


def test_a_select_question_needs_options() -> None:
    with pytest.raises(ValidationError):
        Question.select("q", "Which?", [])


def test_only_values_of_the_answer_type_are_answers(subtests: pytest.Subtests) -> None:
    for question, answer, misfit in [
        (CONSTRUCTORS[0], "", None),
        (CONSTRUCTORS[0], True, "type"),
        (CONSTRUCTORS[1], True, None),
        (CONSTRUCTORS[1], False, None),
        (CONSTRUCTORS[1], "true", "type"),
        (CONSTRUCTORS[1], 1, "type"),
        (CONSTRUCTORS[2], "b", None),
        (CONSTRUCTORS[2], "c", "option"),
        (CONSTRUCTORS[2], True, "type"),
        (CONSTRUCTORS[3], "hunter2", None),
        (CONSTRUCTORS[3], 5, "type"),
    ]:
        with subtests.test(question=question):
            assert question.misfit(answer) == misfit
