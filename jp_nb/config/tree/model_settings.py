"""Settings of the model that answers: its id, sampling parameters, and reasoning effort.

Source: `docs/configuration.md`, `docs/providers.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from jp_nb.config.early_constants import DEFAULT_MODEL
from jp_nb.config.tree.base import PLAIN_FORM, TABLE_FORM, TABLE_OR_PLAIN_FORM, ConfigTable, table
from jp_nb.config.tree.merge_rules import APPEND_SET_MERGE
from jp_nb.config.tree.model_id import ModelId, ModelIdOrAlias, read_model_id
from jp_nb.config.tree.value_checks import Count, Flag, Number, Positive, before, read_number
from jp_nb.config.tree.value_errors import UnexpectedValueError

ReasoningEffort = Literal["none", "xlow", "low", "medium", "auto", "high", "xhigh", "max"]
REASONING_EFFORTS: Final[tuple[str, ...]] = get_args(ReasoningEffort)


def _read_effort(value: Any) -> Any:
    """Return an effort, or a number of tokens. JP writes the number as `{"absolute": 4096}`."""
    is_table = isinstance(value, dict) and value.keys() == {"absolute"}
    number = value["absolute"] if is_table else value
    tokens = read_number(number)

    if tokens is None and value not in REASONING_EFFORTS:
        raise UnexpectedValueError(
            f"one of {', '.join(REASONING_EFFORTS)}, or a number of tokens", value
        )
    return value if tokens is None else tokens


class ReasoningConfig(ConfigTable):
    """Effort of the model's reasoning."""

    effort: Annotated[ReasoningEffort | int, before(_read_effort)] = "medium"
    """The effort, or a number of tokens."""
    exclude: Flag = False
    """`true` to hide the reasoning."""


def _read_reasoning(value: Any) -> Any:
    """Return `off`, `auto`, or a table: an effort alone is `{effort: …}`."""
    # Here, `auto` is the mode of `ReasoningSetting`, not the effort of `ReasoningConfig`.
    if isinstance(value, ReasoningConfig) or value in ("off", "auto"):
        return value
    if isinstance(value, dict) and value.keys() != {"absolute"}:
        return value
    try:
        return {"effort": _read_effort(value)}
    except ValueError as exc:
        raise UnexpectedValueError(
            f"off, auto, one of {', '.join(e for e in REASONING_EFFORTS if e != 'auto')}, a number "
            "of tokens, or a table of effort and exclude",
            value,
        ) from exc


# The forms keep the path of an error in the table, such as `reasoning.effort` (`base.py`).
ReasoningSetting = Annotated[
    Annotated[Literal["off", "auto"], PLAIN_FORM] | Annotated[ReasoningConfig, TABLE_FORM],
    TABLE_OR_PLAIN_FORM,
]


class ParametersConfig(BaseModel):
    """Sampling parameters of the model. Other keys are sent if the API of the provider has them."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    __pydantic_extra__: dict[str, JsonValue]

    max_tokens: Positive | None = None
    """Maximum number of tokens of a response."""
    reasoning: Annotated[ReasoningSetting | None, before(_read_reasoning)] = None
    """Reasoning effort. A word or a number of tokens sets the effort."""
    temperature: Number | None = None
    """Randomness of the response."""
    top_p: Number | None = None
    """Nucleus sampling: consider the most likely tokens up to this total probability."""
    top_k: Count | None = None
    """Consider only this number of the most likely tokens."""
    stop_words: Annotated[list[str], APPEND_SET_MERGE] = Field(default_factory=list)
    """Texts that end the response."""


class Model(ConfigTable):
    """The model that answers, and its parameters."""

    id: ModelIdOrAlias = Field(default_factory=lambda: ModelId(**read_model_id(DEFAULT_MODEL)))
    """`PROVIDER/NAME`, an alias, or a table. Without it, a scripted demo answers."""
    parameters: ParametersConfig = table()


class ModelChoice(ConfigTable):
    """The model of a separate task."""

    id: ModelIdOrAlias | None = None
    """`PROVIDER/NAME`, an alias, or a table. Without it, the model of the conversation is used."""
    parameters: ParametersConfig = table()
