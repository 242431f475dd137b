"""Answers files as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jp_nb.storage.answers_file import (
    AnswersFile,
    EnvironmentVariable,
    PreparedAnswer,
    parse_answers,
    read_answers_file,
)

PlainAnswer = dict[str, Any]


def read_answers(source: str | Path) -> list[PlainAnswer]:
    """Return the answers of a file or of its text: `key`, `line`, and `skip` or `value`.

    Those for one call or for one run of a batch also have `arguments` or `run`. An environment
    variable is the tuple `("env", NAME)`.
    """
    return [_make_plain(answer) for answer in _parse(source).answers]


def find_answer(
    source: str | Path,
    section: Any,
    *names: str,
    arguments: Any = None,
    run: str | None = None,
) -> PlainAnswer | None:
    """Return the answer for a tool or a question of it: `find_answer(text, "results", "t")`.

    A permission may depend on the `arguments` of the call, and any answer on the `run` of a batch.
    """
    found = _parse(source).select_run(run).find(section, *names, arguments=arguments)
    return None if found is None else _make_plain(found)


def _parse(source: str | Path) -> AnswersFile:
    if isinstance(source, Path):
        return read_answers_file(source)
    return parse_answers(source, "a.toml")


def _make_plain(answer: PreparedAnswer) -> PlainAnswer:
    plain: PlainAnswer = {"key": answer.key, "line": answer.line}
    if answer.arguments is not None:
        plain["arguments"] = answer.arguments
    if answer.run is not None:
        plain["run"] = answer.run
    if answer.skip:
        return plain | {"skip": True}
    return plain | {"value": _make_plain_value(answer.value)}


def _make_plain_value(value: Any) -> Any:
    if isinstance(value, EnvironmentVariable):
        return ("env", value.name)
    if isinstance(value, dict):
        return {name: _make_plain_value(field) for name, field in value.items()}
    return value
