"""A resolved configuration: the models that answer questions of tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.sessions import directive
from tests.support.sessions import AskedNotebook, Notebook

ANSWER = ("ask_user", "answer")
CONVERSATION: dict[str, Any] = {
    "assistant": {
        "system_prompt": "Be brief.",
        "model": {"id": "scripted/main", "parameters": {"temperature": 0.5}},
    },
    "providers": {"llm": {"aliases": {"fast": "scripted/small", "broken": "test/model"}}},
}


@pytest.fixture
def notebook(bare_folder: Path) -> Iterator[Notebook]:
    opened = Notebook(bare_folder)
    yield opened
    opened.session.close()


def target_table(value: Any) -> dict[str, Any]:
    """Return a partial configuration with `value` as the target of the `ask_user` question."""
    questions = {"answer": {"target": value}}
    return {"conversation": {"tools": {"ask_user": {"questions": questions}}}}


def inquiry(**overrides: Any) -> dict[str, Any]:
    return {"conversation": {"inquiry": {"assistant": overrides}}}


def resolve(notebook: Notebook, *settings: dict[str, Any]) -> Any:
    """Return the configuration of a turn with these settings, resolved."""
    session = notebook.session
    changes = [directive("cfg", json.dumps(each)) for each in (CONVERSATION, *settings)]
    session.configure(*changes)
    return session.turns.cell_resolver.resolve(session.settings.snapshot(), "jp-c1")


@pytest.mark.req("R028-17", "R028-19")
def test_questions_are_answered_by_the_model_of_the_conversation(notebook: Notebook) -> None:
    found = resolve(notebook)
    who = found.inquiry
    assert who.default.provider is found.provider
    assert (who.default.model, who.default.system) == (found.model, found.system)
    assert who.default.parameters == found.parameters
    assert who.default.parameters.temperature == 0.5
    assert who.default.request.max_retries == 3
    assert who.tools == tuple(tool.definition for tool in found.tools.tools.values())
    assert [tool.name for tool in who.tools].count("ask_user") == 1
    assert who.conversation_id == "jp-c1"
    assert who.overrides == {}


def test_attachments_are_searched_in_the_workspace(bare_folder: Path) -> None:
    (bare_folder / ".jp").mkdir()
    (bare_folder / "deep").mkdir()
    (bare_folder / "notes.md").write_text("Delft", encoding="utf-8")
    notebook = AskedNotebook(bare_folder / "deep")
    found = resolve(notebook, {"conversation": {"attachments": ["file:notes.md"]}})
    assert [each.content for each in found.attachments] == ["Delft"]
    assert found.inquiry.attachments is found.attachments
    notebook.session.close()


def test_question_override_precedes_the_general_one(notebook: Notebook) -> None:
    found = resolve(
        notebook,
        inquiry(model={"id": "fast"}, system_prompt="Decide."),
        target_table(
            {"model": {"parameters": {"max_tokens": 9}}, "request": {"max_response_bytes": 0}}
        ),
    )
    who = found.inquiry
    assert (found.model, found.system[0]) == ("main", "Be brief.")
    assert (who.default.model, who.default.system[0]) == ("small", "Decide.")
    own = who.overrides[ANSWER]
    assert (own.model, own.system[0]) == ("small", "Decide.")
    assert (own.parameters.max_tokens, own.parameters.temperature) == (9, 0.5)
    assert own.request.max_response_bytes == 0
    assert who.default.request.max_response_bytes == 1_048_576


def test_providers_are_shared(notebook: Notebook) -> None:
    found = resolve(
        notebook,
        inquiry(model={"id": "scripted/other"}),
        target_table({"model": {"id": "ollama/qwen"}}),
    )
    again = resolve(notebook, target_table({"model": {"id": "ollama/other"}}))
    assert found.inquiry.default.provider is found.provider
    assert found.inquiry.overrides[ANSWER].provider is not found.provider
    shared = again.inquiry.overrides[ANSWER].provider
    assert found.inquiry.overrides[ANSWER].provider is shared


def test_invalid_model_for_questions_is_an_error_with_its_path(
    bare_folder: Path, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[Callable[[str], dict[str, Any]], str]] = [
        (lambda m: inquiry(model={"id": m}), "conversation.inquiry.assistant.model"),
        (
            lambda m: target_table({"model": {"id": m}}),
            "conversation.tools.ask_user.questions.answer.target",
        ),
    ]
    for override, path in rows:
        for model in ("test/model", "broken", "nobody-knows"):
            with subtests.test(path=path, model=model):
                with pytest.raises(jp.ConfigError) as caught:
                    resolve(Notebook(bare_folder), override(model))
                assert caught.value.path == path
                assert str(caught.value).startswith(f"{path}: the model that answers questions")
                assert "test" in str(caught.value) or "nobody-knows" in str(caught.value)


def test_questions_of_disabled_tools_are_ignored(notebook: Notebook) -> None:
    off = {"conversation": {"tools": {"ask_user": {"enable": False}}}}
    found = resolve(notebook, target_table({"model": {"id": "test/model"}}), off)
    assert found.inquiry.overrides == {}


def test_question_to_the_assistant_has_the_model_of_the_conversation(notebook: Notebook) -> None:
    found = resolve(notebook, target_table("assistant"))
    assert found.inquiry.overrides == {}
    assert found.inquiry.default.model == "main"
