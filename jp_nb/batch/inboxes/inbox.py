"""The inbox of a batch: the open decisions in `OUT/`, and the answers that the user gives.

`Inbox` reads `OUT/runs.jsonl` and `OUT/answers.toml`. Three front ends use it: `jp_nb.inbox` shows
forms in the running cell, `jp-nb inbox --text` asks on a terminal (both with `inbox_dialogue.py`),
and `jp-nb inbox --list` prints `format_list`.

Whoever can write to `OUT/` can invent questions. So the inbox of a folder that is not the user's
own is shown, and takes no answers: `distrust` has the reason.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from jp_nb.batch.inboxes.inbox_answers import ANSWERS_NAME, InboxAnswer, InboxAnswers
from jp_nb.batch.results.open_decisions import DecisionGroup, group_open_decisions
from jp_nb.batch.results.run_log import LOG_NAME, read_run_log
from jp_nb.errors import ConfigError, UsageError
from jp_nb.exact_form import spell_invisible
from jp_nb.storage.files import describe_foreign
from jp_nb.text import one_line, pluralize
from jp_nb.toolkit.question_types.select_answer import SelectAnswer

EXCLUSIVE_NOTE: Final = "exclusive: only you or an answers file can answer it, not a model"


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

        self.distrust = describe_foreign(path) or ""  # None if the file is the user's own
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
            ConfigError: The folder is not the user's own. Nothing was written.
            StorageError: The file cannot be written.
        """
        answers = self._require_answers()
        answers.decide(group, runs, answer)
        answers.save()

    def leave_open(self, group: DecisionGroup, runs: Iterable[str]) -> None:
        """Remove the answer to `group` for `runs` from the file, if there is one.

        Raises:
            ConfigError: The folder is not the user's own. Nothing was written.
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

    def format_heading(self) -> str:
        """Return one line about the decisions, and how many are answered."""
        count = len(self.groups)
        if not count:
            return "no decision is open"

        answered = sum(self.count_answered(group) == len(group.runs) for group in self.groups)
        words = f"{count:,} open {pluralize('decision', count)} in {self.waiting:,} "
        words += pluralize("run", self.waiting)
        return f"{words}, {answered:,} answered" if answered else words

    def format_status(self, group: DecisionGroup) -> str:
        """Return how many runs wait for `group`, and how many have an answer, as text."""
        count = len(group.runs)
        words = f"{count:,} {pluralize('run', count)}"
        answered = self.count_answered(group)
        if answered == count:
            return f"{words}, answered"
        return f"{words}, {answered:,} answered" if answered else words

    def format_list(self) -> Iterator[str]:
        """Yield lines about all decisions, safe for a terminal."""
        yield f"{one_line(str(self.folder), limit=200)}: {self.format_heading()}"
        if self.distrust:
            yield f"No answers are taken: {one_line(self.distrust)}"
        if self.unreadable:
            yield f"{self.unreadable:,} damaged {pluralize('entry', self.unreadable)} omitted"

        for number, group in enumerate(self.groups, start=1):
            yield f"{number:>4}. {spell_invisible(group.description)}"
            yield f"      {self.format_status(group)}; {format_place(group)}"
            yield from (f"      {line}" for line in list_properties(group))
            for why in dict.fromkeys(group.misfits.values()):
                shown = one_line(spell_invisible(why), limit=300)
                yield f"      the last answer did not fit: {shown}"

    def format_next_step(self) -> str:
        """Return how to use the answers; "" without any."""
        if not any(map(self.count_answered, self.groups)):
            return ""
        out = one_line(str(self.folder), limit=500)
        answers = one_line(str(self.answers_path), limit=500)
        return f"Run what waited: jp-nb run --resume {out} --answers {answers}"


def format_place(group: DecisionGroup) -> str:
    """Return the notebook, and the first place in it where the decision was asked."""
    askings = group.askings[group.runs[0]]
    place = next((asked.asking.place for asked in askings if asked.asking.place), "")
    notebook = one_line(spell_invisible(group.notebook), limit=200)
    return f"{notebook}, {place}" if place else notebook


def list_properties(group: DecisionGroup) -> Iterator[str]:
    """Yield lines about the options of a question, and about who may answer it."""
    question = group.question
    if question is None:
        if not group.is_answerable:
            yield "its arguments are too long to show: permit it in an answers file"
        return

    kind = question.answer_type
    if isinstance(kind, SelectAnswer):
        shown = ", ".join(one_line(spell_invisible(label), limit=60) for label in kind.labels[:20])
        yield f"options: {shown}"
    if question.exclusive:
        yield EXCLUSIVE_NOTE
