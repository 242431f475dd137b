"""The inbox of a batch: the open decisions in `OUT/`, and the answers that the user gives.

`Inbox` reads `OUT/runs.jsonl` and `OUT/answers.toml`. Three front ends use it: `jp_nb.inbox` shows
forms in the running cell, `jp-nb inbox --text` asks on a terminal (both with `inbox_dialogue.py`),
and `jp-nb inbox --list` prints the decisions (`inbox_text.py`).

Whoever can write to `OUT/` can invent questions. So the inbox of a folder that is not the user's
own is shown, and takes no answers: `distrust` has the reason.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from jp_nb.batch.inboxes.decision_answers import InboxAnswer
from jp_nb.batch.inboxes.inbox_answers import ANSWERS_NAME, InboxAnswers
from jp_nb.batch.results.decision_groups import DecisionGroup
from jp_nb.batch.results.open_decisions import group_open_decisions
from jp_nb.batch.results.run_log import LOG_NAME, read_run_log
from jp_nb.errors import ConfigError, UsageError
from jp_nb.storage.files import describe_foreign


class Inbox:
    """The open decisions in the output folder of a batch.

    Attributes:
        folder: The output folder.
        groups: The decisions, in the order in which they were first asked.
        waiting: Number of runs that wait for one.
        unreadable: Number of damaged entries in the log.
        distrust: Why no answer is taken: the folder or the answers file is not the user's own, or
            that file is invalid. "" if answers are written.

    Raises:
        UsageError: The folder has no log of a batch.
        StorageError: The log cannot be read.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        path = self.folder / LOG_NAME
        if not path.is_file():
            raise UsageError(f"{folder} is not the output folder of a batch: it has no {LOG_NAME}")

        self.distrust = describe_foreign(path) or ""  # "" if the file is the user's own
        log = read_run_log(path)
        decisions = group_open_decisions(log.runs)
        self.groups = decisions.groups
        self.waiting = decisions.waiting
        self.unreadable = decisions.unreadable

        self._answers: InboxAnswers | None = None  # None with `distrust`
        if self.distrust:
            return
        try:
            notebooks = log.list_notebooks()
            self._answers = InboxAnswers(self.answers_path, self.groups, notebooks)
        except ConfigError as exc:
            self.distrust = str(exc)

    @property
    def answers_path(self) -> Path:
        """The file for the answers."""
        return self.folder / ANSWERS_NAME

    def count_answered(self, group: DecisionGroup) -> int:
        """Return the number of runs of `group` that have an answer in the file."""
        return 0 if self._answers is None else self._answers.count_answered(group)

    def is_for_batch(self, group: DecisionGroup) -> bool:
        """Return True if an equal answer for all runs of `group` also counts for later runs."""
        return self._answers is not None and self._answers.has_all_notebooks(group)

    def is_answered(self, group: DecisionGroup, run: str) -> bool:
        """Return True if the file has an answer to `group` for `run`."""
        return self._answers is not None and self._answers.find(group, run) is not None

    def answer(self, group: DecisionGroup, runs: Iterable[str], answer: InboxAnswer) -> None:
        """Write the answer to `group` for `runs` to the file.

        Raises:
            ConfigError: No answer is taken, because of `distrust`. Nothing was written.
            StorageError: The file cannot be written.
        """
        answers = self._require_answers()
        answers.decide(group, runs, answer)
        answers.save()

    def leave_open(self, group: DecisionGroup, runs: Iterable[str]) -> None:
        """Remove the answer to `group` for `runs` from the file, if there is one.

        Raises:
            ConfigError: No answer is taken, because of `distrust`. Nothing was written.
            StorageError: The file cannot be written.
        """
        answered = [run for run in runs if self.is_answered(group, run)]
        if answered:
            answers = self._require_answers()
            answers.leave_open(group, answered)
            answers.save()

    def _require_answers(self) -> InboxAnswers:
        if self._answers is None:
            raise ConfigError(f"no answers are written: {self.distrust}")
        return self._answers
