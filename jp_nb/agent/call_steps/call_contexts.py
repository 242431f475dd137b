"""Make the context that a run of a call's tool gets, or the formatter of its arguments.

The context is a `ToolContext`: the call's answers so far, and the settings that the tool may read.
Each run gets its own copies, because tools may modify what they get.

Source: `docs/tools.md`, `docs/turns.md`.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pydantic import JsonValue

from jp_nb.agent.calls.call import Call
from jp_nb.agent.calls.call_display import CallDisplay
from jp_nb.agent.calls.call_progress import ProgressWriter
from jp_nb.agent.display import Notice
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_state import BatchContext, TurnContext
from jp_nb.json_values import copy_json
from jp_nb.toolkit.tool_context import ToolContext

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.document_change import EditOperation


class CallContexts:
    """Makes the contexts for the runs of a batch's calls."""

    def __init__(
        self,
        turn: TurnContext,
        batch: BatchContext,
        progress: ProgressWriter,
        display: CallDisplay,
    ) -> None:
        self._turn = turn
        self._batch = batch
        self._progress = progress
        self._display = display
        self._readable_settings: dict[str, JsonValue] = {}  # by the name of the tool

    def make_for_run(self, call: Call, tool: OfferedTool) -> ToolContext:
        """Return the context for the next run of `tool`."""
        answers = call.state.answers
        return ToolContext(
            name=tool.name,
            call_id=call.request.id,
            call_key=call.key,
            answers=copy_json(answers.values),
            ends=dict(answers.ends),
            reply=answers.reply,
            has_answers=self._has_answers(tool),
            options=copy_json(dict(tool.options)),
            access=copy_json(tool.access),
            config=self._copy_readable_settings(tool),
            delta_rejection=call.state.rejection,
            catalog=self._batch.catalog,
            edit_decision=call.state.edit_decision,
            edit_operation=self._make_edit_operation(call, tool),
            show_progress=partial(self._display.show_progress, call),
            **self._turn.shared,  # the fields that are the same for all calls, such as `notebook`
        )

    def make_for_formatter(self, call: Call, tool: OfferedTool) -> ToolContext:
        """Return the context for the formatter of the arguments, which gets less than the tool."""
        return replace(
            self.make_for_run(call, tool),
            action="format_arguments",
            config=None,
            delta_rejection=None,
            show_progress=None,
        )

    def _copy_readable_settings(self, tool: OfferedTool) -> JsonValue:
        """Return a copy of the settings that `tool` may read; None if it may read none.

        Changes that are approved during the batch are not visible before its end.
        """
        if tool.grants is None:
            return None

        if tool.name not in self._readable_settings:
            readable = tool.grants.select_readable(self._batch.basis.values)
            self._readable_settings[tool.name] = readable
        return copy.deepcopy(self._readable_settings[tool.name])

    def _has_answers(self, tool: OfferedTool) -> bool:
        """Return True if answers to questions of `tool` are configured or prepared."""
        if self._turn.prepared.answers_questions_of(tool.name):
            return True
        return any(question.answer is not None for question in tool.questions.values())

    def _make_edit_operation(self, call: Call, tool: OfferedTool) -> EditOperation | None:
        """Return the change of the notebook that `call` makes; None if its tool edits no cells.

        Its id is the same in each run of the call, also after a restart of the kernel. By the id in
        the document, the tool sees that an earlier run has applied the edits.
        """
        if not tool.executor.proposes_edits:
            return None

        from jp_nb.toolkit.editing.document_change import EditOperation, make_operation_id

        if not call.edit_operation:
            conversation = self._turn.shared.get("conversation_id", "")
            call.edit_operation = make_operation_id(conversation, call.event_id)
        return EditOperation(
            call.edit_operation,
            may_be_applied=call.may_have_run,
            change=call.edits,
            note=partial(self._note_edits, call),
            tell=self._show_notice,
        )

    def _note_edits(self, call: Call, edits: JsonValue) -> None:
        """Note the edits that `call` is about to apply, in the journal too."""
        call.edits = edits
        self._progress.write(call, stage="started")

    def _show_notice(self, text: str) -> None:
        self._turn.display(Notice(text))
