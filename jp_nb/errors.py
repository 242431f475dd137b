"""The exceptions of `jp_nb`.

JpNbError
├── UsageError          wrong use of a magic, a command, or a function
├── ConfigError         a setting has an invalid value
├── ProviderError       a request to a model failed
│   ├── ProtocolError   the server sent data that its API does not document
│   └── UnrecordedError the cassette that replaces the model does not contain the request
├── AnswerError         a structured answer is missing or does not match its schema
├── ToolSourceError     a source of tools, such as a server, cannot start
├── StorageError        a record cannot be read, changed, imported, or exported
├── PromptUnavailable   a decision needs the user, and no user is available
├── PromptCancelled     the user did not answer a question
└── ReplayError         tools returned other results than the recorded turn
ToolError               raised by a tool to send an error message to the model
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """Base class of the errors that `jp_nb` raises on purpose, except `ToolError`."""


class UsageError(JpNbError):
    """Raised for wrong use of a magic, a command, or a function, which then has no effect."""


class ReplayError(JpNbError):
    """Raised by `%jp replay --strict` if a result differs from the recorded turn."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One invalid setting.

    Attributes:
        path: Dotted path of the setting; "" for the whole configuration.
        kind: The kind of problem; `ConfigError` lists the kinds.
        message: The problem in words for the user, without the path.
        cause: The part of the message that says why the value is invalid; "" without one.
        expected: The part that names the accepted values or keys; "" without one.
    """

    path: str
    kind: str
    message: str
    cause: str = field(default="", compare=False)
    expected: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(JpNbError):
    """Raised if a setting has an invalid value.

    One error reports all invalid values of a source.

    Attributes:
        path: Dotted path of the first invalid setting, such as `assistant.model.id`; "" for the
            whole configuration.
        kind: The problem with the first invalid setting: `unknown_key`, `unknown_index`, `type`,
            `value`, `malformed`, `unset`, or `no_model`.
        layer: The configuration layer, such as `user file` or `environment`; None if unknown.
        file: The file or environment variable that contains the value; None if there is none.
        problems: All problems, the first one included. Each has `path`, `kind`, and `message`.
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
        self.problems: tuple[ConfigProblem, ...] = (ConfigProblem(path, kind, message), *others)

    def __str__(self) -> str:
        text = "\n".join(str(problem) for problem in self.problems)
        place = ": ".join(part for part in (self.layer, self.file) if part)
        if not place:
            return text
        return f"{place}:\n{text}" if len(self.problems) > 1 else f"{text} (from {place})"


class ProviderError(JpNbError):
    """Raised if a request to a model fails.

    Attributes:
        kind: `timeout`, `connect`, `refused` (the server on this machine is not running),
            `rate_limit`, `transient`, `quota`, `output_limit`, `too_long` (the request exceeds the
            model's context window), or `other`.
        status: HTTP status code; None if there was no response.
        retry_after: Seconds that the server asks the client to wait; None if it named no time.
        address: URL of the request; "" if it was not sent over the network.
        item: Position in the request context of the entry that the server refuses; None if the
            server did not name it.
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
        self.item: int | None = None

    @property
    def without_address(self) -> str:
        """The message without the URL and its host."""
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
        # A server that names a time expects the same request again, whatever the kind.
        return self.kind in RETRYABLE_KINDS or self.retry_after is not None


class ProtocolError(ProviderError):
    """Raised if the server sent data that its API does not document."""


class UnrecordedError(ProviderError):
    """Raised if the cassette that replaces the model does not contain the request."""


class AnswerError(JpNbError):
    """Raised if a structured answer is missing or does not match the schema.

    The turn stays in the record and is `jp.last`. The message names the part that does not match.

    Attributes:
        data: The structured answer of the model; None if there was none.
        text: Text that the model wrote in addition or instead.
    """

    def __init__(self, message: str, *, data: JsonValue = None, text: str = "") -> None:
        super().__init__(message)
        self.data = data
        self.text = text


class ToolSourceError(JpNbError):
    """Raised if a source of tools cannot start, or if the turn needs it and it has failed."""


class StorageError(JpNbError):
    """Raised if a record cannot be read, changed, imported, or exported.

    Attributes:
        place: Position of the invalid value, such as `events[3].id`, or a file; "" for the
            whole record.
    """

    def __init__(self, message: str, *, place: str = "") -> None:
        text = f"{place}: {message}" if place else message
        super().__init__(text)
        self.place = place


class PromptUnavailable(JpNbError):  # noqa: N818 - the public name
    """Raised if a decision needs the user, and no user is available; `reason` says why."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class PromptCancelled(JpNbError):  # noqa: N818 - the public name
    """Raised if the user did not answer a question.

    Attributes:
        end: `declined`, `cancelled`, `timed_out`, or `interrupted`.
    """

    def __init__(self, message: str, *, end: str = "cancelled") -> None:
        super().__init__(message)
        self.end = end


class ToolError(Exception):
    """Raise this in a tool to send an error message to the model.

    The message is the result of the tool call. The cell shows no traceback.

    Example:
        >>> raise ToolError("There is no city of that name. Call `list_cities` first.")
        Traceback (most recent call last):
        jp_nb.errors.ToolError: There is no city of that name. Call `list_cities` first.
    """
