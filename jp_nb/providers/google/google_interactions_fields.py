"""The Interactions API of Gemini: the members of a request besides its steps.

Source: `docs/providers.md`, https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.agent.provider import ModelRequest
from jp_nb.providers.google.google_model_list import name_model
from jp_nb.providers.google.google_thinking import Thinking
from jp_nb.providers.request_parts.omission_reports import Omitted, omit_parameter
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.providers.schemas.tool_parameters import get_parameter_schema

_EXTRAS: Final = frozenset({"safety_settings", "service_tier"})
"""Further parameters of the configuration that the API has, besides `seed`."""


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    thinking: Thinking | None = None,
    allowed_tools: Sequence[str] | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `input`.

    `GoogleFieldsBuilder` (`google_base.py`) explains the arguments.
    """
    fields: WireMessage = {"model": name_model(request), "store": False, "stream": True}
    if system := "\n\n".join(text for text in request.system if text.strip()):
        fields["system_instruction"] = system

    if request.tools:
        fields["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": get_parameter_schema(tool),
            }
            for tool in request.tools
        ]

    if answer is not None:
        fields["response_format"] = {
            "type": "text",
            "mime_type": "application/json",
            "schema": answer.schema,
        }

    level: str | None = None
    summaries: str | None = None
    if thinking is not None:
        level = thinking.level
        summaries = "none" if thinking.is_hidden else "auto"

    parameters = request.parameters
    config: WireMessage = {
        name: value
        for name, value in (
            ("max_output_tokens", parameters.max_tokens),
            ("temperature", parameters.temperature),
            ("top_p", parameters.top_p),
            ("stop_sequences", list(parameters.stop_words) or None),
            ("seed", parameters.other.get("seed")),
            ("tool_choice", _format_tool_choice(request, allowed_tools)),
            ("thinking_level", level),
            ("thinking_summaries", summaries),
        )
        if value is not None
    }

    if config:
        fields["generation_config"] = config

    omitted = {} if omitted is None else omitted
    if parameters.top_k is not None:
        omit_parameter(omitted, "top_k", "not a parameter of this API")

    for name, value in parameters.other.items():
        if name in _EXTRAS:
            fields[name] = value
        elif name != "seed":
            omit_parameter(omitted, name, "not a parameter of this API")

    return fields


def _format_tool_choice(
    request: ModelRequest, allowed: Sequence[str] | None
) -> str | WireMessage | None:
    """Return the member `tool_choice`; None without tools. `allowed` is None for all of them."""
    choice = request.tool_choice
    name = choice.removeprefix("tool:")
    is_named = name != choice
    if not request.tools:
        return None
    if is_named:  # the only tool that the model may call, and it has to call one
        return {"allowed_tools": {"mode": "any", "tools": [name]}}

    mode = "any" if choice == "required" else choice
    if allowed is None or mode == "none":
        return mode
    if not allowed:  # no tool may be called
        return "none"
    return {"allowed_tools": {"mode": mode, "tools": [*allowed]}}
