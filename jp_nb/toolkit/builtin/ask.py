"""Built-in tool `ask`: one form with several questions, each a choice or a text.

The tool runs twice in a call. The first run reads the arguments (`ask_arguments.py`) and returns
the questions. Then the user answers, and the second run returns the result (`ask_result.py`). If
the arguments are wrong, the call ends in its first run, and the user sees nothing.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.builtin.ask_arguments import read_asked_questions
from jp_nb.toolkit.builtin.ask_result import make_result, refuse_call
from jp_nb.toolkit.builtin.ask_schema import (
    ASK_DESCRIPTION,
    ASK_SCHEMA,
)
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import NeedsInput, Outcome
from jp_nb.toolkit.tool_context import ToolContext


class Ask(Tool):
    """Tool that asks the user questions in one form, and returns the answers to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": True,
        "run": "unattended",
        "result": "unattended",
        "style": {"hidden": True},
        "description": ASK_DESCRIPTION,
    }
    schema = ASK_SCHEMA
    needs_user = True
    asks_as_assistant = True
    read_only = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the questions in the first run, and the answers in the second run."""
        asked, problems = read_asked_questions(arguments)
        if problems:
            return refuse_call(problems)

        questions = [checked.question for checked in asked]
        # The context of the second run has the end of each question, also of an open one.
        is_first_run = any(question.id not in context.ends for question in questions)
        if is_first_run:
            # `partial`: the tool also runs again if the user left questions open. `menu`: a user
            # who cancels the form can reply to the model instead.
            return NeedsInput(*questions, partial=True, menu=True)
        return make_result(asked, context)
