"""The folder of a batch without kernels: its log, open decisions, answers, and reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jp_nb.batch.inboxes import (
    decision_answers,
    inbox,
    inbox_answers,
    inbox_command,
    inbox_dialogue,
)
from jp_nb.batch.inboxes.unused_answers import find_unused_answers
from jp_nb.batch.plans.run_selection import RunSelection
from jp_nb.batch.results import (
    batch_junit,
    batch_report,
    open_decisions,
    run_log,
    run_log_lines,
    run_log_writer,
)
from jp_nb.storage.configuration.answers_content import (
    EnvironmentVariable,
)
from jp_nb.storage.configuration.answers_file import (
    parse_answers,
)


class BatchFolder:
    """The output folder of a batch. `tests/batch/log_lines.py` makes the lines of its log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / run_log.LOG_NAME

    # --- the log ---------------------------------------------------------------------------------

    def append(self, *lines: dict[str, Any]) -> None:
        """Append `lines` to the log, as a batch does."""
        log = run_log_writer.RunLogWriter(self._log)
        for line in lines:
            log.append(run_log_lines.parse_log_line(json.dumps(line).encode(), "the line"))
        log.close()

    def runs(self) -> list[Any]:
        """Return the state of each run."""
        return list(run_log.read_run_log(self._log).runs)

    def batches(self) -> list[dict[str, Any]]:
        """Return the first line of each batch."""
        return [line.model_dump() for line in run_log.read_run_log(self._log).batches]

    # --- open decisions --------------------------------------------------------------------------

    def decisions(self) -> Any:
        """Return the open decisions of the log, grouped."""
        return self.group_decisions(self.runs())

    @staticmethod
    def group_decisions(runs: Any) -> Any:
        """Return the open decisions of these states of runs, grouped."""
        return open_decisions.group_open_decisions(runs)

    def answers(self, groups: Iterable[Any]) -> Any:
        """Return the answers of the inbox to the decisions in `groups`."""
        path = self._folder / inbox_answers.ANSWERS_NAME
        notebooks = run_log.read_run_log(self._log).list_notebooks()
        return inbox_answers.InboxAnswers(path, list(groups), notebooks)

    @staticmethod
    def make_answer(value: Any = None, *, skip: bool = False, env: str = "") -> Any:
        """Return an answer of the user; `env` is the name of a variable."""
        if env:
            value = EnvironmentVariable(env)
        return decision_answers.InboxAnswer(value, skip)

    @staticmethod
    def find_unused(source: str, used: Mapping[str, Any]) -> list[Any]:
        """Return the identities of answers in the text of a file that no run used."""
        found = find_unused_answers(parse_answers(source, "answers.toml"), used)
        return [answer.identity for answer in found]

    def select(self, answers: str) -> Callable[[], list[str]]:
        """Return a function that lists the runs that a batch resumed with these answers runs."""
        runs = self.runs()
        selection = RunSelection(
            runs, self._folder, answers=parse_answers(answers, inbox_answers.ANSWERS_NAME)
        )
        return lambda: [each.run for each in runs if selection.includes(each)]

    def inbox(self) -> Any:
        """Return the inbox of the batch."""
        return inbox.Inbox(self._folder)

    def ask_about(self, ask: Any) -> None:
        """Ask about the open decisions; `ask` ends each prompt."""
        inbox_dialogue.InboxDialogue(self.inbox(), ask).run()

    def write_notebook(self) -> Path:
        """Write the notebook that `jp-nb inbox` opens, and return its path."""
        return inbox_command.write_inbox_notebook(self._folder)

    # --- reports ---------------------------------------------------------------------------------

    def write_reports(self) -> str:
        """Write the reports of the log, and return the page."""
        batch_report.write_reports(self._folder, run_log.read_run_log(self._log))
        return (self._folder / batch_report.HTML_NAME).read_text(encoding="utf-8")

    def junit(self, *, strict: bool = False) -> str:
        """Return the JUnit XML of the log."""
        return batch_junit.format_batch_junit(self.runs(), strict=strict).decode()
