"""A Python function as a tool: its definition for the model, and its runs.

The type hints and the Google-style docstring of the function define its schema. Arguments are
validated before the function runs (`function_arguments.py`). `tool_registry.py` has the decorator
`@jp.tool`, which makes and registers the tools.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, TypedDict, Unpack

from pydantic import JsonValue

from jp_nb.config.tree.access_settings import ConfigRule
from jp_nb.config.tree.tool_settings import RuleCoverage, RunMode
from jp_nb.daemon_threads import start_thread
from jp_nb.errors import UsageError
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread, PendingResult
from jp_nb.toolkit.function_tools.blocked_loop import WatchedCall, get_loop_of_thread
from jp_nb.toolkit.function_tools.docstrings import read_docstring, read_examples
from jp_nb.toolkit.function_tools.function_arguments import ArgumentsError, FunctionArguments
from jp_nb.toolkit.function_tools.function_calls import await_result, call_function
from jp_nb.toolkit.function_tools.function_signatures import (
    WRAP_HINT,
    describe_method,
    find_class_name,
    read_documentation,
)
from jp_nb.toolkit.outcome import Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext
from jp_nb.values.base import ValueBudget

log = logging.getLogger(__name__)

TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ToolOptions(TypedDict, total=False):
    """The options of the decorator `tool` (`tool_registry.py`), which documents them."""

    name: str | None
    run: RunMode | None
    covers: RuleCoverage | None
    access: Sequence[ConfigRule]
    thread: bool
    toolset: str | None
    read_only: bool | None


class PythonTool(Tool):
    """A tool that calls a Python function. Calling the tool calls the function directly.

    A `def` function runs in the cell's thread, or with `thread=True` in a worker thread. An
    `async def` function runs in the event loop of the agent.

    Attributes:
        name: The name for the model: the option `name`, or that of the function.
        function: The user's function.
        context_name: Name of the parameter that receives the context; None without one.
        is_async: True for an `async def` function.
        waits_for_cell: True for a function that runs in the cell's thread.
        schema: JSON schema of the arguments.
        registration: The configuration of the tool that the decorator and the docstring give.
        thread: True if a `def` function runs in a worker thread.
        arguments: The schema of the arguments, and their values as Python objects.
        on_refused: Called with the tool if it is refused after its registration, because it was
            decorated in the body of a class; None while it is not registered.
    """

    may_propose = True  # a `jp.Success` may propose a change of the configuration

    def __init__(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        self.function = function
        self.on_refused: Callable[[PythonTool], None] | None = None
        self._options = options
        self._code = getattr(function, "__code__", None)  # `%autoreload` replaces it (`refresh`)
        self.name = _check_tool_name(function, options.get("name"))
        self.is_async = _is_async(function)
        self.thread = options.get("thread", False)
        if self.thread and self.is_async:
            raise UsageError(
                f"{self.name}: `thread=True` needs a `def` function, and this is an "
                "`async def` function"
            )

        self.waits_for_cell = not (self.thread or self.is_async)
        # The event loop of the user's code: a cell defines the tool, or imports its module. A `def`
        # function that waits for this loop would wait without end, which `WatchedCall` detects.
        self._cell_loop = get_loop_of_thread()
        self.arguments = FunctionArguments(function, self.name)
        self.context_name = self.arguments.context_name
        self.schema: Mapping[str, JsonValue] = self.arguments.schema
        self.registration = self._read_registration(options)
        # As `functools.wraps` sets them, for `help()` and `inspect.signature()`.
        self.__name__ = self.name
        self.__doc__ = read_documentation(function)
        self.__wrapped__ = function

    def is_reloaded_as(self, tool: PythonTool) -> bool:
        """Return True if `tool` is the same function of a module that was loaded again."""
        module = getattr(self.function, "__module__", None)
        name = getattr(self.function, "__qualname__", "<locals>")
        if module in (None, "__main__") or "<locals>" in name:
            return False

        other = tool.function
        return (module, name) == (
            getattr(other, "__module__", None),
            getattr(other, "__qualname__", None),
        )

    def become(self, tool: PythonTool) -> None:
        """Take everything from `tool`, so that references to this object call the new function."""
        values = dict(vars(tool))
        vars(self).clear()
        vars(self).update(values)

    def refresh(self) -> bool:
        """Read the function again if `%autoreload` replaced its code; return True if it did."""
        code = getattr(self.function, "__code__", None)
        if code is self._code:
            return False

        self._code = code
        try:
            self.become(PythonTool(self.function, **self._options))
        except UsageError as exc:
            log.warning("The new code of the tool %s is not a valid tool: %s", self.name, exc)
            return False

        return True

    def _read_registration(self, options: ToolOptions) -> dict[str, JsonValue]:
        """Return the configuration of the tool, a partial of `conversation.tools.NAME`."""
        toolset = options.get("toolset")
        if toolset is not None and not TOOL_NAME.fullmatch(toolset):
            raise UsageError(
                f"{self.name}: {toolset!r} is not a valid toolset name: "
                "the rules of tool names apply"
            )

        text = read_documentation(self.function)
        description, _ = read_docstring(text)
        registration: dict[str, JsonValue] = {
            "source": "python",
            "description": description or self.name,
            "examples": read_examples(text) or None,
            "run": options.get("run"),
            "covers": options.get("covers"),
            "toolset": toolset,
            "read_only": options.get("read_only"),
        }
        access = options.get("access")
        if access:
            registration["access"] = {"config": _read_access_rules(self.name, access)}

        return {name: value for name, value in registration.items() if value is not None}

    def __set_name__(self, owner: type, name: str) -> None:
        """Refuse a method that was decorated in the body of its class: the model has no object.

        Python calls this when the class `owner` is complete, and the tool is already registered.
        A static method, or a function whose first parameter has a type hint, needs no object.
        """
        is_method = find_class_name(self.function) == owner.__qualname__
        if isinstance(self.function, staticmethod) or not is_method:
            return

        # A first parameter without a type hint is taken for `self`.
        first = next(iter(self.arguments.parameters), None)
        if first is not None and not first.is_hinted:
            if self.on_refused is not None:
                self.on_refused(self)
            raise UsageError(describe_method(self.name, owner.__qualname__, first.name))

    @cached_property
    def definition(self) -> tuple[str, ...]:
        """Name, signature, and docstring. The session gives advice about each of them once."""
        return self.name, str(inspect.signature(self.function)), self.__doc__ or ""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly."""
        filled = self.arguments.fill_field_defaults(self.function, args, kwargs)
        return self.function(*args, **filled)

    def __repr__(self) -> str:
        return f"<tool {self.name}{inspect.signature(self.function)}>"

    def validate_arguments(self, arguments: Mapping[str, JsonValue]) -> dict[str, Any] | None:
        """Return the given `arguments` as Python values by parameter; None if they are invalid.

        The transcript shows a call as Python code with these values. Parameters that the model
        omits are absent.
        """
        try:
            values = self.arguments.read(arguments)
        except ArgumentsError:
            return None

        return {
            parameter.name: values[parameter.name]
            for parameter in self.arguments.parameters
            if parameter.property in arguments
        }

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Validate `arguments`, call the function in its thread, and describe its result."""
        try:
            values = self.arguments.read(arguments)
        except ArgumentsError as exc:
            return ToolFailure(f"Invalid arguments for {self.name}: {exc}. Correct the call.")

        if self.context_name is not None:
            values[self.context_name] = context

        budget = ValueBudget(side=context.image_side)
        if self.is_async:
            return await await_result(self.function(**values), budget)

        # This event loop watches the other thread, and ends its wait for the loop of the cell.
        watched = WatchedCall(self._cell_loop)
        call = partial(watched.run, partial(call_function, self.function, values, budget))
        async with watched.watching():
            if self.thread:
                # Not in a pool: a function that hangs must not delay later calls.
                result = await asyncio.wrap_future(start_thread(call, f"tool {self.name}"))
            else:
                result = await cell.call(call)

        if isinstance(result, PendingResult):
            return await await_result(result.awaitable, budget)
        return result


def _is_async(function: Callable[..., Any]) -> bool:
    """Return True for an `async def` function, a partial of one, or an object that calls one."""
    if inspect.iscoroutinefunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)


def _check_tool_name(function: object, name: str | None) -> str:
    """Return `name`, or the name of the function.

    Raises:
        UsageError: `function` cannot be a tool, or the name is not valid.
    """
    if isinstance(function, type):
        raise UsageError(
            f"{function.__name__} is a class, and a tool must be a function. {WRAP_HINT}"
        )
    if isinstance(function, classmethod):
        inner = function.__func__
        owner = inner.__qualname__.rpartition(".")[0]
        raise UsageError(describe_method(inner.__name__, owner, "cls"))

    name = name or getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        raise UsageError(
            "a tool must be a function, and this is an object of type "
            f"{type(function).__name__}. {WRAP_HINT}"
        )

    if not TOOL_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid tool name: use at most 64 letters, "
            "digits, `_`, and `-`. The first one cannot be a digit or `-`. Set "
            "another name with `@jp.tool(name=…)`"
        )
    return name


def _read_access_rules(name: str, access: Sequence[ConfigRule]) -> list[JsonValue]:
    """Return the rules of the tool `name` as JSON.

    Raises:
        UsageError: An item is not a `ConfigRule`.
        ConfigError: A rule is invalid.
    """
    from jp_nb.config.validation import validate_layer  # few tools have rules

    if not all(isinstance(rule, ConfigRule) for rule in access):
        raise UsageError(f"{name}: `access` must be a list of `jp.ConfigRule`")

    rules: list[JsonValue] = [rule.model_dump(mode="json", exclude_unset=True) for rule in access]
    tool: JsonValue = {"access": {"config": rules}}
    validate_layer({"conversation": {"tools": {name: tool}}}, layer="@jp.tool")
    return rules
