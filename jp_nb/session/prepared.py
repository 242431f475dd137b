"""The answers file of this session: what it answers, and the log of what nobody decided.

A runner that wants to know names a file in `JP_NB_DECISIONS`; each of its lines is one of

    {"used": ["questions", "publish", "audience"]}      a part of the answers file, by its key
    {"open": "question", "tool": "publish", "why": "…", "detail": [], "question": {…}}

`question` is as the tool asked it (`docs/turns.md`), absent with the other kinds.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import (
    Beforehand,
    DecisionKind,
    Declined,
    Given,
    OpenDecision,
    Unfit,
)
from jp_nb.errors import ConfigError
from jp_nb.safe_text import one_line
from jp_nb.tooling.question import FormAnswer, Question
from jp_nb.tooling.question_kinds import AnswerType
from jp_nb.workspace import variables
from jp_nb.workspace.answers_file import (
    DECISIONS,
    SKIP,
    AnswersFile,
    PreparedAnswer,
    Section,
    Variable,
    decode_answers,
    parse_answers,
    read_answers,
)
from jp_nb.workspace.config_files import ConfigFiles
from jp_nb.workspace.own_files import Stamp, stamp

log = logging.getLogger(__name__)

Said = JsonValue | Variable | Mapping[str, JsonValue | Variable]
_SECTIONS: Final[Mapping[DecisionKind, Section]] = {
    "permission": "permissions",
    "result": "results",
    "change": "changes",
}


class SessionAnswers:
    """What the answers file says, if there is one; it is read again when it changes."""

    def __init__(self) -> None:
        self._file = AnswersFile("")
        self._read: tuple[Path, Stamp] | None = None
        self._used: set[tuple[str, ...]] = set()
        self._log_works = True

    def load(self, path: str | None, files: ConfigFiles) -> None:
        """Take the file at `path`, which is relative to the notebook's folder, from now on.

        A relative path names a file that came with the folder: in a live kernel it is not used
        before the user agreed to its content. None: there is no file.

        Raises:
            ConfigError: If it cannot be read, is not the user's own, or is wrong; line and file
                are named.
        """
        if path is None:
            self._file, self._read = AnswersFile(""), None
            return
        try:
            named = Path(path).expanduser()
        except RuntimeError as exc:  # of a user that there is not
            raise ConfigError(
                f"the path of the answers file is not valid: {exc}", file=path
            ) from exc
        file = files.folder / named
        before, asks = _stamp(file), not named.is_absolute() and files.trust is not None
        if asks or before is None or before != self._read:  # a consent may have been revoked
            content = read_answers(file)
            found = parse_answers(decode_answers(file, content), file.name)
            leaves = [(".".join(each.key), _shown(each)) for each in found.answers]
            self._read = before
            if asks and not files.counts(file, content, leaves):
                self._read, found = None, AnswersFile("")
                files.say(
                    f"{file} can answer questions and permit calls for you. It is "
                    "ignored until `%jp trust --workspace`"
                )
            self._file = found

    # --- what was decided beforehand -----------------------------------------------------------

    def answer(self, tool: str, question: Question) -> Beforehand | None:
        """Return the answer to `question` of `tool`; None if the file has none."""
        found = self._file.find("questions", tool, question.id)
        if found is None:
            return None
        self._use(found)
        place = self._file.place(found)
        if found.skip:
            return Declined(place)
        return _fitted(found.value, question, place)

    def asks_nobody(self, tool: str) -> bool:
        """Return whether the file says something about questions of `tool`."""
        return self._file.answers_questions_of(tool)

    def decision(self, kind: DecisionKind, tool: str) -> Beforehand | None:
        """Return what the file says about `tool`; None if that is nothing."""
        found = self._file.find(_SECTIONS[kind], tool)
        if found is None:
            return None
        self._use(found)
        place = self._file.place(found)
        return Declined(place) if found.skip else Given(None, place)

    # --- what a runner is told -----------------------------------------------------------------

    def left_open(self, decision: OpenDecision) -> None:
        """Note what nobody decided, if a runner wants to know."""
        entry: dict[str, JsonValue] = {
            "open": decision.kind,
            "tool": decision.tool,
            "why": decision.why,
            "detail": list(decision.detail),
        }
        if decision.question is not None:
            entry["question"] = decision.question.model_dump(mode="json")
        self._tell(entry)

    def _use(self, answer: PreparedAnswer) -> None:
        if answer.key not in self._used:
            self._used.add(answer.key)
            self._tell({"used": list(answer.key)})

    def _tell(self, entry: dict[str, JsonValue]) -> None:
        path = os.environ.get(variables.DECISIONS)
        if not path or not self._log_works:
            return
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as exc:
            self._log_works = False
            log.warning("Cannot write the open decisions to %s: %s", path, exc.strerror)


def _stamp(file: Path) -> tuple[Path, Stamp] | None:
    try:
        return file, stamp(file)
    except OSError:
        return None  # to read it says why


def _shown(answer: PreparedAnswer) -> JsonValue:
    if answer.key[0] != "questions":
        return SKIP if answer.skip else DECISIONS[cast(Section, answer.key[0])]
    if answer.skip:
        return {SKIP: True}
    if isinstance(answer.value, Mapping):
        return {name: _named(value) for name, value in answer.value.items()}
    return _named(answer.value)


def _named(value: JsonValue | Variable) -> JsonValue:
    return {"env": value.name} if isinstance(value, Variable) else value


def _fitted(said: Said, question: Question, place: str) -> Given | Unfit:
    """Return what is `said` as an answer to `question`, or why it is none."""
    kind = question.answer_type
    secrets = _secret_parts(question)
    for name, value in _parts(said, question):
        if name in secrets and not isinstance(value, Variable):
            return Unfit(
                f"{place}: give a secret such as {name!r} as an environment variable: "
                '{ env = "NAME" }'
            )
        if isinstance(value, Variable) and name not in secrets:
            return Unfit(
                f"{place}: {name!r} is not a secret, so its answer is recorded and "
                "sent. An environment variable can only answer secret questions"
            )
    try:
        answer = _with_variables(said)
    except KeyError as exc:
        return Unfit(f"{place}: the environment variable {exc.args[0]!r} is not set or is empty")
    if isinstance(kind, FormAnswer) and isinstance(answer, dict):
        answer = kind.filled(answer)
    answer = kind.settled(answer)
    if question.misfit(answer) is None:
        return Given(answer, place)
    why = _complaint(kind, answer)
    return Unfit(f"{place}: the answer to {question.id!r} does not fit{f': {why}' if why else ''}")


def _complaint(kind: AnswerType, answer: JsonValue) -> str:
    """Return what is wrong with `answer`, without secrets; "" where that would tell of one."""
    if kind.has_secret:
        if not (isinstance(kind, FormAnswer) and isinstance(answer, dict)):
            return ""
        kind = kind.model_copy(update={"check": None})  # which may quote what it was given
    return one_line(kind.complaint(answer))


def _parts(said: Said, question: Question) -> list[tuple[str, object]]:
    """Return what is said of each field of a form, or of the question itself, by id."""
    return [*said.items()] if isinstance(said, Mapping) else [(question.id, said)]


def _secret_parts(question: Question) -> set[str]:
    kind = question.answer_type
    if isinstance(kind, FormAnswer):
        return {field.id for field in kind.fields if field.answer_type.secret}
    return {question.id} if kind.secret else set()


def _with_variables(said: Said) -> JsonValue:
    """Return `said` with the texts of the environment variables it names.

    Raises:
        KeyError: If one is not set, or empty; its argument is the name.
    """
    if isinstance(said, Variable):
        return _text_of(said)
    if isinstance(said, Mapping):
        return {
            name: _text_of(value) if isinstance(value, Variable) else value
            for name, value in said.items()
        }
    return said


def _text_of(variable: Variable) -> str:
    text = os.environ.get(variable.name, "")
    if not text:  # CI sets one that holds a secret it does not have
        raise KeyError(variable.name)
    return text
