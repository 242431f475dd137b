"""The profiles of servers: how each one differs from OpenAI's Chat Completions API.

A new server needs one `Profile` in the table. A server of the user's configuration has a known
profile with further differences (`make_profile`).

Source: `docs/providers.md`; https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import JsonValue

from jp_nb.config.tree.named_servers import ServerProfile
from jp_nb.providers.network.local_server import Local
from jp_nb.providers.openai.chat_reasoning import (
    format_cerebras_reasoning,
    format_deepseek_reasoning,
    format_llamacpp_reasoning,
    format_openai_reasoning,
    format_openrouter_reasoning,
    format_three_levels,
)
from jp_nb.providers.openai.openai_schemas import adapt_for_openai
from jp_nb.providers.request_parts.attachment_parts import IMAGE_AND_PDF_TYPES, IMAGE_TYPES
from jp_nb.providers.request_parts.call_rules import (
    CHAT_CALLS,
    MISTRAL_CALLS,
    OPENAI_CHAT_CALLS,
    CallRules,
)
from jp_nb.providers.request_parts.reasoning_effort import ParsedReasoning
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, pass_schema, suggest_schema

_EXTRAS: Final = frozenset(
    {"seed", "frequency_penalty", "presence_penalty", "logit_bias", "parallel_tool_calls"}
)
"""Parameters of the configuration that most servers accept unchanged."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Differences of a server from OpenAI's Chat Completions API.

    Attributes:
        name: Name of the provider, of the known profile, or of the configured server.
        path: Path of the API at the server's address.
        local: Kind of a local server, which is asked in its own API about its models.
        max_tokens: Name of the member for the maximum length of the answer.
        reasoning_field: Name of the field of a message for its reasoning. If it is None, reasoning
            is sent as text.
        reasoning_lasts: True if reasoning is also sent in later turns.
        reasoning: Returns the members of a request that set the reasoning effort.
        stream_options: True if the server reports usage only if `stream_options` asks for it.
        tool_choices: Accepted values of `tool_choice`: `named`, a word such as `required` or the
            name of a tool; `words`, only a word; `nothing`, the server ignores it.
        any_tool: The word that requires a call of any tool.
        seed: Name of the member for this parameter.
        answer: Adapts the schema of a structured answer: `adapt_for_openai` to strict mode, and
            `pass_schema` not at all; with `suggest_schema`, the server does not enforce it. None is
            JSON mode, with the schema in the system message.
        think_tags: True if the text may contain reasoning between `<think>` tags.
        top_k: True if the server accepts this parameter.
        extras: Further accepted parameters.
        calls: Accepted names and ids of tool calls.
        documents: The place of attached texts: a `user` message before the context, or the end of
            the `system` message.
        media_types: Types of images and PDFs that the server accepts in a `user` message.
        require_parameters: True for a router, which then uses only servers that support all
            parameters of the request.
        cached_by_mark: Prefixes of the names of models whose prompt cache needs a marker.
    """

    name: str
    path: str = "/v1/chat/completions"
    local: Local | None = None
    max_tokens: str = "max_tokens"
    reasoning_field: str | None = None
    reasoning_lasts: bool = True
    reasoning: Callable[[ParsedReasoning], WireMessage] = lambda _: {}
    stream_options: bool = True
    tool_choices: Literal["named", "words", "nothing"] = "named"
    any_tool: str = "required"
    seed: str = "seed"
    answer: Callable[[Mapping[str, JsonValue]], AnswerSchema] | None = adapt_for_openai
    think_tags: bool = False
    top_k: bool = False
    extras: frozenset[str] = _EXTRAS
    calls: CallRules = CHAT_CALLS
    documents: Literal["user", "system"] = "system"
    media_types: frozenset[str] = frozenset()
    require_parameters: bool = False
    cached_by_mark: tuple[str, ...] = ()

    @property
    def takes_images(self) -> bool:
        """True if the server accepts images."""
        return self.media_types >= IMAGE_TYPES


_LOCAL_EXTRAS: Final = _EXTRAS | {"min_p", "repetition_penalty", "chat_template_kwargs"}
"""Parameters that vLLM and LM Studio accept unchanged."""

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(
            "openai",
            max_tokens="max_completion_tokens",
            reasoning=format_openai_reasoning,
            think_tags=True,  # for local servers with another `base_url`
            extras=_EXTRAS | {"verbosity", "service_tier"},
            calls=OPENAI_CHAT_CALLS,
            documents="user",
            media_types=IMAGE_AND_PDF_TYPES,
        ),
        Profile(
            "llamacpp",
            local="llamacpp",
            reasoning_field="reasoning_content",
            reasoning=format_llamacpp_reasoning,
            tool_choices="words",
            answer=pass_schema,
            think_tags=True,
            top_k=True,
            extras=_EXTRAS | {"min_p", "cache_prompt", "repeat_penalty"},
        ),
        Profile(
            "ollama",
            local="ollama",
            reasoning_field="reasoning",
            reasoning=format_three_levels,
            tool_choices="nothing",
            answer=pass_schema,
            think_tags=True,
        ),
        Profile(
            "openrouter",
            path="/api/v1/chat/completions",
            reasoning_field="reasoning",
            reasoning=format_openrouter_reasoning,
            top_k=True,
            extras=_EXTRAS | {"min_p", "provider", "models", "transforms", "verbosity"},
            documents="user",
            media_types=IMAGE_AND_PDF_TYPES,
            require_parameters=True,
            cached_by_mark=("anthropic", "google"),
        ),
        Profile(
            "xai",
            max_tokens="max_completion_tokens",
            reasoning=format_three_levels,
            documents="user",
            media_types=IMAGE_TYPES,
        ),
        Profile(
            "deepseek",
            path="/chat/completions",
            reasoning_field="reasoning_content",
            reasoning_lasts=False,
            reasoning=format_deepseek_reasoning,
            answer=None,
        ),
        Profile(
            "cerebras",
            max_tokens="max_completion_tokens",
            reasoning_field="reasoning",
            reasoning=format_cerebras_reasoning,
            stream_options=False,
        ),
        Profile(
            "groq",
            path="/openai/v1/chat/completions",
            max_tokens="max_completion_tokens",
            reasoning_field="reasoning",
            reasoning=format_cerebras_reasoning,
            answer=suggest_schema,
            extras=_EXTRAS | {"service_tier"},
            documents="user",
            media_types=IMAGE_TYPES,
        ),
        Profile(
            "mistral",
            stream_options=False,
            any_tool="any",
            seed="random_seed",
            extras=_EXTRAS - {"logit_bias"} | {"safe_prompt", "prompt_mode"},
            calls=MISTRAL_CALLS,
            documents="user",
            media_types=IMAGE_TYPES,
        ),
    )
}
"""Profiles of the providers with the Chat Completions API."""

SERVER_PROFILES: Final[Mapping[str, Profile]] = {
    **PROFILES,
    **{
        profile.name: profile
        for profile in (
            Profile(
                "vllm",
                reasoning_field="reasoning_content",
                answer=pass_schema,
                think_tags=True,
                top_k=True,
                extras=_LOCAL_EXTRAS,
            ),
            Profile(
                "lmstudio",
                tool_choices="words",
                answer=pass_schema,
                think_tags=True,
                top_k=True,
                extras=_LOCAL_EXTRAS,
            ),
        )
    },
}
"""Profiles that a configured server can name: also `vllm` and `lmstudio`."""

_ANSWERS: Final[Mapping[str, Callable[[Mapping[str, JsonValue]], AnswerSchema] | None]] = {
    "strict": adapt_for_openai,
    "schema": pass_schema,
    "json": None,
}
"""The meaning of each value of the setting `structured`."""
_EQUAL_FIELDS: Final = (
    "path",
    "max_tokens",
    "stream_options",
    "any_tool",
    "think_tags",
    "documents",
)
"""Settings of a server that have the name and the values of a field of `Profile`."""


def make_profile(name: str, setting: ServerProfile | str) -> Profile:
    """Return the profile of the configured server `name`.

    The `setting` is the name of a known profile, or has one as `base`, and differences from it.
    """
    if isinstance(setting, str):
        return replace(SERVER_PROFILES[setting], name=name)

    fields: dict[str, Any] = {}
    for key in _EQUAL_FIELDS:
        value = getattr(setting, key)
        if value is not None:
            fields[key] = value

    if setting.tool_choice is not None:
        fields["tool_choices"] = setting.tool_choice

    if setting.call_ids is not None:
        # Mistral requires ids of nine characters for tool calls.
        fields["calls"] = MISTRAL_CALLS if setting.call_ids == "nine" else CHAT_CALLS

    if setting.structured is not None:
        fields["answer"] = _ANSWERS[setting.structured]

    if setting.reasoning_field is not None:
        has_field = setting.reasoning_field != "none"
        fields["reasoning_field"] = setting.reasoning_field if has_field else None

    return replace(SERVER_PROFILES[setting.base], name=name, **fields)
