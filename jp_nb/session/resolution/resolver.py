"""Resolve the settings of a turn to a provider, a model, tools, and attachments.

The input is the effective configuration (`ConfigSnapshot`), and the result is `Resolved`, from
which each request of the turn is made. A part that is not available is a `ConfigError` with the
path of its setting. A running turn resolves its settings again before each request (`for_turn`),
because tools and the user may change them. This runs on the agent's thread; `cell_resolver.py` has
the entrance from the cell's thread.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/guide.md`, `docs/decisions.md` D107.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from jp_nb.agent.calls.recorded_results import FindRecordedResults
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.inquiries.llm_inquiry import LlmInquiryBackend
from jp_nb.agent.model_requests.chat_model import make_model_parameters
from jp_nb.agent.offered_tools.configured_tools import enable_tool
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt, ToolSources
from jp_nb.agent.provider import Provider, ToolChoice
from jp_nb.config.aliases import resolve_model
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.model_id import ModelId
from jp_nb.config.tree.providers_table import Llm
from jp_nb.config.tree.system_texts import list_system_texts
from jp_nb.errors import ToolSourceError
from jp_nb.providers.scripts.script_format import SCRIPTED_NAME
from jp_nb.providers.scripts.scripted import ScriptedProvider
from jp_nb.session.configuration.scripts import FolderScripts
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.mcp_servers.servers import ServerSources
from jp_nb.session.model_access.provider_pool import ProviderPool
from jp_nb.session.questions.answers import SessionAnswers
from jp_nb.session.resolution.background_models import BackgroundModels, ProviderModel
from jp_nb.session.resolution.plan_first import require_plan_tool
from jp_nb.session.resolution.project_texts import list_project_texts, look_at_project
from jp_nb.session.resolution.tool_choices import check_requested_choice, read_configured_choice
from jp_nb.session.resolution.tool_discovery import ToolDiscovery
from jp_nb.session.resolution.turn_attachments import TurnAttachments
from jp_nb.storage.configuration.project_files import ProjectFiles
from jp_nb.storage.configuration.skills import Skills
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
        discovery: The tool sources, which may discover tools.
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
        self.discovery = ToolDiscovery(active, ToolSources(sources or self._list_sources))
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

        Its first call returns `first`, which was resolved before the turn began.
        """
        is_first_call = True

        async def resolve() -> Resolved:
            """Return the settings for the next request: the turn calls it before each one."""
            nonlocal is_first_call
            if is_first_call:
                is_first_call = False
                return first

            # Sources may have found other tools since, which are a layer of the settings.
            conversation_id = self._active.document.conversation.id
            settings = self._active.settings
            basis = settings.snapshot()
            attempt = SourceAttempt()
            if await self.discovery.discover(basis.config, attempt):
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

        Args:
            basis: The effective configuration.
            conversation_id: Id of the conversation, for the caches of providers.
            tool_choice: Replaces the configured choice.
            unavailable_reason: The reason why no user can answer; None if one can.
            plan_first: True if the model has to submit a plan first.
            attempt: The tool sources that have failed for this request already, and are not tried
                again. It may also prevent that sources start. None for a new attempt.

        Raises:
            ConfigError: A part is not available. The error has the path.
            UsageError: No tool fits `tool_choice`.
            ToolSourceError: A required source of tools failed.
        """
        config = basis.config
        assistant = config.assistant
        own_model = self.open_model(config)
        model, provider = own_model

        tools = await self.resolve_tools(
            config, unavailable_reason=unavailable_reason, plan_first=plan_first, attempt=attempt
        )
        if tools.failures:
            raise ToolSourceError("\n".join(tools.failures))
        if plan_first:
            require_plan_tool(tools)
        choice = _choose_tool(tool_choice, config, tools)

        attachments = self.attachments.read(config)
        project = tuple(list_project_texts(config, self.project))
        inquiry = self.background.make_inquiry(
            config, tools, own_model, attachments, conversation_id, project=project
        )

        # `open_model` has opened the provider, so this is its cassette.
        uses_cassette = self._providers.cassette is not None
        context_tokens = None
        if not uses_cassette:
            # A replay has no list of models, and sends what its recording has sent.
            context_tokens = self.find_context_tokens(model)

        return Resolved(
            provider=provider,
            provider_name=model.provider,
            model=model.name,
            system=(*list_system_texts(assistant), *project, *tools.instructions),
            tools=tools,
            tool_choice=choice,
            parameters=make_model_parameters(assistant.model.parameters),
            request=assistant.request,
            attachments=attachments,
            inquiry=inquiry,
            basis=basis,
            continues_answers=_continues_long_answers(config, model),
            results=self._find_results_reader(provider),
            uses_cassette=uses_cassette,
            plan_first=plan_first,
            unavailable_reason=unavailable_reason,
            context_tokens=context_tokens,
        )

    def _find_results_reader(self, provider: Provider) -> FindRecordedResults | None:
        """Return the function that finds recorded results of tools; None if the tools run.

        Only a cassette that replaces the tools has such results. Its provider reads them.
        """
        cassette = self._providers.cassette
        if cassette is None or cassette.choice.tools != "recorded":
            return None
        return getattr(provider, "find_recorded_results", None)

    def open_model(self, config: AppConfig) -> ProviderModel:
        """Return the model and the provider of `config`."""
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        return ProviderModel(model, self.open_provider(model.provider, config.providers.llm))

    def open_provider(self, name: str, llm: Llm) -> Provider:
        """Return the provider with these settings.

        Equal settings give the same object until another cassette is used.
        """
        return self._providers.open(name, llm)

    def look_at_script(self, config: AppConfig) -> None:
        """Read the script of the model of `config`, if the model is a script.

        A script that the user has not allowed yet is then listed by `ConfigFiles.list_pending`, so
        that `%jp trust --workspace` asks for consent.

        Raises:
            ConfigError: The script must not be used, or there is none.
        """
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
        if model.provider == SCRIPTED_NAME:
            self._make_scripted().get_script(model.name)

    def look_at_project(self, config: AppConfig) -> None:
        """Read the project's instructions and skills.

        Files that the user has not allowed yet are then listed by `ConfigFiles.list_pending`.
        """
        look_at_project(config, self.project)

    def _make_scripted(self) -> ScriptedProvider:
        return ScriptedProvider(folders=[self._active.files.folder], read=self.scripts.read)

    async def make_inquiry(
        self, config: AppConfig, tools: ToolSet, conversation_id: str
    ) -> LlmInquiryBackend:
        """Return the backend that answers questions of `tools` with a model."""
        own_model = self.open_model(config)
        attachments = self.attachments.read(config)
        return self.background.make_inquiry(config, tools, own_model, attachments, conversation_id)

    async def resolve_tools(
        self,
        config: AppConfig,
        *,
        unavailable_reason: str | None = None,
        plan_first: bool = False,
        attempt: SourceAttempt | None = None,
    ) -> ToolSet:
        """Return the tools that `config` enables; without a user, omit the tools that need one.

        The tool for plans is enabled with `plan_first`, and the tool for skills if there are any.
        `attempt` is as in `resolve`.
        """
        if plan_first:
            config = enable_tool(config, PLAN_TOOL)
        if config.assistant.skills and Skills(self.project).read_all():
            config = enable_tool(config, SKILL_TOOL)

        return await self.discovery.offer(
            config,
            unavailable_reason=unavailable_reason,
            answered=self._load_answers(config).answers_questions_of,
            attempt=attempt,
        )

    def take_closing(self) -> list[Coroutine[Any, Any, None]]:
        """Return coroutines that close the providers and tool sources. Forget the providers."""
        providers = self._providers.take_all()
        return [*(provider.aclose() for provider in providers), self.discovery.aclose()]


def _choose_tool(tool_choice: ToolChoice | None, config: AppConfig, tools: ToolSet) -> ToolChoice:
    """Return the checked `tool_choice` of the turn, or that of `config` if it is None."""
    if tool_choice is None:
        return read_configured_choice(config.assistant.tool_choice, tools)

    # `tools.config` also has the tools that sources have found.
    complete_config = config if tools.config is None else tools.config
    return check_requested_choice(tool_choice, complete_config, tools)


def _continues_long_answers(config: AppConfig, model: ModelId) -> bool:
    """Return True if an answer that reaches the provider's default limit is continued.

    Only some providers have a setting for that. A limit that the user has set ends the answer.
    """
    settings = config.providers.llm.get_settings(model.provider)
    is_on = bool(getattr(settings, "chain_on_max_tokens", False))
    return is_on and config.assistant.model.parameters.max_tokens is None
