"""Answers files as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jp_nb.storage.configuration.answers_content import (
    EnvironmentVariable,
    PreparedAnswer,
)
from jp_nb.storage.configuration.answers_file import (
    parse_answers,
    read_answers_file,
)
from jp_nb.storage.configuration.toml_lines import TomlLines, split_toml

TomlPath = tuple[str | int, ...]
PlainAnswer = dict[str, Any]


class PreparedAnswers:
    """The answers file at a path, or with the given text.

    An answer has `key`, `line`, and `skip` or `value`; one for a call or for a run of a batch also
    has `arguments` or `run`. An environment variable is the tuple `("env", NAME)`.
    """

    def __init__(self, source: str | Path) -> None:
        if isinstance(source, Path):
            self._file = read_answers_file(source)
        else:
            self._file = parse_answers(source, "a.toml")

    def list(self) -> list[PlainAnswer]:
        """Return all answers."""
        return [_make_plain(answer) for answer in self._file.answers]

    def find(
        self, section: Any, *names: str, arguments: Any = None, run: str | None = None
    ) -> PlainAnswer | None:
        """Return the answer for a tool or a question of it, such as `find("results", "t")`.

        A permission may depend on the `arguments` of the call, and any answer on the `run` of a
        batch.
        """
        found = self._file.select_run(run).find(section, *names, arguments=arguments)
        return None if found is None else _make_plain(found)

    @staticmethod
    def find_lines(text: str, paths: Iterable[TomlPath]) -> dict[TomlPath, int]:
        """Return the line that an error would name for each path of a TOML file."""
        found = TomlLines(text)
        return {path: found.find_line(path) for path in paths}

    @staticmethod
    def list_comments(text: str) -> Iterator[str]:
        """Yield the comments of a TOML file, in their order."""
        for statement in split_toml(text):
            yield from filter(None, statement.above)
            yield from statement.list_comments()


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
