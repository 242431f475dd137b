"""Resolve the settings of a turn to a provider, a model, tools, and attachments.

A part that is not available is a `ConfigError` with the path of its setting.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

from jp_nb.agent.chat_model import ChatModel, make_model_parameters
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.llm_inquiry import LlmInquiryBackend
from jp_nb.agent.provider import Attachment, Provider, ToolChoice
from jp_nb.agent.recorded_results import FindRecordedResults
from jp_nb.agent.summarizer import SUMMARY_INSTRUCTIONS, Summarizer
from jp_nb.agent.tool_set import ToolSet, offer_tools
from jp_nb.agent.tool_sources import SourceAttempt, ToolSources
from jp_nb.config.aliases import resolve_model
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.layers import Layer
from jp_nb.config.partial import get_path
from jp_nb.config.schema import Element, format_path, parse_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.assistant_settings import Assistant, QuestionAssistant
from jp_nb.config.tree.compaction_settings import CompactionRule, SummaryConfig
from jp_nb.config.tree.model_id import ModelId
from jp_nb.config.tree.providers_table import Llm
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError, ToolSourceError, UsageError
from jp_nb.providers.script_format import SCRIPTED_NAME as SCRIPTED
from jp_nb.providers.scripted import ScriptedProvider
from jp_nb.session.answers import SessionAnswers
from jp_nb.session.background_assistants import (
    build_inquiry_assistant,
    build_question_assistant,
    build_summary_assistant,
)
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.notebook_values import AttachedValues, is_value
from jp_nb.session.provider_pool import ProviderPool
from jp_nb.session.scripts import FolderScripts
from jp_nb.session.servers import ServerSources
from jp_nb.storage.attachments import AttachmentError, Attachments
from jp_nb.toolkit.base import ToolSource
from jp_nb.toolkit.builtin import BUILTINS, BuiltinTools
from jp_nb.toolkit.command import CommandTools
from jp_nb.toolkit.python import REGISTRY
from jp_nb.toolkit.python_functions import PythonFunctions

ATTACHMENTS = "conversation.attachments"
INQUIRY_MODEL_PATH: Final = "conversation.inquiry.assistant.model"
QUESTION_PURPOSE: Final = "answers questions"
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
        self._load_answers = load_answers
        self._before_sending = before_sending
        self.servers = ServerSources(active)
        self._sources = ToolSources(sources or self._list_sources)
        self._providers = ProviderPool(lambda: active.cassettes, self._make_scripted, hide)
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
        cassette = self._providers.cassette
        if cassette is not None and cassette.choice.tools == "recorded":
            results = getattr(provider, "results", None)  # of a `CassetteProvider`
        settings = config.providers.llm.get_settings(model.provider)
        chains = bool(getattr(settings, "chain_on_max_tokens", False))
        uses_cassette = cassette is not None
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
            parameters=make_model_parameters(parameters),
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
        return self._providers.open(name, llm)

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
        cassette = self._providers.cassette
        return ChatModel(
            provider=provider,
            model=name.name,
            provider_name=name.provider,
            system=assistant.system_texts(),
            parameters=make_model_parameters(assistant.model.parameters),
            request=assistant.request,
            is_replayed=cassette is not None and cassette.is_offline,
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
        providers = self._providers.take_all()
        return [*(provider.aclose() for provider in providers), self._sources.aclose()]


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
