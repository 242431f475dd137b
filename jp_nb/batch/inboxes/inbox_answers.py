"""The answers of an inbox, and their file `OUT/answers.toml`.

An `InboxAnswers` begins with the file that an earlier inbox, or the user, wrote. Each decision of
the user is about one `DecisionGroup` and some of its runs. `DecisionAnswers` has the entries of one
decision, for all runs or for each. `save` writes the whole file anew:

    # 37 runs of walk.ipynb, cell 3, turn 1: Who is it for?
    [questions.publish]
    audience = "team"

    # walk.ipynb, cell 3, turn 1: permission to run pay with {"amount":5}
    [[runs."walk-city=Delft-1f3a9c".permissions.pay]]
    decision = "run"
    arguments = { amount = 5 }

An entry without a run is written only if all runs that wait for this key have the same answer, and
each notebook of the batch has such a run. Otherwise each run has a separate table. A permission
always lists the exact arguments. Entries of the file that the user did not change here stay, and so
do all comments of the user.

Source: `docs/many-notebooks.md`, `docs/answers.md`, `docs/decisions.md` D260.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from jp_nb.batch.inboxes.answer_entries import (
    AnswerEntry,
    format_answer_table,
    format_answer_value,
    to_toml_value,
)
from jp_nb.batch.inboxes.answers_comments import HEADING, AnswersText, EntryText, name_answer_table
from jp_nb.batch.inboxes.decision_answers import AskedDecision, DecisionAnswers, InboxAnswer
from jp_nb.batch.results.decision_groups import DecisionGroup
from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.storage.configuration.answers_content import (
    RUNS_TABLE,
    AnswerKey,
    PreparedAnswer,
)
from jp_nb.storage.configuration.answers_file import (
    MAX_ANSWERS_BYTES,
    MAX_ANSWERS_LINES,
    decode_answers,
    parse_answers,
    read_answers,
)
from jp_nb.storage.configuration.toml_text import (
    is_toml,
)

ANSWERS_NAME: Final = "answers.toml"


class InboxAnswers:
    """The answers to `groups` in the file at `path`, which may not exist yet.

    `notebooks` are all notebooks of the batch. A tool of another notebook may have the same name
    and do something else, so one entry for all runs needs the question of each notebook (D260).

    Entries and groups belong together by their *identity* (`DecisionGroup.identity`): the key of
    the entry, and the exact arguments of a permission. `AnswersText` has the user's comments that
    belong to no entry.

    Raises:
        ConfigError: The file is not the user's own, or is not an answers file.
    """

    def __init__(
        self, path: Path, groups: Sequence[DecisionGroup], notebooks: Collection[str]
    ) -> None:
        self.path = path
        self._notebooks = frozenset(notebooks)
        self._text = AnswersText()

        # The decisions that runs wait for, and the answers, both by identity. The answers keep the
        # order of the file, which may have some that no run waits for.
        self._asked: dict[AnswerKey, AskedDecision] = {}
        self._answers: dict[AnswerKey, DecisionAnswers] = {}

        for group in groups:
            self._asked.setdefault(group.identity, AskedDecision()).add(group)
        if path.exists():
            self._read()

    def _read(self) -> None:
        """Read the entries of the file, and their comments."""
        content = decode_answers(self.path, read_answers(self.path))
        answers = parse_answers(content, self.path.name).answers
        self._text = AnswersText(content, answers)

        # In the order in which `save` writes them, so that it does not change with each decision.
        def rank(index: int) -> tuple[bool, int]:
            return (answers[index].run is not None, answers[index].line)

        for index in sorted(range(len(answers)), key=rank):
            identity = replace(answers[index], run=None).identity
            text = self._text.entries.get(index) or EntryText()
            self._get_answers(identity).add_stored(answers[index], text)

    def _get_answers(self, identity: AnswerKey) -> DecisionAnswers:
        """Return the answers of the decision with this identity; add it if it is new."""
        if identity not in self._answers:
            asked = self._asked.get(identity) or AskedDecision()
            self._answers[identity] = DecisionAnswers(asked)
        return self._answers[identity]

    def find(self, group: DecisionGroup, run: str) -> PreparedAnswer | None:
        """Return the answer of the file for `group` in `run`.

        An entry whose key is a pattern does not count, nor an answer that did not fit when the run
        used it: the user is asked.
        """
        answers = self._answers.get(group.identity)
        return None if answers is None else answers.find(run)

    def has_all_notebooks(self, group: DecisionGroup) -> bool:
        """Return True if an equal answer of all runs that wait is one entry for the whole batch."""
        return self._notebooks <= self._asked[group.identity].notebooks

    def count_answered(self, group: DecisionGroup) -> int:
        """Return the number of runs of `group` that have an answer."""
        return sum(self.find(group, run) is not None for run in group.runs)

    def decide(self, group: DecisionGroup, runs: Iterable[str], answer: InboxAnswer) -> None:
        """Set the answer to `group` in `runs`. `save` writes it.

        Raises:
            StorageError: TOML cannot express the answer.
        """
        if not _is_writable(answer):
            raise StorageError("the answer contains half a character, which TOML cannot express")

        answers = self._get_answers(group.identity)
        answers.decide(group, runs, answer, may_combine=self.has_all_notebooks(group))

    def leave_open(self, group: DecisionGroup, runs: Iterable[str]) -> None:
        """Withdraw the answer to `group` in `runs`. Comments of the user move to the end."""
        answers = self._answers.get(group.identity)
        if answers is not None:
            self._text.end += answers.leave_open(group, runs)

    def save(self) -> None:
        """Write the file anew.

        Raises:
            StorageError: It cannot be written, would be too long, or an answer would be lost.
        """
        text = self._format()
        content = text.encode()
        if len(content) > MAX_ANSWERS_BYTES or text.count("\n") > MAX_ANSWERS_LINES:
            raise StorageError(
                f"{self.path} would be longer than {MAX_ANSWERS_LINES:,} lines or "
                f"{MAX_ANSWERS_BYTES:,} bytes: write one entry for all runs yourself"
            )

        # The text is read again before it replaces the file, so that no answer is lost.
        answers = [entry.answer for entry in self._list_entries()]
        expected = {answer.identity: format_answer_value(answer) for answer in answers}
        if _read_values(text) != expected:
            raise StorageError(f"{self.path} was not written: it would not have all answers")

        try:
            replace_file(self.path, content)
        except OSError as exc:
            raise StorageError(f"{self.path} cannot be written: {exc.strerror or exc}") from exc

    def _list_entries(self) -> Iterator[AnswerEntry]:
        """Yield all entries of the file, for each identity the one for all runs first."""
        for answers in self._answers.values():
            yield from answers.list_entries()

    def _format(self) -> str:
        """Return the file: its head, the tables, and comments of tables that are not written."""
        tables: dict[str, list[AnswerEntry]] = {}
        for entry in self._list_entries():
            tables.setdefault(name_answer_table(entry.answer), []).append(entry)

        lines = [HEADING, *self._text.head]
        # Tables for single runs come last, as they are many.
        for table in sorted(tables, key=lambda name: name.startswith(RUNS_TABLE)):
            lines += format_answer_table(table, tables[table], self._text.tables.get(table, ()))

        end = list(self._text.end)
        for table, comments in self._text.tables.items():
            if table not in tables:
                end += comments
        if end:
            lines += ["", *end]
        return "\n".join(lines) + "\n"


def _read_values(text: str) -> dict[AnswerKey, str]:
    """Return the values of an answers file by the identity of their answer, to check the file."""
    answers = parse_answers(text, "").answers
    return {answer.identity: format_answer_value(answer) for answer in answers}


def _is_writable(answer: InboxAnswer) -> bool:
    """Return False for values that TOML cannot express, such as half a surrogate pair."""
    if answer.skip or answer.value is None:
        return True
    value = answer.value
    if isinstance(value, Mapping):
        return is_toml({name: to_toml_value(field_value) for name, field_value in value.items()})
    return is_toml(to_toml_value(value))
