"""Interface of batch APIs: many requests at a lower price, which a server answers within a day.

A *batch* is a list of requests. The server names it by an id, works on it when it has time, and
then has a list of answers, each of which names its request. `jp_nb/providers/batch_api.py`
implements `ModelBatches`; `jp_nb/session/rows/batch_run.py` uses it.

Source: `docs/rows.md`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import ProviderEvent
from jp_nb.errors import ProviderError


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as its server describes it.

    Attributes:
        id: Id that the server gave to the batch.
        is_ended: True if the server does not answer more of its requests.
        done: Number of answered requests so far.
        problem: The reason why the server rejected the whole batch; "" if it did not.
        results: For each list of answers, the part of its address that its provider needs to build
            the address, such as the id of a file.
    """

    id: str
    is_ended: bool
    done: int = 0
    problem: str = ""
    results: tuple[str, ...] = ()


class UnknownBatchError(ProviderError):
    """The server does not know the batch, or has deleted its answers."""


class ModelBatches(Protocol):
    """The batch API of a provider. Ids of batches are those that `submit` has returned."""

    @property
    def address(self) -> str:
        """Address of the server, which alone knows the batches."""

    @property
    def max_requests(self) -> int:
        """Maximum number of requests in one batch."""

    @property
    def max_bytes(self) -> int:
        """Maximum size of the requests in one batch."""

    def encode(self, request: ModelRequest) -> dict[str, JsonValue]:
        """Return the body of `request`, whose answer is not streamed."""

    async def submit(self, requests: Mapping[str, Mapping[str, JsonValue]]) -> str:
        """Start a batch of these bodies, by the name of the request; return the id of the batch.

        Raises:
            ProviderError: The server rejects the batch, or has no batch API.
        """

    async def read_state(self, batch_id: str) -> BatchState:
        """Return the state of a batch.

        Raises:
            UnknownBatchError: The server does not know it.
            ProviderError: The request failed.
        """

    def read_answers(
        self, state: BatchState, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[tuple[str, list[ProviderEvent] | ProviderError], None]:
        """Yield the name of each of the `requests`, and its answer or the reason for none.

        Answers to other requests are skipped.

        Raises:
            UnknownBatchError: The server has deleted the answers.
            ProviderError: The answers cannot be read.
        """

    async def cancel(self, batch_id: str) -> None:
        """Tell the server to answer no further request of a batch.

        Raises:
            UnknownBatchError: The server does not know it.
            ProviderError: The request failed.
        """
