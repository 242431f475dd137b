"""Tools that are available to the model in one cycle.

Source: `docs/turns.md`, `docs/decisions.md` D11, D22, D37, `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal, TypeVar

from pydantic import JsonValue

from jp_nb.agent.configured_tools import is_enabled_or_forced
from jp_nb.agent.provider import ToolDefinition
from jp_nb.agent.tool_sources import SourceAttempt, ToolSources
from jp_nb.config.access_rules import Grants
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import (
    CANCELLATION,
    STAR,
    ArgumentRule,
    Command,
    Enable,
    FormatMode,
    QuestionConfig,
    ResultMode,
    RuleCoverage,
    RunMode,
    ToolConfig,
    join_rules,
)
from jp_nb.json_values import as_object, canonical_json, copy_json, make_storable
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.call_arguments import coerce_arguments, drop_optional_nulls
from jp_nb.toolkit.command import CommandFormatter, name_in_source
from jp_nb.toolkit.outcome import ToolFailure
from jp_nb.toolkit.parameter_docs import format_documentation
from jp_nb.toolkit.parameters import parameters_schema
from jp_nb.toolkit.tool_errors import error_summary
from jp_nb.toolkit.truncation import MAX_RESULT_CHARS

T = TypeVar("T")

DESCRIPTION_KEYS: Final = ("summary", "description", "examples")
NEEDS_USER_REASON = "it needs a user, and no user is available"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """An available tool: its executor and its resolved configuration (`conversation.tools.NAME`).

    Attributes:
        origin: Kind of source for the user: `Python`, `built-in`.
        rules: Permission by arguments, in place of `run`. The first one that matches applies.
        owner: Server that has the tool; "" if it runs here.
        format: `unattended` if `formatter` may run before the user permits the call.
        parameters: Display of arguments without a formatter; None: in the line of the call.
        inline_results: Number of displayed lines of a result; None: the result is folded.
        inline_errors: The same for an error; None: as `inline_results`.
        access: Configured access rules, for the tool; `grants` has those of the configuration.
        described: Parameters in the configuration.
    """

    name: str
    executor: Tool
    definition: ToolDefinition
    run: RunMode
    result: ResultMode
    cancellation_response: str
    hidden: bool
    questions: Mapping[str, QuestionConfig]
    options: Mapping[str, JsonValue]
    origin: str
    owner: str = ""
    covers: RuleCoverage = "tool"
    rules: tuple[ArgumentRule, ...] = ()
    source: str = ""
    command: JsonValue = None
    format: FormatMode = "ask"
    formatter: CommandFormatter | None = None
    parameters: Literal["json", "function_call", "off"] | None = None
    inline_results: Literal["off", "full"] | int | None = None
    inline_errors: Literal["off", "full"] | int | None = None
    access: JsonValue = None
    grants: Grants | None = None
    summary: str | None = None
    description: str | None = None
    examples: str | None = None
    result_max_chars: int = MAX_RESULT_CHARS
    described: Mapping[str, JsonValue] = field(default_factory=dict)

    def prepare_arguments(
        self, arguments: Mapping[str, JsonValue]
    ) -> dict[str, JsonValue] | ToolFailure:
        """Return the arguments that the tool will get, or the reason why it cannot run with them.

        `arguments` are those of the model, or of the user who edited them.
        """
        schema = self.definition.parameters
        copy = copy_json(dict(arguments))  # tools may modify what they get, but not the record
        # Half a surrogate pair becomes U+FFFD here, so that a prompt shows what the tool gets.
        clean = as_object(make_storable(copy))
        coerced = coerce_arguments(clean, schema)
        given = drop_optional_nulls(coerced, schema)

        try:
            prepared = self.executor.prepare(self.name, given, schema)
        except Exception as exc:  # a tool's own code
            return ToolFailure(error_summary(exc))
        return prepared if isinstance(prepared, ToolFailure) else dict(prepared)

    @property
    def runs_in_kernel(self) -> bool:
        """True if the tool runs in the folder of the kernel. Commands run in the workspace."""
        return self.source.partition(".")[0] in ("python", "builtin")

    @property
    def identity(self) -> str:
        """Digest of everything that a rule of the user about the tool relies on."""
        parts: JsonValue = [
            [self.name, self.source, self.executor.server_entry, self.command],
            [self.definition.description, dict(self.definition.parameters)],
            [dict(self.options), self.access],
        ]
        return sha256(canonical_json(parts).encode()).hexdigest()

    @property
    def documentation(self) -> str:
        """Documentation in Markdown; "" if there is none."""
        return format_documentation(
            self.name, self.summary, self.description, self.examples, self.documented_schema
        )

    @property
    def documented_schema(self) -> Mapping[str, JsonValue]:
        """Schema of the arguments with all descriptions, also those that requests omit."""
        schema = self.executor.schema
        if schema is None:
            return {"properties": dict(self.described)}

        nodes = dict(as_object(schema.get("properties")))
        for name, configured in self.described.items():
            node = nodes.get(name)
            if isinstance(node, dict) and isinstance(configured, dict):
                texts = {key: text for key, text in configured.items() if key in DESCRIPTION_KEYS}
                nodes[name] = {**node, **texts}

        return {**schema, "properties": nodes}


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The available tools by name, and reasons for enabled ones that are `missing`.

    Attributes:
        clashes: Description of each name that two sources have.
        problems: One text for each optional source that failed, with its name.
        failures: The same for required sources.
        config: The configuration, with the tools that its sources found.
        notices: Texts for the user about the sources.
        instructions: Texts for the model about the use of the tools.
    """

    tools: dict[str, OfferedTool]
    missing: dict[str, str]
    clashes: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    config: AppConfig | None = None
    notices: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()

    @property
    def documentation(self) -> Mapping[str, str]:
        """Documentation by name, written on lookup."""
        return _Documentation(self.tools)


class _Documentation(Mapping[str, str]):
    def __init__(self, tools: Mapping[str, OfferedTool]) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> str:
        return self._tools[name].documentation

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def with_all_tools_enabled(config: AppConfig) -> AppConfig:
    """Return `config` with all tools enabled."""
    on = {"enable": Enable(state=True)}
    switched = dict(config.conversation.tools)
    for name, tool in switched.items():
        if name != STAR:
            switched[name] = tool.model_copy(update=on)

    conversation = config.conversation.model_copy(update={"tools": switched})
    return config.model_copy(update={"conversation": conversation})


async def offer_tools(
    config: AppConfig,
    sources: ToolSources,
    *,
    unavailable_reason: str | None = None,
    answered: Callable[[str], bool] = lambda _: False,
    attempt: SourceAttempt | None = None,
) -> ToolSet:
    """Return the tools that `config` enables, and the tool that it names as `tool_choice`.

    A named tool with a state that is locked off is not returned. With an `unavailable_reason`,
    tools that need a user are missing, except those with prepared answers (`answered`). A source
    that failed in `attempt` is not tried again.
    """
    attempt = SourceAttempt() if attempt is None else attempt
    config = await sources.discover(config, attempt)
    star = config.conversation.tools.get(STAR, ToolConfig())
    enabled = {
        name: tool
        for name, tool in config.conversation.tools.items()
        if name != STAR and is_enabled_or_forced(name, config)
    }
    wanted = {name: tool for name, tool in enabled.items() if tool.source is not None}

    found = await sources.find(config, wanted, attempt)
    offered = ToolSet(
        {},
        found.missing,
        found.clashes,
        found.problems,
        found.failures,
        config,
        found.notices,
        found.instructions,
    )

    for name, tool in enabled.items():
        if tool.source is None:
            offered.missing[name] = f"conversation.tools.{name}.source is not set"
        elif name in found.tools:
            executor, source = found.tools[name]
            configured = any(question.answer is not None for question in tool.questions.values())
            lacks_user = executor.needs_user and unavailable_reason is not None
            if lacks_user and not configured and not answered(name):
                offered.missing[name] = NEEDS_USER_REASON
            else:
                offered.tools[name] = _make_offered_tool(name, tool, star, executor, source)

    return offered


def _make_offered_tool(
    name: str, tool: ToolConfig, star: ToolConfig, executor: Tool, origin: ToolSource
) -> OfferedTool:
    style = tool.style
    default = star.style
    run = tool.run or star.run or origin.run
    format_mode: FormatMode = "unattended" if run == "unattended" else "ask"

    parameters = _first_set(style.parameters, default.parameters, None)
    formatter: CommandFormatter | None = None
    if isinstance(parameters, Command):
        formatter = CommandFormatter(parameters, name_in_source(name, tool))
        parameters = None

    described: dict[str, JsonValue] = {
        name: node.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        for name, node in tool.parameters.items()
    }
    description = tool.description
    if not tool.summary and not description:
        description = executor.description or None
    definition = ToolDefinition(
        name,
        tool.summary or description or "",
        executor.schema or parameters_schema(described),
    )

    command: JsonValue = None
    if tool.command is not None:
        command = tool.command.model_dump(mode="json")
    access: JsonValue = None
    grants: Grants | None = None
    if tool.access is not None:
        access = tool.access.model_dump(mode="json", exclude_none=True)
        grants = Grants(tool.access.config) if tool.access.config else None

    return OfferedTool(
        name=name,
        executor=executor,
        definition=definition,
        run=run,
        result=tool.result or star.result or "unattended",
        result_max_chars=_first_set(tool.result_max_chars, star.result_max_chars, MAX_RESULT_CHARS),
        cancellation_response=(
            tool.cancellation_response or star.cancellation_response or CANCELLATION
        ),
        hidden=_first_set(style.hidden, default.hidden, False),
        questions=tool.questions,
        options=tool.options,
        origin=origin.title,
        rules=join_rules(tool, star),
        source=tool.source or "",
        command=command,
        owner=origin.owner,
        covers=tool.covers or star.covers or executor.covers,
        format=tool.format or star.format or format_mode,
        formatter=formatter,
        parameters=parameters,
        inline_results=_first_set(style.inline_results, default.inline_results, None),
        inline_errors=_first_set(style.error.inline_results, default.error.inline_results, None),
        access=access,
        grants=grants,
        summary=tool.summary,
        description=description,
        examples=tool.examples,
        described=described,
    )


def _first_set(own: T | None, star: T | None, default: T) -> T:
    if own is not None:
        return own
    return default if star is None else star
