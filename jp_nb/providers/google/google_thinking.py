"""The thinking of a model of Gemini, for the request of either dialect.

A request has one of Google's thinking levels. Models have different ones, so a level that a model
has rejected is replaced by the nearest one that it may have.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs/thinking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from jp_nb.agent.provider import ModelRequest
from jp_nb.providers.request_parts.reasoning_effort import Level, parse_reasoning

_ASSUMED_MAX_TOKENS: Final = 32_000
"""Assumed length of an answer, to convert a number of tokens for reasoning into a level."""
_SPELLINGS: Final[Mapping[Level, str]] = {"none": "minimal", "xlow": "minimal", "max": "xhigh"}
"""Google's names of the levels that have another name here."""
_NEAREST_LEVEL: Final[Mapping[str, str]] = {"xhigh": "high", "minimal": "low", "medium": "high"}
"""Level that is sent instead of one that the model does not have.

For `low` and `high` there is no other one: then the model uses its default.
"""


class Thinking(NamedTuple):
    """The thinking that a request asks for.

    Attributes:
        level: Google's thinking level; None for the default of the model.
        is_hidden: True if the response needs no summaries of the thoughts.
    """

    level: str | None
    is_hidden: bool


class RejectedLevels:
    """The thinking levels that models have rejected, by the errors of the server."""

    def __init__(self) -> None:
        self._rejected: set[tuple[str, str]] = set()  # models and levels

    def choose_thinking(self, request: ModelRequest) -> Thinking | None:
        """Return the thinking of `request`; None if it has no settings of reasoning.

        If the model has rejected all levels near the one of the settings, the level is None.
        """
        reasoning = parse_reasoning(request.parameters.reasoning)
        if reasoning is None:
            return None

        # The setting is a level or a number of tokens. `auto` leaves the choice to the model.
        effort = reasoning.to_level(request.parameters.max_tokens or _ASSUMED_MAX_TOKENS)
        level = None if effort == "auto" else _SPELLINGS.get(effort, effort)
        while level is not None and (request.model, level) in self._rejected:
            level = _NEAREST_LEVEL.get(level)

        return Thinking(level, reasoning.exclude)

    def reject(self, request: ModelRequest) -> bool:
        """Note that the model has rejected the level of `request`, so that it is not sent again.

        Return False if the request had no level: then the server has rejected something else.
        Otherwise the caller repeats the request, for which `choose_thinking` returns another level.
        """
        thinking = self.choose_thinking(request)
        if thinking is None or thinking.level is None:
            return False

        self._rejected.add((request.model, thinking.level))
        return True
