"""Prepared answers and permissions, and the choice of the one that decides about a question.

A *prepared answer* is the decision of one entry of the file: about a question, a call of a tool,
its result, a change, an edit, or a plan. Exact names have priority over patterns, and the first
matching pattern over later ones. Of the patterns for edits, the longest one decides. An entry for
exact arguments has priority over one for the tool, and an entry for the run over the others.
`answers_file.py` reads the file.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.json_writing import sorted_json

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

AnswerKey = tuple[str, ...]
"""Section and tool; for a question, also its id: `("questions", "publish", "note")`.

An edit has the id or a tag of the cell in place of a tool.
"""


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """Reference to the text of an environment variable."""

    name: str


@dataclass(frozen=True, slots=True)
class PreparedAnswer:
    """One entry of an answers file.

    Attributes:
        key: Section, tool, and id of a question. Tool and question may be patterns.
        line: Line number, from 1.
        skip: True if the question is left unanswered, or the consent is refused.
        value: The answer to a question. For a form, an object with a value for each field.
        arguments: The exact arguments of the only call that a permission is for; None: any call.
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

    @property
    def digest(self) -> str:
        """Digest of the identity and the value; "" if the value is in an environment variable.

        Equal digests mean equal answers. A variable may have another value later.
        """
        values = [self.value]
        if isinstance(self.value, Mapping):  # the answers to the fields of a form
            values = list(self.value.values())
        if any(isinstance(value, EnvironmentVariable) for value in values):
            return ""

        content = repr((self.identity, self.skip, self.value))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AnswersFile:
    """Content of an answers file, in its order.

    A run searches only the answers that `select_run` keeps for it.
    """

    name: str
    answers: tuple[PreparedAnswer, ...] = ()

    def select_run(self, run: str | None) -> AnswersFile:
        """Return the file without the answers of other runs; None: without those of any run."""
        kept = [answer for answer in self.answers if answer.run in (None, run)]
        return replace(self, answers=tuple(kept))

    def split_by_run(self) -> dict[str | None, AnswersFile]:
        """Return the file of `select_run` for each run that it names, and for None."""
        general = self.select_run(None)
        answers_by_run: dict[str, list[PreparedAnswer]] = {}
        for answer in self.answers:
            if answer.run is not None:
                answers_by_run.setdefault(answer.run, []).append(answer)

        files: dict[str | None, AnswersFile] = {None: general}
        for run, answers in answers_by_run.items():
            files[run] = replace(self, answers=(*general.answers, *answers))
        return files

    def find(
        self,
        section: AnswersSection,
        *names: str,
        arguments: Mapping[str, JsonValue] | None = None,
    ) -> PreparedAnswer | None:
        """Return the entry for a tool (`names`: its name), or for a question (tool and id).

        An entry for exact arguments is found only for a call with the same `arguments`.
        """
        key = (section, *names)
        arguments_json = None if arguments is None else sorted_json(dict(arguments))
        matches = [
            answer
            for answer in self.answers
            if _matches(answer.key, key) and _is_for_call(answer, arguments_json)
        ]

        # False is less than True, so answers with priority have the lower rank.
        def rank(answer: PreparedAnswer) -> tuple[bool, bool, bool]:
            return (answer.run is None, answer.arguments is None, answer.key != key)

        return min(matches, key=rank, default=None)  # the first of equal rank

    def find_edit(self, names: Sequence[str]) -> PreparedAnswer | None:
        """Return the entry for an edit of the cell with these names: its id, and its tags.

        Names have priority over patterns, and longer patterns over shorter ones.
        """
        matches = [
            answer
            for answer in self.answers
            if any(_matches(answer.key, ("edits", name)) for name in names)
        ]

        # False is less than True, so answers with priority have the lower rank.
        def rank(answer: PreparedAnswer) -> tuple[bool, bool, int]:
            name = answer.key[1]
            return (answer.run is None, name not in names, -len(name))

        return min(matches, key=rank, default=None)  # the first of equal rank

    def answers_questions_of(self, tool: str) -> bool:
        """Return True if the file has an answer to any question of `tool`."""
        for answer in self.answers:
            section, pattern, *_ = answer.key
            if section == "questions" and _matches((pattern,), (tool,)):
                return True
        return False

    def format_place(self, answer: PreparedAnswer) -> str:
        """Return the place of `answer` for the user, such as `notebook.answers.toml, line 4`."""
        return f"{self.name}, line {answer.line}"


def _is_for_call(answer: PreparedAnswer, arguments_json: str | None) -> bool:
    """Return True if `answer` is for all calls, or for the calls with these arguments.

    They are compared as JSON, because `True` and `1` are equal in Python.
    """
    if answer.arguments is None:
        return True
    return sorted_json(dict(answer.arguments)) == arguments_json


def _matches(pattern: AnswerKey, key: AnswerKey) -> bool:
    """Return True if each part of `key` has the name, or matches the pattern, in `pattern`."""
    if len(pattern) != len(key):
        return False
    return all(map(_matches_name, pattern, key))


def _matches_name(pattern: str, name: str) -> bool:
    escaped = pattern.replace("[", "[[]")  # only `*` and `?` are special
    return pattern == name or fnmatchcase(name, escaped)
