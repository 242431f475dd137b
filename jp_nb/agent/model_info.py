"""Information about models, as their provider gives it.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as its provider describes it. None, "", and () mean that it does not say.

    Attributes:
        id: The provider's own name.
        name: A name for people.
        context_window: Maximum size of the input, in tokens.
        max_output: Maximum size of a response, in tokens.
        inputs: Kinds of input besides text, such as `image`.
        tools: True if it can call tools.
        reasoning: True if it can reason before it answers.
        input_price: US dollars for a million tokens of input.
        output_price: US dollars for a million tokens of output.
        created: Release time in seconds since 1970, for sorting.
        parameters: Number of parameters, such as `8.0B`.
        quantization: Format of the weights, such as `Q4_K_M`.
        size_bytes: Size of the weights.
        state: `deprecated` if it will be shut down, `retired` if it was.
        ends: Day of the shutdown, such as `2026-12-01`.
        thinking: Kinds of reasoning that a request may ask for.
        efforts: Levels of reasoning effort that a request may ask for.
        structured: True if the server enforces schemas of answers and arguments.
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
    thinking: tuple[str, ...] | None = None
    efforts: tuple[str, ...] | None = None
    structured: bool | None = None


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models of a provider, in its order. `is_cut` is True if the list was too long."""

    models: tuple[ModelInfo, ...] = ()
    is_cut: bool = False

    def find(self, name: str) -> ModelInfo | None:
        """Return the model with the id `name`."""
        return next((model for model in self.models if model.id == name), None)
