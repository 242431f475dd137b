"""A resolved configuration: the models that answer questions of tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import jp_nb as jp
from jp_nb.agent import inquiry as inquiry_module
from jp_nb.agent.chat_model import ChatModel
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.inquiry import LlmInquiryBackend
from jp_nb.config.partial import merge_partials
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.session import background_assistants
from jp_nb.session.cassettes import Cassettes
from jp_nb.session.discovered_tools import DiscoveredTools
from jp_nb.session.resolver import Resolver
from jp_nb.storage.config_files import ConfigFiles
from tests.kit.tools import configured
from tests.support.fakes import for_tool

ANSWER = ("ask_user", "answer")


@pytest.fixture
def resolver(tmp_path: Path) -> Resolver:
    files = ConfigFiles(tmp_path)
    session: Any = SimpleNamespace(
        files=files, cassettes=Cassettes(files, None), discovered=DiscoveredTools()
    )
    return Resolver(session)


def target_table(value: Any) -> dict[str, Any]:
    """Return a partial configuration with `value` as the target of the `ask_user` question."""
    return for_tool("ask_user", questions={"answer": {"target": value}})


def inquiry(**overrides: Any) -> dict[str, Any]:
    return {"conversation": {"inquiry": {"assistant": overrides}}}


def resolve(resolver: Resolver, *partials: dict[str, Any]) -> Resolved:
    whole: dict[str, Any] = {
        "assistant": {
            "system_prompt": "Be brief.",
            "model": {"id": "scripted/main", "parameters": {"temperature": 0.5}},
        },
        "providers": {"llm": {"aliases": {"fast": "scripted/small", "broken": "test/model"}}},
    }
    for partial in partials:
        whole = merge_partials(whole, partial)
    return asyncio.run(resolver.resolve(ConfigSnapshot(config=configured(whole)), "jp-c1"))


def inquiry_backend(found: Resolved) -> LlmInquiryBackend:
    return cast(LlmInquiryBackend, found.inquiry)


@pytest.mark.req("R028-17", "R028-19")
def test_questions_are_answered_by_the_model_of_the_conversation(resolver: Resolver) -> None:
    found = resolve(resolver)
    who = inquiry_backend(found)
    assert who.default.provider is found.provider
    assert (who.default.model, who.default.system) == (found.model, found.system)
    assert who.default.parameters == found.parameters
    assert who.default.parameters.temperature == 0.5
    assert who.default.request.max_retries == 3
    assert who.tools == tuple(tool.definition for tool in found.tools.tools.values())
    assert [tool.name for tool in who.tools].count("ask_user") == 1
    assert who.conversation_id == "jp-c1"
    assert who.overrides == {}


def test_attachments_are_searched_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / ".jp").mkdir()
    (tmp_path / "deep").mkdir()
    (tmp_path / "notes.md").write_text("Delft", encoding="utf-8")
    files = ConfigFiles(tmp_path / "deep")
    session: Any = SimpleNamespace(
        files=files,
        cassettes=Cassettes(files, None),
        discovered=DiscoveredTools(),
        document=SimpleNamespace(conversation=SimpleNamespace(id="jp-c1")),
    )
    attached: dict[str, Any] = {"conversation": {"attachments": ["file:notes.md"]}}
    found = resolve(Resolver(session), attached)
    assert [a.content for a in found.attachments] == ["Delft"]
    assert inquiry_backend(found).attachments is found.attachments


def test_question_override_precedes_the_general_one(resolver: Resolver) -> None:
    found = resolve(
        resolver,
        inquiry(model={"id": "fast"}, system_prompt="Decide."),
        target_table(
            {"model": {"parameters": {"max_tokens": 9}}, "request": {"max_response_bytes": 0}}
        ),
    )
    who = inquiry_backend(found)
    assert (found.model, found.system[0]) == ("main", "Be brief.")
    assert (who.default.model, who.default.system[0]) == ("small", "Decide.")
    own: ChatModel = who.overrides[ANSWER]
    assert (own.model, own.system[0]) == ("small", "Decide.")
    assert (own.parameters.max_tokens, own.parameters.temperature) == (9, 0.5)
    assert (own.request.max_response_bytes, who.default.request.max_response_bytes) == (
        0,
        1_048_576,
    )


def test_providers_are_shared(resolver: Resolver) -> None:
    found = resolve(
        resolver,
        inquiry(model={"id": "scripted/other"}),
        target_table({"model": {"id": "ollama/qwen"}}),
    )
    again = resolve(resolver, target_table({"model": {"id": "ollama/other"}}))
    who = inquiry_backend(found)
    assert who.default.provider is found.provider
    assert who.overrides[ANSWER].provider is not found.provider
    assert who.overrides[ANSWER].provider is inquiry_backend(again).overrides[ANSWER].provider


def test_invalid_model_for_questions_is_an_error_with_its_path(
    resolver: Resolver, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[Any, str]] = [
        (lambda m: inquiry(model={"id": m}), "conversation.inquiry.assistant.model"),
        (
            lambda m: target_table({"model": {"id": m}}),
            "conversation.tools.ask_user.questions.answer.target",
        ),
    ]
    rows_1: list[str] = ["test/model", "broken", "nobody-knows"]
    for override, path in rows:
        for model in rows_1:
            with subtests.test(override=override):
                with pytest.raises(jp.ConfigError) as caught:
                    resolve(resolver, override(model))
                assert caught.value.path == path
                assert str(caught.value).startswith(f"{path}: the model that answers questions")
                assert "test" in str(caught.value) or "nobody-knows" in str(caught.value)


def test_questions_of_disabled_tools_are_ignored(resolver: Resolver) -> None:
    off = for_tool("ask_user", enable=False)
    found = resolve(resolver, target_table({"model": {"id": "test/model"}}), off)
    assert inquiry_backend(found).overrides == {}
    plain = target_table("assistant")
    assert inquiry_backend(resolve(resolver, plain)).overrides == {}


def test_configuration_without_overrides_merges_nothing(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Any:
        raise AssertionError("merged")

    monkeypatch.setattr(background_assistants, "merge_partials", never)
    monkeypatch.setattr(inquiry_module, "with_open_question", never)
    assert inquiry_backend(resolve(resolver)).default.model == "main"
    with pytest.raises(AssertionError):
        resolve(resolver, inquiry(system_prompt="x"))
