"""Decoder for responses of Gemini that take several requests.

The decoders of both dialects extend it: `google_interactions_decoder.py` and
`google_generate_decoder.py`.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jp_nb.agent.provider_events import Usage
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.stream_decoder import Decoder, WireObject
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

THOUGHT_SIGNATURE_KEY: Final = "google_thought_signature"
"""Metadata key of an entry for the signature of its reasoning."""
MAX_REQUEST_CONTINUATIONS: Final = 5
"""Maximum number of further requests for a response that reached the limit of one request."""


class ContinuedDecoder(Decoder):
    """Decoder for one response that may take several requests.

    A response that reaches the limit of one request ends with a token. The stream of the next
    request, which contains the token, continues the same response. A subclass passes the token to
    `keep_token`. `GoogleProvider` then takes it (`begin_continuation`), sends the next request,
    and passes its messages to the same decoder.

    `usage_fields` are pairs of the server's field and a field of `Usage`. Several fields of the
    server may be added up in one of `Usage`.
    """

    def __init__(
        self, schema: AnswerSchema | None, usage_fields: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__(schema)
        self._usage_fields = usage_fields
        self._usage: dict[str, int] = {}  # of this request, by the server's field
        self._earlier_usage: dict[str, int] = {}  # of the earlier requests, by the field of `Usage`
        self._token = ""
        self._continuations = 0

    def keep_token(self, token: Any) -> bool:
        """Keep the token of an incomplete response; return False if it does not continue."""
        if not token or self._continuations == MAX_REQUEST_CONTINUATIONS:
            return False
        self._continuations += 1
        self._token = str(token)
        self.is_continued = True
        return True

    def begin_continuation(self) -> str:
        """Return the token for the next request, whose stream follows; "" if there is none."""
        token = self._token
        self._token = ""
        self.is_continued = False
        if token:
            self._earlier_usage = self._count_usage()
            self._usage = {}
        return token

    def add_usage(self, usage: WireObject | None, out: EventBuffer) -> None:
        """Add the usage of a request so far. Later numbers replace earlier ones."""
        if usage:
            self._usage.update((key, count) for key, count in usage.items() if type(count) is int)
            out.add(Usage(**self._count_usage()))

    def _count_usage(self) -> dict[str, int]:
        """Return the usage of all requests of the response so far, by the field of `Usage`."""
        counts = {**self._earlier_usage}
        for theirs, ours in self._usage_fields:
            if theirs in self._usage:
                counts[ours] = counts.get(ours, 0) + self._usage[theirs]
        return counts
