"""The Batch API of OpenAI, which other servers have too: a file of requests, and files of answers.

Source: https://platform.openai.com/docs/guides/batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_requests.model_batches import BatchState
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.json_values import as_object
from jp_nb.json_writing import compact_json
from jp_nb.providers.batch_api import HttpBatches, WholeAnswers, is_result_id
from jp_nb.providers.network.errors import classify_response, classify_stream_error
from jp_nb.providers.network.http import HttpClient
from jp_nb.providers.response_parts.stream_decoder import WireObject
from jp_nb.storable_json import encode_utf8

_ENDED_STATES: Final = frozenset({"completed", "failed", "expired", "cancelled"})


class OpenAiBatches(HttpBatches):
    """Batches of requests to one `path` of the API, such as `responses`.

    It fills in the methods of `HttpBatches` (`batch_api.py`), which sends the requests, and reads
    the lines of each result. An ended batch has a file of answers and a file of errors: their ids
    are the `results` of a `BatchState`. `answers` writes and reads the bodies.
    """

    max_requests = 50_000

    def __init__(self, http: HttpClient, answers: WholeAnswers, path: str) -> None:
        super().__init__(http, answers)
        self._path = path

    async def _submit(self, requests: Mapping[str, Mapping[str, JsonValue]]) -> JsonValue:
        """Upload a file with a line for each request, and start the batch of this file."""
        endpoint = f"/v1/{self._path}"
        lines: list[bytes] = []
        for name, body in requests.items():
            line = {"custom_id": name, "method": "POST", "url": endpoint, "body": dict(body)}
            lines.append(encode_utf8(compact_json(line)))

        file = await self._http.upload(
            f"{self._base}/files", b"\n".join(lines), name="rows.jsonl", fields={"purpose": "batch"}
        )
        return await self._http.fetch(
            f"{self._base}/batches",
            {
                "input_file_id": self._read_id(file),
                "endpoint": endpoint,
                "completion_window": "24h",
            },
        )

    @property
    def _base(self) -> str:
        """The address of the API. `address` is that of `path` in it."""
        return self.address.removesuffix(f"/{self._path}")

    def _get_address(self, batch_id: str) -> str:
        return f"{self._base}/batches/{batch_id}"

    def _get_results_address(self, part: str) -> str:
        """Return the address of `part`, one of the `results`."""
        return f"{self._base}/files/{part}/content"

    def _read_state(self, batch_id: str, answer: WireObject) -> BatchState:
        counts = as_object(answer.get("request_counts"))
        answered = [counts.get("completed"), counts.get("failed")]
        answered_count = sum(count for count in answered if isinstance(count, int))
        is_ended = answer.get("status") in _ENDED_STATES

        problem = ""
        if answer.get("status") == "failed":
            problem = _read_problem(answer.get("errors"))

        files = [answer.get("output_file_id"), answer.get("error_file_id")]
        results = tuple(str(file) for file in files if file)
        lacks_results = is_ended and answered_count > 0 and not results
        if lacks_results or not all(map(is_result_id, results)):
            # The batch is not closed: its answers are paid, and a later call may find them.
            raise ProtocolError(
                f"{self._http.endpoint.provider} answered requests of the batch {batch_id}, and "
                f"names no list of answers that can be read: {str(files)[:200]}"
            )
        return BatchState(batch_id, is_ended, answered_count, problem, results)

    def _read_line(self, line: WireObject) -> tuple[str, WireObject | ProviderError]:
        name = str(line.get("custom_id"))
        provider = self._http.endpoint.provider
        response = line.get("response")

        if not isinstance(response, dict):
            return name, classify_stream_error(line.get("error"), provider=provider)

        status = response.get("status_code")
        body = response.get("body")
        if status == 200 and isinstance(body, dict):
            return name, body

        code = status if isinstance(status, int) else 500
        return name, classify_response(code, {}, json.dumps(body), provider=provider)


def wrap_response(response: WireObject) -> Sequence[WireObject]:
    """Return the one event with which a stream of the Responses API ends, for a whole `response`.

    The decoder of streams then reads the answer of a batch too. The event has the whole response,
    so the earlier events of a stream are not needed.
    """
    status = response.get("status") or "completed"
    return [{"type": f"response.{status}", "response": response}]


def _read_problem(errors: JsonValue) -> str:
    listed = as_object(errors).get("data")
    first = as_object(listed[0]) if isinstance(listed, list) and listed else {}
    return str(first.get("message") or "the server gives no reason")
