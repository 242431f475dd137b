"""What can go wrong.

JpNbError
├── UsageError          a magic, a command or a function was called wrongly
├── ConfigError         a value the user wrote is wrong; names the path and where it came from
├── ProviderError       the model could not be reached, or refused
│   ├── ProtocolError   it sent bytes its API does not document
│   └── UnrecordedError a request is not on the cassette that answers in the model's place
├── AnswerError         a structured answer did not come, or does not fit its schema
├── StorageError        the notebook holds something we cannot read
├── PromptUnavailable   a question that only a person may answer, and nobody is there
├── PromptCancelled     a question that somebody was asked and did not answer
└── ReplayError         the tools of a recorded turn answer otherwise than they did
ToolError               raised by a tool for the model to read; never reaches the user
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pydantic import JsonValue

ProviderErrorKind = Literal[
    "timeout", "connect", "refused", "rate_limit", "transient", "quota", "output_limit",
    "too_long", "other",
]  # fmt: skip
RETRYABLE_KINDS = frozenset({"timeout", "connect", "rate_limit", "transient"})


class JpNbError(Exception):
    """The base of all errors that `jp_nb` raises on purpose; `ToolError` is not among them."""


class UsageError(JpNbError):
    """A magic, a command or a function was called wrongly; nothing was done."""


class ReplayError(JpNbError):
    """The tools of a recorded turn do not answer what they answered then."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One wrong value: its dotted path ("" for the whole tree), what is wrong, and in words."""

    path: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(JpNbError):
    """A configured value is wrong. All that is wrong at one place is told at once.

    Attributes:
        path: Dotted path of the first wrong value, such as `assistant.model.id`; "" for the
            whole tree.
        kind: What is wrong with it: `unknown_key`, `unknown_index`, `type`, `value`, `malformed`,
            `unset`, `no_model`.
        layer: Which layer holds it, such as `user file` or `environment`; None if unknown.
        file: The file or variable that holds it; None if there is none.
        problems: Everything that is wrong, the first of it included.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        kind: str = "value",
        layer: str | None = None,
        file: str | None = None,
        others: Sequence[ConfigProblem] = (),
    ) -> None:
        super().__init__(message)
        self.path = path
        self.kind = kind
        self.layer = layer
        self.file = file
        self.problems = (ConfigProblem(path, kind, message), *others)

    def __str__(self) -> str:
        text = "\n".join(str(problem) for problem in self.problems)
        place = ": ".join(part for part in (self.layer, self.file) if part)
        if not place:
            return text
        return f"{place}:\n{text}" if len(self.problems) > 1 else f"{text} (from {place})"


class ProviderError(JpNbError):
    """The model could not be reached, refused, or stopped in the middle.

    Attributes:
        kind: `timeout`, `connect`, `refused` (a server of this machine that does not run),
            `rate_limit`, `transient`, `quota`, `output_limit`, `too_long` (the request is longer
            than the model reads) or `other`.
        status: HTTP status, if there was one.
        retry_after: Seconds that the server asked to wait, if it did.
        address: Where the request was to go, if that was over the network.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ProviderErrorKind = "other",
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ProviderErrorKind = kind
        self.status = status
        self.retry_after = retry_after
        self.address = ""

    @property
    def without_address(self) -> str:
        """The message with neither the address nor its host in it."""
        host = urlsplit(self.address).hostname
        if not host:
            return str(self)
        name = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", re.IGNORECASE)
        return name.sub("[address]", str(self).replace(self.address, "[address]"))

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later."""
        if self.kind in ("quota", "output_limit", "too_long"):
            return False
        return self.kind in RETRYABLE_KINDS or self.retry_after is not None


class ProtocolError(ProviderError):
    """The server sent something that its API does not document."""


class UnrecordedError(ProviderError):
    """The cassette that answers in the model's place does not have the request."""


class AnswerError(JpNbError):
    """The model gave no structured answer, or one that does not fit the schema asked for.

    The turn is in the record, and is the last one: the message names what does not fit, and where.

    Attributes:
        data: The answer as it came; None if there was none.
        text: What the model said beside it, or instead.
    """

    def __init__(self, message: str, *, data: JsonValue = None, text: str = "") -> None:
        super().__init__(message)
        self.data = data
        self.text = text


class StorageError(JpNbError):
    """A stored record cannot be read.

    Attributes:
        place: Where, such as `events[3].id`; "" for the record as a whole.
    """

    def __init__(self, message: str, *, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class PromptUnavailable(JpNbError):  # noqa: N818 - the public name
    """A decision that only a person may take, and nobody can be asked.

    Attributes:
        reason: Why nobody is there, in words.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class PromptCancelled(JpNbError):  # noqa: N818 - the public name
    """A person was asked and gave no answer.

    Attributes:
        end: `declined`, `cancelled`, `timed_out` or `interrupted`.
    """

    def __init__(self, message: str, *, end: str = "cancelled") -> None:
        super().__init__(message)
        self.end = end


class ToolError(Exception):
    """Raise it in a tool: the model reads the message as an error result, and nobody else.

    >>> raise ToolError("There is no city of that name. Call `list_cities` first.")
    Traceback (most recent call last):
    jp_nb.errors.ToolError: There is no city of that name. Call `list_cities` first.
    """
