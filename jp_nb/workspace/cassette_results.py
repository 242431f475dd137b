"""The results of tools that stand in the requests of a cassette.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from jp_nb.agent.asked_request import NO_MESSAGE, RequestPart
from jp_nb.agent.recorded_results import RecordedResult
from jp_nb.workspace.cassette_file import CassetteContent

RESULTS: Final = ("result", "error")


class ResultsOnFile:
    """Finds results by the message before them: what was said until then was the same.

    Args:
        content: The cassette.
    """

    def __init__(self, content: CassetteContent) -> None:
        self._next: dict[str, list[RequestPart]] = {}
        self._given: Counter[str] = Counter()
        seen = {NO_MESSAGE}
        for exchange in content.exchanges:
            if content.is_inquiry(exchange):  # there, calls wait in words of our own
                continue
            part = content.parts.get(("message", exchange.last_message))
            while part is not None and part.id not in seen:
                seen.add(part.id)
                self._next.setdefault(part.after, []).append(part)
                part = content.parts.get(("message", part.after))

    def of(self, last_message: str) -> list[RecordedResult]:
        """Return the results behind `last_message`, in order; those of the next time each time."""
        ways = [part for part in self._next.get(last_message, ()) if _is_result(part)]
        way = min(self._given[last_message], len(ways) - 1)
        self._given[last_message] += 1
        part, found = (ways[way] if ways else None), list[RecordedResult]()
        while part is not None:
            text, failed = str(part.value.get("text", "")), part.value["role"] == "error"
            found.append(RecordedResult(text, failed))
            part = next(filter(_is_result, self._next.get(part.id, ())), None)
        return found


def _is_result(part: RequestPart) -> bool:
    return part.value.get("role") in RESULTS
