"""Resolve the settings of a turn to a provider, a model and tools.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from jp_nb.agent.compaction import INSTRUCTIONS, Summarizer
from jp_nb.agent.inquiry import InquiryModel, LlmInquiryBackend
from jp_nb.agent.provider import (
    Attachment,
    ModelInfo,
    ModelList,
    ModelParameters,
    Provider,
    ToolChoice,
)
from jp_nb.agent.recording import RecordedResults
from jp_nb.agent.tool_set import ToolSet, ToolSources, offer_tools
from jp_nb.agent.turn_state import Resolved
from jp_nb.config import aliases
from jp_nb.config.aliases import resolve_model
from jp_nb.config.layers import Layer
from jp_nb.config.partial import get_path
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.schema import Element, format_path, parse_path
from jp_nb.config.tree.app import AppConfig, CompactionRule, SummaryConfig
from jp_nb.config.tree.assistant import Assistant, QuestionAssistant
from jp_nb.config.tree.models import Llm, ModelId, ParametersConfig
from jp_nb.config.tree.tools import STAR
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError, ProviderError, UsageError
from jp_nb.providers import registry
from jp_nb.session.ask import SessionAnswers
from jp_nb.session.cassettes import hide_key
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.notebook_values import AttachedValues, is_value
from jp_nb.storage.attachments import AttachmentError, Attachments
from jp_nb.tools.base import ToolSource
from jp_nb.tools.builtin import BUILTINS, BuiltinTools
from jp_nb.tools.command import CommandTools
from jp_nb.tools.python import REGISTRY, PythonFunctions

if TYPE_CHECKING:
    from jp_nb.session.cassettes import OpenCassette

ATTACHMENTS = "conversation.attachments"
ANSWERS: Final = "answers questions"
TOOL_SOURCES: Final[tuple[ToolSource, ...]] = (
    PythonFunctions(REGISTRY, BUILTINS),
    CommandTools(),
    BuiltinTools(),
)
"""Where tools come from."""


class Resolver:
    """Resolves the configuration of the active conversation.

    It keeps providers and tool sources open.

    Args:
        active: The conversation.
        sources: Returns the sources of tools that a configuration has.
        hide: Takes secrets out of a text that is recorded on a cassette.
        prepared: Returns what was decided beforehand, as a configuration says where.

    Attributes:
        values: What is said of the variables that are attached.
    """

    def __init__(
        self,
        active: ActiveConversation,
        sources: Callable[[AppConfig], Sequence[ToolSource]] = lambda _: TOOL_SOURCES,
        *,
        hide: Callable[[str], str] = str,
        prepared: Callable[[AppConfig], SessionAnswers] = lambda _: SessionAnswers(),
    ) -> None:
        self._active = active
        self._hide = hide
        self._prepared = prepared
        self._tape: OpenCassette | None = None
        self._sources = ToolSources(sources)
        self._providers: dict[str, Provider] = {}
        self._left: list[Provider] = []
        self._attachments = Attachments()
        self._attached: tuple[Attachment, ...] = ()
        self.values = AttachedValues()

    def for_turn(self, first: Resolved) -> Callable[[], Awaitable[Resolved]]:
        """Return what gives `first`, and then what the configuration in force resolves to."""
        waiting = [first]

        async def resolve() -> Resolved:
            if waiting:
                return waiting.pop()
            conversation_id = self._active.document.conversation.id
            basis = self._active.settings.snapshot()
            return await self.resolve(
                basis, conversation_id, unavailable_reason=first.unavailable_reason
            )

        return resolve

    async def resolve(
        self,
        basis: ConfigSnapshot,
        conversation_id: str,
        *,
        tool_choice: ToolChoice | None = None,
        unavailable_reason: str | None = None,
    ) -> Resolved:
        """Resolve `basis` into provider, model, tools and attachments.

        `tool_choice` counts instead of the configured one. `nobody` says why no person can be
        asked.

        Raises:
            ConfigError: If one of them cannot be had; the message names the path.
            UsageError: If no tool is as `tool_choice` says.
        """
        config = basis.config
        model, provider = self.model(config)
        tools = await self.tools(config, unavailable_reason=unavailable_reason)
        attachments = self.attachments(config)
        return Resolved(
            provider=provider,
            provider_name=model.provider,
            model=model.name,
            system=config.assistant.system_texts(),
            tools=tools,
            tool_choice=(
                _tool_choice(config.assistant.tool_choice, tools)
                if tool_choice is None
                else _asked_for(tool_choice, config, tools)
            ),
            parameters=_parameters(config.assistant.model.parameters),
            request=config.assistant.request,
            attachments=attachments,
            inquiry=self._inquiry(config, tools, (provider, model), attachments, conversation_id),
            interrupts=config.interrupt,
            basis=basis,
            continues_answers=_chains(model.provider, config),
            results=self._results(provider),
            uses_cassette=self._tape is not None,
            unavailable_reason=unavailable_reason,
        )

    def _results(self, provider: Provider) -> RecordedResults | None:
        """Return what has the results of tools in their place; None: they run."""
        if self._tape is None or self._tape.choice.tools != "recorded":
            return None
        from jp_nb.providers.cassette import CassetteProvider

        return provider.results if isinstance(provider, CassetteProvider) else None

    def model(self, config: AppConfig) -> tuple[ModelId, Provider]:
        """Return the model of `config` and who provides it.

        Raises:
            ConfigError: If there is none such.
        """
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        return model, self.provider(model.provider, config.providers.llm)

    def provider(self, name: str, llm: Llm) -> Provider:
        """Return a provider with its settings: the same one as long as they are the same.

        Raises:
            ConfigError: If there is none such, a setting of it is wrong, or a cassette is to answer
                in its place and cannot.
        """
        settings: dict[str, Any]
        if name == "scripted":
            settings = {"folders": [str(self._active.files.folder)]}
        else:
            given = getattr(llm, name, None)  # a known name may have no settings
            settings = given.model_dump() if given is not None else {}
        tape = self._active.cassettes.active
        if tape is not self._tape:
            self._left += self._providers.values()
            self._tape = tape
            self._providers.clear()
        key = json.dumps([name, settings], sort_keys=True)
        if key not in self._providers:
            self._providers[key] = self._made(name, settings)
        return self._providers[key]

    def _made(self, name: str, settings: dict[str, Any]) -> Provider:
        if self._tape is None:
            return registry.create_provider(name, settings)
        from jp_nb.providers.cassette import CassetteProvider

        hide = hide_key(settings.get("api_key_env"), self._hide)
        make = partial(registry.create_provider, name, settings)
        return CassetteProvider(name, make, self._tape, hide)

    def attachments(self, config: AppConfig) -> tuple[Attachment, ...]:
        """Return what `config` attaches, as it is now.

        Raises:
            ConfigError: If something of it cannot be had; the path names it.
        """
        urls = config.conversation.attachments
        files = [url for url in urls if not is_value(url)]
        try:
            found = self._attachments.read(files, self._active.files.root)
            if len(files) == len(urls):
                return found
            values = [each for url in urls if is_value(url) for each in self.values.get(url)]
        except AttachmentError as exc:
            raise self._wrong_attachment(exc) from exc
        if self._attached != (*found, *values):
            self._attached = (*found, *values)
        return self._attached

    def _wrong_attachment(self, error: AttachmentError) -> ConfigError:
        """Return `error` with the place that attached it, and what takes it away there."""
        path = format_path((*parse_path(ATTACHMENTS), Element(error.url)))
        layers = self._active.files.layers()
        layer = next((each for each in layers if error.url in _attached_by(each)), None)
        fix = f"Remove it from this conversation: `%jp config {shlex.quote(f'{path}:=null')}`"
        return ConfigError(
            f"{error}. {fix}",
            path=path,
            layer=layer.name if layer else None,
            file=layer.file if layer else None,
        )

    def _inquiry(
        self,
        config: AppConfig,
        tools: ToolSet,
        own: tuple[Provider, ModelId],
        attachments: tuple[Attachment, ...],
        conversation_id: str,
    ) -> LlmInquiryBackend:
        """Return what answers the questions of `tools`; `own` is the conversation's own model.

        Raises:
            ConfigError: If a model cannot be had; its path is the override's.
        """
        llm = config.providers.llm
        base = aliases.build_inquiry_assistant(config)
        if base.model.id != config.assistant.model.id:
            own = self._override(base, llm, aliases.INQUIRY_MODEL_PATH, ANSWERS)
        overrides: dict[tuple[str, str], InquiryModel] = {}
        for tool in tools.tools.values():
            for question, choice in tool.questions.items():
                if not isinstance(choice.target, QuestionAssistant):
                    continue
                other, theirs = aliases.build_question_assistant(base, choice.target), own
                if other.model.id != base.model.id:
                    path = aliases.target_path(tool.name, question)
                    theirs = self._override(other, llm, path, ANSWERS)
                overrides[tool.name, question] = self._inquiry_model(other, theirs)
        return LlmInquiryBackend(
            default=self._inquiry_model(base, own),
            overrides=overrides,
            tools=tuple(tool.definition for tool in tools.tools.values()),
            attachments=attachments,
            conversation_id=conversation_id,
        )

    async def inquiry(
        self, config: AppConfig, tools: ToolSet, conversation_id: str
    ) -> LlmInquiryBackend:
        """Return what answers the questions of `tools` by asking a model.

        Raises:
            ConfigError: If a model or an attachment cannot be had.
        """
        model, provider = self.model(config)
        attachments = self.attachments(config)
        return self._inquiry(config, tools, (provider, model), attachments, conversation_id)

    def _inquiry_model(self, assistant: Assistant, model: tuple[Provider, ModelId]) -> InquiryModel:
        provider, name = model
        return InquiryModel(
            provider=provider,
            model=name.name,
            full_name=str(name),
            system=assistant.system_texts(),
            parameters=_parameters(assistant.model.parameters),
            request=assistant.request,
            is_replayed=self._tape is not None and self._tape.is_offline,
        )

    def summarizer(self, resolved: Resolved, rule: CompactionRule) -> Summarizer:
        """Return the model that sums up turns for `rule`, in the conversation of `resolved`.

        Raises:
            ConfigError: If it cannot be had.
        """
        config, summary = resolved.basis.config, rule.summary or SummaryConfig()
        assistant = aliases.build_summary_assistant(config, summary)
        path = "conversation.compaction.rules"
        model = self._override(assistant, config.providers.llm, path, "summarizes turns")
        asked = self._inquiry_model(assistant, model)
        return Summarizer(
            model=replace(asked, system=(summary.instructions or INSTRUCTIONS,)),
            context=summary.context or "",
            tools=tuple(tool.definition for tool in resolved.tools.tools.values()),
            conversation_id=self._active.document.conversation.id,
        )

    def _override(
        self, assistant: Assistant, llm: Llm, path: str, does: str
    ) -> tuple[Provider, ModelId]:
        try:
            model = resolve_model(assistant.model.id, llm.aliases, path=path)
            return self.provider(model.provider, llm), model
        except ConfigError as exc:
            text = exc.problems[0].message if exc.path == path else str(exc)
            raise ConfigError(f"the model that {does} cannot be used: {text}", path=path) from exc

    async def tools(self, config: AppConfig, *, unavailable_reason: str | None = None) -> ToolSet:
        """Return the tools that `config` enables; without a user, omit the tools that need one."""
        answered = self._prepared(config).answers_questions_of
        return await offer_tools(
            config, self._sources, unavailable_reason=unavailable_reason, answered=answered
        )

    def take_closing(self) -> list[Coroutine[Any, Any, None]]:
        """Return what closes the providers and the tool sources; none of them is used again."""
        closing = [provider.aclose() for provider in (*self._providers.values(), *self._left)]
        closing.append(self._sources.aclose())
        self._providers.clear()
        self._left.clear()
        return closing


def _attached_by(layer: Layer) -> list[str]:
    """Return what `layer` attaches, as the configuration has it."""
    given = get_path(layer.partial, ATTACHMENTS) or []
    return validate({"conversation": {"attachments": given}}).conversation.attachments


def _tool_choice(choice: str, tools: ToolSet) -> ToolChoice:
    """Return the configured choice. A tool that it names is offered even where it is off."""
    if choice in ("auto", "none", "required"):
        return choice
    if choice not in tools.tools:
        reason = f": {tools.missing[choice]}" if choice in tools.missing else ""
        raise ConfigError(
            f"tool choice '{choice}' does not match any enabled tools{reason}",
            path="assistant.tool_choice",
        )
    return f"tool:{choice}"


def _asked_for(choice: ToolChoice, config: AppConfig, tools: ToolSet) -> ToolChoice:
    """Return the choice that somebody made for one request: what it names has to be on."""
    if choice == "required" and not tools.tools:
        raise UsageError(
            "-u requires a tool call, and no tool is enabled. Enable one with `-t NAME`"
        )
    name = choice.removeprefix("tool:")
    if name == choice:
        return choice
    configured = config.conversation.tools
    if name not in configured and (tools_of_it := config.conversation.list_toolset_tools(name)):
        raise UsageError(
            f"-u takes one tool, and {name!r} is a toolset: {', '.join(tools_of_it)}. "
            "Use -u without a name to require any enabled tool"
        )
    if name == STAR or name not in configured:
        near = difflib.get_close_matches(name, [n for n in configured if n != STAR], n=1)
        raise UsageError(
            f"Tool not found: {name}" + (f"; did you mean {near[0]!r}?" if near else "")
        )
    if not config.conversation.get_tool_state(name)[0]:
        reason = f"it is off; turn it on with `-t {name}` on the same line"
    elif name not in tools.tools:
        reason = tools.missing.get(name, "it is not available here")
    else:
        return choice
    raise UsageError(f"tool choice '{name}' does not match any enabled tools: {reason}")


def _chains(provider: str, config: AppConfig) -> bool:
    """Return whether an answer that reaches the provider's own token limit is gone on with."""
    settings = getattr(config.providers.llm, provider, None)
    chains = getattr(settings, "chain_on_max_tokens", False)
    return bool(chains) and config.assistant.model.parameters.max_tokens is None


def _parameters(given: ParametersConfig) -> ModelParameters:
    return ModelParameters(
        max_tokens=given.max_tokens,
        reasoning=_json(given.reasoning),
        temperature=given.temperature,
        top_p=given.top_p,
        top_k=given.top_k,
        stop_words=tuple(given.stop_words),
        other=given.model_extra or {},
    )


def _json(value: object) -> JsonValue:
    dump = getattr(value, "model_dump", None)
    return dump() if dump is not None else value  # type: ignore[return-value]


KEPT_SECONDS: Final = 300.0
LIST_SECONDS: Final = 20.0
"""How long a provider may take to list its models."""
CHECK_SECONDS: Final = 3.0
"""The same, where nobody asked for the list itself."""
UNKNOWN: Final = "it is unknown whether the provider has this model"


@dataclass(frozen=True, slots=True)
class _Answered:
    provider: Provider
    when: float
    models: ModelList


class ModelCatalog:
    """Asks providers what they offer. Nothing but `models` sends anything.

    Args:
        resolver: Makes providers.
        wait_for: Runs work on the agent's loop, and waits for it.
        clock: Seconds.
    """

    def __init__(
        self,
        resolver: Resolver,
        wait_for: Callable[[Coroutine[Any, Any, ModelList]], ModelList],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._resolver = resolver
        self._wait_for = wait_for
        self._clock = clock
        self._told: dict[str, _Answered] = {}

    def models(
        self, name: str, config: AppConfig, *, refresh: bool = False, seconds: float = LIST_SECONDS
    ) -> ModelList:
        """Return what the provider `name` offers: what it told lately, unless `refresh`.

        Raises:
            ConfigError: If there is no such provider.
            ProviderError: If it does not say.
        """
        provider = self._resolver.provider(name, config.providers.llm)
        told = self._told.get(name)
        fresh = told is not None and self._clock() - told.when < KEPT_SECONDS
        if told is not None and told.provider is provider and fresh and not refresh:
            return told.models
        found = self._wait_for(provider.models(seconds=seconds))
        self._told[name] = _Answered(provider, self._clock(), found)
        return found

    def known_models(self, config: AppConfig) -> Iterator[str]:
        """Yield what providers told in this kernel, as `provider/name`. Sends nothing."""
        for name, told in self._told.items():
            if self._is_same(name, told, config):
                yield from (f"{name}/{model.id}" for model in told.models.models)

    def _is_same(self, name: str, told: _Answered, config: AppConfig) -> bool:
        try:
            return self._resolver.provider(name, config.providers.llm) is told.provider
        except ConfigError:
            return False

    def describe_current(self, config: AppConfig) -> str:
        """Return what the provider in force says about the model in force, in a few words.

        Raises:
            ConfigError: If there is no such model.
        """
        model, _ = self._resolver.model(config)
        try:
            listed = self.models(model.provider, config, seconds=CHECK_SECONDS)
        except ProviderError as exc:
            return f"{UNKNOWN}: {exc}"
        found = listed.find(model.name)
        if found is not None:
            return format_deprecation(found) or f"{model.provider} lists this model"
        if listed.is_cut or not listed.models:
            return f"{UNKNOWN}: the model list of {model.provider} is incomplete"
        return (
            f"⚠ {model.provider} does not list {model.name}. It may still work, for "
            f"example as a short name. Show the list: `%jp models {model.provider}`"
        )


def format_deprecation(model: ModelInfo) -> str:
    """Return that `model` ends, or has ended, and what to do; "" if nobody said so."""
    if not model.state:
        return ""
    when = f" on {model.ends}" if model.ends else ""
    what = f"ends{when}" if when else "is deprecated"
    if model.state == "retired":
        what = f"has ended{f': {model.ends}' if when else ''}"
    return f"⚠ {model.id} {what}, according to its provider. Show other models: `%jp models`"
