"""Profiles of the servers that speak chat completions. A new one is one `Profile`.

Source: `docs/providers.md`;
https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.providers import schemas
from jp_nb.providers.endpoint import Level, ReasoningEffort
from jp_nb.providers.messages import (
    IMAGES,
    PDF,
    Message,
)

_ASSUMED_MAX_TOKENS: Final = 32_000
_EXTRAS: Final = frozenset(
    {"seed", "frequency_penalty", "presence_penalty", "logit_bias", "parallel_tool_calls"}
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The ways in which a provider's chat completions differ from OpenAI's.

    Attributes:
        name: The provider's name in the configuration.
        path: Below the base URL.
        local: Which local server it is, that says more about its models than others.
        max_tokens: Name of the field.
        reasoning_field: Field of assistant messages that takes its own reasoning back; None if
            it takes none, and reasoning is replayed as text.
        reasoning_lasts: Whether reasoning is sent back after its turn as well.
        reasoning: The members of the body that ask for an effort.
        stream_options: Whether usage has to be asked for.
        tool_choices: Whether `named` choices are understood, or `words` alone, or `nothing`.
        answer: How a structured answer is asked for: a transform, or None for JSON mode, where the
            schema is told in words.
        think_tags: Whether reasoning may come as `<think>` in the text.
        top_k: Whether there is such a parameter.
        extras: Further parameters that are passed on.
        max_id_length: Of a tool call id; 0 if there is no limit.
        documents: Where attached texts are: in a `user` message of their own before the thread,
            or last in the `system` message.
        media_types: What else can be attached, in that user message.
        require_parameters: Whether it passes requests on, and is told to do that only to servers
            that know every parameter.
        cached_by_mark: Beginnings of the models that cache only what is marked for it.
    """

    name: str
    path: str = "/v1/chat/completions"
    local: Literal["llamacpp", "ollama"] | None = None
    max_tokens: str = "max_tokens"
    reasoning_field: str | None = None
    reasoning_lasts: bool = True
    reasoning: Callable[[ReasoningEffort], Message] = lambda _: {}
    stream_options: bool = True
    tool_choices: Literal["named", "words", "nothing"] = "named"
    answer: Callable[[Mapping[str, JsonValue]], schemas.AnswerSchema] | None = schemas.for_openai
    think_tags: bool = False
    top_k: bool = False
    extras: frozenset[str] = _EXTRAS
    max_id_length: int = 0
    documents: Literal["user", "system"] = "system"
    media_types: frozenset[str] = frozenset()
    require_parameters: bool = False
    cached_by_mark: tuple[str, ...] = ()

    @property
    def takes_images(self) -> bool:
        """Whether images are sent: those of a thread are of `IMAGES`."""
        return self.media_types >= IMAGES


def _level(reasoning: ReasoningEffort, words: Mapping[Level, str]) -> str:
    level = reasoning.level(_ASSUMED_MAX_TOKENS)
    return words.get(level, level)


def _openai_reasoning(reasoning: ReasoningEffort) -> Message:
    if reasoning.off:
        return {}  # a model that cannot reason refuses the field
    words: Mapping[Level, str] = {"xlow": "minimal", "auto": "medium", "max": "xhigh"}
    return {"reasoning_effort": _level(reasoning, words)}


def _three_levels(reasoning: ReasoningEffort) -> Message:
    words: Mapping[Level, str] = {
        "xlow": "low",
        "auto": "medium",
        "xhigh": "high",
        "max": "high",
    }
    return {"reasoning_effort": _level(reasoning, words)}


def _cerebras_reasoning(reasoning: ReasoningEffort) -> Message:
    return {
        "reasoning_format": "parsed",
        **({} if reasoning.effort == "auto" else _three_levels(reasoning)),
    }


def _llamacpp_reasoning(reasoning: ReasoningEffort) -> Message:
    return {
        "reasoning_format": "deepseek",
        "chat_template_kwargs": {"enable_thinking": not reasoning.off},
    }


def _deepseek_reasoning(reasoning: ReasoningEffort) -> Message:
    return {"thinking": {"type": "disabled" if reasoning.off else "enabled"}}


def _openrouter_reasoning(reasoning: ReasoningEffort) -> Message:
    wanted: Message = {}
    if isinstance(reasoning.effort, int) and not reasoning.off:
        wanted["max_tokens"] = reasoning.effort
    elif reasoning.effort == "auto":
        wanted["enabled"] = True
    else:
        wanted["effort"] = _level(reasoning, {"xlow": "minimal", "max": "xhigh"})
    if reasoning.exclude:
        wanted["exclude"] = True
    return {"reasoning": wanted}


PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(
            "openai",
            max_tokens="max_completion_tokens",
            reasoning=_openai_reasoning,
            think_tags=True,  # of the local servers behind another `base_url`
            extras=_EXTRAS | {"verbosity", "service_tier"},
            max_id_length=40,
            documents="user",
            media_types=IMAGES | {PDF},
        ),
        Profile(
            "llamacpp",
            local="llamacpp",
            reasoning_field="reasoning_content",
            reasoning=_llamacpp_reasoning,
            tool_choices="words",
            answer=schemas.plain,
            think_tags=True,
            top_k=True,
            extras=_EXTRAS | {"min_p", "cache_prompt", "repeat_penalty"},
        ),
        Profile(
            "ollama",
            local="ollama",
            reasoning_field="reasoning",
            reasoning=_three_levels,
            tool_choices="nothing",
            answer=schemas.plain,
            think_tags=True,
        ),
        Profile(
            "openrouter",
            path="/api/v1/chat/completions",
            reasoning_field="reasoning",
            reasoning=_openrouter_reasoning,
            top_k=True,
            extras=_EXTRAS | {"min_p", "provider", "models", "transforms", "verbosity"},
            documents="user",
            media_types=IMAGES | {PDF},
            require_parameters=True,
            cached_by_mark=("anthropic", "google"),
        ),
        Profile(
            "deepseek",
            path="/chat/completions",
            reasoning_field="reasoning_content",
            reasoning_lasts=False,
            reasoning=_deepseek_reasoning,
            answer=None,
        ),
        Profile(
            "cerebras",
            max_tokens="max_completion_tokens",
            reasoning_field="reasoning",
            reasoning=_cerebras_reasoning,
            stream_options=False,
        ),
    )
}
