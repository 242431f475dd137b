from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.kit.providers import new_provider
from tests.providers.helpers import ask, collect, list_providers
from tests.support.loopback import LoopbackServer


def test_every_provider_is_created_from_its_defaults(subtests: pytest.Subtests) -> None:
    for name in list_providers():
        with subtests.test(name=name):
            provider: Any = new_provider(name)
            assert provider


def test_planned_provider_is_refused() -> None:
    with pytest.raises(jp.ConfigError, match="'test' is not available yet; available: ant"):
        new_provider("test")


def test_null_setting_is_the_default() -> None:
    assert new_provider("deepseek", {"base_url": None, "api_key_env": None})


def test_unknown_provider_is_refused_with_the_known_names() -> None:
    with pytest.raises(
        jp.ConfigError, match=r"anthropic, cerebras, deepseek, .*, scripted"
    ) as caught:
        new_provider("antropic")
    assert caught.value.path == "assistant.model.id.provider"


def test_wrong_setting_is_refused_with_its_path(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"base_url": "localhost:8080"}, "base_url"),
        ({"base_url": "http://"}, "base_url"),
        ({"base_url": 3}, "base_url"),
        ({"api_key_env": ["X"]}, "api_key_env"),
        ({"images": 1}, "images"),
        ({"images": "true"}, "images"),
        ({"dialect": 2}, "dialect"),
        ({"dialect": "completions"}, "dialect"),
    ]
    for settings, path in rows:
        with subtests.test(settings=settings, path=path):
            with pytest.raises(jp.ConfigError) as caught:
                new_provider("openai", settings)
            assert caught.value.path == f"providers.llm.openai.{path}"


async def test_settings_become_headers() -> None:
    with LoopbackServer(["A.", "B."]) as server:
        betas = new_provider("anthropic", {"base_url": server.url, "beta_headers": ["a-1", "b-2"]})
        await collect(betas, ask())
        router = new_provider(
            "openrouter", {"base_url": server.url, "app_name": None, "app_referrer": "https://x.y"}
        )
        await collect(router, ask())
        await betas.aclose()
        await router.aclose()
    assert server.requests[0].headers["anthropic-beta"] == "a-1,b-2"
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"
    assert server.requests[1].path == "/api/v1/chat/completions"
    assert server.requests[1].headers["x-title"] == "jp_nb"
    assert server.requests[1].headers["http-referer"] == "https://x.y"
