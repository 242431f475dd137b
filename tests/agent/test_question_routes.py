"""Routes of a question: the configuration, an answers file, memory, a model, the user."""

from __future__ import annotations

from typing import Any

import jp_nb as jp
from jp_nb.agent.question_route import Refuse, UseAnswer, select_route
from jp_nb.config.tree.tool_settings import QuestionConfig
from tests.kit.questions import prompt_end

SURE = jp.Question.boolean("sure", "Sure?")


TO_MODEL = QuestionConfig.model_validate({"target": "assistant"})


SET = QuestionConfig.model_validate({"answer": False})


GIVEN = prompt_end("given_answer", True, "a.toml, line 1")


PRECEDENCE: list[tuple[QuestionConfig | None, Any, Any, Any]] = [
    (SET, None, GIVEN, UseAnswer(False, "configured")),
    (None, False, GIVEN, UseAnswer(True, "answers")),
    (TO_MODEL, None, GIVEN, UseAnswer(True, "answers")),
    (TO_MODEL, None, None, "model"),
    (None, None, GIVEN, UseAnswer(True, "answers")),
    (None, None, prompt_end("declined_by_file", "a.toml, line 1"), "decline"),
    (None, None, None, "user"),
]


def test_prepared_answer_comes_after_the_configuration_and_before_all_else() -> None:
    for config, remembered, prepared, way in PRECEDENCE:
        found = select_route(
            "t", SURE, config, remembered=remembered, unavailable_reason=None, prepared=prepared
        )
        assert found == way


def test_invalid_prepared_answer_is_refused() -> None:
    for question, reason in [
        (SURE, None),
        (SURE.with_exclusive(), "it runs headless"),
        (SURE.with_required(False), "it runs headless"),
    ]:
        prepared = prompt_end("invalid_answer", "a.toml, line 1: no")
        found = select_route(
            "t",
            question,
            TO_MODEL,
            remembered=None,
            unavailable_reason=reason,
            prepared=prepared,
        )
        assert isinstance(found, Refuse)
        assert found.open == "a.toml, line 1: no"


OPEN = jp.Question.boolean("sure", "Sure?")


def test_remembered_answer_applies_without_a_user() -> None:
    for unavailable_reason in (None, "it runs headless"):
        way = select_route(
            "deploy", OPEN, None, remembered=True, unavailable_reason=unavailable_reason
        )
        assert way == UseAnswer(True, "remembered")
