"""Draft the configuration of a turn: the changes of its options, resolved, but not yet recorded.

`%%jp -m MODEL -c FILE -t TOOL` has options that change the settings of the conversation. They are
recorded only if the whole turn is possible: the model exists, its key is set, and the tools start.
The settings that a new conversation inherits are recorded in it at once: if the turn is not
possible, that conversation is dropped as a whole.

Source: `docs/configuration.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt
from jp_nb.agent.provider import ToolChoice, find_chosen_tool
from jp_nb.config.aliases import MODEL_PATH
from jp_nb.config.directives import Directive
from jp_nb.record.changes.config_draft import Draft
from jp_nb.record.entries.events import ChatRequest
from jp_nb.rendering.transcripts.inherited_settings import list_inherited_notices
from jp_nb.session.configuration.attached_variables import resolve_variables
from jp_nb.session.configuration.settings import Settings
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host
from jp_nb.session.model_access.ready_check import check_ready
from jp_nb.session.next_conversation import NextConversation
from jp_nb.session.resolution.cell_resolver import CellResolver
from jp_nb.session.resolution.resolver import Resolver


@dataclass(frozen=True, slots=True)
class TurnDraft:
    """The configuration of a turn that has not begun.

    Attributes:
        settings: The settings of the conversation in which it will run.
        changes: The changes of the turn's options. `changes.record()` records them.
        resolved: The model, the tools, and the instructions of the turn.
    """

    settings: Settings
    changes: Draft
    resolved: Resolved


class TurnDrafter:
    """Drafts the configuration of turns, on the cell's thread."""

    def __init__(
        self,
        host: Host,
        active: ActiveConversation,
        resolver: Resolver,
        cell_resolver: CellResolver,
    ) -> None:
        self._host = host
        self._active = active
        self._scripts = resolver.scripts
        self._cell_resolver = cell_resolver

    def draft(
        self,
        request: ChatRequest,
        *,
        tool_choice: ToolChoice | None,
        next_conversation: NextConversation | None = None,
        directives: Sequence[Directive] = (),
        model: str | None = None,
        plan_first: bool = False,
    ) -> TurnDraft:
        """Resolve the configuration of a turn in `next_conversation`, or in the active one.

        Raises:
            ConfigError: An option or the configuration is not valid. Nothing is recorded, but a
                script that the user named stays allowed until the kernel ends.
            ProviderError: The key of the model is missing.
            UsageError: The model does not support the schema of the request, or `tool_choice` does
                not fit the tools.
        """
        stream = self._active.document.conversation
        settings = self._active.settings
        inherited_notices: list[str] = []
        if next_conversation is not None:
            stream = next_conversation.stream
            settings = next_conversation.make_settings(self._active)
            inherited_notices = self._inherit(settings, next_conversation, model)

        directives, notices = resolve_variables(
            directives, self._host.namespace, self._active.files.folder
        )
        attempt = SourceAttempt()  # each source is tried once for the turn, in all steps below
        changes = self._draft_with_tools(settings, directives, model, tool_choice, attempt)
        changes.notices = [*inherited_notices, *changes.notices, *notices]

        # A script that the user names here needs no other consent, also if the model was the same
        # before and nothing changes.
        self._scripts.choose_changed(changes.made)
        if model is not None:
            self._scripts.choose(model, changes.config().providers.llm.aliases)

        basis = settings.snapshot(changes)
        resolved = self._cell_resolver.resolve(
            basis, stream.id, tool_choice=tool_choice, plan_first=plan_first, attempt=attempt
        )
        _check_request(request, resolved)
        return TurnDraft(settings, changes, resolved)

    def _inherit(
        self, settings: Settings, next_conversation: NextConversation, model: str | None
    ) -> list[str]:
        """Record settings of the active conversation in the next one; return notices about them.

        The model is not one of them if the turn has its own `model`.
        """
        paths = [path for path in next_conversation.inherits if path != MODEL_PATH or model is None]
        inherited = settings.inherit(self._active.settings, paths)
        return list_inherited_notices(inherited)

    def _draft_with_tools(
        self,
        settings: Settings,
        directives: Sequence[Directive],
        model: str | None,
        tool_choice: ToolChoice | None,
        attempt: SourceAttempt,
    ) -> Draft:
        """Return the draft of `directives`, after the sources that it uses have found their tools.

        Sources are asked twice:

        - before the draft, for the tools that `-t NAME` switches: it needs to know their names.
          `-T NAME` alone asks no source, and only uses the tools that were found before;
        - after it, because the changed settings may use other sources. If they find new tools, the
          draft is made again.
        """
        discover = self._cell_resolver.discover
        switched_on = [each.text for each in directives if each.kind == "tool" and each.text]
        switched_off = [each.text for each in directives if each.kind == "no_tool" and each.text]
        if switched_on or switched_off:
            discover(settings.config, attempt, names=switched_on, only_named=True)

        draft = settings.draft(directives, model=model)
        chosen_tool = None if tool_choice is None else find_chosen_tool(tool_choice)
        chosen_names = [] if chosen_tool is None else [chosen_tool]
        has_new_tools = discover(draft.config(), attempt, names=chosen_names)
        if has_new_tools:
            draft = settings.draft(directives, model=model)
        return draft


def _check_request(request: ChatRequest, resolved: Resolved) -> None:
    """Check that the model can answer `request`."""
    if request.response_schema is not None:
        resolved.provider.check_schema(request.response_schema)

    llm = resolved.basis.config.providers.llm
    check_ready(resolved.provider, resolved.model, request.content, llm)
