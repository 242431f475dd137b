"""The configuration tree: every field, its type, its default.

Extra keys are errors everywhere but in `model.parameters`; maps are `dict[str, …]`. The tables
are in modules of their own, by topic; here is the root, and what only the whole can tell.

Source: `docs/configuration.md`, `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from jp_nb.config.tree.access_config import Access
from jp_nb.config.tree.assistant_config import Assistant, AssistantOverrides, QuestionAssistant
from jp_nb.config.tree.conversation_config import Conversation
from jp_nb.config.tree.left_out import LEFT_OUT, left_out
from jp_nb.config.tree.model_config import (
    EFFORTS,
    MODEL_NAME,
    PROVIDER_NAMES,
    Model,
    ModelChoice,
    ModelId,
    ModelIdOrAlias,
    ModelParameters,
    Reasoning,
    Request,
    RequestOverrides,
    model_problem,
)
from jp_nb.config.tree.node import Flag, Node, ShortNode, found, word
from jp_nb.config.tree.prompt_parts import Contrast, Instruction, Section
from jp_nb.config.tree.provider_config import (
    Anthropic,
    Llm,
    OpenAi,
    OpenRouter,
    ProviderConfig,
    Providers,
)
from jp_nb.config.tree.strategy import APPEND_SET, PRESERVE
from jp_nb.config.tree.style_config import Interpolation, Interrupt, Prompt, Record, Style
from jp_nb.config.tree.tool_config import (
    CANCELLATION,
    DEFAULTABLE,
    STAR,
    Enable,
    Param,
    QuestionConfig,
    ResultMode,
    RunMode,
    Tool,
    ToolStyle,
    enabling,
)

__all__ = [
    "CANCELLATION",
    "CONFIG_PROBLEMS",
    "EFFORTS",
    "LEFT_OUT",
    "MODEL_NAME",
    "PROVIDER_NAMES",
    "STAR",
    "Anthropic",
    "AppConfig",
    "Assistant",
    "AssistantOverrides",
    "Contrast",
    "Conversation",
    "Enable",
    "Instruction",
    "Interpolation",
    "Interrupt",
    "Llm",
    "Model",
    "ModelChoice",
    "ModelId",
    "ModelIdOrAlias",
    "ModelParameters",
    "Node",
    "OpenAi",
    "OpenRouter",
    "Param",
    "Prompt",
    "ProviderConfig",
    "Providers",
    "QuestionAssistant",
    "QuestionConfig",
    "Reasoning",
    "Record",
    "Request",
    "RequestOverrides",
    "ResultMode",
    "RunMode",
    "Section",
    "Style",
    "Tool",
    "ToolStyle",
    "enabling",
    "left_out",
    "model_problem",
]


class User(Node):
    """Who asks; never sent to a provider."""

    name: str | None = None


class Template(Node):
    """Variables of prompt templates."""

    values: dict[str, JsonValue] = Field(default_factory=dict)


Reset = Literal["none"]


class Loader(Node):
    """What a file asks of its reader: with `none`, that nothing before it counts."""

    reset: Annotated[Reset | None, word(Reset)] = None


Place = Literal["before", "after"]


class Extend(ShortNode):
    """Another file to read with this one. `before` makes it weaker than this one."""

    path: str
    strategy: Annotated[Place, word(Place)] = "before"

    @classmethod
    def expand(cls, value: Any) -> Any:
        """A text is the path."""
        if value is None or isinstance(value, (dict, Extend)):
            return value
        if isinstance(value, str):
            return {"path": value, "strategy": "before"}
        raise ValueError(f"expected a path, or a table of path and strategy, {found(value)}")


def _relative(value: str) -> str:
    from pathlib import PurePosixPath, PureWindowsPath

    absolute = PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()
    if not value.strip() or absolute:
        raise ValueError(f"expected a path relative to the workspace, {found(value)}")
    return value


class AppConfig(Node):
    """The whole configuration."""

    inherit: Flag | None = None
    id: str | None = None
    extends: Annotated[list[Extend], PRESERVE] = Field(default_factory=list)
    loader: Loader = Field(default_factory=Loader)
    config_load_paths: Annotated[list[Annotated[str, AfterValidator(_relative)]], APPEND_SET] = (
        Field(default_factory=list)
    )
    template: Template = Field(default_factory=Template)
    user: User = Field(default_factory=User)
    assistant: Assistant = Field(default_factory=Assistant)
    conversation: Conversation = Field(default_factory=Conversation)
    style: Style = Field(default_factory=Style)
    interrupt: Interrupt = Field(default_factory=Interrupt)
    providers: Providers = Field(default_factory=Providers)
    prompt: Prompt = Field(default_factory=Prompt)
    record: Record = Field(default_factory=Record)
    interpolation: Interpolation = Field(default_factory=Interpolation)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = tuple(_misfits(self))
        if problems:
            text = "\n".join(message for _, message in problems)
            raise PydanticCustomError(
                CONFIG_PROBLEMS, "{text}", {"text": text, "problems": problems}
            )
        return self


# --- what several fields say together --------------------------------------------------------

CONFIG_PROBLEMS = "config_problems"
"""Type of the error of fields that do not fit together; its context lists path and message."""


def _misfits(config: AppConfig) -> Iterator[tuple[str, str]]:
    tools = config.conversation.tools
    star = tools.get(STAR, Tool())
    for key in sorted(star.model_fields_set - DEFAULTABLE):
        if getattr(star, key) not in (None, {}, []):
            known = ", ".join(sorted(DEFAULTABLE))
            yield (
                f"conversation.tools.{STAR}.{key}",
                f"'{STAR}' holds defaults and has no {key}, expected one of: {known}",
            )
    for name, tool in tools.items():
        if name != STAR and tool.access is not None:
            yield from _access_misfits(name, tool.access, tool.kind)
    choice = config.assistant.tool_choice
    chosen = tools.get(choice)
    if chosen is not None and choice not in ("auto", "none", "required", STAR):
        state, toggle = enabling(chosen, star)
        if not state and toggle == "never":
            yield (
                "assistant.tool_choice",
                f"assistant.tool_choice names {choice!r}, which "
                f"conversation.tools.{choice}.enable keeps off for good: choose another tool, or "
                "let it be turned on",
            )


def _access_misfits(name: str, access: Access, kind: str) -> Iterator[tuple[str, str]]:
    path = f"conversation.tools.{name}"
    if kind in ("builtin", "mcp"):
        yield (
            f"{path}.access",
            f"{path}: `access` is only supported on local tools, but '{name}' is a {kind} tool",
        )
    elif kind == "python":
        for field in ("fs", "net", "env"):
            if getattr(access, field):
                yield (
                    f"{path}.access.{field}",
                    f"{path}: `access.{field}` is only supported on local tools, but '{name}' is "
                    "a python tool: what runs in the kernel cannot be held to it",
                )
    if access.config:
        from jp_nb.config.grants import rule_problems  # which asks this tree what is a map

        yield from rule_problems(name, access.config)
