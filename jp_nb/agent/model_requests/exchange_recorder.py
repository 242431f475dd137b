"""Record exchanges with a model for cassettes, while they happen.

A recorded response has no timing: keep-alives are omitted, and adjacent pieces of text are joined.
`RequestNormalizer` has removed the secrets of the request. This module removes those in notices and
errors, which may quote the request.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from dataclasses import replace

from jp_nb.agent.model_requests.normalized_request import NormalizedRequest
from jp_nb.agent.model_requests.recorded_exchange import (
    End,
    Exchange,
    FailedResponse,
    IncompleteResponse,
)
from jp_nb.agent.model_requests.request_normalizer import HideSecrets
from jp_nb.agent.provider_events import (
    Finished,
    KeepAlive,
    OmittedFiles,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
)
from jp_nb.errors import ProtocolError, ProviderError


class ExchangeRecorder:
    """Records one exchange while it happens.

    `hide` removes known secrets from a text; by default, a text is kept as it is (`str`).
    While pieces of one text arrive, the last event has an empty text, and `_texts` has the pieces.
    """

    def __init__(self, request: NormalizedRequest, hide: HideSecrets = str) -> None:
        self._request = request
        self._hide = hide
        self._events: list[ProviderEvent] = []
        self._texts: list[str] = []

    def on_event(self, event: ProviderEvent) -> Exchange | None:
        """Add one event; return the exchange if it is complete."""
        event = self._hide_secrets(event)
        if isinstance(event, (Finished, Retry)):
            return self._make_exchange(event)
        if isinstance(event, KeepAlive):
            return None

        if isinstance(event, (TextPart, ToolCallArguments)):
            self._add_text(event)
        else:
            self._flush_text()
            self._events.append(event)
        return None

    def _hide_secrets(self, event: ProviderEvent) -> ProviderEvent:
        """Return `event` without secrets in the texts of `jp_nb`, which may quote the request."""
        if isinstance(event, Retry):
            reason = self._hide(event.reason)
            notice = self._hide(event.notice)
            return replace(event, reason=reason, notice=notice)

        if isinstance(event, OmittedFiles):
            names = tuple(map(self._hide, event.names))
            return replace(event, names=names, reason=self._hide(event.reason))
        return event

    def _add_text(self, event: TextPart | ToolCallArguments) -> None:
        """Collect a piece of text. Pieces of one item that follow each other become one event."""
        without_text = replace(event, text="")
        last = self._events[-1] if self._events else None
        is_same_item = without_text == last  # its text is still collected
        if not is_same_item:
            self._flush_text()
            self._events.append(without_text)
        self._texts.append(event.text)

    def _flush_text(self) -> None:
        """Put the collected text into the last event."""
        last = self._events[-1] if self._events else None
        if self._texts and isinstance(last, (TextPart, ToolCallArguments)):
            self._events[-1] = replace(last, text="".join(self._texts))
        self._texts.clear()

    def end_failed(self, error: ProviderError) -> Exchange:
        """Return the exchange of a request that failed with `error`."""
        text = self._hide(error.without_address)
        is_protocol = isinstance(error, ProtocolError)
        end = FailedResponse(text, error.kind, error.status, error.retry_after, is_protocol)
        return self._make_exchange(end)

    def end_incomplete(self) -> Exchange:
        """Return the exchange of a response that ended without `Finished`."""
        return self._make_exchange(IncompleteResponse())

    def _make_exchange(self, end: End) -> Exchange:
        self._flush_text()
        return Exchange(self._request, tuple(self._events), end)
