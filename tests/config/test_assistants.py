"""Overrides of the assistant that answers a tool's question."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.session.resolution.background_assistants import (
    build_inquiry_assistant,
    build_question_assistant,
)
from tests.kit.settings import Settings
from tests.kit.texts import write_text
from tests.kit.tools import configured

OWN: dict[str, Any] = {
    "name": "Tess",
    "system_prompt": "Be brief.",
    "system_prompt_sections": [{"content": "About us.", "position": 1}],
    "instructions": [{"title": "Style", "items": ["No emoji."]}],
    "model": {
        "id": "anthropic/large",
        "parameters": {
            "max_tokens": 500,
            "temperature": 0.5,
            "reasoning": {"effort": "high", "exclude": True},
            "stop_words": ["END"],
            "seed": 7,
        },
    },
    "request": {
        "max_retries": 9,
        "base_backoff_ms": 50,
        "stream_idle_timeout_secs": 20,
        "max_response_bytes": 4096,
    },
}
RETRIES = {"max_retries": 3, "base_backoff_ms": 1000, "max_backoff_secs": 30}


def config(override: Any = None, own: Any = None) -> Any:
    settings = Settings({"assistant": OWN}, {"assistant": own or {}}).merged(plain=False)
    if override is not None:
        settings["conversation"] = {"inquiry": {"assistant": override}}
    return configured(settings)


def question(override: Any) -> Any:
    tool: Any = {"source": "python", "questions": {"q": {"target": override}}}
    found = configured({"conversation": {"tools": {"t": tool}}})
    return found.conversation.tools["t"].questions["q"].target


def changed(before: Any, after: Any) -> dict[str, Any]:
    """Return the new values that differ, by dotted path."""
    found: dict[str, Any] = {}

    def walk(old: Any, new: Any, path: str) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            for key in old | new:
                walk(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
        elif old != new:
            found[path] = new

    walk(before.model_dump(mode="json"), after.model_dump(mode="json"), "")
    return found


def test_without_overrides_only_the_retries_differ_from_the_conversation() -> None:
    own = config()
    expected = {f"request.{name}": value for name, value in RETRIES.items()}
    overrides: list[Any] = [None, {}, {"system_prompt_sections": []}, {"tool_choice": "required"}]
    for override in overrides:
        found = build_inquiry_assistant(config(override))
        assert changed(own.assistant, found) == expected
        texts = write_text("system_prompt", found)
        assert texts == write_text("system_prompt", own.assistant)


def test_override_replaces_the_fields_that_it_sets(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, dict[str, Any]]] = [
        ({"system_prompt": "Decide."}, {"system_prompt": "Decide."}),
        ({"model": {"id": "openai/small"}},
         {"model.id.provider": "openai", "model.id.name": "small"}),
        ({"model": {"id": "fast"}}, {"model.id": "fast"}),
        ({"model": {"parameters": {"max_tokens": 9}}}, {"model.parameters.max_tokens": 9}),
        ({"model": {"parameters": {"reasoning": "off"}}}, {"model.parameters.reasoning": "off"}),
        ({"model": {"parameters": {"reasoning": {"effort": "low"}}}},
         {"model.parameters.reasoning.effort": "low"}),
        ({"model": {"parameters": {"stop_words": ["END", "STOP"]}}},
         {"model.parameters.stop_words": ["END", "STOP"]}),
        ({"model": {"parameters": {"seed": 8, "top_p": 1.0}}},
         {"model.parameters.seed": 8, "model.parameters.top_p": 1.0}),
        ({"request": {"max_retries": 0}}, {"request.max_retries": 0}),
        ({"request": {"stream_idle_timeout_secs": 0, "max_response_bytes": 7}},
         {"request.stream_idle_timeout_secs": 0, "request.max_response_bytes": 7}),
    ]  # fmt: skip
    for override, differs in rows:
        with subtests.test(override=override):
            base = build_inquiry_assistant(config())
            assert changed(base, build_inquiry_assistant(config(override))) == differs
            assert changed(base, build_question_assistant(base, question(override))) == differs


def test_sections_and_instructions_are_appended() -> None:
    base = build_inquiry_assistant(config({"system_prompt_sections": ["Choose well."]}))
    assert [s.content for s in base.system_prompt_sections] == ["About us.", "Choose well."]
    target = question(
        {
            "name": "Judge",
            "system_prompt_sections": [{"content": "In doubt, no.", "position": 2}],
            "instructions": [{"title": "Backups", "items": ["Make them."]}],
        }
    )
    found = build_question_assistant(base, target)
    assert found.name == "Judge"
    assert write_text("system_prompt", found) == (
        "Be brief.\n\n"
        "Choose well.\n\n"
        '<instruction title="Style">\n- No emoji.\n</instruction>\n\n'
        '<instruction title="Backups">\n- Make them.\n</instruction>\n\n'
        "About us.\n\n"
        "In doubt, no."
    )


def test_question_overrides_the_inquiry_and_that_the_assistant() -> None:
    base = build_inquiry_assistant(
        config(
            {
                "system_prompt": "Inquiry.",
                "model": {"id": "openai/small", "parameters": {"temperature": 0.1}},
                "request": {"max_retries": 1},
            }
        )
    )
    found = build_question_assistant(base, question({"model": {"parameters": {"max_tokens": 9}}}))
    assert found.system_prompt == "Inquiry."
    assert str(found.model.id) == "openai/small"
    parameters = found.model.parameters
    assert (parameters.max_tokens, parameters.temperature) == (9, 0.1)
    assert parameters.model_extra == {"seed": 7}
    assert (found.request.max_retries, found.request.max_response_bytes) == (1, 4096)


def test_size_limit_of_zero_is_inherited_for_all_questions_and_unlimited_for_one() -> None:
    zero = {"request": {"max_response_bytes": 0, "stream_idle_timeout_secs": 0}}
    base = build_inquiry_assistant(config(zero))
    assert (base.request.max_response_bytes, base.request.stream_idle_timeout_secs) == (4096, 0)
    assert build_question_assistant(base, question(zero)).request.max_response_bytes == 0
    unlimited = build_inquiry_assistant(config(zero, own={"request": {"max_response_bytes": 0}}))
    assert unlimited.request.max_response_bytes == 0


def test_configuration_is_not_changed() -> None:
    given = config({"model": {"id": "openai/small"}, "system_prompt_sections": ["x"]})
    before = given.model_dump(mode="json")
    build_question_assistant(build_inquiry_assistant(given), question({"system_prompt": "y"}))
    assert given.model_dump(mode="json") == before
