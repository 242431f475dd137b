"""Chat Completions: the members of a request besides its messages.

Servers differ in the members that they accept; a `Profile` (`chat_profiles.py`) has the
differences of one server. Its `tool_choices` are `named` if `tool_choice` may name a tool, `words`
if it may only be a word, such as `auto` or `any_tool` (that for any tool), and `nothing` if the
server ignores it. Its `answer` adapts the schema of structured answers; None if the server only has
JSON mode.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

from jp_nb.agent.provider import ModelRequest
from jp_nb.providers.openai.chat_profiles import Profile
from jp_nb.providers.request_parts.omission_reports import Omitted, omit_parameter
from jp_nb.providers.request_parts.reasoning_effort import parse_reasoning
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.schemas.answer_schemas import AnswerSchema
from jp_nb.providers.schemas.tool_parameters import get_parameter_schema


def build_request_fields(
    request: ModelRequest,
    profile: Profile,
    *,
    answer: AnswerSchema | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `messages`.

    Parameters that are not sent are added to `omitted`, each with the reason.
    """
    fields: WireMessage = {"model": request.model, "stream": True}
    if profile.stream_options:
        fields["stream_options"] = {"include_usage": True}
    fields.update(_format_tools(request, profile))

    if answer is not None:
        fields["response_format"] = _format_response_format(answer, profile)
        if profile.require_parameters:  # the router then uses only servers that enforce the schema
            fields["provider"] = {"require_parameters": True}

    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is not None:
        fields.update(profile.reasoning(reasoning))

    omitted = {} if omitted is None else omitted
    fields.update(_format_sampling(request, profile, omitted))
    return fields


def _format_tools(request: ModelRequest, profile: Profile) -> WireMessage:
    """Return the members `tools` and `tool_choice`, as far as the server knows the choice."""
    tools = request.tools
    choice = request.tool_choice
    forced_tool = choice.removeprefix("tool:") if choice.startswith("tool:") else None

    # A server that ignores `tool_choice` calls tools unless the list is empty.
    if not tools or (choice == "none" and profile.tool_choices == "nothing"):
        return {}

    # A server that cannot be told the name of the tool gets only this tool; or all, if the tool is
    # not among them.
    if forced_tool is not None and profile.tool_choices != "named":
        tools = tuple(tool for tool in tools if tool.name == forced_tool) or tools
        forced_tool = None
        choice = "required"

    wire_choice: str | WireMessage = choice
    if forced_tool is not None:
        wire_choice = {"type": "function", "function": {"name": forced_tool}}
    elif choice == "required":
        wire_choice = profile.any_tool

    functions = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": get_parameter_schema(tool),
        }
        for tool in tools
    ]

    return {
        "tools": [{"type": "function", "function": function} for function in functions],
        "tool_choice": wire_choice,
    }


def _format_response_format(answer: AnswerSchema, profile: Profile) -> WireMessage:
    """Return the member that asks for a structured answer."""
    if profile.answer is None:  # JSON mode; the system message has the schema
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {
            "name": "structured_output",
            "schema": answer.schema,
            "strict": answer.strict,
        },
    }


def _format_sampling(request: ModelRequest, profile: Profile, omitted: Omitted) -> WireMessage:
    """Return the members for the model parameters, and add those that are not sent to `omitted`."""
    parameters = request.parameters
    top_k = parameters.top_k if profile.top_k else None
    standard = {
        profile.max_tokens: parameters.max_tokens,
        "temperature": parameters.temperature,
        "top_p": parameters.top_p,
        "top_k": top_k,
        "stop": list(parameters.stop_words) or None,
    }
    sampling: WireMessage = {name: value for name, value in standard.items() if value is not None}

    unsupported: set[str] = set()
    if parameters.top_k is not None and not profile.top_k:
        unsupported.add("top_k")

    for name, value in parameters.other.items():
        if name in profile.extras:
            wire_name = profile.seed if name == "seed" else name
            sampling[wire_name] = value
        else:
            unsupported.add(name)

    for name in sorted(unsupported):
        omit_parameter(omitted, name, "not a parameter of this API")
    return sampling
