"""Model aliases: chains, circles, whole configurations and layers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.config.aliases import resolve_model, resolve_references
from tests.config.config_spellings import partials
from tests.kit.settings import Settings, setting, value_at

GPT = {"provider": "openai", "name": "gpt"}
MODEL = "assistant.model.id"


def settle(partial: Any, aliases: Any) -> Any:
    return resolve_references(partial, aliases)[0]


def test_alias_is_resolved_to_a_model() -> None:
    rows: list[tuple[Any, Any]] = [
        (GPT, {}),
        ("openai/gpt", {}),
        ("a", {"a": GPT}),
        ("a", {"a": "openai/gpt"}),
        (" a ", {"a": "b", "b": "c", "c": "openai/gpt"}),
        ("openai", {"openai": "openai/gpt"}),
    ]
    for reference, aliases in rows:
        assert dict(resolve_model(reference, aliases)) == GPT


def test_model_id_is_parsed() -> None:
    rows: list[tuple[str, Any]] = [
        ("openrouter/a/b/c", {"provider": "openrouter", "name": "a/b/c"}),
        (" openrouter / a/b/c ", {"provider": "openrouter", "name": "a/b/c"}),
        (" fast ", "fast"),
    ]
    for text, model in rows:
        assert value_at(Settings(setting(MODEL, text)).whole(), MODEL) == model


def test_error_of_an_unknown_model_gives_the_reason(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any, str, str]] = [
        ("c", {"a": GPT}, "p", r"'c' is neither an alias \(known: a\) nor `provider/name`"),
        ("c", {}, "p", "none is defined"),
        ("gpt-5", {}, "p", r"nor `provider/name`: did you mean 'openai/gpt-5'\?"),
        ("claude-opus-4", {}, "p", "did you mean 'anthropic/claude-opus-4'"),
        ("fable-5-2", {}, "p", "did you mean 'anthropic/fable-5-2'"),
        ("fats", {"fast": GPT}, "p", "did you mean 'fast'"),
        ("opnai/x", {}, "p", r"unknown provider 'opnai' \(did you mean 'openai'\?\), expected one"),
        ("a", {"a": "b"}, "providers.llm.aliases.a", "'b' is neither an alias"),
        ("a", {"a": "acme/x"}, "providers.llm.aliases.a", "unknown provider 'acme', expected"),
        ("a", {"a": {"name": "x"}}, "providers.llm.aliases.a", "a table of provider and name"),
        ("openai/a b", {}, "p", "may contain only letters, digits"),
        ("a", {"a": "b", "b": "a"}, "providers.llm.aliases", "a -> b -> a"),
        (GPT, {"x": "a", "a": "b", "b": "a"}, "providers.llm.aliases", "a -> b -> a"),
        (GPT, {"a": "a"}, "providers.llm.aliases", "a -> a"),
    ]
    for reference, aliases, path, expected in rows:
        with subtests.test(reference=reference, aliases=aliases):
            with pytest.raises(jp.ConfigError, match=expected) as caught:
                resolve_model(reference, aliases, path="p")
            assert caught.value.path == path


def test_malformed_model_id_is_refused() -> None:
    for text in ("", " ", "acme/x", "openai/", "/x", "openai/ö"):
        with pytest.raises(jp.ConfigError) as caught:
            Settings(setting(MODEL, text)).whole()
        assert caught.value.path == MODEL


names = st.sampled_from("abcde")


@given(st.dictionaries(names, names | st.just("openai/gpt")))
def test_circular_aliases_are_refused_and_no_others(aliases: dict[str, str]) -> None:
    def ends(name: str) -> bool:
        for _ in range(len(aliases) + 1):
            if name not in aliases:
                return True
            name = aliases[name]
        return False

    if all(ends(name) for name in aliases):
        resolve_model("openai/gpt", aliases)
    else:
        with pytest.raises(jp.ConfigError, match="form a cycle"):
            resolve_model("openai/gpt", aliases)


EVERYWHERE: dict[str, Any] = {
    "assistant": {"model": {"id": "fast"}},
    "conversation": {
        "inquiry": {"assistant": {"model": {"id": "fast"}}},
        "tools": {"t.u": {"questions": {"q": {"target": {"model": {"id": "fast"}}}}}},
    },
}
PATHS = [
    "assistant.model.id",
    'conversation.tools["t.u"].questions.q.target.model.id',
    "conversation.inquiry.assistant.model.id",
]
ALIASES = {"fast": "quick", "quick": "openai/gpt"}


def test_known_aliases_of_a_layer_are_resolved() -> None:
    resolved = settle(EVERYWHERE, ALIASES)
    assert [value_at(resolved, path) for path in PATHS] == [GPT] * len(PATHS)
    assert settle(EVERYWHERE, {}) == EVERYWHERE
    assert settle(EVERYWHERE, {"fast": "fast"}) == EVERYWHERE
    assert settle(EVERYWHERE, {"fast": {"name": "x"}}) == EVERYWHERE


@pytest.mark.parametrize(
    "partial",
    [
        {"assistant": {"model": {"id": {"name": "x"}}}},
        {"providers": {"llm": {"aliases": {"a": "fast"}}}},
        {"assistant": {"name": "fast", "model": {"parameters": {"id": "fast"}}}},
        {"conversation": {"tools": {"t": {"options": {"model": {"id": "fast"}}}}}},
        {"conversation": {"tools": {"t": {"questions": {"q": {"target": "assistant"}}}}}},
        {"assistant": {"model": None}, "unknown": {"model": {"id": "fast"}}},
    ],
)
def test_values_that_are_no_references_are_unchanged(partial: Any) -> None:
    assert settle(partial, ALIASES) == partial


def test_models_in_a_list_with_a_strategy_are_resolved() -> None:
    rules = [{"keep_last": "1", "summary": {"model": {"id": "fast"}}}, {"keep_last": "2"}]
    path = "conversation.compaction.rules"
    written = setting(path, {"value": rules, "strategy": "replace"})
    resolved = settle(written, ALIASES)["conversation"]["compaction"]["rules"]
    assert resolved["strategy"] == "replace"
    assert resolved["value"] == [
        {"keep_last": "1", "summary": {"model": {"id": GPT}}},
        {"keep_last": "2"},
    ]


def test_model_id_in_a_layer_becomes_a_table() -> None:
    assert settle({"assistant": {"model": {"id": "openai/gpt"}}}, {}) == {
        "assistant": {"model": {"id": GPT}}
    }


@given(partials)
def test_resolving_a_layer_is_idempotent(partial: dict[str, Any]) -> None:
    once = settle(partial, ALIASES)
    assert settle(once, ALIASES) == once


def test_error_of_an_unknown_provider_lists_the_available_ones() -> None:
    with pytest.raises(jp.ConfigError, match="unknown provider 'acme'") as caught:
        Settings(setting(MODEL, "acme/x")).whole()
    listed = str(caught.value).partition("expected one of ")[2]
    assert listed == (
        "anthropic, cerebras, deepseek, google, groq, llamacpp, mistral, ollama, openai, "
        "openrouter, scripted, xai"
    )
