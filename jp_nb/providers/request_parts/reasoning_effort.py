"""Read the requested reasoning effort from the setting `assistant.model.parameters.reasoning`.

The setting is a level, such as `"high"`, or a number of tokens. APIs want one or the other, so
`ParsedReasoning` converts between them.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.errors import ProviderError

Level = Literal["none", "xlow", "low", "medium", "auto", "high", "xhigh", "max"]
REASONING_SHARES: Final[dict[Level, float]] = {
    "none": 0.0,
    "xlow": 0.1,
    "low": 0.2,
    "medium": 0.5,
    "auto": 0.5,
    "high": 0.8,
    "xhigh": 0.9,
    "max": 1.0,
}
"""Share of the answer's tokens that each effort level may use for reasoning."""


@dataclass(frozen=True, slots=True)
class ParsedReasoning:
    """Requested reasoning effort.

    Attributes:
        effort: A level, or a number of tokens. `auto` lets the model decide.
        exclude: True if the response shall omit the text of the reasoning.
    """

    effort: Level | int
    exclude: bool = False

    @property
    def is_off(self) -> bool:
        """True if the user turned reasoning off."""
        return self.effort in ("none", 0)

    def to_tokens(self, max_tokens: int) -> int:
        """Return the tokens for reasoning in an answer of `max_tokens`."""
        if isinstance(self.effort, int):
            return self.effort
        return int(max_tokens * REASONING_SHARES[self.effort])

    def to_level(self, max_tokens: int) -> Level:
        """Return the lowest level that allows these tokens in an answer of `max_tokens`.

        A number above 0 is at least `low`, because not all models have `xlow`.
        """
        if not isinstance(self.effort, int):
            return self.effort
        if self.effort == 0:
            return "none"

        share = self.effort / max_tokens
        levels: tuple[Level, ...] = ("low", "medium", "high", "xhigh")
        return next((level for level in levels if share <= REASONING_SHARES[level]), "max")


def parse_reasoning(value: JsonValue) -> ParsedReasoning | None:
    """Parse the setting `assistant.model.parameters.reasoning`; None if the provider decides.

    Accepts `"off"` or false, `"auto"` or true, a level, a number of tokens, and
    `{"effort": level | number | {"absolute": number}, "exclude": bool}`. A table without `effort`
    means `medium`.

    Raises:
        ProviderError: The value has another form.
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
            return ParsedReasoning("none", exclude)
        case True:
            return ParsedReasoning("auto", exclude)
        case int() if effort >= 0:
            return ParsedReasoning(effort, exclude)
        case "none" | "xlow" | "low" | "medium" | "auto" | "high" | "xhigh" | "max":
            return ParsedReasoning(effort, exclude)

    raise ProviderError(
        "assistant.model.parameters.reasoning: expected off, auto, one of "
        f"{', '.join(REASONING_SHARES)}, or a number of tokens; found {value!r}"
    )
