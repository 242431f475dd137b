"""Read an answers file: prepared answers and permissions in TOML, with their line numbers.

    [questions.publish]               # the name of a tool, or a pattern with `*` and `?`
    audience = "team"                 # the id of a question, or a pattern
    note = { skip = true }            # leave it unanswered
    token = { env = "PUBLISH_TOKEN" } # the only form for a secret

    [permissions]
    publish = "run"                   # or "skip"
    [[permissions.pay]]               # a decision about one exact call
    decision = "run"
    arguments = { amount = 5 }
    [results]
    "fetch*" = "deliver"              # or "skip"
    [changes]
    set_tone = "apply"                # or "skip"
    [edits]                           # of cells, by the id or a tag of the cell
    "*" = "apply"                     # or "skip"
    [plan]
    "*" = "approve"                   # or "skip": the plan of a turn

    [runs."walk-city=Delft-1f3a9c".questions.publish]
    audience = "all"                  # only in this run of a batch

Exact names have priority over patterns, and the first matching pattern over later ones. A decision
about exact arguments has priority over one about the tool, and a table of the run over the others.

Source: `docs/answers.md`, https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from difflib import get_close_matches
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal, cast

from pydantic import JsonValue

from jp_nb.errors import ConfigError
from jp_nb.json_values import sorted_json
from jp_nb.storage.configuration.toml_lines import TomlLines, TomlPath
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.text import one_line

ANSWERS_SUFFIX: Final = ".answers.toml"
"""Suffix of the answers file of a notebook, instead of `.ipynb`."""
RUNS_TABLE: Final = "runs"
"""Table with a table for each run of a batch, by the id of the run."""
AnswersSection = Literal["questions", "permissions", "results", "changes", "edits", "plan"]
CONSENT_WORDS: Final[Mapping[AnswersSection, str]] = {
    "permissions": "run",
    "results": "deliver",
    "changes": "apply",
    "edits": "apply",
    "plan": "approve",
}
"""The word for consent, by section. The opposite is `skip`."""
SKIP_WORD: Final = "skip"
MAX_ANSWERS_LINES: Final = 50_000
MAX_ANSWERS_BYTES: Final = 5_000_000
_LONG_FORMS: Final = frozenset({"answer", "skip", "env"})
_PERMISSION_KEYS: Final = ({"decision"}, {"decision", "arguments"})
_EXACT_DECISION: Final = '{ decision = "run", arguments = { … } }'

AnswerKey = tuple[str, ...]
"""Section, tool, and the id if it is a question."""


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """Reference to the text of an environment variable."""

    name: str


@dataclass(frozen=True, slots=True)
class PreparedAnswer:
    """One decision of an answers file. Tool and question of its key may be patterns.

    Attributes:
        line: Line number, from 1.
        skip: True if the question is left unanswered, or the consent is refused.
        value: The answer. For a form, an object with a value for each field.
        arguments: The exact arguments of the only call that a permission is about; None: any call.
        run: The id of the only run of a batch that it is for; None: any run.
    """

    key: AnswerKey
    line: int
    skip: bool = False
    value: JsonValue | EnvironmentVariable | Mapping[str, JsonValue | EnvironmentVariable] = None
    arguments: Mapping[str, JsonValue] | None = None
    run: str | None = None

    @property
    def identity(self) -> AnswerKey:
        """The key, after the run and before the arguments as JSON, if the entry has these."""
        identity = self.key
        if self.arguments is not None:
            identity = (*identity, sorted_json(dict(self.arguments)))
        if self.run is not None:
            identity = (RUNS_TABLE, self.run, *identity)
        return identity


@dataclass(frozen=True, slots=True)
class AnswersFile:
    """Content of an answers file, in its order."""

    name: str
    answers: tuple[PreparedAnswer, ...] = ()

    def select_run(self, run: str | None) -> AnswersFile:
        """Return the file without the answers of other runs; None: without those of any run."""
        kept = [each for each in self.answers if each.run in (None, run)]
        return replace(self, answers=tuple(kept))

    def split_by_run(self) -> dict[str | None, AnswersFile]:
        """Return the file of `select_run` for each run that it names, and for None."""
        general = self.select_run(None)
        own: dict[str, list[PreparedAnswer]] = {}
        for each in self.answers:
            if each.run is not None:
                own.setdefault(each.run, []).append(each)

        files: dict[str | None, AnswersFile] = {None: general}
        for run, answers in own.items():
            files[run] = replace(self, answers=(*general.answers, *answers))
        return files

    def find(
        self,
        section: AnswersSection,
        *names: str,
        arguments: Mapping[str, JsonValue] | None = None,
    ) -> PreparedAnswer | None:
        """Return the decision about a tool (`names`: its name) or a question (tool and id).

        A decision about exact arguments is found only for a call with the same `arguments`.
        """
        key = (section, *names)
        call = None
        if arguments is not None:
            call = sorted_json(dict(arguments))

        matches = [
            each for each in self.answers if _matches(each.key, key) and _is_about_call(each, call)
        ]

        def rank(answer: PreparedAnswer) -> tuple[bool, bool, bool]:
            return (answer.run is None, answer.arguments is None, answer.key != key)

        return min(matches, key=rank, default=None)  # the first of equal rank

    def find_edit(self, names: Sequence[str]) -> PreparedAnswer | None:
        """Return the decision about an edit of the cell with these names: its id, and its tags.

        Names have priority over patterns, and longer patterns over shorter ones.
        """
        matches = [
            each
            for each in self.answers
            if any(_matches(each.key, ("edits", name)) for name in names)
        ]

        def rank(answer: PreparedAnswer) -> tuple[bool, bool, int]:
            name = answer.key[1]
            return (answer.run is None, name not in names, -len(name))

        return min(matches, key=rank, default=None)  # the first of equal rank

    def answers_questions_of(self, tool: str) -> bool:
        """Return True if the file has an answer to any question of `tool`."""
        keys = [each.key for each in self.answers]
        return any(key[0] == "questions" and _matches((key[1],), (tool,)) for key in keys)

    def place(self, answer: PreparedAnswer) -> str:
        """Return `NAME, line 4`."""
        return f"{self.name}, line {answer.line}"


def _is_about_call(answer: PreparedAnswer, call: str | None) -> bool:
    return answer.arguments is None or sorted_json(dict(answer.arguments)) == call


def _matches(pattern: AnswerKey, key: AnswerKey) -> bool:
    if len(pattern) != len(key):
        return False
    pairs = zip(pattern, key, strict=True)
    return all(one == two or fnmatchcase(two, one.replace("[", "[[]")) for one, two in pairs)


def read_answers_file(path: Path) -> AnswersFile:
    """Read the file at `path`.

    Raises:
        ConfigError: The file cannot be read, is not owned, is too long, is not TOML, or has unknown
            content. The message names the line of such content.
    """
    return parse_answers(decode_answers(path, read_answers(path)), path.name)


def read_answers(path: Path) -> bytes:
    """Return the bytes of the owned file at `path`.

    Raises:
        ConfigError: The file cannot be read, is not owned, or has more than `MAX_ANSWERS_BYTES`.
    """
    try:
        return read_owned_file(path, max_bytes=MAX_ANSWERS_BYTES)
    except ForeignFileError as exc:
        raise ConfigError(f"the answers file is not used: {exc}", file=str(path)) from exc
    except FileNotFoundError as exc:
        raise ConfigError(
            "there is no such answers file. Write a template: `jp-nb run NOTEBOOK "
            "--answers-template FILE`",
            file=str(path),
        ) from exc
    except OSError as exc:
        raise ConfigError(
            f"the answers file cannot be read: {exc.strerror}", file=str(path)
        ) from exc


def decode_answers(path: Path, content: bytes) -> str:
    """Return the text of `content`; `path` is the file for errors.

    Raises:
        ConfigError: The content is not UTF-8, or has too many lines.
    """
    try:
        text = content.decode("utf-8-sig")  # editors on Windows may write a byte order mark
    except UnicodeDecodeError as exc:
        raise ConfigError("the answers file is not UTF-8", file=str(path)) from exc

    if text.count("\n") > MAX_ANSWERS_LINES:
        raise ConfigError(
            f"the answers file has more than {MAX_ANSWERS_LINES} lines", file=str(path)
        )

    return text


def parse_answers(text: str, name: str) -> AnswersFile:
    """Parse `text`; `name` is the file name for errors.

    Raises:
        ConfigError: `text` is not TOML, or has unknown content. The message names the line.
    """
    text = text.replace("\r\n", "\n")

    try:
        tree = tomllib.loads(text)
        lines = TomlLines(text)
    except RecursionError as exc:
        raise ConfigError("is nested too deeply", kind="malformed", file=name) from exc
    except ValueError as exc:  # the TOML error names line and column
        raise ConfigError(f"is not TOML: {exc}", kind="malformed", file=name) from exc

    places = _Places(name, lines)
    return AnswersFile(name, tuple(_read_file(tree, places)))


# --- content -----------------------------------------------------------------------------------


class _Places:
    """Lines of the tables of a file, or of the tables of one run, whose path is `above`."""

    def __init__(self, name: str, lines: TomlLines, above: TomlPath = ()) -> None:
        self.name = name
        self._lines = lines
        self._above = above

    def below(self, *path: str) -> _Places:
        return _Places(self.name, self._lines, (*self._above, *path))

    def of(self, path: TomlPath) -> int:
        return self._lines.of((*self._above, *path))

    def make_error(self, path: TomlPath, message: str) -> ConfigError:
        return ConfigError(message, file=f"{self.name}, line {self.of(path)}")


def _read_file(tree: Mapping[str, Any], places: _Places) -> Iterator[PreparedAnswer]:
    runs = tree.get(RUNS_TABLE, {})
    if not isinstance(runs, dict):
        raise places.make_error((RUNS_TABLE,), f"[{RUNS_TABLE}] must be a table")

    for run, tables in runs.items():
        if not isinstance(tables, dict):
            message = f'write a table for each run: [{RUNS_TABLE}."{one_line(run)}".questions.TOOL]'
            raise places.make_error((RUNS_TABLE, run), message)
        for answer in _read(tables, places.below(RUNS_TABLE, run)):
            yield replace(answer, run=run)

    general = {section: value for section, value in tree.items() if section != RUNS_TABLE}
    yield from _read(general, places, has_runs=True)


def _read(
    tree: Mapping[str, Any], places: _Places, *, has_runs: bool = False
) -> Iterator[PreparedAnswer]:
    """Yield the answers of the sections in `tree`; `has_runs` if it may also have runs."""
    known = ["questions", *CONSENT_WORDS]

    for section, value in tree.items():
        if section not in known:
            raise places.make_error((section,), _describe_unknown(section, known, has_runs))
        if not isinstance(value, dict):
            raise places.make_error((section,), f"[{section}] must be a table")

        if section == "questions":
            yield from _read_questions(value, places)
        else:
            yield from _read_decisions(cast(AnswersSection, section), value, places)


def _describe_unknown(section: str, known: Collection[str], has_runs: bool) -> str:
    names = [*known]
    if has_runs:
        names.append(RUNS_TABLE)

    expected = ", ".join(f"[{each}]" for each in names)
    near = get_close_matches(section[:80], names, n=1)
    meant = f"did you mean [{near[0]}]? Expected" if near else "expected"
    return f"unknown table [{one_line(section)}]: {meant} {expected}"


def _read_questions(tools: Mapping[str, Any], places: _Places) -> Iterator[PreparedAnswer]:
    for tool, questions in tools.items():
        key = ("questions", tool)

        if not isinstance(questions, dict):
            raise places.make_error(
                key, f'write the question under its tool: [questions."{one_line(tool)}"] ID = …'
            )

        for question, value in questions.items():
            yield _read_answer((*key, question), value, places)


def _read_decisions(
    section: AnswersSection, tools: Mapping[str, Any], places: _Places
) -> Iterator[PreparedAnswer]:
    word = CONSENT_WORDS[section]

    for tool, value in tools.items():
        key = (section, tool)
        about_calls = section == "permissions" and isinstance(value, dict | list)
        if about_calls:
            yield from _read_permission_tables(key, value, places)
            continue

        if value not in (word, SKIP_WORD):
            message = f'{section} of {one_line(tool)}: expected "{word}" or "{SKIP_WORD}"'
            raise places.make_error(key, message)

        yield PreparedAnswer(key, places.of(key), skip=value == SKIP_WORD)


def _read_permission_tables(
    key: AnswerKey, value: Any, places: _Places
) -> Iterator[PreparedAnswer]:
    """Yield the permissions of a tool: one table, or a list with tables for exact calls.

    A table without arguments is about all other calls of the tool.
    """
    items = value if isinstance(value, list) else [value]
    word = CONSENT_WORDS["permissions"]
    tool = one_line(key[1])

    for index, item in enumerate(items):
        path: TomlPath = (*key, index) if isinstance(value, list) else key
        if not isinstance(item, dict) or set(item) not in _PERMISSION_KEYS:
            raise places.make_error(path, f"permissions of {tool}: expected {_EXACT_DECISION}")

        decision = item["decision"]
        if decision not in (word, SKIP_WORD):
            message = f'decision about {tool}: expected "{word}" or "{SKIP_WORD}"'
            raise places.make_error((*path, "decision"), message)

        arguments = None
        if "arguments" in item:
            arguments = _read_arguments(tool, item["arguments"], (*path, "arguments"), places)
        line = places.of(path)
        yield PreparedAnswer(key, line, skip=decision == SKIP_WORD, arguments=arguments)


def _read_arguments(tool: str, given: Any, path: TomlPath, places: _Places) -> dict[str, JsonValue]:
    """Return the arguments of a call: a table, or a JSON text for what TOML cannot contain."""
    found = given
    if isinstance(given, str):
        try:
            found = json.loads(given)
        except (ValueError, RecursionError) as exc:
            message = f"arguments for {tool}: the text is not valid JSON"
            raise places.make_error(path, message) from exc

    if not isinstance(found, dict):
        message = f"arguments for {tool}: expected a table, or a JSON object as text"
        raise places.make_error(path, message)

    return {name: _to_json(value, (*path, name), places) for name, value in found.items()}


def _read_answer(key: AnswerKey, value: Any, places: _Places) -> PreparedAnswer:
    line = places.of(key)
    how = "answer"
    what = value

    if isinstance(value, dict) and is_answer_table(value):
        [(how, what)] = value.items()

    match how, what:
        case "skip", _:
            if what is not True:
                raise places.make_error(key, "expected { skip = true }")
            return PreparedAnswer(key, line, skip=True)
        case "env", _:
            return PreparedAnswer(key, line, value=_read_variable(what, key, places))
        case _, dict():  # a form
            return PreparedAnswer(key, line, value=_read_fields(what, key, places))

    return PreparedAnswer(key, line, value=_to_json(what, key, places))


def _read_fields(
    form: Mapping[str, Any], key: AnswerKey, places: _Places
) -> dict[str, JsonValue | EnvironmentVariable]:
    """Return the answers of a form, without skipped fields."""
    given: dict[str, JsonValue | EnvironmentVariable] = {}

    for name, value in form.items():
        place = (*key, name)
        if isinstance(value, dict) and set(value) == {"env"}:
            given[name] = _read_variable(value["env"], place, places)
        elif value != {"skip": True}:
            given[name] = _to_json(value, place, places)

    return given


def is_answer_table(keys: Collection[str]) -> bool:
    """Return True if a table with these keys is one answer; otherwise it is a form with fields."""
    return len(keys) == 1 and not _LONG_FORMS.isdisjoint(keys)


def _read_variable(name: Any, key: AnswerKey, places: _Places) -> EnvironmentVariable:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise places.make_error(
            key, 'expected { env = "NAME" }, the name of an environment variable'
        )
    return EnvironmentVariable(name)


def _to_json(value: Any, path: TomlPath, places: _Places) -> JsonValue:
    """Convert a TOML value to JSON; a date becomes a string.

    Raises:
        ConfigError: The value is infinite or NaN.
    """
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case float() if not isfinite(value):
            raise places.make_error(path, f"{value} is not a valid answer")
        case list():
            items = enumerate(value)
            return [_to_json(each, (*path, index), places) for index, each in items]
        case dict():
            fields = value.items()
            return {name: _to_json(each, (*path, name), places) for name, each in fields}
        case _:
            return cast(JsonValue, value)
