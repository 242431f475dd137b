"""Wait in the cell's thread until sources of tools have started.

Meanwhile the thread shows a slow start, and the forms for secrets that a source needs. An interrupt
ends the wait.

Source: `docs/mcp.md`, `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from jp_nb.agent.display import Waits
from jp_nb.agent.prompting.prompt_ends import Answered, FormEnd, PromptEnd
from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt
from jp_nb.config.tree.app import AppConfig
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.threads.cell_jobs import Timer
from jp_nb.session.threads.turn_line import TurnLine
from jp_nb.text import one_line
from jp_nb.toolkit.question import Question

WAIT_KEY: Final = "tool sources"
"""Key of the status line about starting sources."""
START_INTERRUPTED: Final = "Interrupted. Nothing was sent to a model."


class SourceWait:
    """One wait for sources, on the cell's thread.

    Args:
        list_starting: Returns the names of the servers that start now.
    """

    def __init__(
        self,
        runner: AgentRunner,
        line: TurnLine,
        config: AppConfig,
        list_starting: Callable[[], Sequence[str]],
    ) -> None:
        self._runner = runner
        self._line = line
        self._config = config
        self._list_starting = list_starting
        self._timer: Timer | None = None
        self._shown = ""

    def serve(self, future: Future[Any]) -> None:
        """Serve the queue of the cell until `future` is done.

        Raises:
            KeyboardInterrupt: An interrupt came first.
        """
        cell = self._runner.cell
        future.add_done_callback(lambda _: cell.wake())
        self._runner.front_end.begin_question(self._config)
        if self._is_progress_shown():
            delay_s = self._config.style.mcp_startup.delay_secs
            self._timer = cell.call_later(delay_s, self._show_progress)

        is_interrupted = False

        def must_end() -> bool:
            nonlocal is_interrupted
            is_interrupted = is_interrupted or self._line.takes_interrupt()
            return is_interrupted or future.done()

        try:
            cell.serve(must_end, tools=False)
        except KeyboardInterrupt:
            is_interrupted = True
        except BaseException:
            self._end_output()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._show_status("")

        if is_interrupted:
            self._end_output()
            raise KeyboardInterrupt(START_INTERRUPTED)

    def _end_output(self) -> None:
        # The work that asks is cancelled on its own thread, which cannot remove a form by itself.
        self._runner.front_end.end()
        self._runner.output.end_early()

    def _is_progress_shown(self) -> bool:
        has_user = self._runner.front_end.find_unavailable_reason(self._config) is None
        return self._config.style.mcp_startup.show and has_user

    def _show_progress(self) -> None:
        """Show the servers that start now, and again after the configured interval."""
        names = [f"the server {one_line(name, limit=40)}" for name in self._list_starting()]
        text = ""
        if names:
            self._runner.output.begin_early(self._config)
            text = f"{' and '.join(names)} to start"
        self._show_status(text)

        interval_s = self._config.style.mcp_startup.interval_ms / 1000
        self._timer = self._runner.cell.call_later(interval_s, self._show_progress)

    def _show_status(self, text: str) -> None:
        if text == self._shown:
            return
        self._shown = text
        early = self._runner.output.early
        if early is not None:
            early(Waits(WAIT_KEY, text))


class InputForms:
    """Asks the user for the inputs of a server, such as a token, while the cell serves prompts."""

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def ask(self, server: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the answers by the ids of the inputs. An input that is not given is missing."""
        questions = [
            Question.secret(f"input-{number}", one_line(label, limit=200))
            for number, label in enumerate(labels.values())
        ]
        prompter = self._runner.front_end.prompter
        if prompter.unavailable() is not None:
            return {}

        label = f"The MCP server {server} needs this to start"
        prompt = FormPrompt(tuple(QuestionPrompt(question, label=label) for question in questions))

        end: PromptEnd[FormEnd] = await asyncio.to_thread(
            prompter.ask_in_cell, prompt, keeps_record=False
        )
        if not isinstance(end, FormEnd):
            return {}

        answers: dict[str, str] = {}
        for input_id, question, page_end in zip(labels, questions, end.ends, strict=True):
            if isinstance(page_end, Answered):
                self._runner.secrets.add_answer(question, page_end.value)
                answers[input_id] = str(page_end.value)
        return answers
