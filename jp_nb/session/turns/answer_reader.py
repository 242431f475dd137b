"""Check the structured answer of a turn, and convert it to the type of its schema.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from jp_nb.errors import AnswerError, ProviderError
from jp_nb.json_schema import format_schema_path
from jp_nb.json_writing import compact_json
from jp_nb.record.entries.events import ChatResponse, Entry
from jp_nb.record.reading.turn_view import UNTYPED
from jp_nb.session.turns.structured import AnswerForm
from jp_nb.storable_json import encode_utf8
from jp_nb.toolkit.arguments.misfits import MAX_EXCERPT, MAX_MISFITS, excerpt, list_misfits

NO_JSON: Final = "expected exactly one JSON value"
_PREFIXES: Final = ("Value error, ", "Assertion failed, ")
"""Texts that pydantic puts before the message of a validator."""


class AnswerReader:
    """Checks the structured answer of one turn, after each response that may be the last.

    Attributes:
        is_valid: True if the last checked answer fits.
        value: The last checked answer as a value of its type; `UNTYPED` if it is not valid, or if
            the schema is not a type.
        failure: The exception of a validator of the type; None if no validator failed.
    """

    def __init__(self, form: AnswerForm) -> None:
        self._form = form
        # The last checked answer. It is also kept if it does not fit, for the error.
        self._has_answer = False
        self._data: JsonValue = None
        self._problems: list[str] = []
        self.failure: BaseException | None = None
        self.is_valid = False
        self.value: Any = UNTYPED

    @property
    def is_rejected(self) -> bool:
        """True if the last checked answer has problems."""
        return bool(self._problems)

    def check(self, entries: Sequence[Entry]) -> Sequence[str]:
        """Check the last structured answer in `entries`, on the cell's thread.

        Return its problems for the model. There is none if the answer fits, or if a validator of
        the type failed, which the model cannot repair.
        """
        responses = [entry for entry in entries if isinstance(entry, ChatResponse)]
        answers = [response for response in responses if response.kind == "structured"]
        self._has_answer = bool(answers)
        self._data = answers[-1].data if answers else None

        self.failure = None
        self.value = UNTYPED
        self._problems = self._find_problems() if answers else [NO_JSON]
        self.is_valid = not self._problems and self.failure is None

        return self._problems

    def _find_problems(self) -> list[str]:
        """Return the problems of the answer; set `value`, or `failure` if a validator failed."""
        problems = list_misfits(self._data, self._form.schema)
        if problems:
            return problems
        if self._form.type is None:
            return []

        try:
            # As JSON, because a strict model accepts a date only from a text in JSON.
            self.value = self._form.type.validate_json(encode_utf8(compact_json(self._data)))
        except ValidationError as exc:
            return _format_validation_error(exc)
        except (Exception, SystemExit) as exc:  # of a validator, which is the user's code
            self.failure = exc
        return []

    def raise_problem(self, *, text: str, failed_request: ProviderError | None = None) -> None:
        """Raise `AnswerError` unless the answer fits.

        `text` is the other text of the turn. `failed_request` is the error of the request for
        another answer.
        """
        if self.is_valid:
            return

        if self.failure is not None:
            kind = type(self.failure).__name__
            cause = str(self.failure)[:MAX_EXCERPT]
            reason = f"a validator of the schema failed: {kind}: {cause}"
        elif not self._has_answer:
            reason = "the model gave no structured answer"
            if text.strip():
                reason += f"; its text is {excerpt(text)}"
        else:
            reason = f"the answer does not fit the schema: {self._problems[0]}"

        if self._has_answer:
            reason += f". The answer, also in `_jp.data`: {excerpt(self._data)}"
        if failed_request is not None:
            reason += f". The request for another answer failed: {failed_request}"
        raise AnswerError(reason, data=self._data, text=text) from failed_request or self.failure


def _format_validation_error(error: ValidationError) -> list[str]:
    """Return a line for the model about each problem: its place, and the short value found there.

    The model knows its whole answer, and an object may be long, so only plain values are named.
    """
    lines: list[str] = []
    for details in error.errors(include_url=False)[:MAX_MISFITS]:
        message = details["msg"]
        for prefix in _PREFIXES:
            message = message.removeprefix(prefix)

        where = format_schema_path(details["loc"])
        line = f"{where}: {message[: 2 * MAX_EXCERPT].rstrip('. ')}"
        if details["loc"] and isinstance(details["input"], str | int | float | bool | None):
            line += f", found {excerpt(details['input'])}"
        lines.append(line)
    return lines
