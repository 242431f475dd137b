"""Forms for the inputs of an MCP server, such as a token, while the cell serves prompts.

The settings of a server refer to inputs (`${input:ID}`). `mcp_launches.py` asks for them before the
server starts. The answers are secrets: they are not recorded, and hidden from models.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from jp_nb.agent.prompting.prompt_ends import Answered, FormEnd, PromptEnd
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question


class InputForms:
    """Asks the user for the inputs of servers, on the agent's event loop."""

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def ask(self, server: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the answers by the ids of the inputs. An input without an answer is missing.

        `labels` has the label of each input by its id.
        """
        prompter = self._runner.front_end.prompter
        if prompter.unavailable() is not None:
            return {}

        # The ids of inputs may have any form, unlike those of questions.
        questions = [
            Question.secret(f"input-{number}", one_line(label, limit=200))
            for number, label in enumerate(labels.values())
        ]
        heading = f"The MCP server {server} needs this to start"
        pages = tuple(QuestionPrompt(question, label=heading) for question in questions)

        end: PromptEnd[FormEnd] = await asyncio.to_thread(
            prompter.ask_in_cell, FormPrompt(pages), keeps_record=False
        )
        if not isinstance(end, FormEnd):
            return {}

        # A form has an end for each page, also if the user left it early.
        answers: dict[str, str] = {}
        for input_id, question, page_end in zip(labels, questions, end.ends, strict=True):
            if isinstance(page_end, Answered):
                self._runner.secrets.add_answer(question, page_end.value)
                answers[input_id] = str(page_end.value)
        return answers
