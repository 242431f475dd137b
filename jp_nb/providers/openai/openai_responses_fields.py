"""OpenAI Responses: the members of a request besides its items.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.provider import ModelRequest, ToolDefinition
from jp_nb.providers.network.local_server import Local
from jp_nb.providers.openai.openai_schemas import adapt_for_openai
from jp_nb.providers.request_parts.omission_reports import Omitted, omit_parameter
from jp_nb.providers.request_parts.reasoning_effort import ParsedReasoning, parse_reasoning
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, pass_schema
from jp_nb.providers.schemas.tool_parameters import get_parameter_schema

_ASSUMED_MAX_TOKENS: Final = 32_000
"""Assumed length of an answer, to convert a number of tokens for reasoning into a level."""
_EXTRAS: Final = frozenset(
    {"parallel_tool_calls", "service_tier", "prompt_cache_options", "prompt_cache_retention"}
)
"""Further parameters of the configuration that the API has."""
_EFFORTS: Final[Mapping[str, str]] = {"xlow": "minimal", "auto": "medium"}
"""OpenAI's names of the levels that have another name here."""
NEXT_EFFORTS: Final[Mapping[str, str]] = {
    "max": "xhigh", "xhigh": "high", "none": "minimal", "minimal": "low"
}  # fmt: skip
"""The effort to request if a model does not have one."""


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    refused: frozenset[str] = frozenset(),
    local: Local | None = None,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `input`.

    `refused` are members, and efforts such as `effort none`, that the server does not accept for
    this model. `local` is the kind of a local server. Parameters that are not sent are added to
    `omitted`, each with the reason.
    """
    omitted = {} if omitted is None else omitted
    fields: WireMessage = {"model": request.model, "store": False}

    if "stream" not in refused:
        fields["stream"] = True
        if "stream_options" not in refused:
            fields["stream_options"] = {"include_obfuscation": False}

    if "include" not in refused:
        fields["include"] = ["reasoning.encrypted_content"]
    if "truncation" not in refused:
        fields["truncation"] = "disabled"  # a silent cut would contradict the record
    if request.conversation_id and "prompt_cache_key" not in refused:
        # A digest, because a conversation of JP may have a name as its id.
        fields["prompt_cache_key"] = sha256(request.conversation_id.encode()).hexdigest()[:32]

    fields.update(_format_tools(request, local))
    fields.update(_format_text(request, answer, local))
    if reasoning := _format_reasoning(request, refused, omitted):
        fields["reasoning"] = reasoning

    return fields | _format_sampling(request, refused, omitted)


def _format_text(
    request: ModelRequest, answer: AnswerSchema | None, local: Local | None
) -> WireMessage:
    """Return the member `text`, with the form and the verbosity of the answer; {} without both.

    llama.cpp gets the form in the member `response_format` instead.
    """
    fields: WireMessage = {}
    text: WireMessage = {}

    if answer is not None:
        text["format"] = format_text_format(answer)
        # llama.cpp reads only the member of Chat Completions.
        if local == "llamacpp":
            text_format = text.pop("format")
            form = {key: text_format[key] for key in ("name", "schema", "strict")}
            fields["response_format"] = {"type": text_format["type"], "json_schema": form}

    if "verbosity" in request.parameters.other:
        text["verbosity"] = request.parameters.other["verbosity"]
    return {**fields, "text": text} if text else fields


def adapt_responses_schema(
    schema: Mapping[str, JsonValue], *, is_local: bool = False
) -> AnswerSchema:
    """Return `schema` as OpenAI's server accepts it. A local server accepts every schema."""
    return pass_schema(schema) if is_local else adapt_for_openai(schema)


def format_text_format(answer: AnswerSchema) -> WireMessage:
    """Return the member `text.format` for a structured answer."""
    form = {"name": "structured_output", "schema": answer.schema, "strict": answer.strict}
    return {"type": "json_schema", **form}


def _format_tools(request: ModelRequest, local: Local | None) -> WireMessage:
    """Return the members `tools` and `tool_choice`."""
    tools = request.tools
    choice = request.tool_choice
    forced_tool = choice.removeprefix("tool:") if choice.startswith("tool:") else None
    if not tools:
        return {}

    # llama.cpp ignores the name of a tool, so it gets only this tool; or all, if it is not there.
    if forced_tool is not None and local == "llamacpp":
        tools = tuple(tool for tool in tools if tool.name == forced_tool) or tools
        forced_tool = None
        choice = "required"

    wire_choice: str | WireMessage = choice
    if forced_tool is not None:
        wire_choice = {"type": "function", "name": forced_tool}
    return {
        "tools": [*map(format_responses_tool, tools)],
        "tool_choice": wire_choice,
    }


def format_responses_tool(tool: ToolDefinition) -> WireMessage:
    """Return the definition of a tool."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": get_parameter_schema(tool),
        "strict": False,
    }


def format_allowed_tools(names: Sequence[str], mode: str) -> WireMessage | str:
    """Return the `tool_choice` that permits only some of the tools that were offered."""
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": mode, "tools": tools} if tools else "none"


def _format_reasoning(
    request: ModelRequest, refused: frozenset[str], omitted: Omitted
) -> WireMessage | None:
    """Return the member `reasoning`; None or empty if it is not sent."""
    fields: WireMessage = {}
    reasoning = parse_reasoning(request.parameters.reasoning)

    if reasoning is not None:
        fields["effort"] = format_responses_effort(reasoning, refused)
        if "summary" in refused:
            omit_parameter(omitted, "reasoning.summary", "the server refused it for this account")
        elif not (reasoning.exclude or reasoning.is_off):
            fields["summary"] = "auto"

    for name in ("mode", "context"):
        if (value := request.parameters.other.get(f"reasoning_{name}")) is not None:
            fields[name] = value

    if fields and "reasoning" in refused:
        omit_parameter(omitted, "reasoning", f"{request.model} does not support it")
        return None
    return fields


def format_responses_effort(
    reasoning: ParsedReasoning, refused: frozenset[str] = frozenset()
) -> str:
    """Return the effort to request, which is none of the `refused` ones.

    Only efforts with a next one are refused (`ResponsesProvider`), so the search has an end.
    """
    level = reasoning.to_level(_ASSUMED_MAX_TOKENS)
    effort = _EFFORTS.get(level, level)
    while f"effort {effort}" in refused:
        effort = NEXT_EFFORTS[effort]
    return effort


def _format_sampling(
    request: ModelRequest, refused: frozenset[str], omitted: Omitted
) -> WireMessage:
    """Return the members for the model parameters, and add those that are not sent to `omitted`."""
    parameters = request.parameters
    sampling: WireMessage = {}

    for name, value in (
        ("max_output_tokens", parameters.max_tokens),
        ("temperature", parameters.temperature),
        ("top_p", parameters.top_p),
    ):
        if value is not None and name in refused:
            omit_parameter(omitted, name, f"{request.model} does not support it")
        elif value is not None:
            sampling[name] = value

    ignored = set[str]()
    if parameters.top_k is not None:
        ignored.add("top_k")
    if parameters.stop_words:
        ignored.add("stop_words")
    for name, extra in parameters.other.items():
        if name in _EXTRAS:
            sampling[name] = extra
        elif name not in ("verbosity", "reasoning_mode", "reasoning_context"):
            ignored.add(name)

    for name in sorted(ignored):
        omit_parameter(omitted, name, "not a parameter of this API")

    return sampling
