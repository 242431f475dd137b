"""Keys and passwords have no place in a configuration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jp_nb.config.assignments import parse_assignment
from jp_nb.config.layers import from_environment
from jp_nb.config.model_aliases import parse_model_id, resolve_model
from jp_nb.config.tree.node import shortened
from jp_nb.errors import ConfigError


@pytest.mark.parametrize(
    "assignment",
    [
        "providers.llm.openai.base_url=https://user:s3cret@host",
        "providers.llm.anthropic.api_key_env=sk-s3cret-key",
        "providers.llm.openai.base_url=https://host/v1?key=s3cret",
        "providers.llm.openai.base_url=https://host/v1#s3cret",
        "providers.llm.openai.base_url=https://host?s3cret",
    ],
)
def test_a_secret_is_refused_and_not_repeated(assignment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignment(assignment, {})
    assert "s3cret" not in str(caught.value)
    assert "environment variable" in str(caught.value)


KEYS = [
    "sk-ant-s3cret", "sk-s3cret", "AIzaSyA-s3cret_0123456789", "ghp_s3cret0123456789abcd",
    "0123456789abcdefs3cret0123456789", "s3cretAbCdEfGhIjKlMnOpQrStUv",
]  # fmt: skip


def test_what_looks_like_a_key_is_not_printed_whole(subtests: pytest.Subtests) -> None:
    for path in [
        "assistant.model.id=nobody-{}/", "assistant.model.id={}/x",
        "conversation.tools.t.enable={}", "conversation.tools.t.source={}",
        "conversation.tools.t.source=mcp.{}.", "conversation.tools.t.command='{}",
        "conversation.tools.t.run={}", 'conversation.labels:={{"1 {}": "x"}}',
        'providers.llm.aliases:={{"a/{}": "x"}}', "a.. {}", "{}",
    ]:  # fmt: skip
        for key in KEYS:
            with subtests.test(key=key, path=path):
                with pytest.raises(ConfigError) as caught:
                    parse_assignment(path.format(key), {})
                assert key not in caught.value.problems[0].message
                assert key not in "".join(caught.value.args)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_in_place_of_a_model_is_not_printed_whole(key: str) -> None:
    reads: list[Callable[[], object]] = [
        lambda: resolve_model(key, {}),
        lambda: parse_model_id(f"{key}/x"),
    ]
    for read in reads:
        with pytest.raises(ConfigError) as caught:
            read()
        assert key not in str(caught.value)
        assert f"{key[:4]}\u2026" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        from_environment({"JP_CFG_ASSISTANT__MODEL__ID": f"{key}/x"})
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["fast", "gpt-4.1", "claude-sonnet-4-20250514-preview", "my-favourite-long-alias"]
)
def test_a_plain_name_is_printed_as_it_is(name: str) -> None:
    assert shortened(name) == name
    with pytest.raises(ConfigError, match=f"'{name}' is neither"):
        resolve_model(name, {})


def test_a_long_text_is_shortened_in_no_time() -> None:
    assert shortened("a" * 1_000_000) == "a" * 80 + "\u2026"
