"""Resolve configurations from the cell's thread.

`Resolver` (`resolver.py`) finds the provider, the model, the tools, and the attachments that a
configuration names. Its work runs on the agent's thread. Servers may take long to start, and may
ask the user to sign in. So the cell's thread does not only wait: it shows a slow start and the
forms of the servers meanwhile (`source_wait.py`).

Source: `docs/architecture.md`, `docs/mcp.md`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.inquiries.llm_inquiry import LlmInquiryBackend
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt
from jp_nb.agent.provider import Attachment, ToolChoice
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import ToolSourceError
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host
from jp_nb.session.resolution.resolver import Resolver
from jp_nb.session.threads.source_wait import SourceWait
from jp_nb.values.base import ValueBudget

T = TypeVar("T")


class CellResolver:
    """Runs the work of `Resolver` on the agent's thread, and waits for it on the cell's thread.

    The user's variables may be used only on the cell's thread. So a method that resolves
    attachments first describes the attached variables there.

    A `SourceAttempt` (`agent/offered_tools/tool_sources.py`) notes the sources of tools that have
    failed. The caller passes one to all steps of a turn, so that each source is tried once.
    """

    def __init__(
        self, host: Host, active: ActiveConversation, runner: AgentRunner, resolver: Resolver
    ) -> None:
        self._host = host
        self._active = active
        self._runner = runner
        self._agent = runner.agent
        self._front_end = runner.front_end
        self._resolver = resolver

    def resolve(
        self,
        basis: ConfigSnapshot,
        conversation_id: str,
        *,
        tool_choice: ToolChoice | None = None,
        plan_first: bool = False,
        attempt: SourceAttempt | None = None,
    ) -> Resolved:
        """Resolve `basis` for a turn; see `Resolver.resolve`."""
        reason = self._front_end.find_unavailable_reason(basis.config)
        self._describe_attached_values(basis.config)
        work = self._resolver.resolve(
            basis,
            conversation_id,
            tool_choice=tool_choice,
            unavailable_reason=reason,
            plan_first=plan_first,
            attempt=attempt,
        )
        return self._wait_for_sources(work, basis.config)

    def resolve_tools(self, config: AppConfig, *, may_start: bool = True) -> ToolSet:
        """Return the tools that `config` enables, for a command.

        Without `may_start`, no source that discovers tools starts.
        """
        reason = self._front_end.find_unavailable_reason(config)
        attempt = SourceAttempt(may_start=may_start)
        work = self._resolver.resolve_tools(config, unavailable_reason=reason, attempt=attempt)
        return self._wait_for_sources(work, config, before_turn=False)

    def discover(
        self,
        config: AppConfig,
        attempt: SourceAttempt,
        *,
        names: Sequence[str] = (),
        only_named: bool = False,
    ) -> bool:
        """Let sources find their tools before a turn; return True if any have changed.

        See `ToolDiscovery.discover`.
        """
        discovery = self._resolver.discovery
        if not discovery.may_discover(config):
            return False

        work = discovery.discover(config, attempt, names=names, only_named=only_named)
        return self._wait_for_sources(work, config)

    def discover_tools(self, *names: str) -> None:
        """Let the sources that may have these tools or toolsets find their tools, for a command.

        Raises:
            ToolSourceError: One failed.
        """
        config = self._active.settings.config
        discovery = self._resolver.discovery
        if not discovery.may_discover(config):
            return

        attempt = SourceAttempt()
        work = discovery.discover(config, attempt, names=names, only_named=True)
        self._wait_for_sources(work, config, before_turn=False)

        if attempt.failures:
            texts = [failure.text for failure in attempt.failures.values()]
            raise ToolSourceError("\n".join(texts))

    def wait_for_server(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work with an MCP server outside of turns, and show its forms in the cell."""
        return self._wait_for_sources(work, self._active.settings.config, before_turn=False)

    def read_attachments(self, config: AppConfig) -> tuple[Attachment, ...]:
        """Return the attachments of `config`; see `TurnAttachments.read`."""
        self._describe_attached_values(config)
        return self._resolver.attachments.read(config)

    def make_inquiry(
        self, config: AppConfig, tools: ToolSet, conversation_id: str
    ) -> LlmInquiryBackend:
        """Return the model backend for questions of `tools`; see `Resolver.make_inquiry`.

        No source starts, so this wait is short and shows nothing.
        """
        self._describe_attached_values(config)
        return self._agent.wait_for(self._resolver.make_inquiry(config, tools, conversation_id))

    def _describe_attached_values(self, config: AppConfig) -> None:
        """Describe the variables that `config` attaches, and keep the texts for the resolver.

        The agent's thread takes the texts later (`AttachedValues.get`), without the variables.
        """
        budget = ValueBudget(config.interpolation.max_chars, config.values.image_side)
        urls = config.conversation.attachments
        self._resolver.attachments.values.describe(urls, self._host.namespace, budget)

    def _wait_for_sources(
        self, work: Coroutine[Any, Any, T], config: AppConfig, *, before_turn: bool = True
    ) -> T:
        """Run `work` on the agent's thread, and show slow starts and forms in the cell meanwhile.

        A display of a slow start is kept for the turn that follows (`before_turn`), or else ended.
        """
        # Only sources that discover tools, such as servers, start slowly or ask the user.
        discovery = self._resolver.discovery
        if not discovery.may_discover(config):
            return self._agent.wait_for(work)

        line = self._active.line
        wait = SourceWait(self._runner, line, config, discovery.list_awaited_servers)
        try:
            return self._agent.wait_for(work, serve=wait.serve)
        finally:
            if not before_turn:
                self._runner.output.end_early()
