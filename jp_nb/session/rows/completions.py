"""Completions: the answers to prompts outside of a conversation, or reasons why there are none.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal

from pydantic import JsonValue

from jp_nb.agent.model_requests.complete_responses import RefusalError
from jp_nb.errors import AnswerError, ProviderError, UsageError
from jp_nb.record.entries.token_usage import Usage

FailureReason = Literal[
    "prompt", "refused", "invalid", "too_long", "incomplete", "rate_limit", "budget",
    "interrupted", "error",
]  # fmt: skip
FRAME_LIBRARIES: Final = ("pandas", "polars")


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
        library = find_frame_library(self._source)
        if library is None:
            raise UsageError(
                "`series` needs prompts from a series or a frame of pandas or polars. "
                "Use `to_frame()`, or the list itself"
            )

        values = [_get_value(result) for result in self]
        name = "answer"
        is_series = not hasattr(self._source, "columns")
        if is_series and self._source.name:
            name = self._source.name

        module = sys.modules[library]
        if library == "polars":
            plain_values = [_to_plain(value) for value in values]
            return module.Series(name, plain_values, strict=False)
        # Fewer answers than rows if the requests were interrupted.
        return module.Series(values, index=self._source.index[: len(values)], name=name)

    def to_frame(self) -> Any:
        """Return the answers as a frame: a column for each field, or `answer`, and `error`.

        It is a frame of the library of the prompts, otherwise of pandas, with the same index. A
        list in a structured answer stays one value. `error` is None for a row with an answer. If
        the answers have a field of that name, the column is `failure`, or else `failure_2`, ….

        Raises:
            UsageError: pandas is not installed.
        """
        rows = [_make_frame_row(result) for result in self]
        names: dict[str, None] = {}
        for row in rows:
            names |= dict.fromkeys(row)

        columns = {name: [row.get(name) for row in rows] for name in names}
        free_names = (name for name in _list_failure_names() if name not in names)
        columns[next(free_names)] = [_format_failure(result) for result in self]

        library = find_frame_library(self._source) or "pandas"
        if library == "polars":
            return sys.modules["polars"].DataFrame(columns, strict=False)

        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError as exc:
            raise UsageError("`to_frame` needs pandas: `pip install pandas`") from exc
        index = None if self._source is None else self._source.index[: len(rows)]
        pandas_columns = {
            name: _make_pandas_column(pandas, values) for name, values in columns.items()
        }
        return pandas.DataFrame(pandas_columns, index=index)


def _list_failure_names() -> Iterator[str]:
    """Yield the names of the column of failures, the best first."""
    yield "error"
    yield "failure"
    for number in count(2):
        yield f"failure_{number}"


def find_frame_library(value: object) -> Literal["pandas", "polars"] | None:
    """Return the library of `value` if it is a series or a frame of one; never import one."""
    for library in FRAME_LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and isinstance(value, (module.Series, module.DataFrame)):
            return "pandas" if library == "pandas" else "polars"
    return None


def _get_value(result: Completion | Failure) -> Any:
    """Return the data of a structured answer, the text of another one, or None for a failure."""
    if isinstance(result, Failure):
        return None
    if result.json is None and result.data is None:
        return result.text
    return result.data


def _to_plain(value: Any) -> Any:
    """Return a value that polars can store: its JSON instead of an object of a class."""
    from pydantic import TypeAdapter

    if value is None or isinstance(value, str | int | float | bool):
        return value
    return TypeAdapter(Any).dump_python(value, mode="json")


def _make_frame_row(result: Completion | Failure) -> dict[str, Any]:
    """Return the cells of a row by column; none for a failure."""
    if isinstance(result, Failure):
        return {}
    if isinstance(result.json, dict):
        return {str(name): _get_field(result, name) for name in result.json}
    return {"answer": _get_value(result)}


def _format_failure(result: Completion | Failure) -> str | None:
    return f"{result.reason}: {result.message}" if isinstance(result, Failure) else None


def _make_pandas_column(pandas: Any, values: list[Any]) -> Any:
    """Return a column in which whole numbers stay whole numbers beside a row without an answer."""
    numbers = [value for value in values if value is not None]
    is_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in numbers)
    has_range = is_whole and all(abs(number) < 2**63 for number in numbers)
    if numbers and has_range and len(numbers) < len(values):
        return pandas.array(values, dtype="Int64")
    return values


def _get_field(result: Completion, name: str) -> Any:
    """Return a field as the type of the schema has it, such as a date; else its JSON."""
    assert isinstance(result.json, dict)
    if isinstance(result.data, Mapping):
        return result.data.get(name, result.json[name])
    return getattr(result.data, name, result.json[name])
