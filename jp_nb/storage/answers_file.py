"""Read an answers file: prepared answers and permissions in TOML, with their line numbers.

    [questions.publish]               # the name of a tool, or a pattern with `*` and `?`
    audience = "team"                 # the id of a question, or a pattern
    note = { skip = true }            # leave it unanswered
    token = { env = "PUBLISH_TOKEN" } # the only form for a secret

    [permissions]
    publish = "run"                   # or "skip"
    [results]
    "fetch*" = "deliver"              # or "skip"
    [changes]
    set_tone = "apply"                # or "skip"

Exact names have priority over patterns, and the first matching pattern over later ones.

Source: `docs/answers.md`, https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from difflib import get_close_matches
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal, cast

from pydantic import JsonValue

from jp_nb.errors import ConfigError
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.text import one_line

ANSWERS_SUFFIX: Final = ".answers.toml"
"""Suffix of the answers file of a notebook, instead of `.ipynb`."""
AnswersSection = Literal["questions", "permissions", "results", "changes"]
SECTION_DECISIONS: Final[Mapping[AnswersSection, str]] = {
    "permissions": "run",
    "results": "deliver",
    "changes": "apply",
}
"""The word for consent, by section. The opposite is `skip`."""
SKIP_WORD: Final = "skip"
MAX_ANSWERS_LINES: Final = 10_000
MAX_ANSWERS_BYTES: Final = 1_000_000
_TOKEN: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?""""{0,2}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*'''
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<end>\n)""",
    re.DOTALL,
)
"""Strings, comments, brackets, and line ends of TOML."""
_LONG_FORMS: Final = frozenset({"answer", "skip", "env"})

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
    """

    key: AnswerKey
    line: int
    skip: bool = False
    value: JsonValue | EnvironmentVariable | Mapping[str, JsonValue | EnvironmentVariable] = None


@dataclass(frozen=True, slots=True)
class AnswersFile:
    """Content of an answers file, in its order."""

    name: str
    answers: tuple[PreparedAnswer, ...] = ()

    def find(self, section: AnswersSection, *names: str) -> PreparedAnswer | None:
        """Return the decision about a tool (`names`: its name) or a question (tool and id)."""
        key = (section, *names)
        matches = [each for each in self.answers if _matches(each.key, key)]
        if not matches:
            return None

        exact = (each for each in matches if each.key == key)
        return next(exact, matches[0])

    def answers_questions_of(self, tool: str) -> bool:
        """Return True if the file has an answer to any question of `tool`."""
        keys = [each.key for each in self.answers]
        return any(key[0] == "questions" and _matches((key[1],), (tool,)) for key in keys)

    def place(self, answer: PreparedAnswer) -> str:
        """Return `NAME, line 4`."""
        return f"{self.name}, line {answer.line}"


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
    except RecursionError as exc:
        raise ConfigError("is nested too deeply", kind="malformed", file=name) from exc
    except ValueError as exc:  # the TOML error names line and column
        raise ConfigError(f"is not TOML: {exc}", kind="malformed", file=name) from exc

    lines = _Lines(text, name)
    return AnswersFile(name, tuple(_read(tree, lines)))


class _Lines:
    """First line of each key of a TOML file."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._found: dict[AnswerKey, int] = {}
        table: AnswerKey = ()

        for number, statement in _statements(text):
            paths = list(_paths(tomllib.loads(statement)))
            if statement.lstrip().startswith("["):
                table = max(paths, key=len, default=())
                self._found.setdefault(table, number)
            else:
                for path in paths:
                    self._found.setdefault((*table, *path), number)

    def of(self, key: AnswerKey) -> int:
        """Return the line of `key` or its nearest parent, from 1."""
        while key and key not in self._found:
            key = key[:-1]
        return self._found.get(key, 1)

    def make_error(self, key: AnswerKey, message: str) -> ConfigError:
        return ConfigError(message, file=f"{self.name}, line {self.of(key)}")


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each table header and key-value pair of the TOML `text`, with its first line."""
    begin = 0
    number = 1
    depth = 0

    for token in _TOKEN.finditer(text + "\n"):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if token["end"] is None or depth:
            continue

        statement = text[begin : token.start()]
        if statement.strip():
            yield number, statement

        number += statement.count("\n") + 1
        begin = token.end()


def _paths(table: Mapping[str, Any], above: AnswerKey = ()) -> Iterator[AnswerKey]:
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict) and len(above) < 3:
            yield from _paths(value, (*above, key))


# --- content -----------------------------------------------------------------------------------


def _read(tree: Mapping[str, Any], lines: _Lines) -> Iterator[PreparedAnswer]:
    for section, value in tree.items():
        known = {"questions", *SECTION_DECISIONS}
        if section not in known:
            expected = ", ".join(f"[{each}]" for each in ("questions", *SECTION_DECISIONS))
            near = get_close_matches(section[:80], known, n=1)
            meant = f"did you mean [{near[0]}]? Expected" if near else "expected"
            problem = f"unknown table [{one_line(section)}]: {meant} {expected}"
            raise lines.make_error((section,), problem)

        if not isinstance(value, dict):
            raise lines.make_error((section,), f"[{section}] must be a table")

        if section == "questions":
            yield from _read_questions(value, lines)
        else:
            yield from _read_decisions(cast(AnswersSection, section), value, lines)


def _read_questions(tools: Mapping[str, Any], lines: _Lines) -> Iterator[PreparedAnswer]:
    for tool, questions in tools.items():
        key = ("questions", tool)

        if not isinstance(questions, dict):
            raise lines.make_error(
                key, f'write the question under its tool: [questions."{one_line(tool)}"] ID = …'
            )

        for question, value in questions.items():
            yield _read_answer((*key, question), value, lines)


def _read_decisions(
    section: AnswersSection, tools: Mapping[str, Any], lines: _Lines
) -> Iterator[PreparedAnswer]:
    word = SECTION_DECISIONS[section]

    for tool, value in tools.items():
        key = (section, tool)
        if value not in (word, SKIP_WORD):
            raise lines.make_error(
                key, f'{section} of {one_line(tool)}: expected "{word}" or "{SKIP_WORD}"'
            )

        yield PreparedAnswer(key, lines.of(key), skip=value == SKIP_WORD)


def _read_answer(key: AnswerKey, value: Any, lines: _Lines) -> PreparedAnswer:
    line = lines.of(key)
    how = "answer"
    what = value

    if isinstance(value, dict) and is_answer_table(value):
        [(how, what)] = value.items()

    match how, what:
        case "skip", _:
            if what is not True:
                raise lines.make_error(key, "expected { skip = true }")
            return PreparedAnswer(key, line, skip=True)
        case "env", _:
            return PreparedAnswer(key, line, value=_read_variable(what, key, lines))
        case _, dict():  # a form
            return PreparedAnswer(key, line, value=_read_fields(what, key, lines))

    return PreparedAnswer(key, line, value=_to_json(what, key, lines))


def _read_fields(
    form: Mapping[str, Any], key: AnswerKey, lines: _Lines
) -> dict[str, JsonValue | EnvironmentVariable]:
    """Return the answers of a form, without skipped fields."""
    given: dict[str, JsonValue | EnvironmentVariable] = {}

    for name, value in form.items():
        place = (*key, name)
        if isinstance(value, dict) and set(value) == {"env"}:
            given[name] = _read_variable(value["env"], place, lines)
        elif value != {"skip": True}:
            given[name] = _to_json(value, place, lines)

    return given


def is_answer_table(keys: Collection[str]) -> bool:
    """Return True if a table with these keys is one answer; otherwise it is a form with fields."""
    return len(keys) == 1 and not _LONG_FORMS.isdisjoint(keys)


def _read_variable(name: Any, key: AnswerKey, lines: _Lines) -> EnvironmentVariable:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise lines.make_error(
            key, 'expected { env = "NAME" }, the name of an environment variable'
        )
    return EnvironmentVariable(name)


def _to_json(value: Any, key: AnswerKey, lines: _Lines) -> JsonValue:
    """Convert a TOML value to JSON; a date becomes a string.

    Raises:
        ConfigError: The value is infinite or NaN.
    """
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case float() if not isfinite(value):
            raise lines.make_error(key, f"{value} is not a valid answer")
        case list():
            return [_to_json(each, key, lines) for each in value]
        case dict():
            return {name: _to_json(each, key, lines) for name, each in value.items()}
        case _:
            return cast(JsonValue, value)
