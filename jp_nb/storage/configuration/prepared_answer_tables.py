"""Read the tables of an answers file: the answers and permissions that they prepare.

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

Each answer keeps the line in which it is written, for errors and for warnings about unused ones.
`answers_file.py` reads the file and its TOML.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final, cast

from pydantic import JsonValue

from jp_nb.errors import ConfigError
from jp_nb.storage.configuration.answers_content import (
    CONSENT_WORDS,
    RUNS_TABLE,
    SKIP_WORD,
    AnswerKey,
    AnswersSection,
    EnvironmentVariable,
    PreparedAnswer,
)
from jp_nb.storage.configuration.toml_lines import TomlLines, TomlPath
from jp_nb.text import one_line

_LONG_FORMS: Final = frozenset({"answer", "skip", "env"})
"""Keys of a table that is one answer, such as `{ skip = true }`."""
_PERMISSION_KEYS: Final = ({"decision"}, {"decision", "arguments"})
"""The sets of keys that a table about calls may have."""
_EXACT_DECISION: Final = '{ decision = "run", arguments = { … } }'


class AnswerLines:
    """Lines of the tables of a file, or of the tables of one run, whose path is `above`.

    `name` is that of the file, for errors.
    """

    def __init__(self, name: str, lines: TomlLines, above: TomlPath = ()) -> None:
        self.name = name
        self._lines = lines
        self._above = above

    def below(self, *path: str) -> AnswerLines:
        """Return the lines of the tables below `path`."""
        return AnswerLines(self.name, self._lines, (*self._above, *path))

    def find_line(self, path: TomlPath) -> int:
        """Return the line of `path`, from 1."""
        return self._lines.find_line((*self._above, *path))

    def make_error(self, path: TomlPath, message: str) -> ConfigError:
        """Return the error about the value at `path`, with its line."""
        return ConfigError(message, file=f"{self.name}, line {self.find_line(path)}")


def read_answer_tables(tree: Mapping[str, Any], lines: AnswerLines) -> Iterator[PreparedAnswer]:
    """Yield the answers of the whole file: those for single runs of a batch, then the others.

    Raises:
        ConfigError: The file has unknown content. The message names the line.
    """
    runs = tree.get(RUNS_TABLE, {})
    if not isinstance(runs, dict):
        raise lines.make_error((RUNS_TABLE,), f"[{RUNS_TABLE}] must be a table")

    for run, tables in runs.items():
        if not isinstance(tables, dict):
            message = f'write a table for each run: [{RUNS_TABLE}."{one_line(run)}".questions.TOOL]'
            raise lines.make_error((RUNS_TABLE, run), message)
        for answer in _read_sections(tables, lines.below(RUNS_TABLE, run)):
            yield replace(answer, run=run)

    general = {section: value for section, value in tree.items() if section != RUNS_TABLE}
    yield from _read_sections(general, lines, has_runs=True)


def _read_sections(
    tree: Mapping[str, Any], lines: AnswerLines, *, has_runs: bool = False
) -> Iterator[PreparedAnswer]:
    """Yield the answers of the sections in `tree`.

    With `has_runs`, an error about an unknown section also suggests the tables of runs.
    """
    known = ["questions", *CONSENT_WORDS]

    for section, value in tree.items():
        if section not in known:
            raise lines.make_error((section,), _describe_unknown(section, known, has_runs))
        if not isinstance(value, dict):
            raise lines.make_error((section,), f"[{section}] must be a table")

        if section == "questions":
            yield from _read_questions(value, lines)
        else:
            yield from _read_decisions(cast(AnswersSection, section), value, lines)


def _describe_unknown(section: str, known: Collection[str], has_runs: bool) -> str:
    names = [*known]
    if has_runs:
        names.append(RUNS_TABLE)

    expected = ", ".join(f"[{name}]" for name in names)
    near = get_close_matches(section[:80], names, n=1)
    meant = f"did you mean [{near[0]}]? Expected" if near else "expected"
    return f"unknown table [{one_line(section)}]: {meant} {expected}"


def _read_questions(tools: Mapping[str, Any], lines: AnswerLines) -> Iterator[PreparedAnswer]:
    for tool, questions in tools.items():
        key = ("questions", tool)

        if not isinstance(questions, dict):
            raise lines.make_error(
                key, f'write the question under its tool: [questions."{one_line(tool)}"] ID = …'
            )

        for question, value in questions.items():
            yield _read_answer((*key, question), value, lines)


def _read_decisions(
    section: AnswersSection, tools: Mapping[str, Any], lines: AnswerLines
) -> Iterator[PreparedAnswer]:
    """Yield the decisions of a section that has one word for each tool, such as `skip`."""
    consent_word = CONSENT_WORDS[section]

    for tool, value in tools.items():
        key = (section, tool)
        is_about_calls = section == "permissions" and isinstance(value, dict | list)
        if is_about_calls:
            yield from _read_permission_tables(key, value, lines)
            continue

        if value not in (consent_word, SKIP_WORD):
            message = f'{section} of {one_line(tool)}: expected "{consent_word}" or "{SKIP_WORD}"'
            raise lines.make_error(key, message)

        yield PreparedAnswer(key, lines.find_line(key), skip=value == SKIP_WORD)


def _read_permission_tables(
    key: AnswerKey, value: Any, lines: AnswerLines
) -> Iterator[PreparedAnswer]:
    """Yield the permissions of a tool: one table, or a list with tables for exact calls.

    A table without arguments is about all other calls of the tool.
    """
    items = value if isinstance(value, list) else [value]
    consent_word = CONSENT_WORDS["permissions"]
    tool = one_line(key[1])

    for index, item in enumerate(items):
        path: TomlPath = (*key, index) if isinstance(value, list) else key
        if not isinstance(item, dict) or set(item) not in _PERMISSION_KEYS:
            raise lines.make_error(path, f"permissions of {tool}: expected {_EXACT_DECISION}")

        decision = item["decision"]
        if decision not in (consent_word, SKIP_WORD):
            message = f'decision about {tool}: expected "{consent_word}" or "{SKIP_WORD}"'
            raise lines.make_error((*path, "decision"), message)

        arguments = None
        if "arguments" in item:
            arguments = _read_arguments(tool, item["arguments"], (*path, "arguments"), lines)

        line = lines.find_line(path)
        yield PreparedAnswer(key, line, skip=decision == SKIP_WORD, arguments=arguments)


def _read_arguments(
    tool: str, value: Any, path: TomlPath, lines: AnswerLines
) -> dict[str, JsonValue]:
    """Return the arguments of a call: a table, or a JSON text for what TOML cannot contain."""
    arguments = value
    if isinstance(value, str):
        try:
            arguments = json.loads(value)
        except (ValueError, RecursionError) as exc:
            message = f"arguments for {tool}: the text is not valid JSON"
            raise lines.make_error(path, message) from exc

    if not isinstance(arguments, dict):
        message = f"arguments for {tool}: expected a table, or a JSON object as text"
        raise lines.make_error(path, message)

    return {name: _to_json(item, (*path, name), lines) for name, item in arguments.items()}


def _read_answer(key: AnswerKey, value: Any, lines: AnswerLines) -> PreparedAnswer:
    """Return the answer to a question: a value, or a table with one of the keys `_LONG_FORMS`."""
    line = lines.find_line(key)
    form = "answer"
    content = value
    if isinstance(value, dict) and is_answer_table(value):
        [(form, content)] = value.items()

    match form, content:
        case "skip", _:
            if content is not True:
                raise lines.make_error(key, "expected { skip = true }")
            return PreparedAnswer(key, line, skip=True)
        case "env", _:
            return PreparedAnswer(key, line, value=_read_variable(content, key, lines))
        case _, dict():  # a form with several fields
            return PreparedAnswer(key, line, value=_read_fields(content, key, lines))

    return PreparedAnswer(key, line, value=_to_json(content, key, lines))


def _read_fields(
    form: Mapping[str, Any], key: AnswerKey, lines: AnswerLines
) -> dict[str, JsonValue | EnvironmentVariable]:
    """Return the answers of a form, without skipped fields."""
    answers: dict[str, JsonValue | EnvironmentVariable] = {}

    for name, value in form.items():
        path = (*key, name)
        if isinstance(value, dict) and set(value) == {"env"}:
            answers[name] = _read_variable(value["env"], path, lines)
        elif value != {"skip": True}:
            answers[name] = _to_json(value, path, lines)

    return answers


def is_answer_table(keys: Collection[str]) -> bool:
    """Return True if a table with these keys is one answer; otherwise it is a form with fields."""
    return len(keys) == 1 and not _LONG_FORMS.isdisjoint(keys)


def _read_variable(name: Any, key: AnswerKey, lines: AnswerLines) -> EnvironmentVariable:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise lines.make_error(
            key, 'expected { env = "NAME" }, the name of an environment variable'
        )
    return EnvironmentVariable(name)


def _to_json(value: Any, path: TomlPath, lines: AnswerLines) -> JsonValue:
    """Convert a TOML value to JSON; a date becomes a string.

    Raises:
        ConfigError: The value is infinite or NaN.
    """
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case float() if not isfinite(value):
            raise lines.make_error(path, f"{value} is not a valid answer")
        case list():
            items = enumerate(value)
            return [_to_json(item, (*path, index), lines) for index, item in items]
        case dict():
            fields = value.items()
            return {name: _to_json(item, (*path, name), lines) for name, item in fields}
        case _:
            return cast(JsonValue, value)
