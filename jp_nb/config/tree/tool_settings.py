"""Settings of tools: source, state, permissions, parameters, and questions.

They are in `conversation.tools.NAME`; `*` has the defaults of all tools. The tables in it with
modules of their own are `command` (`command_settings.py`), `style` (`tool_display_settings.py`),
and `access` (`access_settings.py`).

`base.py` has the types of settings, and explains forms: `TABLE_OR_PLAIN_FORM` marks a setting that
is a table or a plain value.

Source: `docs/configuration.md`, `docs/turns.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, model_serializer

from jp_nb.config.argument_rules import check_conditions
from jp_nb.config.tree.access_settings import Access
from jp_nb.config.tree.assistant_settings import QuestionAssistant
from jp_nb.config.tree.base import (
    PLAIN_FORM,
    TABLE_FORM,
    TABLE_OR_PLAIN_FORM,
    ConfigTable,
    ShortTable,
    table,
)
from jp_nb.config.tree.command_settings import Command
from jp_nb.config.tree.merge_rules import APPEND_MERGE, REPLACE_MERGE
from jp_nb.config.tree.tool_display_settings import ToolStyle
from jp_nb.config.tree.value_checks import Count, Flag, before
from jp_nb.config.tree.value_errors import UnexpectedValueError, describe_found, shorten_for_error

STAR = "*"
"""The key of the defaults for all tools."""

RunMode = Literal["ask", "unattended", "edit", "skip"]
ResultMode = RunMode
FormatMode = Literal["ask", "unattended"]
RuleCoverage = Literal["tool", "arguments"]
"""Calls that a permission for a turn covers: all calls of the tool, or those with its arguments."""
CANCELLATION = (
    "The user cancelled this tool call on purpose. Find out why from the conversation, or ask, "
    "before you call it again."
)
"""Default of `cancellation_response`."""


class ArgumentRule(ConfigTable):
    """Permission of calls by their arguments. The first rule that matches a call applies."""

    when: Annotated[dict[str, JsonValue], AfterValidator(check_conditions)] = Field(
        default_factory=dict
    )
    """Conditions by the name of the argument: an exact value, `inside:FOLDER`, `glob:PATTERN`, or a
    table, such as `{max = 10}`. The call has to meet all of them."""
    only_these: Flag = False
    """`true` if a call with another argument does not match."""
    run: RunMode
    """Permission of the calls that match, as `run` of the tool."""


# The settings of `Enable` for each of its short forms.
_ENABLE_WORDS: dict[str, dict[str, JsonValue]] = {
    "true": {"state": True, "allow_toggle": "any"},
    "on": {"state": True, "allow_toggle": "any"},
    "false": {"state": False, "allow_toggle": "any"},
    "off": {"state": False, "allow_toggle": "any"},
    "always": {"state": True, "allow_toggle": "never"},
    "explicit": {"state": False, "allow_toggle": "if_named"},
}


class Enable(ShortTable):
    """State of a tool or toolset, and the options that can change it.

    A plain `true` or `false` is the state. `always` is on and locked. `explicit` is off, and can
    only be switched by its name. Unset settings are inherited.
    """

    state: Flag | None = None
    """`true` if it is on."""
    allow_toggle: Literal["any", "never", "if_named", "if_named_or_group"] | None = None
    """Options that can change the state: `any` of `-t` and `-T`, `never`, only if the tool is named
    (`if_named`), or if the tool or its toolset is named (`if_named_or_group`)."""

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Return the table of a boolean or a word."""
        text = str(value).lower() if isinstance(value, bool) else value
        if isinstance(text, str) and text in _ENABLE_WORDS:
            return dict(_ENABLE_WORDS[text])
        raise UnexpectedValueError(
            'a boolean, one of "on", "off", "explicit", "always", or a { state, allow_toggle } '
            "table",
            cause=f"invalid enable value: '{shorten_for_error(str(value))}'",
        )

    @model_serializer(mode="plain")
    def _dump_set_fields(self) -> dict[str, JsonValue]:
        fields: dict[str, JsonValue] = {"state": self.state, "allow_toggle": self.allow_toggle}
        return {key: value for key, value in fields.items() if value is not None}


JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


def _check_types(value: Any) -> Any:
    """Return the name of a JSON type, or a list of them."""
    names = value if isinstance(value, list) else [value]
    if names and all(isinstance(name, str) and name in JSON_TYPES for name in names):
        return value
    wrong = next((name for name in names if name not in JSON_TYPES), value)
    raise UnexpectedValueError(f"one of {', '.join(JSON_TYPES)}, or a list of them", wrong)


class Param(ConfigTable):
    """A parameter of a tool, as in a JSON schema."""

    type: Annotated[str | list[str] | None, before(_check_types)] = None
    """JSON type, or a list of types."""
    default: JsonValue = None
    """Value if the model does not set the parameter."""
    required: Flag = False
    """`true` if the model must set the parameter."""
    summary: str | None = None
    """One line for the model."""
    description: str | None = None
    """Description for the model."""
    examples: str | None = None
    """Examples for the model."""
    enum: Annotated[list[JsonValue], APPEND_MERGE] = Field(default_factory=list)
    """Allowed values."""
    items: Param | None = None
    """Schema of the items of an array."""
    properties: dict[str, Param] = Field(default_factory=dict)
    """Schemas of the properties of an object, by name."""


def _read_target(value: Any) -> Any:
    """Return `user`, `assistant`, or the settings of the assistant; for `{}`, `assistant`."""
    if value == {}:
        return "assistant"
    if isinstance(value, (dict, QuestionAssistant)) or value in ("user", "assistant"):
        return value
    raise UnexpectedValueError(
        "user, assistant, or a table of settings for the assistant that answers", value
    )


class QuestionConfig(ConfigTable):
    """Settings of one question of a tool."""

    target: Annotated[
        Annotated[Literal["user", "assistant"], PLAIN_FORM]
        | Annotated[QuestionAssistant, TABLE_FORM],
        TABLE_OR_PLAIN_FORM,
        before(_read_target),
    ] = "user"
    """`user` or `assistant` (a model answers), or a table with settings of that model."""
    answer: JsonValue = None
    """The answer. The question is not asked."""
    prompt_label: str | None = None
    """Header above the question."""

    @property
    def is_answered_by_model(self) -> bool:
        """True if a model answers the question."""
        return self.target != "user"


TOOL_SOURCES = ("builtin", "local", "mcp", "python")


def _check_source(value: str) -> str:
    """Return the source `value`, such as `local`, `mcp.SERVER`, or `mcp.SERVER.TOOL`."""
    kind, dot, rest = value.partition(".")
    if kind not in TOOL_SOURCES:
        listed = ", ".join(TOOL_SOURCES)
        raise ValueError(
            f"Unknown tool source: {shorten_for_error(value)}, must be one of: {listed}"
        )

    if kind == "mcp" and not rest.partition(".")[0]:
        raise ValueError(
            "MCP tool source must name a server, as in mcp.SERVER or mcp.SERVER.TOOL, "
            + describe_found(value)
        )

    if dot and not all(rest.split(".", 1)):
        raise UnexpectedValueError("a name after each dot of the source", value)
    return value


class ToolConfig(ConfigTable):
    """Settings of one tool. The name `*` holds the defaults for all tools."""

    source: Annotated[str, AfterValidator(_check_source)] | None = None
    """`local` for a program, `python`, or `builtin`. A name can follow after a dot."""
    toolset: str | None = None
    """Name of the tool's toolset."""
    enable: Enable | None = None
    command: Command | None = None
    summary: str | None = None
    """One line for the model."""
    description: str | None = None
    """Description for the model."""
    examples: str | None = None
    """Examples for the model."""
    parameters: dict[str, Param] = Field(default_factory=dict)
    """Parameters of a program, by name."""
    run: RunMode | None = None
    """Permission before the call: `ask` the user, run `unattended`, `edit` the arguments first, or
    `skip` the call."""
    rules: Annotated[list[ArgumentRule] | None, REPLACE_MERGE] = None
    """Permission of calls by their arguments, in place of `run`. The first rule that matches
    applies."""
    format: FormatMode | None = None
    """Permission to run a command that formats the arguments."""
    covers: RuleCoverage | None = None
    """Calls that a permission "for this turn" covers: all calls of the `tool`, or only those with
    the same `arguments`."""
    result: ResultMode | None = None
    """Approval before the model reads the result: `ask` the user, deliver it `unattended`, `edit`
    it first, or `skip` it."""
    read_only: Flag | None = None
    """`true` if a call certainly changes nothing: such tools also run before the user has approved
    the plan of a turn (`%%jp --plan`)."""
    result_max_chars: Count | None = None
    """Maximum length of a result. The middle of a longer one is omitted."""
    cancellation_response: str | None = None
    """Text for the model when the user cancels the call."""
    style: ToolStyle = table()
    questions: dict[str, QuestionConfig] = Field(default_factory=dict)
    """Settings of the tool's questions, by question id."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Values that are passed to the tool."""
    access: Access | None = None

    @property
    def kind(self) -> str:
        """`builtin`, `python`, `local`, or `mcp`; "" if the source is not set."""
        return (self.source or "").partition(".")[0]


DEFAULTABLE = frozenset(
    {
        "enable",
        "run",
        "rules",
        "covers",
        "format",
        "result",
        "result_max_chars",
        "cancellation_response",
        "style",
        "questions",
    }
)
"""Fields that the entry `*` may have. Its `questions` are those of `jp.ask`, not of a tool."""
