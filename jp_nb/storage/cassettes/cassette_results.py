"""`CassetteResults`: the results of tools that a cassette has, for a replay that runs no tools.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from jp_nb.agent.calls.recorded_results import RecordedResult
from jp_nb.agent.model_requests.request_normalizer import (
    NO_MESSAGE,
    RequestPart,
)
from jp_nb.storage.cassettes.cassette_content import CassetteContent

RESULT_KINDS: Final = ("result", "error")


class CassetteResults:
    """Recorded tool results, by the id of the message before them.

    The id covers all earlier messages, so a result is found only after the same conversation.
    """

    def __init__(self, content: CassetteContent) -> None:
        self._next: dict[str, list[RequestPart]] = {}
        self._given: Counter[str] = Counter()
        seen = {NO_MESSAGE}

        for exchange in content.exchanges:
            if content.is_inquiry(exchange):  # its tool results are placeholders
                continue

            part = content.parts.get(("message", exchange.last_message))
            while part is not None and part.id not in seen:
                seen.add(part.id)
                self._next.setdefault(part.after, []).append(part)
                part = content.parts.get(("message", part.after))

    def of(self, last_message: str) -> list[RecordedResult]:
        """Return the next recorded results after `last_message`; the last ones are repeated."""
        ways = [part for part in self._next.get(last_message, ()) if _is_result(part)]
        way = min(self._given[last_message], len(ways) - 1)
        self._given[last_message] += 1
        part = ways[way] if ways else None

        found = list[RecordedResult]()
        while part is not None:
            text = str(part.value.get("text", ""))
            failed = part.value["role"] == "error"
            found.append(RecordedResult(text, failed))
            part = next(filter(_is_result, self._next.get(part.id, ())), None)

        return found


def _is_result(part: RequestPart) -> bool:
    return part.value.get("role") in RESULT_KINDS
