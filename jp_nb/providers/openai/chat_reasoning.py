"""Chat Completions: the members of a request that set the reasoning effort, server by server.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jp_nb.providers.request_parts.reasoning_effort import Level, ParsedReasoning
from jp_nb.providers.request_parts.request_body import WireMessage

_ASSUMED_MAX_TOKENS: Final = 32_000
"""Assumed length of an answer, to convert a number of tokens for reasoning into a level."""


def _format_level(reasoning: ParsedReasoning, spellings: Mapping[Level, str]) -> str:
    """Return the requested level as a server spells it; the same word if it is not listed."""
    level = reasoning.to_level(_ASSUMED_MAX_TOKENS)
    return spellings.get(level, level)


def format_openai_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the member with the level for OpenAI, and for servers like it.

    If reasoning is off, there is none: a model without reasoning rejects the member.
    """
    if reasoning.is_off:
        return {}
    spellings: Mapping[Level, str] = {"xlow": "minimal", "auto": "medium", "max": "xhigh"}
    return {"reasoning_effort": _format_level(reasoning, spellings)}


def format_three_levels(reasoning: ParsedReasoning) -> WireMessage:
    """Return the member with the level for a server that knows `low`, `medium`, and `high`.

    `none` is a further value of these servers, which turns reasoning off. It is sent although some
    of their models reject it: without the member, a model that can reason does so.
    """
    spellings: Mapping[Level, str] = {
        "xlow": "low", "auto": "medium", "xhigh": "high", "max": "high"
    }  # fmt: skip
    return {"reasoning_effort": _format_level(reasoning, spellings)}


def format_cerebras_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the members for Cerebras and Groq: the level, and reasoning in its own field.

    `auto` is no level of all their models, so the server uses the default of the model.
    """
    effort = {} if reasoning.effort == "auto" else format_three_levels(reasoning)
    return {"reasoning_format": "parsed", **effort}


def format_llamacpp_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the members that switch reasoning on or off in llama.cpp, which has no levels."""
    return {
        "reasoning_format": "deepseek",
        "chat_template_kwargs": {"enable_thinking": not reasoning.is_off},
    }


def format_deepseek_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the member that switches reasoning on or off at DeepSeek."""
    kind = "disabled" if reasoning.is_off else "enabled"
    return {"thinking": {"type": kind}}


def format_openrouter_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the member with the level, or with the number of tokens, for OpenRouter."""
    fields: WireMessage = {}
    if isinstance(reasoning.effort, int) and not reasoning.is_off:
        fields["max_tokens"] = reasoning.effort
    elif reasoning.effort == "auto":
        fields["enabled"] = True
    else:
        fields["effort"] = _format_level(reasoning, {"xlow": "minimal", "max": "xhigh"})

    if reasoning.exclude:
        fields["exclude"] = True
    return {"reasoning": fields}
