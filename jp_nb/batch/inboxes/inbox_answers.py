"""The answers of an inbox: kept for each run, and written to `OUT/answers.toml`.

An `InboxAnswers` begins with the file that an earlier inbox, or the user, wrote. Each decision of
the user is about one `DecisionGroup` and some of its runs. `save` writes the whole file anew:

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from jp_nb.batch.inboxes.answer_entries import (
    AnswerEntry,
    AnswerValue,
    format_answer_value,
    format_table,
    to_toml_value,
)
from jp_nb.batch.inboxes.answers_comments import HEADING, AnswersText, EntryText, name_answer_table
from jp_nb.batch.inboxes.asking_comments import (
    describe_asking,
    list_own_comments,
)
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


@dataclass(frozen=True, slots=True)
class InboxAnswer:
    """An answer of the user. `skip` leaves a question unanswered, or refuses a consent."""

    value: AnswerValue = None
    skip: bool = False


@dataclass(slots=True)
class _DecidedKey:
    """The entries of the file for one identity.

    Attributes:
        general: The entry for all runs; None without one.
        by_run: The entries for single runs, by the id of the run.
    """

    general: AnswerEntry | None = None
    by_run: dict[str, AnswerEntry] = field(default_factory=dict)


@dataclass(slots=True)
class _AskedKey:
    """The groups with one identity: several notebooks may ask the same.

    Attributes:
        notebooks: The notebooks of the groups.
        waiting_runs: The ids of their runs, in order.
        misfit_runs: The ids of the runs whose answer in the file did not fit when they used it.
    """

    notebooks: set[str] = field(default_factory=set)
    waiting_runs: dict[str, None] = field(default_factory=dict)
    misfit_runs: set[str] = field(default_factory=set)


class InboxAnswers:
    """The answers to `groups` in the file at `path`, which may not exist yet.

    `notebooks` are all notebooks of the batch. A tool of another notebook may have the same name
    and do something else, so one entry for all runs needs the question of each notebook (D260).

    Entries and groups belong together by their *identity* (`DecisionGroup.identity`): the key of
    the entry, and the exact arguments of a permission.

    Raises:
        ConfigError: The file is not the user's own, or is not an answers file.
    """

    def __init__(
        self, path: Path, groups: Sequence[DecisionGroup], notebooks: Collection[str]
    ) -> None:
        self.path = path
        self._notebooks = frozenset(notebooks)
        self._text = AnswersText()

        # Both by identity: the answers in the file, and the questions of the runs.
        self._decided: dict[AnswerKey, _DecidedKey] = {}
        self._asked: dict[AnswerKey, _AskedKey] = {}

        for group in groups:
            asked = self._asked.setdefault(group.identity, _AskedKey())
            asked.notebooks.add(group.notebook)
            asked.waiting_runs.update(dict.fromkeys(group.runs))
            asked.misfit_runs.update(group.misfits)

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
            self._add_stored(answers[index], self._text.entries.get(index) or EntryText())

    def _add_stored(self, answer: PreparedAnswer, text: EntryText) -> None:
        """Add an answer of the file. The first of equal entries counts; all comments stay."""
        identity = replace(answer, run=None).identity
        decided = self._decided.setdefault(identity, _DecidedKey())
        earlier = decided.general
        if answer.run is not None:
            earlier = decided.by_run.get(answer.run)

        if earlier is not None:
            earlier.text.add(text.list_all_comments())
        elif answer.run is None:
            decided.general = AnswerEntry(answer, text)
        else:
            decided.by_run[answer.run] = AnswerEntry(answer, text)

    def find(self, group: DecisionGroup, run: str) -> PreparedAnswer | None:
        """Return the answer of the file for `group` in `run`.

        Patterns of the file do not count, nor an answer that did not fit when the run used it.
        """
        decided = self._decided.get(group.identity)
        if decided is None or run in self._asked[group.identity].misfit_runs:
            return None

        entry = decided.by_run.get(run) or decided.general
        return None if entry is None else entry.answer

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

        decided = self._decided.setdefault(group.identity, _DecidedKey())
        for run in runs:
            prepared = PreparedAnswer(
                group.answer_key,
                line=0,  # it is not in the file so far
                skip=answer.skip,
                value=answer.value,
                arguments=group.arguments,
                run=run,
            )
            comments = list_own_comments(decided.by_run.get(run), group)
            text = EntryText([*comments, describe_asking(group, run)])
            decided.by_run[run] = AnswerEntry(prepared, text)
            self._asked[group.identity].misfit_runs.discard(run)
        self._combine_equal(group, decided)

    def leave_open(self, group: DecisionGroup, runs: Iterable[str]) -> None:
        """Withdraw the answer to `group` in `runs`."""
        decided = self._decided.get(group.identity)
        if decided is None:
            return

        self._split_general(group, decided)
        for run in runs:
            comments = list_own_comments(decided.by_run.pop(run, None), group)
            self._text.end += comments

    def _split_general(self, group: DecisionGroup, decided: _DecidedKey) -> None:
        """Replace an entry for all runs by equal entries of each, so that one can be withdrawn.

        The first of them gets the comments of the user. The places where the runs asked are
        comments of each.
        """
        general = decided.general
        if general is None:
            return

        decided.general = None
        own = list_own_comments(general, group)
        generated = [line for line in general.text.list_all_comments() if line not in own]

        for run in self._asked[group.identity].waiting_runs:
            if run not in decided.by_run:
                text = EntryText([*own, *generated])
                decided.by_run[run] = AnswerEntry(replace(general.answer, run=run), text)
                own = []  # the comments of the user are kept once
        self._text.end += own

    def _combine_equal(self, group: DecisionGroup, decided: _DecidedKey) -> None:
        """Replace the answers of single runs by one for all, if all that wait have the same."""
        waiting = self._asked[group.identity].waiting_runs
        entries = [decided.by_run.get(run) for run in waiting]
        first = entries[0]
        if first is None or not self.has_all_notebooks(group):
            return

        content = format_answer_value(first.answer)
        same = [
            entry for entry in entries if entry and format_answer_value(entry.answer) == content
        ]
        if len(same) < len(waiting):
            return

        comments = dict.fromkeys(list_own_comments(decided.general, group))
        for entry in same:
            comments.update(dict.fromkeys(list_own_comments(entry, group)))
        only_run = group.runs[0] if len(waiting) == 1 else None

        text = EntryText([*comments, describe_asking(group, only_run)])
        decided.general = AnswerEntry(replace(first.answer, run=None), text)
        for run in waiting:
            del decided.by_run[run]

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
        for decided in self._decided.values():
            if decided.general is not None:
                yield decided.general
            yield from decided.by_run.values()

    def _format(self) -> str:
        """Return the file: its head, the tables, and comments of tables that are not written."""
        tables: dict[str, list[AnswerEntry]] = {}
        for entry in self._list_entries():
            tables.setdefault(name_answer_table(entry.answer), []).append(entry)

        lines = [HEADING, *self._text.head]
        # Tables for single runs come last, as they are many.
        for table in sorted(tables, key=lambda name: name.startswith(RUNS_TABLE)):
            lines += format_table(table, tables[table], self._text.tables.get(table, ()))

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
