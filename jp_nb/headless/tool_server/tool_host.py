"""Run the Python tools of this process for other programs, with JSON in and out.

The tools of a module run in the process of the server, and those of a notebook in a kernel. Both
use `ToolHost`: the server calls `load` and `run`, and `KernelTools`, the server's proxy of a
kernel, calls `list_tools_json` and `reply` there. A call that asks a question runs again with the
answers, as in a turn.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.offered_tools.tool_set import offer_tools
from jp_nb.agent.offered_tools.tool_sources import ToolSources
from jp_nb.config.layers import REGISTRATIONS_LAYER, Layer, merge_layers
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.validation import validate_config
from jp_nb.errors import ToolError
from jp_nb.headless.tool_server.server_cells import InlineCell, ThreadCell
from jp_nb.json_values import JsonObject, as_object, copy_json
from jp_nb.record.entries.outcomes import QuestionEnd, QuestionOutcome
from jp_nb.session.configuration.registered_tools import make_registered_settings
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.trust import FolderTrust
from jp_nb.toolkit.cell_thread import CallInterrupted, ControlFlowError
from jp_nb.toolkit.function_tools.python_functions import PythonFunctions
from jp_nb.toolkit.function_tools.tool_errors import format_error_text
from jp_nb.toolkit.function_tools.tool_registry import REGISTRY
from jp_nb.toolkit.outcome import NeedsInput, NeedsReview, Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext
from jp_nb.toolkit.truncation import truncate_middle

log = logging.getLogger(__name__)

CHANGES_SETTINGS: Final = "it may change settings (`access.config`), and there are none here"
SKIPPED: Final = 'its setting `run` is "skip"'
CHANGE_IGNORED: Final = "(A configuration change that the tool proposed was ignored.)"


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool for other programs, with the `description` and `schema` that a model would get."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]


class ToolHost:
    """The registered Python functions, as the configuration of `folder` offers them.

    Args:
        folder: The folder of the module or notebook.
        trust: Consents of the user; None to use all configuration files, as a headless run does.
        inline: True to run `def` tools in the thread of the event loop.

    Attributes:
        refused: The reasons why functions are not offered, by their names. `load` sets it.
    """

    def __init__(self, folder: Path, trust: FolderTrust | None, *, inline: bool = False) -> None:
        self._files = ConfigFiles(folder, trust)
        # Runs `def` tools, as the running cell does in a notebook.
        self._cell: InlineCell | ThreadCell = InlineCell() if inline else ThreadCell()
        self._tools: dict[str, OfferedTool] = {}
        self.refused: dict[str, str] = {}

    async def load(self) -> list[ServedTool]:
        """Return the tools that are offered. `refused` then has the reasons for the others.

        Raises:
            ConfigError: The configuration is not valid.
        """
        config = self._read_config()
        # Any configuration has this one source: no server and no built-in tool is served.
        sources = ToolSources(lambda _: [PythonFunctions(REGISTRY)])
        offered = await offer_tools(config, sources)
        for name in REGISTRY.all():
            tool = offered.tools.get(name)
            if tool is None:
                # `missing` has the reason for an enabled tool that is not available.
                self.refused[name] = offered.missing.get(name, "it is off")
            elif (obstacle := _find_obstacle(tool)) is not None:
                self.refused[name] = obstacle
            else:
                self._tools[name] = tool

        return [
            ServedTool(name, tool.definition.description, dict(tool.definition.parameters))
            for name, tool in self._tools.items()
        ]

    def _read_config(self) -> AppConfig:
        functions: JsonObject = {"conversation": {"tools": make_registered_settings()}}
        layers = [Layer(REGISTRATIONS_LAYER, functions), *self._files.load_layers()]
        return validate_config(merge_layers(layers))

    def get_configured_answers(self, name: str) -> JsonObject:
        """Return the configured answers to questions of a tool, by question id."""
        questions = self._tools[name].questions
        answers: JsonObject = {}
        for question_id, question in questions.items():
            if question.answer is not None:
                answers[question_id] = question.answer
        return answers

    async def run(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, JsonValue],
        ends: Mapping[str, QuestionEnd],
    ) -> JsonObject:
        """Run a tool once, and return its outcome as JSON: `type` is that of the outcome.

        `answers` are the answers to its questions so far, by question id. `ends` are the other
        outcomes of questions, such as a declined one.

        Raises:
            KeyError: There is no such tool.
        """
        tool = self._tools[name]
        prepared = tool.prepare_arguments(arguments)
        if isinstance(prepared, ToolFailure):
            return _to_json(tool, prepared)

        outcomes = {key: QuestionOutcome(end, "form") for key, end in ends.items()}
        context = ToolContext(
            name=name,
            answers=copy_json(dict(answers)),
            ends=outcomes,
            options=copy_json(dict(tool.options)),
            access=copy_json(tool.access),
            root=str(self._files.root),
        )
        return _to_json(tool, await self._run(tool, prepared, context))

    async def _run(
        self, tool: OfferedTool, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> Outcome:
        """Run the tool, and return its outcome. An exception of the tool becomes a failure."""
        try:
            outcome = await tool.executor.run(arguments, context, self._cell)
        except asyncio.CancelledError:
            raise
        except ToolError as exc:
            return ToolFailure(str(exc))
        except BaseException as exc:
            # SystemExit and KeyboardInterrupt out of a task would end the server.
            error = exc
            if isinstance(exc, CallInterrupted | ControlFlowError):  # of `server_cells.py`
                error = exc.__cause__ or exc
            log.warning("the tool %s failed", tool.name, exc_info=error)
            return ToolFailure(format_error_text(error))

        assert not isinstance(outcome, NeedsReview)  # only a built-in tool returns it
        return outcome

    async def reply(self, request: str) -> str:
        """Return the outcome of `run` with the arguments in the JSON text `request`."""
        asked = as_object(json.loads(request))
        ends: Mapping[str, QuestionEnd] = asked["ends"]  # type: ignore[assignment]
        outcome = await self.run(
            str(asked["name"]),
            as_object(asked["arguments"]),
            answers=as_object(asked["answers"]),
            ends=ends,
        )
        return json.dumps(outcome)

    async def list_tools_json(self) -> str:
        """Load the tools and return them as a JSON text, with answers and refused tools."""
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "schema": dict(tool.schema),
                "answers": self.get_configured_answers(tool.name),
            }
            for tool in await self.load()
        ]
        return json.dumps({"tools": tools, "refused": self.refused})


def _find_obstacle(tool: OfferedTool) -> str | None:
    """Return why an enabled tool cannot be offered to other programs, or None."""
    if tool.grants is not None:  # access to settings, of which a server has none
        return CHANGES_SETTINGS
    return SKIPPED if tool.run == "skip" else None


def _to_json(tool: OfferedTool, outcome: Outcome) -> JsonObject:
    """Return an outcome as JSON, within the limits of the tool. The server makes results of it."""
    match outcome:
        case NeedsInput():
            questions: list[JsonValue] = [
                question.model_dump(mode="json") for question in outcome.questions
            ]
            return {
                "type": "needs_input",
                "questions": questions,
                "partial": outcome.partial,
            }
        case ToolFailure():
            text = outcome.message
            if outcome.trace:
                text = "\n".join([text, "", "Trace:", *outcome.trace])
            return {"type": "error", "message": _truncate(text, tool)}
        case _:
            content = _truncate(outcome.content, tool)
            if outcome.proposes:
                content = f"{content}\n\n{CHANGE_IGNORED}".strip()
            images: list[JsonValue] = [[image.media_type, image.text] for image in outcome.images]
            return {"type": "success", "content": content, "images": images}


def _truncate(text: str, tool: OfferedTool) -> str:
    path = f"conversation.tools.{tool.name}.result_max_chars"
    return truncate_middle(text, tool.result_max_chars, path)
