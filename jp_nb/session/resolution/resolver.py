"""Resolve the settings of a turn to a provider, a model, tools, and attachments.

The input is the effective configuration (`ConfigSnapshot`), and the result is `Resolved`, from
which each request of the turn is made. A part that is not available is a `ConfigError` with the
path of its setting. A running turn resolves its settings again before each request (`for_turn`),
because tools and the user may change them. This runs on the agent's thread; `cell_resolver.py` has
the entrance from the cell's thread.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Final

from jp_nb.agent.calls.recorded_results import FindRecordedResults
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.inquiries.llm_inquiry import LlmInquiryBackend
from jp_nb.agent.model_requests.chat_model import make_model_parameters
from jp_nb.agent.offered_tools.tool_set import ToolSet, enable_tool, offer_tools
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt, ToolSources
from jp_nb.agent.provider import Provider, ToolChoice
from jp_nb.config.aliases import resolve_model
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.model_id import ModelId
from jp_nb.config.tree.providers_table import Llm
from jp_nb.errors import ToolSourceError
from jp_nb.providers.scripts.script_format import SCRIPTED_NAME
from jp_nb.providers.scripts.scripted import ScriptedProvider
from jp_nb.session.configuration.scripts import FolderScripts
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.mcp_servers.servers import ServerSources
from jp_nb.session.model_access.provider_pool import ProviderPool
from jp_nb.session.questions.answers import SessionAnswers
from jp_nb.session.resolution.background_models import BackgroundModels
from jp_nb.session.resolution.plan_first import require_plan_tool
from jp_nb.session.resolution.project_texts import list_project_texts, look_at_project
from jp_nb.session.resolution.tool_choices import check_requested_choice, read_configured_choice
from jp_nb.session.resolution.turn_attachments import TurnAttachments
from jp_nb.storage.configuration.project_files import ProjectFiles
from jp_nb.toolkit.base import ToolSource
from jp_nb.toolkit.builtin import BUILTINS, BuiltinTools
from jp_nb.toolkit.builtin.read_skill import SKILL_TOOL
from jp_nb.toolkit.builtin.submit_plan import PLAN_TOOL
from jp_nb.toolkit.command_tools.command import CommandTools
from jp_nb.toolkit.function_tools.python_functions import PythonFunctions
from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

LOCAL_TOOL_SOURCES: Final[tuple[ToolSource, ...]] = (
    PythonFunctions(REGISTRY, BUILTINS),
    CommandTools(),
    BuiltinTools(),
)
"""The sources of each configuration. Those of servers are made by `ServerSources`."""


class Resolver:
    """Resolves the configuration of the active conversation, and keeps its providers open.

    Args:
        sources: Returns the tool sources of a configuration.
        hide: Removes secrets from text that is recorded on a cassette.
        load_answers: Returns the prepared answers of a configuration.
        before_sending: Gets the provider and its name before a request that is not of the turn's
            own model.

    Attributes:
        servers: The MCP servers of the configuration.
        scripts: The scripts of the notebook's folder, which may replace a model.
        attachments: The attachments of a configuration.
        background: The models that answer questions, and write summaries.
        project: The instructions and skills of the workspace.
        find_context_tokens: Returns the size of a model's context; None if it is unknown.
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
        self.servers = ServerSources(active)
        self._sources = ToolSources(sources or self._list_sources)
        self.scripts = FolderScripts(active)
        self._providers = ProviderPool(lambda: active.cassettes, self._make_scripted, hide)
        self.attachments = TurnAttachments(active.files)
        self.project = ProjectFiles(active.files)
        self.background = BackgroundModels(active, self._providers, before_sending)
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
                plan_first=first.plan_first,
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
        plan_first: bool = False,
        attempt: SourceAttempt | None = None,
    ) -> Resolved:
        """Resolve `basis` into provider, model, tools, and attachments.

        `tool_choice` replaces the configured one. `unavailable_reason` is the reason why no user
        can answer, or None. With `plan_first`, the model can submit a plan. Sources that failed in
        `attempt` are not tried again.

        Raises:
            ConfigError: A part is not available. The error has the path.
            UsageError: No tool fits `tool_choice`.
            ToolSourceError: A required source of tools failed.
        """
        config = basis.config
        parameters = config.assistant.model.parameters
        model, provider = self.open_model(config)
        attempt = SourceAttempt() if attempt is None else attempt

        tools = await self.resolve_tools(
            config, unavailable_reason=unavailable_reason, plan_first=plan_first, attempt=attempt
        )
        if tools.failures:
            raise ToolSourceError("\n".join(tools.failures))
        if plan_first:
            require_plan_tool(tools)

        if tool_choice is None:
            choice = read_configured_choice(config.assistant.tool_choice, tools)
        else:
            # `tools.config` also has the tools that sources have found.
            complete_config = config if tools.config is None else tools.config
            choice = check_requested_choice(tool_choice, complete_config, tools)

        attachments = self.attachments.read(config)
        project = tuple(list_project_texts(config, self.project))
        inquiry = self.background.make_inquiry(
            config, tools, (provider, model), attachments, conversation_id, project=project
        )

        # Only some providers have this setting.
        settings = config.providers.llm.get_settings(model.provider)
        chains = bool(getattr(settings, "chain_on_max_tokens", False))

        cassette = self._providers.cassette
        uses_cassette = cassette is not None
        results: FindRecordedResults | None = None
        if cassette is not None and cassette.choice.tools == "recorded":
            # Only a `CassetteProvider` has recorded results.
            results = getattr(provider, "find_recorded_results", None)

        context_tokens = None
        if not uses_cassette:
            # A replay has no list of models, and sends what its recording has sent.
            context_tokens = self.find_context_tokens(model)

        return Resolved(
            provider=provider,
            provider_name=model.provider,
            model=model.name,
            system=(*config.assistant.list_system_texts(), *project, *tools.instructions),
            tools=tools,
            tool_choice=choice,
            parameters=make_model_parameters(parameters),
            request=config.assistant.request,
            attachments=attachments,
            inquiry=inquiry,
            basis=basis,
            # Only beyond the default limit of the provider, not beyond a limit of the user.
            continues_answers=chains and parameters.max_tokens is None,
            results=results,
            uses_cassette=uses_cassette,
            plan_first=plan_first,
            unavailable_reason=unavailable_reason,
            context_tokens=context_tokens,
        )

    def open_model(self, config: AppConfig) -> tuple[ModelId, Provider]:
        """Return the model and the provider of `config`."""
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        return model, self.open_provider(model.provider, config.providers.llm)

    def open_provider(self, name: str, llm: Llm) -> Provider:
        """Return the provider with these settings.

        Equal settings give the same object until another cassette is used.
        """
        return self._providers.open(name, llm)

    def look_at_script(self, config: AppConfig) -> None:
        """Read the script of the model of `config`, so that it becomes pending without a consent.

        Raises:
            ConfigError: The script must not be used, or there is none.
        """
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        if model.provider == SCRIPTED_NAME:
            self._make_scripted().get_script(model.name)

    def look_at_project(self, config: AppConfig) -> None:
        """Read the project's instructions and skills; files without a consent become pending."""
        look_at_project(config, self.project)

    def _make_scripted(self) -> ScriptedProvider:
        return ScriptedProvider(folders=[self._active.files.folder], read=self.scripts.read)

    async def make_inquiry(
        self, config: AppConfig, tools: ToolSet, conversation_id: str
    ) -> LlmInquiryBackend:
        """Return the backend that answers questions of `tools` with a model."""
        model, provider = self.open_model(config)
        attachments = self.attachments.read(config)
        return self.background.make_inquiry(
            config, tools, (provider, model), attachments, conversation_id
        )

    async def resolve_tools(
        self,
        config: AppConfig,
        *,
        unavailable_reason: str | None = None,
        plan_first: bool = False,
        attempt: SourceAttempt | None = None,
    ) -> ToolSet:
        """Return the tools that `config` enables; without a user, omit the tools that need one.

        With `plan_first`, the tool for plans is one of them.
        """
        if plan_first:
            config = enable_tool(config, PLAN_TOOL)
        if config.assistant.skills and self.project.read_skills():
            config = enable_tool(config, SKILL_TOOL)
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
            self._update_discovered(config)

    def has_discovering_sources(self, config: AppConfig) -> bool:
        """Return True if a source may have tools that `config` does not name."""
        is_known = bool(self._active.discovered.state.toolsets)
        return is_known or any(source.discovers for source in self._sources.available(config))

    def running_server(self, name: str) -> ToolSource | None:
        """Return the source of the MCP server `name`, if it runs or starts."""
        return self._sources.find_running(f"mcp.{name}")

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

        A source is also asked if `names` has its name or one of its tools. With `only_named`, other
        sources are not asked.
        """
        sources = self._list_discovering_sources(config)
        named = [source.name for source in sources if _has_any_of(source, names)]
        await self._sources.discover(config, attempt, named=named, only_named=only_named)
        return self._update_discovered(config)

    def _list_discovering_sources(self, config: AppConfig) -> list[ToolSource]:
        return [source for source in self._sources.available(config) if source.discovers]

    def _update_discovered(self, config: AppConfig) -> bool:
        """Take over the tools that the sources have found; return True if any have changed."""
        names = [source.name for source in self._list_discovering_sources(config)]
        if not names and not self._active.discovered.state.toolsets:
            return False
        return self._active.discovered.update(names, self._sources.discovered)

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
