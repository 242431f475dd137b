"""Python functions as tools.

The type hints and the Google-style docstring of the function define its schema. Arguments are
validated before the function runs.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import re
import textwrap
import typing
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, TypedDict, Unpack, cast, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    create_model,
)

from jp_nb.config.tree.tools import ConfigRule, Covers, RunMode, ToolConfig
from jp_nb.errors import UsageError
from jp_nb.json_values import as_object
from jp_nb.tools.base import CellThread, Tool, ToolContext, ToolSource
from jp_nb.tools.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.custom import start_thread
from jp_nb.values.describe import as_json, describe_result

TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_WRAP_HINT: Final = (
    "Write a function with type hints that calls it, and decorate that function with `@jp.tool`."
)


class _Options(TypedDict, total=False):
    """The options of `tool`, which documents them."""

    name: str | None
    run: RunMode | None
    covers: Covers | None
    access: Sequence[ConfigRule]
    thread: bool
    toolset: str | None


class PythonTool(Tool):
    """A tool that calls a Python function. Calling the tool calls the function directly.

    A `def` function runs in the cell's thread, or with `thread=True` in a worker thread. An
    `async def` function runs in the event loop of the agent.

    Attributes:
        context_name: Name of the parameter that receives the context; None without one.
    """

    may_propose = True

    def __init__(self, function: Callable[..., Any], **options: Unpack[_Options]) -> None:
        self.function = function
        self.name = _tool_name(function, options.get("name"))
        self.is_async = inspect.iscoroutinefunction(function)
        self.thread = options.get("thread", False)
        if self.thread and self.is_async:
            raise UsageError(
                f"{self.name}: `thread=True` needs a `def` function, and this is an "
                "`async def` function"
            )
        self.waits_for_cell = not (self.thread or self.is_async)
        self.context_name, self._model = _arguments_model(function, self.name)
        description, _ = read_docstring(function.__doc__)
        examples = textwrap.dedent("\n".join(_read_sections(function.__doc__)["Examples"])).strip()
        schema = _remove_titles(self._model.model_json_schema())
        schema.pop("description", None)
        schema.setdefault("properties", {})
        schema.setdefault("required", [])
        self.schema: Mapping[str, JsonValue] = schema
        toolset, access = options.get("toolset"), options.get("access")
        if toolset is not None and not TOOL_NAME.fullmatch(toolset):
            raise UsageError(
                f"{self.name}: {toolset!r} is not a valid toolset name: "
                "the rules of tool names apply"
            )
        registration: dict[str, JsonValue] = {
            "source": "python",
            "description": description or self.name,
            "examples": examples or None,
            "run": options.get("run"),
            "covers": options.get("covers"),
            "toolset": toolset,
            "access": {"config": _rules(self.name, access)} if access else None,
        }
        self.registration = {key: x for key, x in registration.items() if x is not None}
        self.__name__, self.__doc__ = self.name, function.__doc__
        self.__wrapped__ = function

    @cached_property
    def definition(self) -> tuple[str, ...]:
        """Name, signature, and docstring. If they do not change, advice about the tool does not."""
        return self.name, str(inspect.signature(self.function)), self.__doc__ or ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}{inspect.signature(self.function)}>"

    def validate_arguments(self, arguments: Mapping[str, JsonValue]) -> dict[str, Any] | None:
        """Return `arguments` as Python values; None if they are invalid."""
        try:
            values = dict(self._model.model_validate(dict(arguments)))
        except ValidationError:
            return None
        return {name: values[name] for name in arguments}

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Validate `arguments`, call the function in its thread, and describe its result."""
        try:
            values = self._model.model_validate(dict(arguments))
        except ValidationError as exc:
            problems = [
                f"{'.'.join(map(str, error['loc'])) or 'arguments'}: {error['msg']}"
                for error in exc.errors(include_url=False)
            ]
            text = f"Invalid arguments for {self.name}: {'; '.join(problems)}. Correct the call."
            return Failure(text)
        call = dict(values)
        if self.context_name is not None:
            call[self.context_name] = context
        budget = ValueBudget(side=context.image_side)
        if self.is_async:
            return as_outcome(await self.function(**call), budget)

        def outcome() -> Outcome:
            # In the same thread, because a description may run code of the value.
            return as_outcome(self.function(**call), budget)

        if self.thread:  # no pool: a function that hangs must not delay later calls
            return await asyncio.wrap_future(start_thread(outcome, f"tool {self.name}"))
        return await cell.call(outcome)


def as_outcome(result: object, budget: ValueBudget | None = None) -> Outcome:
    """Convert the result of a function to an outcome.

    An outcome is returned unchanged. A text is the content of a `Success`. Plain data becomes JSON,
    with sorted sets. Other values, iterators, and containers of them are described within `budget`.
    """
    kind = type(result)  # `__class__` may be wrong or raise
    if issubclass(kind, (Success, Failure, NeedsInput)):
        return cast(Outcome, result)
    if issubclass(kind, str):
        return Success(cast(str, result))
    if issubclass(kind, Description):
        description = cast(Description, result)
    elif (text := as_json(result)) is not None:
        return Success(text)
    else:
        description = describe_result(result, budget or ValueBudget())
    return Success(description.text, images=description.images)


def _tool_name(function: object, name: str | None) -> str:
    if isinstance(function, type):
        raise UsageError(
            f"{function.__name__} is a class, and a tool must be a function. {_WRAP_HINT}"
        )
    name = name or getattr(function, "__name__", None)
    if not callable(function) or not isinstance(name, str):
        raise UsageError(
            "a tool must be a function, and this is an object of type "
            f"{type(function).__name__}. {_WRAP_HINT}"
        )
    if not TOOL_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid tool name: use at most 64 letters, "
            "digits, `_`, and `-`. The first one cannot be a digit or `-`. Set "
            "another name with `@jp.tool(name=…)`"
        )
    return name


def _signature(function: Callable[..., Any], name: str) -> tuple[list[inspect.Parameter], Any]:
    # Returns the parameters and the type hints. Raises if an argument cannot be passed by name.
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as exc:
        raise UsageError(f"{name}: a type hint uses an unknown name: {exc}") from exc
    except TypeError:
        raise UsageError(f"{name}: {function!r} is not a function. {_WRAP_HINT}") from None
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except ValueError:  # some functions in C
        raise UsageError(f"{name} has no signature that Python can read. {_WRAP_HINT}") from None
    for each in parameters:
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            continue
        if inspect.isbuiltin(function):
            raise UsageError(f"{name}: its parameters cannot be passed by name. {_WRAP_HINT}")
        if each.kind == each.POSITIONAL_ONLY:
            raise UsageError(
                f"{name}: the parameter `{each.name}` is positional-only, and a model passes "
                "arguments by name. Remove the `/` from the parameters."
            )
        stars = "*" if each.kind == each.VAR_POSITIONAL else "**"
        raise UsageError(
            f"{name}: a tool cannot have `{stars}{each.name}`. Give each parameter its own name."
        )
    return parameters, hints


def _arguments_model(function: Callable[..., Any], name: str) -> tuple[str | None, type[BaseModel]]:
    # Returns the name of the context parameter, if any, and a pydantic model of the others.
    parameters, hints = _signature(function, name)
    _, described = read_docstring(function.__doc__)
    context_name: str | None = None
    fields: dict[str, Any] = {}
    for parameter in parameters:
        annotation = hints.get(parameter.name, Any)
        if ToolContext in (annotation, *typing.get_args(annotation)):  # `ToolContext | None`
            context_name = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        # `description=None` would override a description in an `Annotated` type hint.
        options: dict[str, Any] = {}
        if text := described.get(parameter.name):
            options["description"] = text
        fields[parameter.name] = (annotation, Field(default, **options))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    try:
        return context_name, create_model(name, __config__=config, **fields)
    except Exception as exc:  # pydantic raises several exceptions for unsupported types
        raise UsageError(f"{name}: its parameters have no JSON schema: {exc}") from exc


def _remove_titles(schema: dict[str, Any]) -> dict[str, Any]:
    # Pydantic derives the titles from the names.
    result = {key: value for key, value in schema.items() if key != "title"}
    for key in ("properties", "$defs"):
        if isinstance(result.get(key), dict):
            result[key] = {name: _remove_titles(node) for name, node in result[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _remove_titles(result[key])
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(result.get(key), list):
            result[key] = [_remove_titles(node) for node in result[key]]
    return result


_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*")
_ARGUMENT = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SAME_SECTIONS: Final = {"Arguments": "Args", "Parameters": "Args", "Example": "Examples"}


def _read_sections(text: str | None) -> dict[str, list[str]]:
    # The lines of a Google-style docstring by section. "" is the section of the description.
    lines: dict[str, list[str]] = {"": [], "Args": [], "Examples": []}
    section = ""
    for line in inspect.cleandoc(text or "").splitlines():
        if heading := _SECTION.fullmatch(line):
            section = _SAME_SECTIONS.get(heading[1], heading[1])
        else:
            lines.setdefault(section, []).append(line)
    return lines


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description in a Google-style docstring, and the descriptions of parameters.

    Source: https://google.github.io/styleguide/pyguide.html#383-functions-and-methods
    """
    sections = _read_sections(text)
    arguments: dict[str, str] = {}
    current, indent = "", 0
    for line in filter(str.strip, sections["Args"]):
        depth = len(line) - len(line.lstrip())
        named = _ARGUMENT.match(line.strip())
        if named and (not current or depth <= indent):
            current, indent = named[1], depth
            arguments[current] = named[2]
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return "\n".join(sections[""]).strip(), arguments


def _rules(name: str, access: Sequence[ConfigRule]) -> list[JsonValue]:
    from jp_nb.config.validation import validate_layer  # few tools have rules

    if not all(isinstance(rule, ConfigRule) for rule in access):
        raise UsageError(f"{name}: `access` must be a list of `jp.ConfigRule`")
    rules: list[JsonValue] = [rule.model_dump(mode="json", exclude_unset=True) for rule in access]
    tool: JsonValue = {"access": {"config": rules}}
    validate_layer({"conversation": {"tools": {name: tool}}}, layer="@jp.tool")
    return rules


class Registry:
    """The Python tools of this process. `version` is the number of changes."""

    def __init__(self) -> None:
        self._tools: dict[str, PythonTool] = {}
        self.version = 0

    def add(self, tool: PythonTool) -> None:
        """Register `tool` for the next turn. It replaces a tool of the same name."""
        self._tools[tool.name] = tool
        self.version += 1

    def remove(self, name: str) -> None:
        """Remove the tool `name`.

        Raises:
            UsageError: There is no such tool.
        """
        if name not in self._tools:
            known = ", ".join(sorted(self._tools)) or "none is defined"
            raise UsageError(f"there is no Python tool {name!r} (known: {known})")
        del self._tools[name]
        self.version += 1

    def all(self) -> dict[str, PythonTool]:
        """Return the tools by name, in the order they were first defined."""
        return dict(self._tools)


REGISTRY: Final = Registry()


class PythonFunctions(ToolSource):
    """Source of the registered Python functions, which may replace tools of `builtins`."""

    name, title = "python", "Python"
    run: RunMode = "unattended"

    def __init__(self, functions: Registry, builtins: Collection[str] = ()) -> None:
        self._functions = functions
        self._builtins = builtins

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return the functions with the wanted names, or with the names in their `source`."""
        functions = self._functions.all()
        names = {name: _function_name(tool) or name for name, tool in wanted.items()}
        return {name: functions[key] for name, key in names.items() if key in functions}

    def clashes(self, configured: Mapping[str, ToolConfig]) -> Mapping[str, str]:
        """Return a notice for each function that shares its name with another tool."""
        found: dict[str, str] = {}
        for name in self._functions.all():
            tool = configured.get(name)
            source = (tool.source if tool is not None else None) or self.name
            kind = source.partition(".")[0]
            if kind != self.name or _function_name(tool) not in ("", name):
                is_builtin = kind == "builtin"
                other = "the built-in tool" if is_builtin else f'the configured tool ("{source}")'
                found[name] = (
                    f"{other} is used as {name!r} instead of your Python function of that name"
                )
            elif name in self._builtins:
                found[name] = (
                    f"your Python function {name!r} is used instead of the "
                    "built-in tool of that name"
                )
        return found


def _function_name(tool: ToolConfig | None) -> str:
    source = tool.source if tool is not None else None  # `python` or `python.NAME`
    return (source or "").partition(".")[2]


@overload
def tool(function: Callable[..., Any], /) -> PythonTool: ...
@overload
def tool(**options: Unpack[_Options]) -> Callable[[Callable[..., Any]], PythonTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    run: RunMode | None = None,
    covers: Covers | None = None,
    access: Sequence[ConfigRule] = (),
    thread: bool = False,
    toolset: str | None = None,
) -> PythonTool | Callable[[Callable[..., Any]], PythonTool]:
    """Make a function available to the model as a tool.

    You can still call the function. If you define it again, the new tool replaces the old one.

    Example:
        >>> @tool
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> double(4)
        8
        >>> remove_tool("double")

    The model reads the return value: a text is sent unchanged, plain data as JSON, and any other
    value, such as a data frame or a figure, as a description (`jp.describe`). The function can also
    return an outcome: `jp.Success` or `jp.NeedsInput`. The model reads an exception as an error.

    Args:
        function: The function. Its type hints and its Google-style docstring define the schema;
            pydantic must support the types. A parameter of type `ToolContext` receives the context.
        name: Name for the model; None for the name of the function.
        run: `unattended` to run without a question; `ask` or `edit` to ask the user first; `skip`
            to never run. The configuration of the tool overrides it. None means `unattended`,
            unless the configuration of `*` differs.
        covers: Calls that the permission "for this turn" covers. `tool` means all calls of the
            tool, `arguments` only calls with the same arguments. Use `arguments` if an argument is
            executed, such as code, a command line, or SQL. The configuration overrides it. None
            means `tool`.
        access: Rules for the settings that the tool may read and propose to change. Files can add
            rules. After a rejected proposal the function runs again in the same call, up to three
            times, and `ctx.delta_rejection` has the reason.
        thread: True to run a `def` function in a worker thread, in parallel with other tools.
            Without it, such functions run in the cell's thread, one at a time. An `async def`
            function always runs in parallel with other tools.
        toolset: Name of a group of tools that are switched together: `%%jp -t NAME`, or the setting
            `conversation.toolsets.NAME = true`.

    Returns:
        The tool. `@jp.tool(…)` with options returns a decorator.

    Raises:
        UsageError: If `function` is not a function, a name or a parameter is not valid for a tool,
            or `thread` is set for an `async def` function.
        ConfigError: If `access` contains an invalid rule.
    """
    options = _Options(
        name=name, run=run, covers=covers, access=access, thread=thread, toolset=toolset
    )
    if function is None:
        return partial(tool, **options)
    made = PythonTool(function, **options)
    if access:
        from jp_nb.config.authority import find_rule_warnings  # few tools have rules

        for text in find_rule_warnings(made.name, access):
            warnings.warn(text, stacklevel=2)
    REGISTRY.add(made)
    return made


def remove_tool(name: str) -> None:
    """Remove a Python tool, so that the model can no longer call it.

    Raises:
        UsageError: If there is no Python tool of this name.
    """
    REGISTRY.remove(name)


_CONTAINERS: Final = (list, dict, set, frozenset, tuple)


def suggest_improvements(tool: PythonTool) -> Iterator[str]:
    """Yield problems of the description of `tool`, each with its solution.

    >>> from jp_nb.tools.python import PythonTool
    >>> def halve(number): return number / 2
    >>> for sentence in suggest_improvements(PythonTool(halve)): print(sentence)
    there is no docstring, so the model gets only the name. Write one that describes the tool
    number has no type hint, so the model can send any value. Add one, such as `number: str`
    """
    hints = typing.get_type_hints(tool.function, include_extras=True)
    parameters = dict(inspect.signature(tool.function).parameters)
    properties = as_object(tool.schema.get("properties"))
    names = [name for name in parameters if name in properties]  # without the context
    documented = bool((tool.function.__doc__ or "").strip())
    if not documented:
        yield (
            "there is no docstring, so the model gets only the name. Write one that "
            "describes the tool"
        )
    if untyped := [name for name in names if name not in hints]:
        has = "has" if len(untyped) == 1 else "have"
        yield (
            f"{_join_names(untyped)} {has} no type hint, so the model can send any "
            f"value. Add one, such as `{untyped[0]}: str`"
        )
    if any_type := [name for name in names if hints.get(name) is Any]:
        yield (
            f"{_join_names(any_type)} can be anything (`Any`). Use the type that {tool.name} "
            f"takes, such as `{any_type[0]}: str`"
        )
    for name in names:
        if (bare := _find_bare_container(hints.get(name))) is not None:
            example = f"{bare}[str, int]" if bare == "dict" else f"{bare}[str]"
            yield (
                f"the type hint of {name} does not give the item type of {bare}. Add it, such "
                f"as `{example}`"
            )
        yield from _check_default(name, hints.get(name, Any), parameters[name].default)
    if not documented:
        return
    if silent := [name for name in names if "description" not in as_object(properties[name])]:
        what = "it" if len(silent) == 1 else "them"
        names_text = _join_names(silent)
        yield f"the docstring does not describe {names_text}. Describe {what} under `Args:`"
    _, described = read_docstring(tool.function.__doc__)
    for name in described:
        if name in parameters:
            continue
        near = difflib.get_close_matches(name, parameters, n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        yield f"the docstring describes {name}, which is not a parameter of {tool.name}{hint}"


def _check_default(name: str, hint: Any, default: object) -> Iterator[str]:
    if default is inspect.Parameter.empty or hint is Any:
        return
    try:
        TypeAdapter(hint).validate_python(default)
    except ValidationError:
        shown = inspect.formatannotation(hint)
        kind = "None" if default is None else f"a value of type {type(default).__name__}"
        how = f"`{name}: {shown} | None = None`" if default is None else "a default that fits"
        yield f"the default of {name} is {kind}, which does not match `{shown}`. Write {how}"
    except Exception:  # the user's validator failed, which a call will report
        return


def _find_bare_container(hint: object) -> str | None:
    arguments = typing.get_args(hint)
    if not arguments:
        kind = typing.get_origin(hint) or hint
        return next((each.__name__ for each in _CONTAINERS if kind is each), None)
    return next(filter(None, map(_find_bare_container, arguments)), None)


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
