"""Completions: the answers to prompts outside of a conversation, or reasons why there are none.

`completion_frames.py` converts them to series and frames.

Source: `docs/rows.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, JsonValue

from jp_nb.agent.model_requests.complete_responses import RefusalError
from jp_nb.errors import AnswerError, ProviderError
from jp_nb.record.entries.token_usage import Usage
from jp_nb.session.rows.completion_frames import make_frame, make_series

FailureReason = Literal[
    "prompt", "refused", "invalid", "too_long", "incomplete", "rate_limit", "budget",
    "interrupted", "error",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's answer to one prompt.

    Attributes:
        text: The answer as text; of a structured answer, its JSON.
        data: The structured answer, as a value of the type of its schema, or as JSON if the schema
            is a JSON schema; None if there was no schema.
        json: The structured answer as JSON; None if there was no schema.
        usage: Tokens of all requests for this answer. Of a cached answer, when it was made.
        model: The model, as `provider/name`.
        cached: True if the answer is from the cache file, so that no request was sent.
    """

    text: str
    data: Any = None
    json: JsonValue = field(default=None, repr=False)
    usage: Usage = field(default_factory=Usage, repr=False)
    model: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A prompt without an answer.

    Attributes:
        index: Position of the prompt, counted from 0.
        reason: `prompt` (the row has no usable prompt), `refused` (by the model), `invalid` (the
            answer does not fit the schema), `too_long` (the prompt), `incomplete` (the answer
            reached the token limit), `rate_limit`, `budget` (`max_total_tokens` was reached
            before), `interrupted` (by the user), or `error`.
        message: The reason as a sentence for the user.
        error: The exception; None if there was none.
    """

    index: int
    reason: FailureReason
    message: str
    error: Exception | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return False


_REASONS_BY_KIND: Final[Mapping[str, FailureReason]] = {
    "too_long": "too_long",
    "output_limit": "incomplete",
    "rate_limit": "rate_limit",
}


def make_failure(index: int, error: Exception) -> Failure:
    """Return the failure of the row `index` because of `error`."""
    reason: FailureReason = "error"
    if isinstance(error, RefusalError):
        reason = "refused"
    elif isinstance(error, AnswerError):
        reason = "invalid"
    elif isinstance(error, ProviderError):
        reason = _REASONS_BY_KIND.get(error.kind, "error")

    error.__traceback__ = None  # its frames would keep the whole request in memory
    return Failure(index, reason, str(error) or type(error).__name__, error)


class Completions(list[Completion | Failure]):
    """The answers to a list of prompts, in the order of the prompts.

    Attributes:
        partial: True if the user interrupted the requests, or a limit ended them.
        usage: Tokens of the requests of this call.
    """

    def __init__(
        self,
        results: Iterable[Completion | Failure] = (),
        *,
        partial: bool = False,
        usage: Usage | None = None,
        source: Any = None,
    ) -> None:
        super().__init__(results)
        self.partial = partial
        self.usage = Usage() if usage is None else usage
        self._source = source  # a series or a frame; None for other prompts

    @property
    def failures(self) -> list[Failure]:
        """The prompts without an answer."""
        return [result for result in self if isinstance(result, Failure)]

    @property
    def series(self) -> Any:
        """The answers as a series of the library of the prompts, with the same index.

        Structured answers are their data, others their text. A row without an answer is None.

        Raises:
            UsageError: The prompts were no series or frame of pandas or polars.
        """
        return make_series([_get_value(result) for result in self], self._source)

    def to_frame(self) -> Any:
        """Return the answers as a frame: a column for each field, or `answer`, and `error`.

        It is a frame of the library of the prompts, otherwise of pandas, with the same index. A
        list in a structured answer stays one value. `error` is None for a row with an answer. If
        the answers have a field of that name, the column is `failure`, or else `failure_2`, ….

        Raises:
            UsageError: pandas is not installed.
        """
        rows = [_make_frame_row(result) for result in self]
        failures = [_format_failure(result) for result in self]
        return make_frame(rows, failures, self._source)


def _get_value(result: Completion | Failure) -> Any:
    """Return the data of a structured answer, the text of another one, or None for a failure."""
    if isinstance(result, Failure):
        return None
    if result.json is None and result.data is None:
        return result.text
    return result.data


def _make_frame_row(result: Completion | Failure) -> dict[str, Any]:
    """Return the cells of a row by column; none for a failure."""
    if isinstance(result, Failure):
        return {}
    if isinstance(result.json, dict):
        return {str(name): _get_field(result, name) for name in result.json}
    return {"answer": _get_value(result)}


def _format_failure(result: Completion | Failure) -> str | None:
    return f"{result.reason}: {result.message}" if isinstance(result, Failure) else None


def _get_field(result: Completion, name: str) -> Any:
    """Return a field as the type of the schema has it, such as a date; else its JSON.

    `name` is the name in the JSON. In a pydantic model, it may be the alias of the field.
    """
    assert isinstance(result.json, dict)
    json_value = result.json[name]
    data = result.data

    if isinstance(data, Mapping):
        return data.get(name, json_value)
    if not isinstance(data, BaseModel):
        return getattr(data, name, json_value)

    # An attribute with the name of the alias may be a method of pydantic, such as `schema`.
    for attribute, field_info in type(data).model_fields.items():
        if name in (attribute, field_info.alias, field_info.validation_alias):
            return getattr(data, attribute)
    return json_value
