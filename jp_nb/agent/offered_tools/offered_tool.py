"""A tool that the model can call now: its executor, its definition, and its effective settings.

The *executor* runs it (`jp_nb/toolkit/base.py`). The *definition* is sent with requests: the name,
the description, and the schema of the arguments. The settings are those in
`conversation.tools.NAME`, on top of those of `*` and of defaults (`effective_tool.py`).

Source: `docs/turns.md`, `docs/decisions.md` D11, D22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.agent.provider import ToolDefinition
from jp_nb.config.access_rules import Grants
from jp_nb.config.tree.tool_settings import (
    ArgumentRule,
    FormatMode,
    QuestionConfig,
    ResultMode,
    RuleCoverage,
    RunMode,
)
from jp_nb.json_values import as_object, copy_json
from jp_nb.json_writing import canonical_json
from jp_nb.storable_json import make_storable
from jp_nb.toolkit.arguments.argument_repairs import coerce_arguments, drop_optional_nulls
from jp_nb.toolkit.arguments.parameter_docs import format_documentation
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.command_tools.command import CommandFormatter
from jp_nb.toolkit.function_tools.tool_errors import summarize_error
from jp_nb.toolkit.outcome import ToolFailure
from jp_nb.toolkit.truncation import MAX_RESULT_CHARS

HALF_CHARACTER_TEXT: Final = (
    "Invalid arguments: a text has half a surrogate pair, which no file can contain. "
    "Write the character itself, and try again."
)
DESCRIPTION_KEYS: Final = ("summary", "description", "examples")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """An available tool: its executor and its resolved configuration (`conversation.tools.NAME`).

    Attributes:
        name: Name for the model and in the configuration.
        executor: Runs the tool.
        definition: The name, description, and schema that requests send.
        run: The permission of calls without a rule: `unattended`, `ask`, `edit`, or `skip`.
        result: The delivery of results: `unattended`, `ask`, `edit`, or `skip`.
        cancellation_response: The response to a call that the user canceled.
        hidden: True if the output of a turn does not show its calls. Prompts still show them.
        covers: Calls that a permission for the turn covers: all of the tool, or the exact one.
        origin: Kind of source for the user: `Python`, `built-in`.
        questions: Settings of the tool's questions, by id.
        options: Settings that only the tool itself understands.
        source: The setting `source`, such as `python` or `mcp.books.search`.
        command: The configured command, as JSON; None for other tools.
        rules: Permission by arguments, in place of `run`. The first one that matches applies.
        owner: Server that has the tool; "" if it runs here.
        read_only: True if a call certainly changes nothing.
        format: `unattended` if `formatter` may run before the user permits the call.
        parameters: Display of arguments without a formatter; None: in the line of the call.
        inline_results: Number of displayed lines of a result; None: the result is folded.
        inline_errors: The same for an error; None: as `inline_results`.
        access: All configured access rules, as JSON for the tool.
        grants: Those for the configuration: settings that the tool may read or change.
        summary: The configured texts for the documentation are this, `description`, and `examples`.
        result_max_chars: Maximum length of a result; a longer one is truncated.
        configured_parameters: Parameters in the configuration.
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
    read_only: bool = False
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
    configured_parameters: Mapping[str, JsonValue] = field(default_factory=dict)

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
        if self.executor.needs_exact_text and clean != copy:
            return ToolFailure(HALF_CHARACTER_TEXT)

        typed = drop_optional_nulls(coerce_arguments(clean, schema), schema)

        try:
            prepared = self.executor.prepare(self.name, typed, schema)
        except Exception as exc:  # a tool's own code
            return ToolFailure(summarize_error(exc))

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
        # For a tool without its own schema, the configuration describes the arguments.
        if schema is None:
            return {"properties": dict(self.configured_parameters)}

        nodes = dict(as_object(schema.get("properties")))
        for name, configured in self.configured_parameters.items():
            node = nodes.get(name)
            if isinstance(node, dict) and isinstance(configured, dict):
                texts = {key: text for key, text in configured.items() if key in DESCRIPTION_KEYS}
                nodes[name] = {**node, **texts}

        return {**schema, "properties": nodes}
