"""Shared code of the providers' batch APIs.

The interface is in `jp_nb/agent/model_requests/model_batches.py`. `anthropic_batches.py` and
`openai_batches.py` have the addresses, and the shape of the lists of answers. `HttpProvider` makes
the bodies of the requests, and decodes an answer in the same way as a streamed one.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from pydantic import JsonValue

from jp_nb.agent.model_requests.model_batches import BatchState, UnknownBatchError
from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import ProviderEvent
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.json_values import as_object
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.response_parts.stream_decoder import Decoder, StreamDecoder, WireObject

MAX_BATCH_BYTES: Final = 100_000_000
"""Size of the requests of one batch. The limits of the servers are higher."""
BATCH_SECONDS: Final = 300.0
"""Time limit for each request about a batch, such as the upload of all its requests; also the
longest wait for the next answer of a list."""
_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:-]{0,199}")  # never `.` or `..`
_NO_ENDPOINT_STATUSES: Final = (404, 405, 501)
"""Statuses of a server that does not know the address of the batch API."""
_END: Final = object()
"""Stands for the end of a list of answers."""


@dataclass(frozen=True, slots=True)
class WholeAnswers:
    """Functions of a provider that write a request, and read an answer that was not streamed.

    Attributes:
        encode: Returns the body of a request.
        make_decoder: Returns the decoder of the answer to a request.
        split: Returns the messages that a stream would have sent for a whole answer.
    """

    encode: Callable[[ModelRequest], WireObject]
    make_decoder: Callable[[ModelRequest], Decoder]
    split: Callable[[WireObject], Sequence[WireObject]]

    def decode(
        self, http: HttpClient, request: ModelRequest, answer: WireObject
    ) -> list[ProviderEvent]:
        """Return the events of an `answer`.

        Raises:
            ProviderError: The answer reports an error, or is too large.
            ProtocolError: It is not valid for the API.
        """
        decoder = StreamDecoder(
            self.make_decoder(request),
            provider=http.endpoint.provider,
            max_response_bytes=request.max_response_bytes,
            redactor=http.get_redactor(),
        )

        # The messages pass all stages of a stream, so the same limits and the redactor apply.
        events: list[ProviderEvent] = []
        for message in self.split(answer):
            line = f"data: {json.dumps(message)}\n\n"
            events += decoder.feed(line.encode())
        events += decoder.finish()
        return events


class HttpBatches(ABC):
    """A batch API over HTTP; see `ModelBatches` for the public methods.

    A subclass fills in the abstract methods: the addresses of an API, and the shape of its answers.
    It has `max_requests`, the highest number of requests in a batch. A request has a *name*, under
    which its answer comes back. Each error of the server passes `HttpClient.sanitize_error`, which
    removes the provider's key from its text.
    """

    max_requests: ClassVar[int]
    max_bytes: ClassVar[int] = MAX_BATCH_BYTES

    def __init__(self, http: HttpClient, answers: WholeAnswers) -> None:
        self._http = http
        self._answers = answers

    @property
    def address(self) -> str:
        """Address of the server, which knows the batches."""
        return self._http.endpoint.url

    def encode(self, request: ModelRequest) -> WireObject:
        """Return the body of `request`, which is not streamed."""
        return self._answers.encode(request)

    async def submit(self, requests: Mapping[str, Mapping[str, JsonValue]]) -> str:
        """Start a batch; return its id."""
        async with self._limit_time("take the batch"):
            try:
                state = await self._submit(requests)
            except ProviderError as exc:
                if exc.status in _NO_ENDPOINT_STATUSES:
                    provider = self._http.endpoint.provider
                    raise ProviderError(
                        f'the server of {provider} has no batch API ({exc}). Omit `mode="batch"`'
                    ) from exc
                raise
        return self._read_id(state)

    async def read_state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        self._check_id(batch_id)
        async with self._limit_time("name the state of the batch"):
            answer = await self._fetch(self._get_address(batch_id))
        return self._read_state(batch_id, as_object(answer))

    async def read_answers(
        self, state: BatchState, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[tuple[str, list[ProviderEvent] | ProviderError], None]:
        """Yield the name of each of the `requests`, and its answer or the reason for none.

        Raises:
            ProviderError: The list of answers cannot be read, or a line of it is damaged. The other
                answers are yielded before.
        """
        missing = set(requests)
        problem: ProviderError | None = None

        for part in state.results:
            address = self._get_results_address(part)
            try:
                async with aclosing(self._list_lines(address)) as lines:
                    async for line in lines:
                        if isinstance(line, ProviderError):
                            problem = problem or line
                            continue

                        name, answer = self._read_line(as_object(line))
                        # A batch may have requests that the caller did not ask for.
                        if name in missing:
                            missing.discard(name)
                            yield name, self._decode(requests[name], answer)
                        if not missing:
                            return
            except ProviderError as exc:
                # `from exc` would show `exc` itself, whose text may contain the key.
                error = self._http.sanitize_error(_convert_unknown(exc))
                raise error from exc.__cause__

        if problem is not None:  # after all other answers: the damaged line may be one of them
            raise self._http.sanitize_error(problem)

    async def _list_lines(self, address: str) -> AsyncGenerator[JsonValue | ProviderError, None]:
        """Yield the lines of a list, each within `BATCH_SECONDS`; an error for a damaged one."""
        count = 0
        async with aclosing(self._http.fetch_lines(address)) as lines:
            while True:
                async with self._limit_time("send the next answer of the batch"):
                    line = await anext(lines, _END)
                if line is _END:
                    return

                count += 1
                if count > self.max_requests:
                    provider = self._http.endpoint.provider
                    number = f"{self.max_requests:,}"
                    raise ProtocolError(f"{provider} sent more than {number} answers of one batch")
                yield cast(JsonValue | ProviderError, line)

    async def cancel(self, batch_id: str) -> None:
        """Tell the server to answer no further request of a batch."""
        self._check_id(batch_id)
        async with self._limit_time("cancel the batch"):
            await self._fetch(f"{self._get_address(batch_id)}/cancel", {})

    @abstractmethod
    async def _submit(self, requests: Mapping[str, Mapping[str, JsonValue]]) -> JsonValue:
        """Send the requests; return what the server answers."""

    @abstractmethod
    def _get_address(self, batch_id: str) -> str:
        """Return the address of a batch."""

    @abstractmethod
    def _get_results_address(self, part: str) -> str:
        """Return the address of a list of answers, of which `part` is in `BatchState.results`."""

    @abstractmethod
    def _read_state(self, batch_id: str, answer: WireObject) -> BatchState:
        """Return the state that the server's `answer` describes."""

    @abstractmethod
    def _read_line(self, line: WireObject) -> tuple[str, WireObject | ProviderError]:
        """Return the name of a request, and its whole answer or the reason for none."""

    def _decode(
        self, request: ModelRequest, answer: WireObject | ProviderError
    ) -> list[ProviderEvent] | ProviderError:
        """Return the events of an answer, or the error of this request without the key."""
        if isinstance(answer, ProviderError):
            return self._http.sanitize_error(answer)
        try:
            return self._answers.decode(self._http, request, answer)
        except ProviderError as exc:
            return self._http.sanitize_error(exc)

    def _limit_time(self, task: str) -> AbstractAsyncContextManager[None]:
        return self._http.limit_time(BATCH_SECONDS, task)

    async def _fetch(self, address: str, body: JsonValue = None) -> JsonValue:
        """Return the JSON at the `address` of a batch; see `HttpClient.fetch`."""
        try:
            return await self._http.fetch(address, body)
        except ProviderError as exc:
            raise _convert_unknown(exc) from exc

    def _read_id(self, answer: JsonValue) -> str:
        """Return the id of a batch, or of a file, that the server has made."""
        batch_id = as_object(answer).get("id")
        if isinstance(batch_id, str) and _ID.fullmatch(batch_id):
            return batch_id
        raise ProtocolError(f"{self._http.endpoint.provider} answered without the id of the batch")

    def _check_id(self, batch_id: str) -> None:
        """Raise unless `batch_id` can be in an address: it may be from a file."""
        if not _ID.fullmatch(batch_id):
            raise UnknownBatchError(f"{batch_id[:40]!r} is no id of a batch")


def is_result_id(value: object) -> bool:
    """Return True if a server's `value` can be a part of an address."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _convert_unknown(error: ProviderError) -> ProviderError:
    """Return `error`, as `UnknownBatchError` if the server has not found what it was asked for."""
    if error.status not in (404, 410):
        return error
    unknown = UnknownBatchError(str(error), kind=error.kind, status=error.status)
    unknown.__cause__ = error.__cause__
    return unknown
