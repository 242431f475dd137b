"""Resolve model aliases, build the assistants of inquiries and summaries, and toggle tools.

The assistant of an inquiry is merged from three sources. Later ones have priority:

1. `assistant`
2. `conversation.inquiry.assistant`
3. the table `conversation.tools.<tool>.questions.<id>.target`

A later text, model, or limit replaces the earlier one. Parameters are merged by name. Sections and
instructions are appended.

Source: `docs/configuration.md`, `docs/turns.md` (RFD 034), `docs/decisions.md` D91.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.partial import Change, Partial, get_path, is_wrapper, merge
from jp_nb.config.schema import ROOT, SchemaNode, format_path
from jp_nb.config.tree.app import AppConfig, SummaryConfig
from jp_nb.config.tree.assistant import Assistant, AssistantOverrides, QuestionAssistant
from jp_nb.config.tree.base import shorten_for_error
from jp_nb.config.tree.models import MODEL_NAME, Model, ModelId, Request, read_model_id
from jp_nb.config.tree.tools import STAR
from jp_nb.errors import ConfigError

MODEL_PATH = "assistant.model.id"
ALIASES = "providers.llm.aliases"
_ALIAS_KEYS = tuple(ALIASES.split("."))

MAX_NAME_CHARS: Final = 60
"""Maximum characters of an unknown name that is compared with known names."""
_FAMILY: Final = re.compile(
    r"(?P<openai>gpt-|chatgpt-|o[1-9](?:-|$))|(?P<anthropic>claude|opus|sonnet|haiku)"
    r"|(?P<deepseek>deepseek-)|(?P<ollama>(?:llama|qwen|gemma|mistral|phi)[0-9.]*(?:[:-]|$))"
)
"""Prefixes of model names. The group is the provider that serves the models."""

Aliases = Mapping[str, Any]
"""Model ids, names of other aliases, or tables of provider and name, by alias."""


def get_aliases(partial: Mapping[str, Any]) -> Aliases:
    """Return the aliases in `partial`."""
    found = get_path(partial, ALIASES)
    return found if isinstance(found, dict) else {}


def resolve_model(reference: ModelId | str, aliases: Aliases, *, path: str = MODEL_PATH) -> ModelId:
    """Return the model of `reference`, an alias or `provider/name`.

    Raises:
        ConfigError: If it is neither, or if any aliases form a cycle.
    """
    check_aliases(aliases)
    return _resolve(reference, aliases, path)


def _resolve(reference: ModelId | str, aliases: Aliases, path: str) -> ModelId:
    while isinstance(reference, str) and (reference := reference.strip()) in aliases:
        path, reference = format_path([*_ALIAS_KEYS, reference]), aliases[reference]
    if isinstance(reference, str) and "/" not in reference:
        known = ", ".join(sorted(aliases)) or "none is defined"
        near = _find_similar(reference, aliases)
        meant = f": did you mean {near!r}?" if near else ""
        raise ConfigError(
            f"{shorten_for_error(reference)!r} is neither an alias (known: {known}) nor "
            f"`provider/name`{meant}",
            path=path,
        )
    return _parse_model(reference, path)


def _find_similar(reference: str, aliases: Aliases) -> str | None:
    if near := difflib.get_close_matches(reference[:MAX_NAME_CHARS], aliases, n=1):
        return near[0]
    known = _FAMILY.match(reference.lower())
    if known is None or not MODEL_NAME.fullmatch(reference) or len(reference) > MAX_NAME_CHARS:
        return None
    return f"{known.lastgroup}/{reference}"


def _parse_model(value: Any, path: str) -> ModelId:
    if isinstance(value, ModelId):
        return value
    try:
        table = read_model_id(value)
        if isinstance(table, dict):
            if set(table) != {"provider", "name"}:
                raise ValueError("expected a model id: a table of provider and name")
            table = read_model_id(f"{table['provider']}/{table['name']}")
    except ValueError as exc:
        raise ConfigError(str(exc), path=path) from exc
    return ModelId(**table)


def check_aliases(aliases: Aliases) -> None:
    """Raise `ConfigError` if aliases form a cycle, even if no setting uses them."""
    checked: set[str] = set()
    for alias in aliases:
        chain: list[str] = []
        target: Any = alias
        while isinstance(target, str) and target in aliases and target not in checked:
            if target in chain:
                cycle = [*chain[chain.index(target) :], target]
                raise ConfigError(f"these aliases form a cycle: {' -> '.join(cycle)}", path=ALIASES)
            chain.append(target)
            target = aliases[target]
        checked.update(chain)


def parse_model_reference(text: str) -> ModelId | str:
    """Return a model id, or the name of an alias.

    Raises:
        ConfigError: If the text has a `/` and is not a valid id. For an unknown provider, the
            message lists the valid ones.
    """
    try:
        model = read_model_id(text)
    except ValueError as exc:
        raise ConfigError(str(exc), path=MODEL_PATH) from exc
    return model if isinstance(model, str) else ModelId(**model)


def resolve_partial(partial: Mapping[str, JsonValue], aliases: Aliases) -> dict[str, JsonValue]:
    """Return `partial` with models in place of known aliases.

    A stored change then keeps its model if an alias changes later.
    """
    return resolve_references(partial, aliases)[0]


def resolve_references(
    partial: Mapping[str, JsonValue], aliases: Aliases
) -> tuple[dict[str, JsonValue], list[tuple[str, str]]]:
    """Resolve as `resolve_partial` does, and return the path and name of each unknown alias too."""
    unresolved: list[tuple[str, str]] = []
    try:
        check_aliases(aliases)
        have_cycle = False
    except ConfigError:
        have_cycle = True

    def replace_model(path: str, reference: Any) -> Any:
        if not isinstance(reference, str):
            return reference
        try:
            if reference.strip() and not have_cycle:
                return dict(_resolve(reference, aliases, path))
        except ConfigError:
            pass  # the name is kept
        unresolved.append((path, reference))
        return reference

    return map_models(ROOT, dict(partial), replace_model), unresolved


ReplaceModel = Callable[[str, Any], Any]
"""Returns the replacement of a model reference, from its path and value."""


def map_models(
    node: SchemaNode | None, value: Any, replace_model: ReplaceModel, keys: tuple[str, ...] = ()
) -> Any:
    """Return `value`, which belongs to `node`, with each model replaced by `replace_model`."""
    if value is None or node is None or node.kind == "json" or keys == _ALIAS_KEYS:
        return value
    if node.table is ModelId:
        return replace_model(format_path(keys), value)
    if is_wrapper(value, node):
        return {**value, "value": map_models(node, value["value"], replace_model, keys)}
    if isinstance(value, list) and node.kind == "list":
        numbered = enumerate(value)
        return [map_models(node.item, x, replace_model, (*keys, str(i))) for i, x in numbered]
    if not isinstance(value, dict):
        return value
    return {k: map_models(node.child(k), v, replace_model, (*keys, k)) for k, v in value.items()}


INQUIRY_MODEL_PATH: Final = "conversation.inquiry.assistant.model"
RETRIES: Final = {"max_retries": 3, "base_backoff_ms": 1000, "max_backoff_secs": 30}
"""Default retries of background requests: inquiries and summaries."""


def target_path(tool: str, question_id: str) -> str:
    """Return the path of the setting that selects who answers a question."""
    return f"conversation.tools.{tool}.questions.{question_id}.target"


def background_request() -> Request:
    """Return the retries and limits of background requests."""
    return Request(**RETRIES)


def build_inquiry_assistant(config: AppConfig) -> Assistant:
    """Return the assistant for questions that have no settings of their own.

    A `max_response_bytes` of 0 in the overrides inherits the limit of the conversation.
    """
    own = config.assistant
    base = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes = _dump_overrides(config.conversation.inquiry.assistant)
    request = changes.get("request")
    if isinstance(request, dict) and request.get("max_response_bytes") == 0:
        del request["max_response_bytes"]
    return _merge_overrides(base, changes)


def build_question_assistant(base: Assistant, target: QuestionAssistant) -> Assistant:
    """Return the assistant that answers one question: `base` with the settings of `target`.

    A `max_response_bytes` of 0 in `target` removes the limit.
    """
    return _merge_overrides(base, _dump_overrides(target))


def build_summary_assistant(config: AppConfig, summary: SummaryConfig) -> Assistant:
    """Return the assistant that summarizes turns.

    It is the assistant of the conversation with the model of `summary`. Another model does not
    inherit the parameters of the conversation's model.
    """
    own = config.assistant
    base = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes: Partial = summary.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    if summary.model.id is None:
        return _merge_overrides(base, {"model": changes} if changes else {})
    return base.model_copy(update={"model": Model.model_validate(changes)})


def _dump_overrides(overrides: AssistantOverrides) -> Partial:
    changes: Partial = overrides.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    changes.pop("tool_choice", None)  # a model that answers a question calls no tool
    return changes


def _merge_overrides(assistant: Assistant, changes: Partial) -> Assistant:
    if not changes:
        return assistant
    below = {"assistant": assistant.model_dump(mode="json")}
    return Assistant.model_validate(merge(below, {"assistant": changes})["assistant"])


_TOOLSET_RULES = frozenset({"any", "if_named_or_group"})
"""Toggle rules under which a tool is switched with its toolset."""


def require_tools(config: AppConfig, names: Iterable[str]) -> None:
    """Raise `ConfigError` unless all `names` are tools or toolsets of `config`."""
    tools, toolsets = config.conversation.tools, config.conversation.list_toolsets()
    known = {*tools, *toolsets} - {STAR}
    missing = list(dict.fromkeys(name for name in names if name not in known))
    if missing:
        word = "Tool" if len(missing) == 1 else "Tools"
        listed = f"; toolsets are {', '.join(toolsets)}" if toolsets else ""
        raise ConfigError(
            f"{word} not found: {', '.join(missing)}{listed}", path="conversation.tools"
        )


def toggle_tools(config: AppConfig, name: str, *, on: bool) -> Change:
    """Return the change that switches a tool or toolset on or off; "" for all tools.

    Of a toolset, or of all tools, only the tools whose toggle rule allows it are switched. The
    change does not set toggle rules.

    Raises:
        ConfigError: If the tool, or each tool of the toolset, is locked.
    """
    conversation = config.conversation
    if not name:
        tools = conversation.tools.keys() - {STAR}
        return _set_states(_find_switchable(config, tools, {"any"}, on=on), on=on)
    if name not in conversation.tools:
        return _toggle_toolset(config, name, on=on)
    state, rule = conversation.get_tool_state(name)
    if state == on:
        return Change()
    if rule == "never":
        raise _create_locked_error(
            f"`{name}`: this tool is", f"conversation.tools.{name}.enable", on=on
        )
    return _set_states([name], on=on)


def _toggle_toolset(config: AppConfig, name: str, *, on: bool) -> Change:
    conversation = config.conversation
    tools = conversation.list_toolset_tools(name)
    switchable = _find_switchable(config, tools, _TOOLSET_RULES, on=on)
    if not switchable and tools and all(conversation.get_tool_state(x)[0] != on for x in tools):
        raise _create_locked_error(
            f"the toolset `{name}`: all its tools are", f"conversation.toolsets.{name}", on=on
        )
    return _set_states(switchable, on=on)


def _find_switchable(
    config: AppConfig, names: Collection[str], rules: Collection[str], *, on: bool
) -> list[str]:
    states = {
        name: config.conversation.get_tool_state(name)
        for name in config.conversation.tools
        if name in names
    }
    return [name for name, (state, rule) in states.items() if state != on and rule in rules]


def _create_locked_error(subject: str, path: str, *, on: bool) -> ConfigError:
    verb, state = ("enable", "off") if on else ("disable", "on")
    return ConfigError(f"cannot {verb} {subject} configured as locked-{state}", path=path)


def _set_states(names: Sequence[str], *, on: bool) -> Change:
    tools: Partial = {name: {"enable": {"state": on}} for name in names}
    return Change({"conversation": {"tools": tools}}) if tools else Change()
