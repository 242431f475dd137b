"""`CassetteResults`: the results of tools that a cassette has, for a replay that runs no tools.

A *cassette* is a file of recorded requests and responses. A request contains the results of the
tools that ran before it.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from jp_nb.agent.calls.recorded_results import RecordedResult
from jp_nb.agent.model_requests.normalized_request import NO_MESSAGE, RequestPart
from jp_nb.storage.cassettes.cassette_content import CassetteContent

RESULT_KINDS: Final = ("result", "error")


class CassetteResults:
    """Recorded tool results, by the id of the message before them.

    The messages of a cassette are `RequestPart`s: `value` is the message (`role`, `text`), `id` is
    a digest of it and of all earlier messages, and `after` is the id of the message before it. So a
    result is found only after the same conversation.
    """

    def __init__(self, content: CassetteContent) -> None:
        self._next: dict[str, list[RequestPart]] = {}  # messages, by the id of the one before
        self._ask_counts: Counter[str] = Counter()  # calls of `take_after`, by id
        seen = {NO_MESSAGE}

        for exchange in content.exchanges:
            # In an inquiry, a model answers the question of a tool: its results are placeholders.
            if content.is_inquiry(exchange):
                continue

            # A request names only its last message. From there back to the first one, or to a known
            # one, note for each message that it follows the one before.
            part = content.parts.get(("message", exchange.last_message))
            while part is not None and part.id not in seen:
                seen.add(part.id)
                self._next.setdefault(part.after, []).append(part)
                part = content.parts.get(("message", part.after))

    def take_after(self, last_message: str) -> list[RecordedResult]:
        """Return the recorded results after `last_message`, in one continuation.

        A conversation can have several continuations, for example after an undo. Each later call
        with the same id returns the next one; after the last continuation, that one again.
        """
        continuations = [part for part in self._next.get(last_message, ()) if _is_result(part)]
        if not continuations:
            return []

        index = min(self._ask_counts[last_message], len(continuations) - 1)
        self._ask_counts[last_message] += 1

        # The results of one response follow each other. Continuations differ in the first result;
        # if they have it in common, the first recorded one counts.
        part: RequestPart | None = continuations[index]
        results: list[RecordedResult] = []
        while part is not None:
            text = str(part.value.get("text", ""))
            has_failed = part.value["role"] == "error"
            results.append(RecordedResult(text, has_failed))
            part = next(filter(_is_result, self._next.get(part.id, ())), None)

        return results


def _is_result(part: RequestPart) -> bool:
    return part.value.get("role") in RESULT_KINDS
