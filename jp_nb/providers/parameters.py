"""Sampling settings, before a protocol spells them out.

Source: `docs/providers.md`, `docs/configuration.md`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.errors import ProviderError

_LOGGER: Final = logging.getLogger(__name__)

Level = Literal["none", "xlow", "low", "medium", "auto", "high", "xhigh", "max"]
SHARES: Final[dict[Level, float]] = {
    "none": 0.0,
    "xlow": 0.1,
    "low": 0.2,
    "medium": 0.5,
    "auto": 0.5,
    "high": 0.8,
    "xhigh": 0.9,
    "max": 1.0,
}
"""Of the tokens of an answer, how much an effort may spend on reasoning."""


@dataclass(frozen=True, slots=True)
class ReasoningEffort:
    """A wish for reasoning: a level, or a number of tokens.

    `exclude` asks not to get the reasoning's text.
    """

    effort: Level | int
    exclude: bool = False

    @property
    def off(self) -> bool:
        """Return True if reasoning is unwanted."""
        return self.effort in ("none", 0)

    def tokens(self, max_tokens: int) -> int:
        """Tokens to reason with, of an answer of `max_tokens`."""
        if isinstance(self.effort, int):
            return self.effort
        return int(max_tokens * SHARES[self.effort])

    def level(self, max_tokens: int) -> Level:
        """The level that comes nearest, of an answer of `max_tokens`."""
        if not isinstance(self.effort, int):
            return self.effort
        share = self.effort / max_tokens
        levels: tuple[Level, ...] = ("max", "xhigh", "high", "medium")
        floors = (0.9, 0.8, 0.5, 0.2)
        if self.effort == 0:
            return "none"
        return next((lv for lv, floor in zip(levels, floors, strict=True) if share > floor), "low")


def parse_reasoning(value: JsonValue) -> ReasoningEffort | None:
    """Return what `assistant.model.parameters.reasoning` asks for; None if the provider decides.

    Accepts `"off"`, `"auto"`, a level, a number of tokens, and
    `{"effort": level | number | {"absolute": number}, "exclude": bool}`.

    Raises:
        ProviderError: If it is none of these.
    """
    exclude = False
    effort = value
    if isinstance(value, dict):
        exclude = value.get("exclude") is True
        effort = value.get("effort", "medium")
        if isinstance(effort, dict):
            effort = effort.get("absolute")
    match effort:
        case None if not isinstance(value, dict):
            return None
        case "off" | False:
            return ReasoningEffort("none", exclude)
        case True:
            return ReasoningEffort("auto", exclude)
        case int() if effort >= 0:
            return ReasoningEffort(effort, exclude)
        case "none" | "xlow" | "low" | "medium" | "auto" | "high" | "xhigh" | "max":
            return ReasoningEffort(effort, exclude)
    raise ProviderError(
        f"assistant.model.parameters.reasoning: expected off, auto, one of {', '.join(SHARES)}, "
        f"or a number of tokens; found {value!r}"
    )


class Warnings:
    """Says once per conversation what is not sent as it was configured."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._said: set[tuple[str, str]] = set()

    def ignored(self, setting: str, reason: str, *, conversation_id: str) -> None:
        """Log that the parameter `setting` is not sent."""
        place = f"assistant.model.parameters.{setting}"
        self.not_sent(place, reason, conversation_id=conversation_id)

    def not_sent(self, place: str, reason: str, *, conversation_id: str) -> None:
        """Log that what is at `place` of the configuration is not sent."""
        if (conversation_id, place) not in self._said:
            self._said.add((conversation_id, place))
            self._say(place, reason)

    def _say(self, place: str, reason: str) -> None:
        _LOGGER.warning("%s: %s is not sent: %s", self._provider, place, reason)


class LeftOut(Warnings):
    """Lists the same instead of saying it.

    Attributes:
        lines: What is not sent, each with the reason.
    """

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self.lines: list[str] = []

    def _say(self, place: str, reason: str) -> None:
        self.lines.append(f"{place}: {reason}")
