"""The `generateContent` API of Gemini: the members of a request besides its contents.

Source: `docs/providers.md`, https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jp_nb.agent.provider import ModelRequest, ToolChoice
from jp_nb.providers.google.google_model_list import name_model
from jp_nb.providers.google.google_thinking import Thinking
from jp_nb.providers.request_parts.omission_reports import Omitted, omit_parameter
from jp_nb.providers.request_parts.reasoning_effort import parse_reasoning
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.providers.schemas.tool_parameters import get_parameter_schema

_BUDGET_MODELS: Final = re.compile("gemini-2")
"""Models whose thinking has a number of tokens instead of a level."""
_MAX_BUDGET: Final = 24_576
"""Maximum number of tokens for thinking that all of these models accept."""
_EXTRAS: Final = frozenset({"seed", "presencePenalty", "frequencyPenalty"})
"""Further parameters of the configuration that the API has."""


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    thinking: Thinking | None = None,
    allowed_tools: Sequence[str] | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `contents`.

    It is a `GoogleFieldsBuilder` (`google_base.py`). `allowed_tools` names the tools that the model
    may call; None for all. `omitted` receives the parameters that are not sent.
    """
    fields: WireMessage = {}
    if system := [{"text": text} for text in request.system if text.strip()]:
        fields["systemInstruction"] = {"parts": system}

    if request.tools:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": get_parameter_schema(tool),
            }
            for tool in request.tools
        ]
        fields["tools"] = [{"functionDeclarations": declarations}]
        choice = _format_tool_choice(request.tool_choice, allowed_tools)
        fields["toolConfig"] = {"functionCallingConfig": choice}

    config: WireMessage = {}
    if answer is not None:
        config = {"responseMimeType": "application/json", "responseJsonSchema": answer.schema}

    parameters = request.parameters
    for name, value in (
        ("maxOutputTokens", parameters.max_tokens),
        ("temperature", parameters.temperature),
        ("topP", parameters.top_p),
        ("topK", parameters.top_k),
        ("stopSequences", list(parameters.stop_words) or None),
        ("thinkingConfig", _format_thinking(request, thinking)),
    ):
        if value is not None:
            config[name] = value

    omitted = {} if omitted is None else omitted
    for name, extra in parameters.other.items():
        if name in _EXTRAS:
            config[name] = extra
        else:
            omit_parameter(omitted, name, "not a parameter of this API")

    if config:
        fields["generationConfig"] = config
    return fields


def _format_thinking(request: ModelRequest, thinking: Thinking | None) -> WireMessage | None:
    """Return the member `thinkingConfig`; None if the request has no settings of reasoning.

    Models of Gemini 2 have a number of tokens instead of a level. -1: the model decides.
    """
    reasoning = parse_reasoning(request.parameters.reasoning)
    if thinking is None or reasoning is None:
        return None

    config: WireMessage = {"includeThoughts": not thinking.is_hidden}
    if not _BUDGET_MODELS.match(name_model(request)):
        if thinking.level is not None:
            config["thinkingLevel"] = thinking.level
        return config

    if reasoning.effort == "auto":
        return {**config, "thinkingBudget": -1}

    # A level is a share of the longest answer.
    max_tokens = request.parameters.max_tokens or _MAX_BUDGET
    budget = min(reasoning.to_tokens(max_tokens), _MAX_BUDGET)
    return {**config, "thinkingBudget": budget}


def _format_tool_choice(choice: ToolChoice, allowed: Sequence[str] | None) -> WireMessage:
    """Return `functionCallingConfig` for the tools `allowed`; None for all."""
    name = choice.removeprefix("tool:")
    is_named = name != choice
    if is_named:
        return {"mode": "ANY", "allowedFunctionNames": [name]}
    if allowed is None or choice == "none":
        mode = "ANY" if choice == "required" else choice.upper()
        return {"mode": mode}

    # AUTO cannot be limited to some of the tools. With VALIDATED, the model can also call none.
    mode = "ANY" if choice == "required" else "VALIDATED"
    if not allowed:
        return {"mode": "NONE"}
    return {"mode": mode, "allowedFunctionNames": [*allowed]}
