"""What a provider says about the models that it offers.

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as its provider describes it. None, "" and () mean that it does not say.

    Attributes:
        id: The provider's own name of it, as requests have it.
        name: What people call it.
        context_window: Tokens that it reads at most.
        max_output: Tokens that it writes at most.
        inputs: What else than text it reads, such as `image`.
        tools: Whether it calls tools.
        reasoning: Whether it can reason before it answers.
        input_price: US dollars for a million tokens that it reads.
        output_price: US dollars for a million tokens that it writes.
        created: When it came, in seconds since 1970; to sort by.
        parameters: How large it is, such as `8.0B`.
        quantization: How its weights are stored, such as `Q4_K_M`.
        size_bytes: How much room its weights take.
        state: `deprecated` if it is about to end, `retired` if it has ended.
        ends: The day on which it ends or ended, such as `2026-12-01`.
    """

    id: str
    name: str = ""
    context_window: int | None = None
    max_output: int | None = None
    inputs: tuple[str, ...] = ()
    tools: bool | None = None
    reasoning: bool | None = None
    input_price: float | None = None
    output_price: float | None = None
    created: float | None = None
    parameters: str = ""
    quantization: str = ""
    size_bytes: int | None = None
    state: Literal["", "deprecated", "retired"] = ""
    ends: str = ""


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models that a provider offers, in its order; `is_cut` if it went on and on."""

    models: tuple[ModelInfo, ...] = ()
    is_cut: bool = False

    def find(self, name: str) -> ModelInfo | None:
        """Return the model that requests call `name`."""
        return next((model for model in self.models if model.id == name), None)
