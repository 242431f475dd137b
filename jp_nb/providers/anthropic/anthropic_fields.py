"""Anthropic Messages: the members of a request besides its messages.

Models differ in the members that they accept; `Abilities` (`anthropic_models.py`) has the
differences. Its `thinking` is the set of accepted values of `thinking.type`: `adaptive` is thinking
by an effort, `enabled` by a number of tokens, and `disabled` none. A model that `thinks_unasked`
also thinks for a request without this member. A parameter that a model does not accept is not sent,
and the caller tells the user.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jp_nb.agent.provider import ModelRequest, ToolChoice, ToolDefinition
from jp_nb.providers.anthropic.anthropic_blocks import CACHE_MARK, make_text_block
from jp_nb.providers.anthropic.anthropic_models import Abilities
from jp_nb.providers.anthropic.anthropic_strict_tools import select_strict_tools
from jp_nb.providers.request_parts.call_rules import ANTHROPIC_CALLS
from jp_nb.providers.request_parts.head_changes import describe_forced_call
from jp_nb.providers.request_parts.omission_reports import Omitted, omit_parameter
from jp_nb.providers.request_parts.parameter_names import ParameterNames
from jp_nb.providers.request_parts.reasoning_effort import parse_reasoning
from jp_nb.providers.request_parts.request_body import WireMessage
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

_MIN_BUDGET: Final = 1024
"""Smallest number of tokens for thinking that the API accepts."""
_NO_THINKING: Final[WireMessage] = {"type": "disabled"}
_EFFORT_OF_LEVEL: Final[Mapping[str, str | None]] = {"auto": None, "xlow": "low"}
"""The API's effort for a level that has another name here. None: the model decides."""
_BINDING_BETA: Final = "thinking-binding-controls"
"""With this beta, the API drops thinking whose beginning has changed, and does not refuse it."""


def build_request_fields(
    request: ModelRequest,
    *,
    answer: AnswerSchema | None = None,
    betas: str = "",
    abilities: Abilities | None = None,
    appends: bool = False,
    omitted: Omitted | None = None,
) -> WireMessage:
    """Return all members of the request body except `messages`.

    Sets three of the four cache markers that the API allows: on the last system text, on the last
    tool, and the automatic one at the end of the messages. `format_attachments` sets the fourth.

    Args:
        request: The request.
        answer: The schema of a structured answer.
        betas: The header `anthropic-beta`.
        abilities: The parts of a request that the model accepts; None to take them from its name.
        appends: True if the messages contain the demand to call a tool, as an appended change.
        omitted: Receives the parameters that are not sent, each with the reason.
    """
    omitted = {} if omitted is None else omitted
    abilities = abilities or Abilities.of(request.model)
    max_tokens = _limit_answer(request, abilities, omitted)
    thinking, effort = _format_thinking(request, max_tokens, abilities, betas, omitted)
    thinks_unasked = thinking is None and abilities.thinks_unasked
    is_thinking = thinks_unasked or thinking not in (None, _NO_THINKING)

    system = [make_text_block(text) for text in request.system if text.strip()]
    if system:
        system[-1]["cache_control"] = CACHE_MARK

    tools = format_tools(request.tools, strict=abilities.strict)

    fields: WireMessage = {
        "model": request.model,
        "max_tokens": max_tokens,
        "stream": True,
        "cache_control": CACHE_MARK,
    }

    if tools:
        tools[-1]["cache_control"] = CACHE_MARK
        choice = request.tool_choice
        if is_thinking and choice not in ("auto", "none"):
            # The API rejects a forced tool with thinking. The instruction follows the cached part.
            if not appends:
                system.append(make_text_block(describe_forced_call(choice)))
            choice = "auto"
        fields["tools"] = tools
        fields["tool_choice"] = _format_tool_choice(choice, len(tools))

    if system:
        fields["system"] = system
    if thinking is not None:
        fields["thinking"] = thinking

    output: WireMessage = {}
    if effort is not None:
        output["effort"] = effort
    if answer is not None:
        output["format"] = {"type": "json_schema", "schema": answer.schema}
    if output:
        fields["output_config"] = output

    return fields | _format_sampling(request, abilities, thinking=is_thinking, omitted=omitted)


def format_tools(tools: Sequence[ToolDefinition], *, strict: bool) -> list[WireMessage]:
    """Return the definitions of `tools`. If `strict`, the API enforces as many as it can.

    Names of parameters that the API refuses are replaced by accepted ones (`ParameterNames`).
    """
    parameters = [ParameterNames.of(tool, ANTHROPIC_CALLS).format_schema() for tool in tools]
    enforced = select_strict_tools(parameters) if strict else {}

    formatted: list[WireMessage] = []
    for index, tool in enumerate(tools):
        fields: WireMessage = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": enforced.get(index, parameters[index]),
        }
        if index in enforced:
            fields["strict"] = True
        formatted.append(fields)
    return formatted


def _limit_answer(request: ModelRequest, abilities: Abilities, omitted: Omitted) -> int:
    """Return the maximum length of the answer, which the API requires."""
    tokens = request.parameters.max_tokens or abilities.max_tokens
    limit = abilities.max_output
    if limit is None or tokens <= limit:
        return tokens
    why = f"{request.model} writes at most {limit:,} tokens, which is sent"
    omit_parameter(omitted, f"max_tokens = {tokens}", why)
    return limit


def _format_sampling(
    request: ModelRequest, abilities: Abilities, *, thinking: bool, omitted: Omitted
) -> WireMessage:
    """Return the members for the model parameters. `thinking` is True if the model thinks."""
    parameters = request.parameters
    sampling: WireMessage = {}

    for name, value in (
        ("temperature", parameters.temperature),
        ("top_p", parameters.top_p),
        ("top_k", parameters.top_k),
    ):
        if value is None:
            continue
        if not abilities.sampling:
            omit_parameter(omitted, name, f"{request.model} does not support this parameter")
        elif thinking and name != "top_p":
            omit_parameter(omitted, name, "not allowed with reasoning")
        else:
            sampling[name] = value

    if parameters.stop_words:
        sampling["stop_sequences"] = list(parameters.stop_words)

    for name, extra in parameters.other.items():
        if name == "context_management":
            sampling[name] = extra
        else:
            omit_parameter(omitted, name, "not a parameter of this API")

    return sampling


def _format_thinking(
    request: ModelRequest, max_tokens: int, abilities: Abilities, betas: str, omitted: Omitted
) -> tuple[WireMessage | None, str | None]:
    """Return the members `thinking` and `output_config.effort`; None: not sent."""
    reasoning = parse_reasoning(request.parameters.reasoning)
    if reasoning is None:
        return None, None

    if reasoning.is_off:
        thinking = _NO_THINKING if "disabled" in abilities.thinking else None
        return thinking, None

    display = "omitted" if reasoning.exclude else "summarized"
    shared: WireMessage = {"display": display}
    if _BINDING_BETA in betas:
        shared["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}

    if "adaptive" in abilities.thinking:
        level = reasoning.to_level(max_tokens)
        wanted = _EFFORT_OF_LEVEL.get(level, level)
        effort = None if wanted is None else abilities.find_nearest_effort(wanted)
        if effort != wanted:
            sent = f"; `{effort}` is sent" if effort else ""
            why = f"{request.model} does not support this effort{sent}"
            omit_parameter(omitted, f"reasoning = {wanted}", why)
        return {"type": "adaptive", **shared}, effort

    if "enabled" not in abilities.thinking:
        omit_parameter(omitted, "reasoning", f"{request.model} does not support this parameter")
        return None, None

    # The budget is a part of `max_tokens`, unless thinking between calls has its own budget.
    budget = max(reasoning.to_tokens(max_tokens), _MIN_BUDGET)
    if "interleaved-thinking" not in betas:
        budget = min(budget, max_tokens - 1)

    if budget < _MIN_BUDGET:
        return None, None  # the answer is too short for thinking
    return {"type": "enabled", "budget_tokens": budget, **shared}, None


def _format_tool_choice(choice: ToolChoice, tool_count: int) -> WireMessage:
    name = choice.removeprefix("tool:")
    is_named = name != choice
    if not is_named:
        kind = "any" if choice == "required" else choice
        return {"type": kind}

    # Models ignore the named form if there is only one tool. `any` has the same meaning.
    if tool_count == 1:
        return {"type": "any"}
    return {"type": "tool", "name": name}
