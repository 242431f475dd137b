"""Ask the user in the running cell: questions of the user's code, and prompts before a turn.

Source: `docs/guide.md`, `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from jp_nb.agent.display import CodeAsks, Display, Notice
from jp_nb.agent.prompting.prompt_ends import Answered, AnyEnd, PromptEnd, Unavailable
from jp_nb.agent.prompting.prompts import ActionPrompt, AnyPrompt
from jp_nb.config.tree.app import AppConfig
from jp_nb.errors import PromptUnavailable
from jp_nb.rendering.prompt_texts.prompt_summary import summarize_prompt
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.questions.answers import SessionAnswers
from jp_nb.session.questions.code_questions import CodeQuestions, format_questions
from jp_nb.toolkit.current_run import CURRENT_RUN, ToolRun
from jp_nb.toolkit.question import Question


@contextmanager
def _show_wait(output: Display | None, run: ToolRun | None) -> Iterator[None]:
    """Tell the `output` of a turn that code of the tool call `run` asks the user in this block.

    The time does not count as that of the tool. Both are None outside of a turn or a tool.
    """
    if output is None or run is None:
        yield
        return

    output(CodeAsks(run.call_id, waits=True))
    try:
        yield
    finally:
        output(CodeAsks(run.call_id, waits=False))


class CellQuestions:
    """Asks the user in the running cell, from any thread that executes the user's code.

    `load_answers` returns the prepared answers of a configuration.
    """

    def __init__(
        self,
        active: ActiveConversation,
        runner: AgentRunner,
        load_answers: Callable[[AppConfig], SessionAnswers],
    ) -> None:
        self._active = active
        self._runner = runner
        self._load_answers = load_answers
        self._front_end = runner.front_end

    def ask_action(self, prompt: ActionPrompt) -> PromptEnd[Answered]:
        """Show `prompt` in the running cell before a turn, and return its end.

        The caller prepares a turn, so no other turn runs, and the prompt need not wait for one
        (`turn_line.py`). After an interrupt, raise `KeyboardInterrupt` with a message that nothing
        ran.
        """
        self._front_end.begin_question(self._active.settings.config)
        try:
            return self._front_end.prompter.ask_in_cell(prompt, keeps_record=False)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "Interrupted before you decided. No request was sent, and nothing ran."
            ) from None

    def ask_without_record(self, prompt: AnyPrompt) -> AnyEnd:
        """Show `prompt` in the running cell, and remove the form at its end; return the end.

        Only a turn that runs shows a text about the answer, in its output.
        """
        return self._show(self._active.settings.config, prompt, keeps_record=False)

    def ask(
        self, questions: Sequence[Question], *, label: str | None, tool: str | None
    ) -> dict[str, Any]:
        """Return the answers to `questions` by id: configured, or of the user in one form.

        Raises:
            ConfigError: A configured answer does not fit.
            PromptUnavailable: No user is available.
            PromptCancelled: The user gave no answer.
        """
        run = CURRENT_RUN.get()
        if run is not None and run.is_over:  # a thread of a tool asks after the tool has ended
            reason = "the tool call has already ended"
            asked = format_questions(questions, singular="was", plural="were")
            raise PromptUnavailable(f"{asked} asked too late: {reason}", reason=reason)

        config = self._active.settings.config
        secrets = self._runner.secrets
        prepared = self._load_answers(config)
        code_questions = CodeQuestions(
            questions, config, label=label, tool=tool, prepared=prepared, secrets=secrets
        )

        answers = code_questions.find_answers(partial(self._show, config))

        # The answer to a secret question is hidden from models and records from now on.
        for question in questions:
            secrets.add_answer(question, answers[question.id])
        return {question.id: question.validated(answers[question.id]) for question in questions}

    def _show(self, config: AppConfig, prompt: AnyPrompt, *, keeps_record: bool = True) -> AnyEnd:
        """Show `prompt` in the cell of the running turn, or in the caller's cell.

        With `keeps_record`, a text with the answer replaces the form in the caller's cell.

        Without a running turn, the prompt waits for the turns of other threads, as a turn does
        (`turn_line.py`). A caller that prepares a turn has waited already.
        """
        if self._active.is_running:
            return self._show_in_turn(prompt)

        def ask() -> AnyEnd:
            self._front_end.begin_question(config)
            return self._front_end.prompter.ask_in_cell(prompt, keeps_record=keeps_record)

        turn_line = self._active.line
        if turn_line.is_held_here:
            return ask()
        return turn_line.run(ask)

    def _show_in_turn(self, prompt: AnyPrompt) -> AnyEnd:
        """Show `prompt` in the output of the turn, with a line of text about its end."""
        output = self._runner.output.current
        with _show_wait(output, CURRENT_RUN.get()):
            end: AnyEnd = self._front_end.prompter.ask_in_cell(prompt, keeps_record=False)

        if output is not None and not isinstance(end, Unavailable):
            output(Notice(summarize_prompt(prompt, end).plain))
        return end
