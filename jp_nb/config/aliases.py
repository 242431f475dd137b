"""Short forms: model aliases, tools switched on and off, overrides for single questions.

The model for an inquiry is merged from three places like layers, field by field, the lowest first:
`assistant`, `conversation.inquiry.assistant`, and the table in
`conversation.tools.<tool>.questions.<id>.target`. Texts, the model and limits replace, parameters
merge by name, sections and instructions append.

Source: `docs/configuration.md`, `docs/turns.md` (RFD 034), `docs/turns.md`, `docs/decisions.md`
D91.
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
"""Characters of an unknown name that are compared with the known ones."""
_FAMILY: Final = re.compile(
    r"(?P<openai>gpt-|chatgpt-|o[1-9](?:-|$))|(?P<anthropic>claude|opus|sonnet|haiku)"
    r"|(?P<deepseek>deepseek-)|(?P<ollama>(?:llama|qwen|gemma|mistral|phi)[0-9.]*(?:[:-]|$))"
)
"""Beginnings of models' names, by the provider that serves them."""

Aliases = Mapping[str, Any]
"""Model ids, names of aliases, and tables of provider and name, by alias."""


def get_aliases(partial: Mapping[str, Any]) -> Aliases:
    """The aliases that `partial` sets."""
    found = get_path(partial, ALIASES)
    return found if isinstance(found, dict) else {}


# --- one reference ---------------------------------------------------------------------------


def resolve_model(reference: ModelId | str, aliases: Aliases, *, path: str = MODEL_PATH) -> ModelId:
    """The model that `reference` names, through as many aliases as it takes.

    A name that is no alias may be a whole `provider/name`.

    Raises:
        ConfigError: If it is neither, or any aliases go in circles, used here or not.
    """
    check_aliases(aliases)
    return _resolved(reference, aliases, path)


def _resolved(reference: ModelId | str, aliases: Aliases, path: str) -> ModelId:
    """As `resolve_model`, of aliases that do not go in circles."""
    while isinstance(reference, str) and (reference := reference.strip()) in aliases:
        path, reference = format_path([*_ALIAS_KEYS, reference]), aliases[reference]
    if isinstance(reference, str) and "/" not in reference:
        known = ", ".join(sorted(aliases)) or "none is defined"
        near = _nearest(reference, aliases)
        meant = f": did you mean {near!r}?" if near else ""
        raise ConfigError(
            f"{shorten_for_error(reference)!r} is neither an alias (known: {known}) nor "
            f"`provider/name`{meant}",
            path=path,
        )
    return _model(reference, path)


def _nearest(reference: str, aliases: Aliases) -> str | None:
    """Return the alias or the model id that `reference` may mean; None if nothing is near."""
    if near := difflib.get_close_matches(reference[:MAX_NAME_CHARS], aliases, n=1):
        return near[0]
    known = _FAMILY.match(reference.lower())
    if known is None or not MODEL_NAME.fullmatch(reference) or len(reference) > MAX_NAME_CHARS:
        return None
    return f"{known.lastgroup}/{reference}"


def _model(value: Any, path: str) -> ModelId:
    """The model of a table or of `provider/name`."""
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
    """Raise `ConfigError` if aliases go in circles, whether anything refers to them or not."""
    fine: set[str] = set()
    for alias in aliases:
        chain: list[str] = []
        target: Any = alias
        while isinstance(target, str) and target in aliases and target not in fine:
            if target in chain:
                circle = [*chain[chain.index(target) :], target]
                raise ConfigError(
                    f"these aliases form a cycle: {' -> '.join(circle)}", path=ALIASES
                )
            chain.append(target)
            target = aliases[target]
        fine.update(chain)


def parse_model_reference(text: str) -> ModelId | str:
    """A full id or an alias, as written.

    Raises:
        ConfigError: If it has a `/` and is no valid id; unknown providers list the valid ones.
    """
    try:
        found = read_model_id(text)
    except ValueError as exc:
        raise ConfigError(str(exc), path=MODEL_PATH) from exc
    return found if isinstance(found, str) else ModelId(**found)


# --- all references of a configuration -------------------------------------------------------


def list_model_references(config: AppConfig) -> list[tuple[str, ModelId | str]]:
    """Every model that `config` names, with its path, but for the aliases themselves."""
    found: list[tuple[str, ModelId | str]] = []

    def note(path: str, reference: Any) -> Any:
        found.append((path, reference if isinstance(reference, str) else ModelId(**reference)))
        return reference

    map_models(ROOT, config.model_dump(mode="json", exclude_none=True), note)
    return found


def resolve_partial(partial: Mapping[str, JsonValue], aliases: Aliases) -> dict[str, JsonValue]:
    """Return `partial` with models in place of aliases, as far as `aliases` tell.

    What cannot be resolved stays as it is. Done before a delta is stored, so that it means the
    same model after the aliases changed.
    """
    return resolve_references(partial, aliases)[0]


def resolve_references(
    partial: Mapping[str, JsonValue], aliases: Aliases
) -> tuple[dict[str, JsonValue], list[tuple[str, str]]]:
    """As `resolve_partial`; also return path and text of what stays a name."""
    unresolved: list[tuple[str, str]] = []
    try:
        check_aliases(aliases)
        in_circles = False
    except ConfigError:
        in_circles = True

    def settle(path: str, reference: Any) -> Any:
        if not isinstance(reference, str):
            return reference
        try:
            if reference.strip() and not in_circles:
                return dict(_resolved(reference, aliases, path))
        except ConfigError:
            pass  # its name is what is left of it
        unresolved.append((path, reference))
        return reference

    return map_models(ROOT, dict(partial), settle), unresolved


Settle = Callable[[str, Any], Any]
"""From the path of a reference, and the reference, to what is to stand there."""


def map_models(
    node: SchemaNode | None, value: Any, settle: Settle, keys: tuple[str, ...] = ()
) -> Any:
    """Return `value` of `node`, with every reference in it settled."""
    if value is None or node is None or node.kind == "json" or keys == _ALIAS_KEYS:
        return value
    if node.table is ModelId:
        return settle(format_path(keys), value)
    if is_wrapper(value, node):
        return {**value, "value": map_models(node, value["value"], settle, keys)}
    if isinstance(value, list) and node.kind == "list":
        numbered = enumerate(value)
        return [map_models(node.item, x, settle, (*keys, str(i))) for i, x in numbered]
    if not isinstance(value, dict):
        return value
    return {k: map_models(node.child(k), v, settle, (*keys, k)) for k, v in value.items()}


INQUIRY_MODEL_PATH: Final = "conversation.inquiry.assistant.model"
RETRIES: Final = {"max_retries": 3, "base_backoff_ms": 1000, "max_backoff_secs": 30}
"""Retries of a request that nobody watches, unless an override says otherwise."""


def target_path(tool: str, question_id: str) -> str:
    """The path of what a user says about who answers a question."""
    return f"conversation.tools.{tool}.questions.{question_id}.target"


def background_request() -> Request:
    """The limits of a request that nobody watches."""
    return Request(**RETRIES)


def build_inquiry_assistant(config: AppConfig) -> Assistant:
    """The assistant that answers questions without overrides of their own.

    A ceiling of 0 bytes means the conversation's here.
    """
    own = config.assistant
    quiet = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes = _changes(config.conversation.inquiry.assistant)
    request = changes.get("request")
    if isinstance(request, dict) and request.get("max_response_bytes") == 0:
        del request["max_response_bytes"]
    return _over(quiet, changes)


def build_question_assistant(base: Assistant, target: QuestionAssistant) -> Assistant:
    """The assistant that answers one question: what `target` sets, over `base`.

    A ceiling of 0 bytes means none here.
    """
    return _over(base, _changes(target))


def build_summary_assistant(config: AppConfig, summary: SummaryConfig) -> Assistant:
    """The assistant that sums up turns: the conversation's own, with the model that `summary` says.

    Parameters merge by name where it says no other model; another one has its own alone.
    """
    own = config.assistant
    quiet = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes: Partial = summary.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    if summary.model.id is None:
        return _over(quiet, {"model": changes} if changes else {})
    return quiet.model_copy(update={"model": Model.model_validate(changes)})


def _changes(overrides: AssistantOverrides) -> Partial:
    """Return what is set. Never a tool choice: who answers a question calls no tool."""
    changes: Partial = overrides.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    changes.pop("tool_choice", None)
    return changes


def _over(assistant: Assistant, changes: Partial) -> Assistant:
    if not changes:
        return assistant
    below = {"assistant": assistant.model_dump(mode="json")}
    return Assistant.model_validate(merge(below, {"assistant": changes})["assistant"])


_BARE = frozenset({"any"})
_GROUP = frozenset({"any", "if_named_or_group"})
"""Rules under which a tool is switched along with others: with all, or with its toolset."""


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
    """Return the change that switches tool `name` on or off; with "" every tool that lets itself.

    A toolset, unless a tool has that name, is all its tools that let themselves. Only the state
    changes, never who may change it. What is so already is left out.

    Raises:
        ConfigError: If `name` is locked, or every tool of that toolset.
    """
    conversation = config.conversation
    if not name:
        return _states(_willing(config, conversation.tools.keys() - {STAR}, _BARE, on=on), on=on)
    if name not in conversation.tools:
        return _toolset_toggled(config, name, on=on)
    state, rule = conversation.get_tool_state(name)
    if state == on:
        return Change()
    if rule == "never":
        raise _locked(f"`{name}`: this tool is", f"conversation.tools.{name}.enable", on=on)
    return _states([name], on=on)


def _toolset_toggled(config: AppConfig, name: str, *, on: bool) -> Change:
    conversation = config.conversation
    tools = conversation.list_toolset_tools(name)
    willing = _willing(config, tools, _GROUP, on=on)
    if not willing and tools and all(conversation.get_tool_state(x)[0] != on for x in tools):
        raise _locked(
            f"the toolset `{name}`: all its tools are", f"conversation.toolsets.{name}", on=on
        )
    return _states(willing, on=on)


def _willing(
    config: AppConfig, names: Collection[str], rules: Collection[str], *, on: bool
) -> list[str]:
    """Return those of `names` that are not `on` and let themselves be switched under `rules`."""
    found = {
        name: config.conversation.get_tool_state(name)
        for name in config.conversation.tools
        if name in names
    }
    return [name for name, (state, rule) in found.items() if state != on and rule in rules]


def _locked(what: str, path: str, *, on: bool) -> ConfigError:
    verb, state = ("enable", "off") if on else ("disable", "on")
    return ConfigError(f"cannot {verb} {what} configured as locked-{state}", path=path)


def _states(names: Sequence[str], *, on: bool) -> Change:
    tools: Partial = {name: {"enable": {"state": on}} for name in names}
    return Change({"conversation": {"tools": tools}}) if tools else Change()
