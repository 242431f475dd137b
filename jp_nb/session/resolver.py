"""Resolve the settings of a turn to a provider, a model, tools, and attachments.

A part that is not available is a `ConfigError` with the path of its setting.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from jp_nb.agent.chat_model import ChatModel
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.exchanges import FindRecordedResults
from jp_nb.agent.inquiry import LlmInquiryBackend
from jp_nb.agent.provider import (
    Attachment,
    ModelInfo,
    ModelList,
    ModelParameters,
    Provider,
    ToolChoice,
)
from jp_nb.agent.summarizer import SUMMARY_INSTRUCTIONS, Summarizer
from jp_nb.agent.tool_set import ToolSet, offer_tools
from jp_nb.agent.tool_sources import SourceAttempt, ToolSources
from jp_nb.config.aliases import resolve_model
from jp_nb.config.layers import Layer
from jp_nb.config.partial import Partial, get_path, merge_partials
from jp_nb.config.proposal import ConfigSnapshot
from jp_nb.config.schema import Element, format_path, parse_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.compaction_settings import CompactionRule, SummaryConfig
from jp_nb.config.tree.model_settings import (
    BACKGROUND_RETRIES,
    Assistant,
    AssistantOverrides,
    Llm,
    Model,
    ModelId,
    ParametersConfig,
    QuestionAssistant,
)
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError, ProviderError, ToolSourceError, UsageError
from jp_nb.providers import create_provider, create_server
from jp_nb.providers.scripted import SCRIPTED_NAME as SCRIPTED
from jp_nb.providers.scripted import ScriptedProvider
from jp_nb.session.answers import SessionAnswers
from jp_nb.session.cassettes import CassetteProvider, OpenCassette, hide_key
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.notebook_values import AttachedValues, is_value
from jp_nb.session.scripts import FolderScripts
from jp_nb.session.servers import ServerSources
from jp_nb.storage.attachments import AttachmentError, Attachments
from jp_nb.toolkit.base import ToolSource
from jp_nb.toolkit.builtin import BUILTINS, BuiltinTools
from jp_nb.toolkit.command import CommandTools
from jp_nb.toolkit.python import REGISTRY, PythonFunctions

ATTACHMENTS = "conversation.attachments"
INQUIRY_MODEL_PATH: Final = "conversation.inquiry.assistant.model"
QUESTION_PURPOSE: Final = "answers questions"
CACHE_SECONDS: Final = 300.0
"""Lifetime of a cached model list."""
RETRY_SECONDS: Final = 5.0
"""Time until completion requests a list again that failed."""
TAB_SECONDS: Final = 0.4
"""Maximum wait of completion for a list."""
LIST_SECONDS: Final = 20.0
"""Limit for a provider to list its models."""
CHECK_SECONDS: Final = 3.0
"""Limit to list models if the user did not ask for the list."""
MODEL_UNKNOWN: Final = "it is unknown whether the provider has this model"
LOCAL_TOOL_SOURCES: Final[tuple[ToolSource, ...]] = (
    PythonFunctions(REGISTRY, BUILTINS),
    CommandTools(),
    BuiltinTools(),
)
"""The sources of each configuration. Those of servers are made by `ServerSources`."""


class Resolver:
    """Resolves the configuration of the active conversation, and keeps its providers open.

    `hide` removes secrets from text that is recorded on a cassette. `sources` and `load_answers`
    return the tool sources and the prepared answers of a configuration. `before_sending` gets the
    provider and its name before a request that is not of the turn's own model.
    """

    def __init__(
        self,
        active: ActiveConversation,
        sources: Callable[[AppConfig], Sequence[ToolSource]] | None = None,
        *,
        hide: Callable[[str], str] = str,
        load_answers: Callable[[AppConfig], SessionAnswers] = lambda _: SessionAnswers(),
        before_sending: Callable[[Provider, str], None] = lambda provider, name: None,
    ) -> None:
        self._active = active
        self._hide = hide
        self._load_answers = load_answers
        self._before_sending = before_sending
        self._cassette: OpenCassette | None = None
        self.servers = ServerSources(active)
        self._sources = ToolSources(sources or self._list_sources)
        self._providers: dict[str, Provider] = {}
        self._replaced_providers: list[Provider] = []
        self._attachments = Attachments()
        self._attached: tuple[Attachment, ...] = ()
        self.values = AttachedValues()
        self.scripts = FolderScripts(active)
        self.find_context_tokens: Callable[[ModelId], int | None] = lambda model: None

    def _list_sources(self, config: AppConfig) -> Sequence[ToolSource]:
        return [*LOCAL_TOOL_SOURCES, *self.servers.list(config, self._active.cassettes.active)]

    def for_turn(self, first: Resolved) -> Callable[[], Awaitable[Resolved]]:
        """Return a function that resolves the effective configuration each time it is called.

        Its first call returns `first`.
        """
        prepared = [first]

        async def resolve() -> Resolved:
            if prepared:
                return prepared.pop()

            conversation_id = self._active.document.conversation.id
            settings = self._active.settings
            basis = settings.snapshot()
            attempt = SourceAttempt()
            if await self.discover(basis.config, attempt):
                settings.renew_tools()
                basis = settings.snapshot()

            return await self.resolve(
                basis,
                conversation_id,
                unavailable_reason=first.unavailable_reason,
                attempt=attempt,
            )

        return resolve

    async def resolve(
        self,
        basis: ConfigSnapshot,
        conversation_id: str,
        *,
        tool_choice: ToolChoice | None = None,
        unavailable_reason: str | None = None,
        attempt: SourceAttempt | None = None,
    ) -> Resolved:
        """Resolve `basis` into provider, model, tools, and attachments.

        `tool_choice` replaces the configured one. `unavailable_reason` is the reason why no user
        can answer, or None. Sources that failed in `attempt` are not tried again.

        Raises:
            ConfigError: A part is not available. The error has the path.
            UsageError: No tool fits `tool_choice`.
            ToolSourceError: A required source of tools failed.
        """
        config = basis.config
        parameters = config.assistant.model.parameters
        model, provider = self.model(config)
        attempt = SourceAttempt() if attempt is None else attempt

        tools = await self.tools(config, unavailable_reason=unavailable_reason, attempt=attempt)
        if tools.failures:
            raise ToolSourceError("\n".join(tools.failures))
        if tool_choice is None:
            choice = _read_tool_choice(config.assistant.tool_choice, tools)
        else:
            offered = config if tools.config is None else tools.config
            choice = _check_tool_choice(tool_choice, offered, tools)

        attachments = self.attachments(config)

        results: FindRecordedResults | None = None
        if self._cassette is not None and self._cassette.choice.tools == "recorded":
            results = getattr(provider, "results", None)  # of a `CassetteProvider`
        settings = config.providers.llm.get_settings(model.provider)
        chains = bool(getattr(settings, "chain_on_max_tokens", False))
        uses_cassette = self._cassette is not None
        context_tokens = None
        if not uses_cassette:
            # A replay has no list of models, and sends what its recording has sent.
            context_tokens = self.find_context_tokens(model)

        return Resolved(
            provider=provider,
            provider_name=model.provider,
            model=model.name,
            system=(*config.assistant.system_texts(), *tools.instructions),
            tools=tools,
            tool_choice=choice,
            parameters=_parameters(parameters),
            request=config.assistant.request,
            attachments=attachments,
            inquiry=self._inquiry(config, tools, (provider, model), attachments, conversation_id),
            basis=basis,
            # The default limit of the provider, not of the user.
            continues_answers=chains and parameters.max_tokens is None,
            results=results,
            uses_cassette=uses_cassette,
            unavailable_reason=unavailable_reason,
            context_tokens=context_tokens,
        )

    def model(self, config: AppConfig) -> tuple[ModelId, Provider]:
        """Return the model and the provider of `config`."""
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        return model, self.provider(model.provider, config.providers.llm)

    def provider(self, name: str, llm: Llm) -> Provider:
        """Return the provider with these settings.

        Equal settings give the same object until another cassette is used.
        """
        llm.require(name)
        given = llm.get_settings(name)  # a known name may have no settings
        settings: dict[str, Any] = given.model_dump() if given is not None else {}

        cassette = self._active.cassettes.active
        if cassette is not self._cassette:
            self._replaced_providers += self._providers.values()
            self._cassette = cassette
            self._providers.clear()

        key = json.dumps([name, settings], sort_keys=True)
        if key not in self._providers:
            create = create_server if name in llm.servers else create_provider
            make: Callable[[], Provider] = partial(create, name, settings)
            if name == SCRIPTED:
                make = self._make_scripted
            if cassette is None:
                self._providers[key] = make()
            else:
                hide = hide_key(settings.get("api_key_env"), self._hide)
                self._providers[key] = CassetteProvider(name, make, cassette, hide)
        return self._providers[key]

    def look_at_script(self, config: AppConfig) -> None:
        """Read the script of the model of `config`, so that its file can be pending.

        Raises:
            ConfigError: The script must not be used, or there is none.
        """
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        if model.provider == SCRIPTED:
            self._make_scripted().script(model.name)

    def _make_scripted(self) -> ScriptedProvider:
        return ScriptedProvider(folders=[self._active.files.folder], read=self.scripts.read)

    def attachments(self, config: AppConfig) -> tuple[Attachment, ...]:
        """Return the current attachments of `config`."""
        urls = config.conversation.attachments
        files = [url for url in urls if not is_value(url)]
        try:
            parts = self._attachments.read(files, self._active.files.root) if files else ()
            if len(files) == len(urls):
                return parts
            values: list[Attachment] = []
            for url in urls:
                if is_value(url):
                    values += self.values.get(url)
        except AttachmentError as exc:
            path = format_path((*parse_path(ATTACHMENTS), Element(exc.url)))
            layers = self._active.files.layers()
            layer = next((x for x in layers if exc.url in _attachments_of(x)), None)
            fix = f"Remove it from this conversation: `%jp config {shlex.quote(f'{path}:=null')}`"
            layer_name = None if layer is None else layer.name
            file = None if layer is None else layer.file
            raise ConfigError(f"{exc}. {fix}", path=path, layer=layer_name, file=file) from exc

        if self._attached != (*parts, *values):
            self._attached = (*parts, *values)
        return self._attached

    def _inquiry(
        self,
        config: AppConfig,
        tools: ToolSet,
        own: tuple[Provider, ModelId],
        attachments: tuple[Attachment, ...],
        conversation_id: str,
    ) -> LlmInquiryBackend:
        # `own` is the model of the conversation.
        llm = config.providers.llm
        base = build_inquiry_assistant(config)
        if base.model.id != config.assistant.model.id:
            own = self._load_model(base, llm, INQUIRY_MODEL_PATH, QUESTION_PURPOSE)

        overrides: dict[tuple[str, str], ChatModel] = {}
        for tool in tools.tools.values():
            for question, choice in tool.questions.items():
                if not isinstance(choice.target, QuestionAssistant):
                    continue
                other = build_question_assistant(base, choice.target)
                theirs = own
                if other.model.id != base.model.id:
                    path = f"conversation.tools.{tool.name}.questions.{question}.target"
                    theirs = self._load_model(other, llm, path, QUESTION_PURPOSE)
                overrides[tool.name, question] = self._chat_model(other, theirs)

        return LlmInquiryBackend(
            default=self._chat_model(base, own),
            overrides=overrides,
            tools=tuple(tool.definition for tool in tools.tools.values()),
            attachments=attachments,
            conversation_id=conversation_id,
        )

    async def inquiry(
        self, config: AppConfig, tools: ToolSet, conversation_id: str
    ) -> LlmInquiryBackend:
        """Return the backend that answers questions of `tools` with a model."""
        model, provider = self.model(config)
        attachments = self.attachments(config)
        return self._inquiry(config, tools, (provider, model), attachments, conversation_id)

    def _chat_model(self, assistant: Assistant, model: tuple[Provider, ModelId]) -> ChatModel:
        provider, name = model
        return ChatModel(
            provider=provider,
            model=name.name,
            provider_name=name.provider,
            system=assistant.system_texts(),
            parameters=_parameters(assistant.model.parameters),
            request=assistant.request,
            is_replayed=self._cassette is not None and self._cassette.is_offline,
            before_sending=self._before_sending,
        )

    def summarizer(self, resolved: Resolved, rule: CompactionRule) -> Summarizer:
        """Return the summarizer for `rule`, in the conversation of `resolved`."""
        config = resolved.basis.config
        summary = rule.summary or SummaryConfig()
        assistant = build_summary_assistant(config, summary)
        path = "conversation.compaction.rules"
        model = self._load_model(assistant, config.providers.llm, path, "summarizes turns")
        chat_model = self._chat_model(assistant, model)

        return Summarizer(
            model=replace(chat_model, system=(summary.instructions or SUMMARY_INSTRUCTIONS,)),
            context=summary.context or "",
            tools=tuple(tool.definition for tool in resolved.tools.tools.values()),
            conversation_id=self._active.document.conversation.id,
        )

    def _load_model(
        self, assistant: Assistant, llm: Llm, path: str, purpose: str
    ) -> tuple[Provider, ModelId]:
        try:
            model = resolve_model(assistant.model.id, llm.aliases, path=path)
            return self.provider(model.provider, llm), model
        except ConfigError as exc:
            text = exc.problems[0].message if exc.path == path else str(exc)
            raise ConfigError(
                f"the model that {purpose} cannot be used: {text}", path=path
            ) from exc

    async def tools(
        self,
        config: AppConfig,
        *,
        unavailable_reason: str | None = None,
        attempt: SourceAttempt | None = None,
    ) -> ToolSet:
        """Return the tools that `config` enables; without a user, omit the tools that need one."""
        answered = self._load_answers(config).answers_questions_of
        try:
            return await offer_tools(
                config,
                self._sources,
                unavailable_reason=unavailable_reason,
                answered=answered,
                attempt=attempt,
            )
        finally:
            self._note_discovered(config)

    def has_discovering_sources(self, config: AppConfig) -> bool:
        """Return True if a source may have tools that `config` does not name."""
        is_known = bool(self._active.discovered.state.toolsets)
        return is_known or any(source.discovers for source in self._sources.available(config))

    def running_server(self, name: str) -> ToolSource | None:
        """Return the source of the MCP server `name`, if it runs or starts."""
        return self._sources.running(f"mcp.{name}")

    def last_server_failure(self, name: str) -> str:
        """Return why the MCP server `name` did not start when it was last tried; else ""."""
        return self._sources.last_failures.get(f"mcp.{name}", "")

    async def end_server(self, name: str) -> bool:
        """End the MCP server `name`; return False if it does not run."""
        return await self._sources.end(f"mcp.{name}")

    def list_starting(self) -> list[str]:
        """Return the names of the servers that start now."""
        return self._sources.list_starting()

    async def discover(
        self,
        config: AppConfig,
        attempt: SourceAttempt,
        *,
        names: Collection[str] = (),
        only_named: bool = False,
    ) -> bool:
        """Let the sources that `config` uses find their tools; return True if any have changed.

        A source is also asked if `names` has its name or one of its tools, or only then.
        """
        finding = [source for source in self._sources.available(config) if source.discovers]
        named = [source.name for source in finding if _has_any_of(source, names)]
        await self._sources.discover(config, attempt, named=named, only_named=only_named)
        return self._note_discovered(config)

    def _note_discovered(self, config: AppConfig) -> bool:
        sources = [each.name for each in self._sources.available(config) if each.discovers]
        if not sources and not self._active.discovered.state.toolsets:
            return False
        return self._active.discovered.update(sources, self._sources.discovered)

    def take_closing(self) -> list[Coroutine[Any, Any, None]]:
        """Return coroutines that close the providers and tool sources. Forget the providers."""
        providers = [*self._providers.values(), *self._replaced_providers]
        closing = [*(provider.aclose() for provider in providers), self._sources.aclose()]

        self._providers.clear()
        self._replaced_providers.clear()
        return closing


def _has_any_of(source: ToolSource, names: Collection[str]) -> bool:
    """Return True if one of `names` is `source`, or may be one of its tools."""
    return any(_is_tool_of(source, name) for name in names)


def _is_tool_of(source: ToolSource, name: str) -> bool:
    is_source = name == source.name or name.startswith(f"{source.name}.")
    return is_source or source.may_have(name)


def _attachments_of(layer: Layer) -> list[str]:
    given = get_path(layer.partial, ATTACHMENTS) or []
    return validate_config({"conversation": {"attachments": given}}).conversation.attachments


def _read_tool_choice(choice: str, tools: ToolSet) -> ToolChoice:
    # A tool named here is offered even if it is turned off.
    if choice in ("auto", "none", "required"):
        return choice

    if choice not in tools.tools:
        reason = f": {tools.missing[choice]}" if choice in tools.missing else ""
        raise ConfigError(
            f"tool choice '{choice}' does not match any enabled tools{reason}",
            path="assistant.tool_choice",
        )
    return f"tool:{choice}"


def _check_tool_choice(choice: ToolChoice, config: AppConfig, tools: ToolSet) -> ToolChoice:
    # A tool named for one request must be enabled.
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
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"Tool not found: {name}{hint}")

    if not config.conversation.get_tool_state(name)[0]:
        reason = f"it is off; turn it on with `-t {name}` on the same line"
    elif name not in tools.tools:
        reason = tools.missing.get(name, "it is not available here")
    else:
        return choice
    raise UsageError(f"tool choice '{name}' does not match any enabled tools: {reason}")


def _parameters(given: ParametersConfig) -> ModelParameters:
    reasoning: JsonValue
    if isinstance(given.reasoning, BaseModel):
        reasoning = given.reasoning.model_dump()
    else:
        reasoning = given.reasoning

    return ModelParameters(
        max_tokens=given.max_tokens,
        reasoning=reasoning,
        temperature=given.temperature,
        top_p=given.top_p,
        top_k=given.top_k,
        stop_words=tuple(given.stop_words),
        other=given.model_extra or {},
    )


class ModelCatalog:
    """Model lists of providers, which the thread of the cell requests.

    `wait_for` and `start` run a request on the agent's thread. Turns take the size of a context
    from the last list, and do not request one.
    """

    def __init__(
        self,
        resolver: Resolver,
        wait_for: Callable[[Coroutine[Any, Any, ModelList]], ModelList],
        start: Callable[[Coroutine[Any, Any, ModelList]], Future[ModelList]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._resolver = resolver
        self._wait_for = wait_for
        self._start = start
        self._clock = clock
        self._cache: dict[str, tuple[Provider, float, ModelList]] = {}
        self._background: dict[str, tuple[Provider, float, Future[ModelList]]] = {}
        resolver.find_context_tokens = self.find_context_tokens

    def find_context_tokens(self, model: ModelId) -> int | None:
        """Return the size of the context of `model`, if a list of this kernel names it."""
        _, _, models = self._cache.get(model.provider, (None, 0.0, ModelList()))
        listed = models.find(model.name)
        return None if listed is None else listed.context_window

    def models(
        self, name: str, config: AppConfig, *, refresh: bool = False, seconds: float = LIST_SECONDS
    ) -> ModelList:
        """Return the models of the provider `name`; a recent list is not requested again.

        Raises:
            ConfigError: There is no such provider.
            ProviderError: The provider does not list them.
        """
        provider = self._resolver.provider(name, config.providers.llm)
        known, when, models = self._cache.get(name, (None, 0.0, ModelList(())))
        if known is not provider or self._clock() - when >= CACHE_SECONDS or refresh:
            models = self._wait_for(provider.models(seconds=seconds))
            self._cache[name] = (provider, self._clock(), models)
        return models

    def offer(self, name: str, config: AppConfig, *, seconds: float = TAB_SECONDS) -> ModelList:
        """Return the models of the provider `name` for completion, in at most that many `seconds`.

        If they are not known, a request starts in the background, and a later call has its result.

        Raises:
            ConfigError: There is no such provider.
            ProviderError: The provider does not list them. The request is repeated after a while.
        """
        provider = self._resolver.provider(name, config.providers.llm)
        now = self._clock()
        known, when, models = self._cache.get(name, (None, 0.0, ModelList()))
        if known is provider and now - when < CACHE_SECONDS:
            return models

        asked, when, listing = self._background.get(name, (None, 0.0, Future[ModelList]()))
        if asked is not provider or now - when >= RETRY_SECONDS:
            when = now
            listing = self._start(provider.models(seconds=LIST_SECONDS))
            self._background[name] = (provider, when, listing)

        try:
            models = listing.result(timeout=seconds)
        except TimeoutError:
            return models if known is provider else ModelList()

        self._cache[name] = (provider, when, models)
        return models

    def describe_current(self, config: AppConfig) -> str:
        """Describe in a few words whether the provider lists the current model."""
        model, _ = self._resolver.model(config)
        try:
            listed = self.models(model.provider, config, seconds=CHECK_SECONDS)
        except ProviderError as exc:
            return f"{MODEL_UNKNOWN}: {exc}"

        if (found := listed.find(model.name)) is not None:
            warnings = [format_deprecation(found), format_output_limit(found, config)]
            warnings += _list_ending_aliases(listed, model.provider, config)
            return " ".join(filter(None, warnings)) or f"{model.provider} lists this model"

        if listed.is_cut or not listed.models:
            return f"{MODEL_UNKNOWN}: the model list of {model.provider} is incomplete"

        return (
            f"⚠ {model.provider} does not list {model.name}. It may still work, for "
            f"example as a short name. Show the list: `%jp models {model.provider}`"
        )


def format_deprecation(model: ModelInfo) -> str:
    """Return a warning if the provider announced the end of `model`, otherwise ""."""
    if not model.state:
        return ""

    state = f"ends on {model.ends}" if model.ends else "is deprecated"
    if model.state == "retired":
        state = f"has ended: {model.ends}" if model.ends else "has ended"
    return f"⚠ {model.id} {state}, according to its provider. Show other models: `%jp models`"


def _list_ending_aliases(listed: ModelList, provider: str, config: AppConfig) -> Iterator[str]:
    """Yield a warning for each alias of a model of `provider` whose end was announced."""
    known = config.providers.llm.aliases
    current = config.assistant.model.id
    for alias in known:
        with suppress(ConfigError):  # reported when the alias is used
            model = resolve_model(alias, known)
            found = listed.find(model.name) if model.provider == provider else None
            if found is not None and found.state and model != resolve_model(current, known):
                yield f"Alias `{alias}`: {format_deprecation(found)}"


def format_output_limit(model: ModelInfo, config: AppConfig) -> str:
    """Return a warning if the configured length of an answer exceeds that of `model`, else ""."""
    limit = model.max_output
    tokens = config.assistant.model.parameters.max_tokens
    if limit is None or tokens is None or tokens <= limit:
        return ""
    path = "assistant.model.parameters.max_tokens"
    return (
        f"⚠ {path} = {tokens}, but {model.id} writes at most {limit} tokens in an answer. "
        f"Reduce it: `%jp config {path}={limit}`"
    )


# --- assistants of background requests ---------------------------------------------------------
#
# The assistant of an inquiry is merged from `assistant`, `conversation.inquiry.assistant`, and the
# table `conversation.tools.<tool>.questions.<id>.target`. A later text, model, or limit replaces
# the earlier one. Parameters are merged by name. Sections and instructions are appended (D91).


def build_inquiry_assistant(config: AppConfig) -> Assistant:
    """Return the assistant for questions that have no settings of their own."""
    changes = _dump_overrides(config.conversation.inquiry.assistant)
    request = changes.get("request")
    if isinstance(request, dict) and request.get("max_response_bytes") == 0:
        del request["max_response_bytes"]  # 0 inherits the limit of the conversation
    return _merge_overrides(_with_background_retries(config.assistant), changes)


def build_question_assistant(base: Assistant, target: QuestionAssistant) -> Assistant:
    """Return `base` with the settings of `target`, in which a limit of 0 removes the limit."""
    return _merge_overrides(base, _dump_overrides(target))


def build_summary_assistant(config: AppConfig, summary: SummaryConfig) -> Assistant:
    """Return the assistant of the conversation with the model of `summary`.

    Another model does not inherit the parameters of the conversation's model.
    """
    base = _with_background_retries(config.assistant)
    changes: Partial = summary.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)

    if summary.model.id is None:
        overrides: Partial = {"model": changes} if changes else {}
        return _merge_overrides(base, overrides)
    return base.model_copy(update={"model": Model.model_validate(changes)})


def _with_background_retries(own: Assistant) -> Assistant:
    return own.model_copy(update={"request": own.request.model_copy(update=BACKGROUND_RETRIES)})


def _dump_overrides(overrides: AssistantOverrides) -> Partial:
    changes: Partial = overrides.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    changes.pop("tool_choice", None)  # a model that answers a question calls no tool
    return changes


def _merge_overrides(assistant: Assistant, changes: Partial) -> Assistant:
    if not changes:
        return assistant
    below = {"assistant": assistant.model_dump(mode="json")}
    return Assistant.model_validate(merge_partials(below, {"assistant": changes})["assistant"])
