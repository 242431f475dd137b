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

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from jp_nb.batch.inboxes.answers_comments import HEADING, AnswersText, EntryText, name_answer_table
from jp_nb.batch.results.open_decisions import DecisionGroup
from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.json_values import compact_json
from jp_nb.storage.configuration.answers_file import (
    CONSENT_WORDS,
    MAX_ANSWERS_BYTES,
    MAX_ANSWERS_LINES,
    RUNS_TABLE,
    SKIP_WORD,
    AnswerKey,
    AnswersSection,
    EnvironmentVariable,
    PreparedAnswer,
    decode_answers,
    is_answer_table,
    parse_answers,
    read_answers,
)
from jp_nb.storage.configuration.toml_text import (
    MAX_COMMENT_CHARS,
    format_comment,
    format_toml,
    format_toml_key,
    is_toml,
)
from jp_nb.text import one_line

ANSWERS_NAME: Final = "answers.toml"
_GENERATED: Final = re.compile(r"# (?:\d+ runs of )?(?P<who>.*)", re.DOTALL)

AnswerValue = JsonValue | EnvironmentVariable | Mapping[str, JsonValue | EnvironmentVariable]


@dataclass(frozen=True, slots=True)
class InboxAnswer:
    """An answer of the user. `skip` leaves a question unanswered, or refuses a consent."""

    value: AnswerValue = None
    skip: bool = False


@dataclass(frozen=True, slots=True)
class _AnswerEntry:
    answer: PreparedAnswer
    text: EntryText


@dataclass(slots=True)
class _DecidedKey:
    """Answers for one identity: `general` for every run, and those of single runs."""

    general: _AnswerEntry | None = None
    by_run: dict[str, _AnswerEntry] = field(default_factory=dict)


class InboxAnswers:
    """The answers to `groups` in the file at `path`, which may not exist yet.

    `notebooks` are all notebooks of the batch. A tool of another notebook may have the same name
    and do something else, so one entry for all runs needs the question of each notebook (D260).

    Raises:
        ConfigError: The file is not the user's own, or is not an answers file.
    """

    def __init__(
        self, path: Path, groups: Sequence[DecisionGroup], notebooks: Collection[str]
    ) -> None:
        self.path = path
        self._notebooks = frozenset(notebooks)
        self._asked_by: dict[AnswerKey, set[str]] = {}
        self._decided: dict[AnswerKey, _DecidedKey] = {}
        self._waiting: dict[AnswerKey, dict[str, None]] = {}
        self._misfits: dict[AnswerKey, set[str]] = {}
        self._text = AnswersText()

        for group in groups:
            runs = self._waiting.setdefault(group.identity, {})
            runs.update(dict.fromkeys(group.runs))
            self._asked_by.setdefault(group.identity, set()).add(group.notebook)
            if group.misfits:
                self._misfits.setdefault(group.identity, set()).update(group.misfits)

        if path.exists():
            self._read()

    def _read(self) -> None:
        content = decode_answers(self.path, read_answers(self.path))
        found = parse_answers(content, self.path.name)
        self._text = AnswersText(content, found.answers)

        def rank(each: tuple[int, PreparedAnswer]) -> tuple[bool, int]:
            return (each[1].run is not None, each[1].line)

        # As `save` writes them, so that the order does not change with each decision.
        for index, answer in sorted(enumerate(found.answers), key=rank):
            identity = replace(answer, run=None).identity
            text = self._text.entries.get(index) or EntryText()
            decided = self._decided.setdefault(identity, _DecidedKey())
            earlier = decided.general
            if answer.run is not None:
                earlier = decided.by_run.get(answer.run)

            if earlier is not None:  # the first of equal entries counts
                earlier.text.add(text.list_comments())
            elif answer.run is None:
                decided.general = _AnswerEntry(answer, text)
            else:
                decided.by_run[answer.run] = _AnswerEntry(answer, text)

    def find(self, group: DecisionGroup, run: str) -> PreparedAnswer | None:
        """Return the answer of the file for `group` in `run`.

        Patterns of the file do not count, nor an answer that did not fit when the run used it.
        """
        decided = self._decided.get(group.identity)
        if decided is None or run in self._misfits.get(group.identity, ()):
            return None

        entry = decided.by_run.get(run) or decided.general
        return None if entry is None else entry.answer

    def has_all_notebooks(self, group: DecisionGroup) -> bool:
        """Return True if an equal answer of all runs that wait is one entry for the whole batch."""
        return self._notebooks <= self._asked_by[group.identity]

    def count_answered(self, group: DecisionGroup) -> int:
        """Return the number of runs of `group` that have an answer."""
        decided = self._decided.get(group.identity)
        if decided is None:
            return 0

        is_general = decided.general is not None
        misfits = self._misfits.get(group.identity, set())
        return sum(
            (is_general or run in decided.by_run) and run not in misfits for run in group.runs
        )

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
                group.answer_key, 0, answer.skip, answer.value, group.arguments, run
            )
            comments = _list_own_comments(decided.by_run.get(run), group)
            text = EntryText([*comments, *_describe_asking(group, run)])
            decided.by_run[run] = _AnswerEntry(prepared, text)
            self._misfits.get(group.identity, set()).discard(run)
        self._join(group, decided)

    def leave_open(self, group: DecisionGroup, runs: Iterable[str]) -> None:
        """Withdraw the answer to `group` in `runs`."""
        decided = self._decided.get(group.identity)
        if decided is None:
            return

        self._split(group, decided)
        for run in runs:
            comments = _list_own_comments(decided.by_run.pop(run, None), group)
            self._text.end += comments

    def _split(self, group: DecisionGroup, decided: _DecidedKey) -> None:
        """Replace the answer for all runs, which would answer for each, by answers of the runs."""
        general = decided.general
        if general is None:
            return

        decided.general = None
        own = _list_own_comments(general, group)
        others = [line for line in general.text.list_comments() if line not in own]

        for run in self._waiting[group.identity]:
            if run not in decided.by_run:
                text = EntryText([*own, *others])
                decided.by_run[run] = _AnswerEntry(replace(general.answer, run=run), text)
                own = []  # the comments of the user are kept once
        self._text.end += own

    def _join(self, group: DecisionGroup, decided: _DecidedKey) -> None:
        """Replace the answers of single runs by one for all, if all that wait have the same."""
        waiting = self._waiting[group.identity]
        entries = [decided.by_run.get(run) for run in waiting]
        first = entries[0]
        if first is None or not self.has_all_notebooks(group):
            return

        content = _format_value(first.answer)
        same = [each for each in entries if each and _format_value(each.answer) == content]
        if len(same) < len(waiting):
            return

        comments = dict.fromkeys(_list_own_comments(decided.general, group))
        for each in same:
            comments.update(dict.fromkeys(_list_own_comments(each, group)))
        described = _describe_asking(group, None if len(waiting) > 1 else group.runs[0])

        text = EntryText([*comments, *described])
        decided.general = _AnswerEntry(replace(first.answer, run=None), text)
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

        written = {each.identity: _format_value(each) for each in parse_answers(text, "").answers}
        if written != {entry.answer.identity: _format_value(entry.answer) for entry in self._all()}:
            raise StorageError(f"{self.path} was not written: it would not have all answers")

        try:
            replace_file(self.path, content)
        except OSError as exc:
            raise StorageError(f"{self.path} cannot be written: {exc.strerror or exc}") from exc

    def _all(self) -> Iterator[_AnswerEntry]:
        for decided in self._decided.values():
            if decided.general is not None:
                yield decided.general
            yield from decided.by_run.values()

    def _format(self) -> str:
        tables: dict[str, list[_AnswerEntry]] = {}
        for entry in self._all():
            tables.setdefault(name_answer_table(entry.answer), []).append(entry)

        lines = [HEADING, *self._text.head]
        # Tables for single runs come last, as they are many.
        for table in sorted(tables, key=lambda name: name.startswith(RUNS_TABLE)):
            lines += _format_table(table, tables[table], self._text.tables.get(table, ()))

        end = list(self._text.end)
        for table, comments in self._text.tables.items():
            if table not in tables:
                end += comments
        if end:
            lines += ["", *end]
        return "\n".join(lines) + "\n"


def _list_own_comments(entry: _AnswerEntry | None, group: DecisionGroup) -> list[str]:
    """Return the comments of the user, without those that the inbox has written about `group`."""
    if entry is None:
        return []
    comments = entry.text.list_comments()
    return [line for line in comments if line and not _is_generated(line, group)]


def _is_generated(comment: str, group: DecisionGroup) -> bool:
    """Return True if `_describe_asking` has written the comment, for any number of runs."""
    found = _GENERATED.fullmatch(comment)
    if found is None:
        return False

    about = _describe_subject(group)
    notebook = one_line(group.notebook, limit=200)
    begins = found["who"].startswith((f"{notebook}, ", f"{notebook}: "))
    is_cut = len(comment) > MAX_COMMENT_CHARS and comment.endswith(" more characters)")
    return begins and (is_cut or found["who"].endswith(f": {about}"))


def _describe_asking(group: DecisionGroup, run: str | None) -> Iterator[str]:
    """Yield comments that say where the decision was asked, in one run or in all."""
    askings = group.askings[group.runs[0] if run is None else run]
    places = list(dict.fromkeys(asking.place for asking, _ in askings if asking.place))
    who = one_line(group.notebook, limit=200)
    if run is None:
        who = f"{len(group.runs)} runs of {who}"

    yield format_comment(f"{', '.join([who, *places[:3]])}: {_describe_subject(group)}")


def _describe_subject(group: DecisionGroup) -> str:
    return group.question_text or group.description


def _format_table(
    table: str, entries: Sequence[_AnswerEntry], comments: Sequence[str]
) -> Iterator[str]:
    if entries[0].answer.key[0] == "permissions":
        for entry in entries:
            lines = _format_permission(entry.answer)
            yield from ("", *entry.text.list_comments(), f"[[{table}]]", *lines)
        return

    yield from ("", *comments, f"[{table}]")
    for entry in entries:
        key = format_toml_key(entry.answer.key[-1])
        yield from entry.text.comments
        yield entry.text.source or f"{key} = {_format_value(entry.answer)}"


def _format_permission(answer: PreparedAnswer) -> Iterator[str]:
    yield f"decision = {_format_value(answer)}"
    if answer.arguments is None:
        return

    arguments = dict(answer.arguments)
    if is_toml(arguments):
        yield f"arguments = {format_toml(arguments)}"
    else:
        yield f"arguments = {format_toml(compact_json(arguments))}"


def _format_value(answer: PreparedAnswer) -> str:
    """Return the answer as TOML, in one line."""
    section = answer.key[0]
    if section != "questions":
        consent = CONSENT_WORDS[cast(AnswersSection, section)]
        word = SKIP_WORD if answer.skip else consent
        return format_toml(word)

    if answer.skip:
        return format_toml({SKIP_WORD: True})

    value = answer.value
    if isinstance(value, EnvironmentVariable):
        return format_toml(_name_variable(value))
    if not isinstance(value, Mapping):
        return format_toml(value)

    fields = {name: _name_variable(each) for name, each in value.items()}
    if is_answer_table(fields):  # a form with a field of that name
        return format_toml({"answer": fields})
    return format_toml(fields)


def _name_variable(value: JsonValue | EnvironmentVariable) -> JsonValue:
    return {"env": value.name} if isinstance(value, EnvironmentVariable) else value


def _is_writable(answer: InboxAnswer) -> bool:
    if answer.skip or answer.value is None:
        return True
    value = answer.value
    if isinstance(value, Mapping):
        return is_toml({name: _name_variable(each) for name, each in value.items()})
    return is_toml(_name_variable(value))
