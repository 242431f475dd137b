"""Settings of conversations over given files."""

from __future__ import annotations

from typing import Any

from tests.kit.recorded_settings import RecordedSettings
from tests.support.entries import T

NAMED: dict[str, Any] = {"user": {"name": "Ada"}}
WORDS = "assistant.model.parameters.stop_words"


def delta(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "config_delta", "timestamp": T, "delta": value}


def with_words(words: Any) -> dict[str, Any]:
    """Return the settings with these stop words, which are a list."""
    return {"assistant": {"model": {"parameters": {"stop_words": words}}}}


def host(found: RecordedSettings) -> Any:
    return found.config().providers.llm.openai.base_url


def stop_words(found: RecordedSettings) -> Any:
    return found.config().assistant.model.parameters.stop_words
