"""The prepared answers of a session: its answers file, read again when it changes.

An answers file (TOML) decides what a user would decide: answers of questions, permissions of calls,
results, and configuration changes. It is for runs without a user, and for tests. A question or
decision without an answer is left open, and reported.

Source: `docs/answers.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from jp_nb.agent.prepared_answers import (
    DecisionKind,
    DeclinedByFile,
    GivenAnswer,
    OpenDecision,
    PreparedConsent,
    PreparedQuestionAnswer,
)
from jp_nb.errors import ConfigError
from jp_nb.session.questions.file_answers import read_file_answer
from jp_nb.storage import environment
from jp_nb.storage.configuration.answers_content import (
    CONSENT_WORDS,
    SKIP_WORD,
    AnswerKey,
    AnswersFile,
    AnswersSection,
    EnvironmentVariable,
    PreparedAnswer,
)
from jp_nb.storage.configuration.answers_file import (
    decode_answers,
    parse_answers,
    read_answers,
)
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.files import Stamp, make_stamp
from jp_nb.storage.run_events import append_run_event
from jp_nb.toolkit.question import Question

MAX_WORDS_CHARS: Final = 2_000
"""Maximum length of the model's last words beside an open decision, from their end."""
MAX_PREPARED_RESULT_CHARS: Final = 10_000
"""Maximum length of the result beside an open decision about its delivery."""
_SECTIONS: Final[Mapping[DecisionKind, AnswersSection]] = {
    "permission": "permissions",
    "result": "results",
    "change": "changes",
    "edit": "edits",
    "plan": "plan",
}


class SessionAnswers:
    """The prepared answers of the answers file, if there is one. A changed file is read again.

    It implements `PreparedAnswers` (`agent/prepared_answers.py`).
    """

    def __init__(self) -> None:
        self._file = AnswersFile("")  # an empty file has no answers
        self._last_read: tuple[Path, Stamp] | None = None  # the file in use, as it was read
        # Identity and digest of each answer whose use the runner knows.
        self._reported: set[tuple[AnswerKey, str]] = set()

    def load(self, path: str | None, files: ConfigFiles) -> None:
        """Use the file at `path`, relative to the notebook's folder; None: no file.

        A relative path may be a file that came with the folder, so a live kernel ignores it until
        the user consents to its content. An unchanged file is not read again, unless it needs a
        consent, which can be revoked.

        Raises:
            ConfigError: The file cannot be read, is not the user's own, or is not valid. The
                message has file and line.
        """
        if path is None:
            self._file = AnswersFile("")
            self._last_read = None
            return

        expanded = _expand_user(path)
        file = files.folder / expanded
        # A headless run has no `trust`, and accepts the files of its folder.
        needs_consent = not expanded.is_absolute() and files.trust is not None

        current = None
        with suppress(OSError):  # `read_answers` raises the error for the user
            current = file, make_stamp(file)
        is_unchanged = current is not None and current == self._last_read
        if is_unchanged and not needs_consent:
            return

        content = read_answers(file)
        answers = parse_answers(decode_answers(file, content), file.name)
        self._last_read = current

        shown_values = [
            (".".join(answer.identity), _to_toml_value(answer)) for answer in answers.answers
        ]
        if needs_consent and not files.consents.check(file, content, shown_values):
            self._last_read = None
            answers = AnswersFile("")
            files.notices.add(
                f"{file} can answer questions and permit calls for you. It is "
                "ignored until `%jp trust --workspace`"
            )

        # The runner of a batch names its run. Answers for other runs are removed.
        self._file = answers.select_run(os.environ.get(environment.RUN_VARIABLE))

    def find_answer(self, tool: str, question: Question) -> PreparedQuestionAnswer | None:
        """Return the prepared answer to `question` of `tool`, if there is one."""
        answer = self._use("questions", tool, question.id)
        if answer is None:
            return None

        place = self._file.format_place(answer)  # file and line, for messages
        if answer.skip:
            return DeclinedByFile(place)
        return read_file_answer(answer.value, question, place)

    def answers_questions_of(self, tool: str) -> bool:
        """Return True if the file has answers to questions of `tool`."""
        return self._file.answers_questions_of(tool)

    def find_decision(
        self, kind: DecisionKind, tool: str, arguments: Mapping[str, JsonValue] | None = None
    ) -> PreparedConsent | None:
        """Return the prepared decision about `tool`, or its call with `arguments`, if any."""
        answer = self._use(_SECTIONS[kind], tool, arguments=arguments)
        return None if answer is None else self._make_decision(answer)

    def find_edit_decision(self, names: Sequence[str]) -> PreparedConsent | None:
        """Return the prepared decision about an edit of the cell with these `names`, if any.

        They are the id of the cell and its tags.
        """
        answer = self._file.find_edit(names)
        if answer is None:
            return None

        self._report_use(answer)
        return self._make_decision(answer)

    def _make_decision(self, answer: PreparedAnswer) -> PreparedConsent:
        """Return the consent or the refusal of the file. A consent has no value."""
        place = self._file.format_place(answer)
        return DeclinedByFile(place) if answer.skip else GivenAnswer(None, place)

    def note_open(self, decision: OpenDecision) -> None:
        """Report an open decision to the headless runner, if there is one."""
        event: dict[str, JsonValue] = {
            "open": decision.kind,
            "tool": decision.tool,
            "why": decision.why,
            "detail": [*decision.detail],
            "turn": decision.turn,
            "words": decision.words[-MAX_WORDS_CHARS:],
        }
        if decision.arguments is not None:
            event["arguments"] = dict(decision.arguments)
        if decision.result is not None:
            event["result"] = decision.result[:MAX_PREPARED_RESULT_CHARS]
        if decision.question is not None:
            event["question"] = decision.question.model_dump(mode="json")
        append_run_event(**event)

    def _use(
        self,
        section: AnswersSection,
        *names: str,
        arguments: Mapping[str, JsonValue] | None = None,
    ) -> PreparedAnswer | None:
        """Find the prepared answer, and report its use to the headless runner."""
        answer = self._file.find(section, *names, arguments=arguments)
        if answer is not None:
            self._report_use(answer)
        return answer

    def _report_use(self, answer: PreparedAnswer) -> None:
        """Tell the headless runner once that an answer was used, and again if it has changed.

        The `identity` names the entry of the file, and the `digest` also depends on its value.
        """
        used = (answer.identity, answer.digest)
        if used not in self._reported:
            self._reported.add(used)
            append_run_event(answer=list(answer.identity), digest=answer.digest)


def _expand_user(path: str) -> Path:
    """Return `path` with the home folder in place of `~`."""
    try:
        return Path(path).expanduser()
    except RuntimeError as exc:  # the home of an unknown user
        why = f"the path of the answers file is not valid: {exc}"
        raise ConfigError(why, file=path) from exc


def _to_toml_value(answer: PreparedAnswer) -> JsonValue:
    """Return the answer as the file has it, for the user who consents to the file."""
    section = answer.key[0]  # before the names of tool and question
    if section != "questions":
        return SKIP_WORD if answer.skip else CONSENT_WORDS[cast(AnswersSection, section)]
    if answer.skip:
        return {SKIP_WORD: True}
    if isinstance(answer.value, Mapping):
        return {name: _format_variable(value) for name, value in answer.value.items()}
    return _format_variable(answer.value)


def _format_variable(value: JsonValue | EnvironmentVariable) -> JsonValue:
    return {"env": value.name} if isinstance(value, EnvironmentVariable) else value
