"""Give a turn what it needs from the running cell and the session: its `TurnContext`.

On the *bench*, the user calls a tool without a turn of the conversation. Such a call gets the same
context, except for what only a turn of the conversation has.

Source: `docs/architecture.md`, `docs/turns.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from jp_nb.agent.display import Display, DisplayEvent, ToolBegins, ToolEnds
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.agent.turn_state import RecordedAnswer, TurnContext
from jp_nb.agent.turn_times import TurnTimes
from jp_nb.agent.usage_counter import UsageCounter
from jp_nb.config.tree.app import AppConfig
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.configuration.edit_consent import allows_unattended_edits
from jp_nb.session.configuration.kept_rules import PermissionRules
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.host import Host, TurnOutput
from jp_nb.session.questions.answers import SessionAnswers
from jp_nb.storage import environment
from jp_nb.storage.configuration.project_files import ProjectFiles
from jp_nb.storage.configuration.skills import Skills
from jp_nb.storage.run_events import append_run_event, has_event_file
from jp_nb.toolkit.tool_context import SharedContext


class TurnContexts:
    """Makes the contexts of turns and of bench calls in the running cell."""

    def __init__(self, host: Host, active: ActiveConversation, runner: AgentRunner) -> None:
        self._host = host
        self._active = active
        self._runner = runner
        self._answers = SessionAnswers()

    def load_answers(self, config: AppConfig) -> SessionAnswers:
        """Return the answers of the run's answers file, or of the one in `config`.

        Raises:
            ConfigError: The file cannot be read, or is invalid.
        """
        file = os.environ.get(environment.ANSWERS_VARIABLE) or config.prompt.answers
        self._answers.load(file, self._active.files)
        return self._answers

    def begin(
        self,
        record: TurnRecord,
        config: AppConfig,
        recorded: Mapping[str, RecordedAnswer],
        *,
        is_bench: bool = False,
    ) -> TurnContext:
        """Begin the output of a turn in the running cell, and return the context of the turn.

        `recorded` are answers of the record, which tools get again. A call on the bench
        (`is_bench`) keeps no journal, measures nothing, and applies no configuration change.

        Raises:
            ConfigError: The answers file is invalid. The output has not begun then.
        """
        prepared = self.load_answers(config)
        output = self._runner.output.choose(config)
        display = _report_calls(output) if has_event_file() else output
        usage_display = None if is_bench else display
        progress = None if is_bench else self._active.journal_use.keep_progress

        return TurnContext(
            record=record,
            prompter=self._runner.front_end.prompter,
            cell=self._runner.cell,
            display=display,
            prepared=prepared,
            secrets=self._runner.secrets,
            recorded=recorded,
            kept_rules=PermissionRules(self._active),
            tokens=UsageCounter(usage_display),
            times=TurnTimes(may_measure=not is_bench),
            shared=self._make_shared_context(config),
            on_tool_error=self._keep_error,
            progress=progress,
            applies_changes=not is_bench,
        )

    def _make_shared_context(self, config: AppConfig) -> SharedContext:
        """Return the values of `ToolContext` that all tools of a turn share."""
        active = self._active
        return {
            "root": str(active.files.root),
            "conversation_id": active.document.conversation.id,
            "history": active.questions.reader.read_for_model,
            "notebook": self._host.make_notebook_access(active.store),
            "needs_review": not allows_unattended_edits(config, active.files),
            "read_skill": Skills(ProjectFiles(active.files)).read,
            "image_side": active.settings.projection.config().values.image_side,
        }

    def _keep_error(self, error: BaseException) -> None:
        """Keep the traceback of a tool for the user. A tool may raise `error` on any thread."""
        self._runner.cell.post(lambda: self._host.keep_error(error))


def _report_calls(output: TurnOutput) -> Display:
    """Return a display that also reports each call's begin and end to the runner of the notebook.

    Each is a line in the file of the run's events, which the runner reads.
    """

    def show(event: DisplayEvent) -> None:
        match event:
            case ToolBegins(call_id=call, name=name):
                append_run_event(call=call, tool=name)
            case ToolEnds(call_id=call):
                append_run_event(call=call, tool=None)
        output(event)

    return show
