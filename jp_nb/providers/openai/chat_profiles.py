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


@dataclass(frozen=True, slots=True)
class Profile:
    """Differences of a server from OpenAI's Chat Completions API.

    `tool_choices` are the accepted values of `tool_choice`: `named`, a word such as `required` or
    the name of a tool; `words`, only a word; `nothing`, the server ignores it. `answer` adapts the
    schema of a structured answer; None is JSON mode, with the schema in the system message.
    `documents` is the role of the message with attached texts: a `user` message before the context,
    or the end of the `system` message. With `require_parameters`, the server is a router, and uses
    only servers that support all parameters of the request.
    """

    name: str
    path: str = "/v1/chat/completions"
    local: Local | None = None  # further requests ask it about its models
    max_tokens: str = "max_tokens"  # field for the maximum length of the answer
    reasoning_field: str | None = None  # of messages, for its reasoning; None: sent as text
    reasoning_lasts: bool = True  # reasoning is also sent in later turns
    reasoning: Callable[[ParsedReasoning], WireMessage] = lambda _: {}  # fields that set the effort
    stream_options: bool = True  # usage is reported only if `stream_options` asks for it
    tool_choices: Literal["named", "words", "nothing"] = "named"
    any_tool: str = "required"  # word that requires a call of any tool
    seed: str = "seed"  # field of this parameter
    answer: Callable[[Mapping[str, JsonValue]], AnswerSchema] | None = adapt_for_openai
    think_tags: bool = False  # the text may contain reasoning between `<think>` tags
    top_k: bool = False
    extras: frozenset[str] = _EXTRAS  # further accepted parameters
    calls: CallRules = CHAT_CALLS  # accepted names and ids of tool calls
    documents: Literal["user", "system"] = "system"
    media_types: frozenset[str] = frozenset()  # of attachments sent in the `user` message
    require_parameters: bool = False
    cached_by_mark: tuple[str, ...] = ()  # prefixes of models whose prompt cache needs a marker

    @property
    def takes_images(self) -> bool:
        """True if the server accepts images."""
        return self.media_types >= IMAGE_TYPES


_LOCAL_EXTRAS: Final = _EXTRAS | {"min_p", "repetition_penalty", "chat_template_kwargs"}

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


def make_profile(name: str, given: ServerProfile | str) -> Profile:
    """Return the profile of the configured server `name`: a known one, with its differences."""
    if isinstance(given, str):
        return replace(SERVER_PROFILES[given], name=name)

    same = ("path", "max_tokens", "stream_options", "any_tool", "think_tags", "documents")
    settings: dict[str, Any] = {key: getattr(given, key) for key in same}
    fields = {key: value for key, value in settings.items() if value is not None}

    if given.tool_choice is not None:
        fields["tool_choices"] = given.tool_choice

    if given.call_ids is not None:
        fields["calls"] = MISTRAL_CALLS if given.call_ids == "nine" else CHAT_CALLS

    if given.structured is not None:
        fields["answer"] = _ANSWERS[given.structured]

    if given.reasoning_field is not None:
        has_field = given.reasoning_field != "none"
        fields["reasoning_field"] = given.reasoning_field if has_field else None

    return replace(SERVER_PROFILES[given.base], name=name, **fields)
