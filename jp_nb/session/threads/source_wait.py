"""Wait in the cell's thread until sources of tools have started.

Meanwhile the thread shows a slow start, and the forms of servers: for the inputs that they need
(`input_forms.py`), and to sign in (`sign_in_forms.py`). An interrupt ends the wait.

Source: `docs/mcp.md`, `docs/architecture.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from jp_nb.agent.display import Waits
from jp_nb.config.tree.app import AppConfig
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.threads.cell_jobs import Timer
from jp_nb.session.threads.turn_line import TurnLine
from jp_nb.text import one_line

WAIT_KEY: Final = "tool sources"
"""Key of the status line about starting sources."""
START_INTERRUPTED: Final = "Interrupted. Nothing was sent to a model."


class SourceWait:
    """One wait for sources, on the cell's thread.

    Before the wait begins, the front end learns to show prompts in the running cell
    (`begin_question`). If a start is slow, the display of the turn begins *early*, before the turn
    itself, with a status line about the servers. It appears after the configured delay, and is
    updated at intervals.

    Args:
        config: The configuration with the sources, and with the settings of the display.
        list_awaited: Returns the names of the servers that start or list their tools now.
    """

    def __init__(
        self,
        runner: AgentRunner,
        line: TurnLine,
        config: AppConfig,
        list_awaited: Callable[[], Sequence[str]],
    ) -> None:
        self._runner = runner
        self._line = line
        self._config = config
        self._list_awaited = list_awaited
        self._timer: Timer | None = None  # the next update of the status line
        self._shown_status = ""

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

        # The user interrupts the kernel: Python raises that in the main thread. If this is another
        # thread, the main thread passes the interrupt on through the line of turns.
        is_interrupted = False

        def must_end() -> bool:
            nonlocal is_interrupted
            is_interrupted = is_interrupted or self._line.take_interrupt()
            return is_interrupted or future.done()

        try:
            cell.serve(must_end, tools=False)  # no call of a tool starts meanwhile
        except KeyboardInterrupt:  # this is the main thread
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
        """Remove open forms and the early display, because the wait was interrupted.

        The work that has asked is canceled on the agent's thread, which cannot remove a form.
        """
        self._runner.front_end.end()
        self._runner.output.end_early()

    def _is_progress_shown(self) -> bool:
        has_user = self._runner.front_end.find_unavailable_reason(self._config) is None
        return self._config.style.mcp_startup.show and has_user

    def _show_progress(self) -> None:
        """Show the servers that start now, and again after the configured interval."""
        names = [f"the server {one_line(name, limit=40)}" for name in self._list_awaited()]
        text = ""
        if names:
            self._runner.output.begin_early(self._config)
            text = f"{' and '.join(names)} to start"
        self._show_status(text)

        interval_s = self._config.style.mcp_startup.interval_ms / 1000
        self._timer = self._runner.cell.call_later(interval_s, self._show_progress)

    def _show_status(self, text: str) -> None:
        """Show the status line in the early display of the turn, if there is one; "" removes it."""
        if text == self._shown_status:
            return
        self._shown_status = text
        early = self._runner.output.early
        if early is not None:
            early(Waits(WAIT_KEY, text))
