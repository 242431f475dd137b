"""The model that answers, its settings, and the limits of a request.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from jp_nb.config.defaults import DEFAULT_MODEL
from jp_nb.config.tree.node import (
    PLAIN,
    TABLE,
    TABLE_OR_PLAIN,
    ConfigTable,
    Count,
    Flag,
    Number,
    Positive,
    before,
    found,
    shortened,
    table,
)
from jp_nb.config.tree.provider_table import AVAILABLE, PROVIDER_NAMES
from jp_nb.config.tree.strategy import APPEND_SET

MODEL_NAME = re.compile(r"[A-Za-z0-9_.:/~-]+")
MAX_PROVIDER_CHARS = 40
"""Characters of an unknown provider that are compared with the known ones."""


# --- the model -------------------------------------------------------------------------------


def _provider_problem(provider: str) -> str | None:
    if provider in PROVIDER_NAMES:
        return None
    near = difflib.get_close_matches(provider[:MAX_PROVIDER_CHARS], AVAILABLE, n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return (
        f"unknown provider {shortened(provider)!r}{meant}, expected one of {', '.join(AVAILABLE)}"
    )


def _name_problem(name: str) -> str | None:
    if MODEL_NAME.fullmatch(name):
        return None
    return f"model name {shortened(name)!r} may contain only letters, digits and _ . : / ~ -"


def model_problem(provider: str, name: str) -> str | None:
    """Return what is wrong with `provider/name`; None if nothing is."""
    return _provider_problem(provider) or _name_problem(name)


def _known_provider(value: str) -> str:
    if problem := _provider_problem(value):
        raise ValueError(problem)
    return value


def _model_name(value: str) -> str:
    if problem := _name_problem(value):
        raise ValueError(problem)
    return value


class ModelId(ConfigTable):
    """A model.

    Attributes:
        provider: Name of the provider, such as `anthropic`.
        name: Name of the model at the provider.
    """

    provider: Annotated[str, AfterValidator(_known_provider)]
    name: Annotated[str, AfterValidator(_model_name)]

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def read_model_id(value: Any) -> Any:
    """`provider/name` as a table, a word without `/` as the alias it is, a table unchanged.

    Raises:
        ValueError: If it is none of these, or no model can have that name.
    """
    if isinstance(value, (dict, ModelId)):
        return value
    if not isinstance(value, str):
        raise ValueError(
            "expected a model id `provider/name`, an alias, or a table of provider and name, "
            + found(value)
        )
    provider, slash, name = (part.strip() for part in value.partition("/"))
    if not slash:
        if not provider:
            raise ValueError("expected a model id `provider/name` or an alias, found nothing")
        return provider
    if problem := model_problem(provider, name):
        raise ValueError(problem)
    return {"provider": provider, "name": name}


ModelIdOrAlias = Annotated[
    Annotated[ModelId, TABLE] | Annotated[str, PLAIN], TABLE_OR_PLAIN, before(read_model_id)
]


# --- its parameters --------------------------------------------------------------------------

Effort = Literal["none", "xlow", "low", "medium", "auto", "high", "xhigh", "max"]
EFFORTS = ("none", "xlow", "low", "medium", "auto", "high", "xhigh", "max")


def _tokens(value: Any) -> int | None:
    """The number of tokens that an effort is; None if it is a word, or wrong."""
    if isinstance(value, dict) and value.keys() == {"absolute"}:
        value = value["absolute"]
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def _effort(value: Any) -> Any:
    tokens = _tokens(value)
    if tokens is None and value not in EFFORTS:
        raise ValueError(
            f"expected one of {', '.join(EFFORTS)}, or a number of tokens, {found(value)}"
        )
    return value if tokens is None else tokens


class ReasoningConfig(ConfigTable):
    """Effort of the model's reasoning.

    Attributes:
        effort: The effort, or a number of tokens.
        exclude: `true` to hide the reasoning.
    """

    effort: Annotated[Effort | int, before(_effort)] = "medium"
    exclude: Flag = False


def _reasoning(value: Any) -> Any:
    """A bare effort, as a word or a number of tokens, means a table; `auto` is the mode."""
    if isinstance(value, ReasoningConfig) or value in ("off", "auto"):
        return value
    if isinstance(value, dict) and value.keys() != {"absolute"}:
        return value
    try:
        return {"effort": _effort(value)}
    except ValueError as exc:
        raise ValueError(
            f"expected off, auto, one of {', '.join(e for e in EFFORTS if e != 'auto')}, a number "
            f"of tokens, or a table of effort and exclude, {found(value)}"
        ) from exc


ReasoningSetting = Annotated[
    Annotated[Literal["off", "auto"], PLAIN] | Annotated[ReasoningConfig, TABLE], TABLE_OR_PLAIN
]


class ParametersConfig(BaseModel):
    """Sampling parameters of the model. Unknown keys are sent to the provider unchanged.

    Attributes:
        max_tokens: Maximum number of tokens of a response.
        reasoning: Reasoning effort. A word or a number of tokens sets the effort.
        temperature: Randomness of the response.
        top_p: Nucleus sampling: consider the most likely tokens up to this total probability.
        top_k: Consider only this number of the most likely tokens.
        stop_words: Texts that end the response.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    __pydantic_extra__: dict[str, JsonValue]

    max_tokens: Positive | None = None
    reasoning: Annotated[ReasoningSetting | None, before(_reasoning)] = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Count | None = None
    stop_words: Annotated[list[str], APPEND_SET] = Field([])


def _welcome() -> ModelId:
    provider, _, name = DEFAULT_MODEL.partition("/")
    return ModelId(provider=provider, name=name)


class Model(ConfigTable):
    """The model that answers, and its parameters.

    Attributes:
        id: `PROVIDER/NAME`, an alias, or a table. Without it, a scripted demo answers.
    """

    id: ModelIdOrAlias = Field(default_factory=_welcome)
    parameters: ParametersConfig = table()


class ModelChoice(ConfigTable):
    """The model of a separate task.

    Attributes:
        id: `PROVIDER/NAME`, an alias, or a table. Without it, the model of the conversation is
            used.
    """

    id: ModelIdOrAlias | None = None
    parameters: ParametersConfig = table()


# --- one request -----------------------------------------------------------------------------


def _idle_timeout(value: int) -> int:
    if 0 < value < 10:
        raise ValueError(f"expected 0 (off) or at least 10 seconds, found {value}")
    return value


IdleTimeout = Annotated[Count, AfterValidator(_idle_timeout)]


class Request(ConfigTable):
    """Retries and limits of requests to the model.

    Attributes:
        max_retries: Maximum number of retries of a failed request.
        base_backoff_ms: Wait before the first retry, in milliseconds. It doubles with each retry.
        max_backoff_secs: Longest wait before a retry, in seconds.
        stream_idle_timeout_secs: Seconds without content from the server after which a request is
            sent again. At least 10, or 0 for no limit.
        max_response_bytes: Maximum size of one response, in bytes. 0 means no limit.
        max_tool_calls: Maximum number of tool calls of one response that run. 0 means no limit.
        max_total_tokens: Maximum number of tokens of a turn. 0 means no limit.
    """

    max_retries: Count = 5
    base_backoff_ms: Count = 1000
    max_backoff_secs: Count = 60
    stream_idle_timeout_secs: IdleTimeout = 60
    max_response_bytes: Count = 1_048_576
    max_tool_calls: Count = 128
    max_total_tokens: Count = 0


class RequestOverrides(ConfigTable):
    """Overrides of `assistant.request` for a separate task. Unset settings are inherited.

    Attributes:
        max_retries: Maximum number of retries of a failed request.
        base_backoff_ms: Wait before the first retry, in milliseconds.
        max_backoff_secs: Longest wait before a retry, in seconds.
        stream_idle_timeout_secs: Seconds without content after which a request is sent again.
        max_response_bytes: Maximum size of one response, in bytes. 0 means no limit.
    """

    max_retries: Count | None = None
    base_backoff_ms: Count | None = None
    max_backoff_secs: Count | None = None
    stream_idle_timeout_secs: IdleTimeout | None = None
    max_response_bytes: Count | None = None
