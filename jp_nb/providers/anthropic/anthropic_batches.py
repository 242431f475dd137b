"""Message Batches of Anthropic, and whole messages as the events of a stream.

Source: https://docs.anthropic.com/en/api/creating-message-batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.agent.model_requests.model_batches import BatchState
from jp_nb.errors import ProviderError
from jp_nb.json_values import as_object
from jp_nb.providers.batch_api import HttpBatches
from jp_nb.providers.network.errors import classify_stream_error
from jp_nb.providers.response_parts.stream_decoder import WireObject


class AnthropicBatches(HttpBatches):
    """Message Batches: one request carries all bodies, and its answers have one list.

    It fills in the methods of `HttpBatches` (`batch_api.py`). The address of the list of
    answers has the id of the batch, so `BatchState.results` is just this id.
    """

    max_requests = 100_000

    async def _submit(self, requests: Mapping[str, Mapping[str, JsonValue]]) -> JsonValue:
        listed: list[JsonValue] = [
            {"custom_id": name, "params": dict(body)} for name, body in requests.items()
        ]
        return await self._http.fetch(f"{self.address}/batches", {"requests": listed})

    def _get_address(self, batch_id: str) -> str:
        return f"{self.address}/batches/{batch_id}"

    def _get_results_address(self, part: str) -> str:
        # `part` is the id of the batch. The server's `results_url` may name another host.
        return f"{self._get_address(part)}/results"

    def _read_state(self, batch_id: str, answer: WireObject) -> BatchState:
        # Such as `{"processing": 3, "succeeded": 5, "errored": 1}`.
        counts = as_object(answer.get("request_counts"))
        answered = [count for name, count in counts.items() if name != "processing"]
        return BatchState(
            batch_id,
            is_ended=answer.get("processing_status") == "ended",
            done=sum(count for count in answered if isinstance(count, int)),
            results=(batch_id,),
        )

    def _read_line(self, line: WireObject) -> tuple[str, WireObject | ProviderError]:
        name = str(line.get("custom_id"))
        result = as_object(line.get("result"))
        provider = self._http.endpoint.provider

        match result.get("type"):
            case "succeeded":
                return name, as_object(result.get("message"))
            case "errored":
                error = as_object(result.get("error"))
                return name, classify_stream_error(error.get("error", error), provider=provider)
            case "expired":
                reason = "did not answer within 24 hours"
            case "canceled":
                reason = "did not answer, because the batch was canceled"
            case other:
                reason = f"answered with a result of an unknown type: {other!r:.40}"
        return name, ProviderError(f"{provider} {reason}")


def split_message(message: WireObject) -> Sequence[WireObject]:
    """Return the events that a stream would have sent for a whole `message`.

    So the decoder of streams reads the answers of a batch too. Each block begins with its content,
    and no deltas follow.
    """
    usage = as_object(message.get("usage"))
    events: list[WireObject] = [{"type": "message_start", "message": message}]

    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})

    names = ("stop_reason", "stop_sequence", "stop_details")
    delta = {name: message[name] for name in names if name in message}
    events.append({"type": "message_delta", "delta": delta, "usage": usage})
    events.append({"type": "message_stop"})
    return events
