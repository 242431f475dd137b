"""Exchanges with a model, as cassettes store them: a request and its response.

A response is its events and its *end*. It ends with `Finished` or `Retry`, by an error, or in the
middle.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.agent.model_requests.normalized_request import NormalizedRequest
from jp_nb.agent.provider_events import Finished, ProviderEvent, Retry
from jp_nb.errors import ProtocolError, ProviderError, ProviderErrorKind


@dataclass(frozen=True, slots=True)
class FailedResponse:
    """A failed request or an incomplete response, with the attributes of `ProviderError`.

    `is_protocol` is True if the error was a `ProtocolError`.
    """

    message: str
    kind: ProviderErrorKind = "other"
    status: int | None = None
    retry_after: float | None = None
    is_protocol: bool = False

    def make_error(self) -> ProviderError:
        """Return the error. A replay retries without a pause, so `retry_after` is 0."""
        error_type = ProtocolError if self.is_protocol else ProviderError
        error = error_type(
            self.message, kind=self.kind, status=self.status, retry_after=self.retry_after
        )
        if error.retryable:
            error.retry_after = 0.0
        return error


@dataclass(frozen=True, slots=True)
class IncompleteResponse:
    """The response ended without `Finished` and without an error."""


End = Finished | Retry | FailedResponse | IncompleteResponse


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and its response: the events before its `end`, which may be a failure."""

    request: NormalizedRequest
    events: tuple[ProviderEvent, ...]
    end: End

    @property
    def has_failed(self) -> bool:
        """True if the model did not respond completely."""
        return isinstance(self.end, FailedResponse | IncompleteResponse)
