"""Chat Completions: the members of a request that set the reasoning effort, server by server.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jp_nb.providers.request_parts.reasoning_effort import Level, ParsedReasoning
from jp_nb.providers.request_parts.request_body import WireMessage

_ASSUMED_MAX_TOKENS: Final = 32_000
"""Length of an answer for which a number of tokens becomes a level."""


def _format_level(reasoning: ParsedReasoning, spellings: Mapping[Level, str]) -> str:
    level = reasoning.to_level(_ASSUMED_MAX_TOKENS)
    return spellings.get(level, level)


def format_openai_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the level of OpenAI and servers like it."""
    if reasoning.is_off:
        return {}  # a model without reasoning rejects the field
    spellings: Mapping[Level, str] = {"xlow": "minimal", "auto": "medium", "max": "xhigh"}
    return {"reasoning_effort": _format_level(reasoning, spellings)}


def format_three_levels(reasoning: ParsedReasoning) -> WireMessage:
    """Return the level for a server that knows `low`, `medium`, and `high`."""
    spellings: Mapping[Level, str] = {
        "xlow": "low", "auto": "medium", "xhigh": "high", "max": "high"
    }  # fmt: skip
    return {"reasoning_effort": _format_level(reasoning, spellings)}


def format_cerebras_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the level of Cerebras and Groq, which then send reasoning in its own field."""
    effort = {} if reasoning.effort == "auto" else format_three_levels(reasoning)
    return {"reasoning_format": "parsed", **effort}


def format_llamacpp_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the switch of llama.cpp, whose chat templates know no levels."""
    return {
        "reasoning_format": "deepseek",
        "chat_template_kwargs": {"enable_thinking": not reasoning.is_off},
    }


def format_deepseek_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the switch of DeepSeek."""
    kind = "disabled" if reasoning.is_off else "enabled"
    return {"thinking": {"type": kind}}


def format_openrouter_reasoning(reasoning: ParsedReasoning) -> WireMessage:
    """Return the level or the number of tokens of OpenRouter."""
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
