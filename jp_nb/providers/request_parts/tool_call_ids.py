"""Ids of the tool calls in a request.

A model, or the author of a record, can give any id, also one id to several calls.
"""

from __future__ import annotations

from collections import deque

from jp_nb.providers.request_parts.call_rules import CallRules


class CallIds:
    """Unique ids for the tool calls of a context, whatever ids the model gave.

    An id depends only on the calls before it, so messages that were sent stay the same. The n-th
    result of an id belongs to its n-th call. `rules` are those of the API: `format_id` makes the
    n-th call with an id of the model an id that the API accepts.
    """

    def __init__(self, rules: CallRules) -> None:
        self._rules = rules
        self._sent: set[str] = set()  # ids that calls have in the request
        # By the id that the model gave:
        self._next_number: dict[str, int] = {}  # the number of the next call with this id
        # The calls without a result: the id that is sent, and the index of the message.
        self._waiting: dict[str, deque[tuple[str, int]]] = {}

    def assign(self, raw: str, message_index: int) -> str:
        """Return the id of a call that the model named `raw`, in the message with that index."""
        number = self._next_number.get(raw, 1)
        name = self._rules.format_id(raw, number)

        while name in self._sent:
            number += 1
            name = self._rules.format_id(raw, number)

        self._next_number[raw] = number + 1
        self._sent.add(name)
        self._waiting.setdefault(raw, deque()).append((name, message_index))
        return name

    def match_result(self, raw: str) -> tuple[str, int] | None:
        """Return the id for the next result of `raw`, and the index of the message with its call.

        Some APIs want the result directly after that message. None if no call waits for a result.
        """
        waiting = self._waiting.get(raw)
        return waiting.popleft() if waiting else None
