"""Tests of questions: JSON, defaults, and validation of answers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

import jp_nb as jp

CONSTRUCTORS = [
    jp.Question.text("q", "Why?"),
    jp.Question.boolean("q", "Sure?"),
    jp.Question.select("q", "Which?", ["a", "b"]),
    jp.Question.secret("q", "Password?"),
]


@pytest.mark.req("R083-53", "R083-54", "R083-56")
def test_constructors_do_not_write_default_policies(
    subtests: pytest.Subtests,
) -> None:
    for question in CONSTRUCTORS:
        with subtests.test(question=question):
            assert (question.exclusive, question.persistence) == (False, "turn")
            assert set(question.model_dump()) == {"id", "text", "answer_type"}


@pytest.mark.req("R083-53")
def test_text_is_constructor_and_attribute() -> None:
    question = jp.Question.text(id="q", text="Why?")
    assert question.text == "Why?"
    assert question == jp.Question.free_text("q", "Why?") == jp.Question(id="q", text="Why?")
    assert repr(question).startswith("Question(id='q', text='Why?', answer_type=TextAnswer(")
    assert jp.Question.model_json_schema()["required"] == ["id", "text"]
    assert copy.deepcopy(question).with_context("c").text == "Why?"
    with pytest.raises(AttributeError, match="text"):
        question.text = "Who?"  # type: ignore[misc]


@pytest.mark.req("R083-53", "R083-54", "R083-56", "R083-57")
def test_copy_with_another_text_has_nothing_of_the_old_text() -> None:
    question = jp.Question.boolean("q", "Is it hunter2?").model_copy(update={"text": "Is it?"})
    assert (question.text, question.wording) == ("Is it?", "Is it?")
    assert "hunter2" not in repr(question)
    assert question == jp.Question.boolean("q", "Is it?")


def test_setters_change_one_field_each() -> None:
    question = (
        jp.Question.boolean("q", "Sure?")
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
    assert jp.Question.model_validate(question.model_dump()) == question


@pytest.mark.req("R083-54")
def test_unknown_persistence_is_refused() -> None:
    with pytest.raises(ValidationError):
        jp.Question.model_validate({"id": "q", "text": "t", "persistence": "conversation"})


@pytest.mark.req("R083-55")
def test_question_without_newer_fields_has_their_defaults() -> None:
    question = jp.Question.model_validate(
        {"id": "q", "text": "Sure?", "answer_type": {"type": "boolean"}}
    )
    assert (question.exclusive, question.persistence, question.context) == (False, "turn", None)


@pytest.mark.req("R083-57")
def test_older_name_of_context_is_read_and_not_written() -> None:
    question = jp.Question.model_validate({"id": "q", "text": "t", "pre_amble": "above"})
    assert question.context == "above"
    assert "pre_amble" not in question.model_dump()


def test_answers_must_have_the_type_of_the_question(subtests: pytest.Subtests) -> None:
    rows: list[tuple[jp.Question, Any, str | None]] = [
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
    ]
    for question, answer, misfit in rows:
        with subtests.test(question=question):
            assert question.misfit(answer) == misfit


def test_other_options_keep_the_number_of_picks_and_the_own_text() -> None:
    question = jp.Question.select("q", "Which?", ["a"], multi=True, other=True, recommended=0)
    changed = question.with_options(["b", "c"])
    assert changed.misfit(["c", "b"]) is None
    assert changed.misfit({"selected": ["b"], "custom": "d"}) is None
    assert changed.misfit(["a"]) == "option"
    assert changed.model_dump()["answer_type"].keys() == {"type", "options", "multi", "other"}


def test_number_of_picks_must_fit_the_other_options() -> None:
    kind = {"type": "select", "options": ["a", "b", "c"], "multi": True, "min_picks": 2}
    question = jp.Question(id="q", text="Which?", answer_type=kind)
    assert question.with_options(["d", "e"]).misfit(["d"]) == "option"
    with pytest.raises(ValueError, match="min_picks"):
        question.with_options(["d"])


def test_options_make_a_selection_of_another_question() -> None:
    question = jp.Question.text("q", "Which?").with_options(["a", "b"])
    assert (question.misfit("a"), question.misfit("c")) == (None, "option")
