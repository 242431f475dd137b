"""Arguments of a Python function: their JSON schema, and their values as Python objects.

A pydantic model validates the arguments as JSON. Its fields have internal names, and the names of
the parameters are aliases: a parameter may have any name, such as `schema`, `self` or `_cursor`.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo

from jp_nb.errors import UsageError
from jp_nb.json_schema import TypeSchema, without_infinite_numbers
from jp_nb.json_values import replace_surrogates
from jp_nb.toolkit.arguments.call_arguments import drop_optional_nulls
from jp_nb.toolkit.function_tools.docstrings import read_docstring
from jp_nb.toolkit.tool_context import ToolContext

WRAP_HINT: Final = (
    "Write a function with type hints that calls it, and decorate that function with `@jp.tool`."
)
_JSON_TYPES: Final = "`str`, `int`, `list[str]`, a dataclass, or a pydantic model"
_WRONG_LIMIT: Final = re.compile(r"Unable to apply constraint '(\w+)'")  # of pydantic
_CONFIG: Final = ConfigDict(extra="forbid", arbitrary_types_allowed=False)


class ArgumentsError(Exception):
    """The arguments of a call do not fit the parameters. The text is for the model."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """A parameter that the model sees.

    Attributes:
        hint: The type hint; `Any` without one.
        default: The default, also that of a `Field`; `inspect.Parameter.empty` without one, and for
            a `default_factory`.
        is_hinted: True if the function has a type hint for it.
        property: Name of the argument in a call: that of the parameter, or the alias of a `Field`.
    """

    name: str
    hint: Any
    default: Any
    is_hinted: bool
    property: str


class FunctionArguments:
    """The arguments of a function that is a tool.

    Attributes:
        context_name: Name of the parameter that receives the `ToolContext`; None without one.
        parameters: The other parameters.
        schema: JSON schema of the arguments.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.context_name: str | None = None
        given, hints = _read_signature(function, name)
        seen: list[inspect.Parameter] = []

        for parameter in given:
            annotation = hints.get(parameter.name, Any)
            if ToolContext in (annotation, *typing.get_args(annotation)):  # `ToolContext | None`
                self.context_name = parameter.name
            else:
                seen.append(parameter)

        _, described = read_docstring(read_documentation(function))
        names = {f"argument_{number}": each.name for number, each in enumerate(seen)}
        fields: dict[str, Any] = {}
        for key, parameter in zip(names, seen, strict=True):
            hint = hints.get(parameter.name, Any)
            fields[key] = _make_field(parameter, hint, described.get(parameter.name))

        try:
            self._model = create_model(name, __config__=_CONFIG, **fields)
            schema = self._model.model_json_schema(schema_generator=TypeSchema)
        except Exception as exc:  # pydantic raises several exceptions for unsupported types
            # Without the cause: it speaks of pydantic's models, which the user did not write.
            named = {names[key]: field for key, field in fields.items()}
            raise UsageError(_describe_unsupported(name, named, exc)) from None

        self._fields = names
        self.parameters = tuple(
            _describe_parameter(each, hints, self._model.model_fields[key])
            for key, each in zip(names, seen, strict=True)
        )
        self.schema: dict[str, JsonValue] = without_infinite_numbers(_remove_titles(schema))
        self.schema.pop("description", None)
        self.schema.setdefault("properties", {})
        self.schema.setdefault("required", [])
        self._field_defaults = {
            parameter.name: self._model.model_fields[key]
            for key, parameter in zip(names, seen, strict=True)
            if isinstance(parameter.default, FieldInfo)
        }

    def read(self, arguments: Mapping[str, JsonValue]) -> dict[str, Any]:
        """Return a value for each parameter, without the context.

        Raises:
            ArgumentsError: The arguments do not fit.
            UsageError: A limit of a parameter does not fit its type.
        """
        complete = drop_optional_nulls(arguments, self.schema)
        # As JSON: a model with strict types accepts a date or an enumeration only from JSON.
        text = replace_surrogates(json.dumps(complete, ensure_ascii=False))

        try:
            values = self._model.model_validate_json(text)
        except ValidationError as exc:
            problems = [_format_problem(error, complete) for error in exc.errors()]
            raise ArgumentsError("; ".join(dict.fromkeys(problems))) from exc
        except TypeError as exc:
            if found := _WRONG_LIMIT.match(str(exc)):
                raise UsageError(
                    f"{self._model.__name__}: the limit `{found[1]}` in the `Field` of a parameter "
                    "does not fit its type. Only the user can correct the function"
                ) from None
            raise

        return {name: getattr(values, key) for key, name in self._fields.items()}

    def fill_field_defaults(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return `kwargs` of a direct call with the values of defaults such as `Field(3)`.

        Raises:
            TypeError: A parameter with a `Field` that has no default is missing.
        """
        if not self._field_defaults:
            return dict(kwargs)

        given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
        filled = dict(kwargs)
        for name, field in self._field_defaults.items():
            if name in given:
                continue
            if field.is_required():
                raise TypeError(f"missing the required argument {name!r}")
            filled[name] = field.get_default(call_default_factory=True)
        return filled


# --- the signature ---------------------------------------------------------------------------


def read_documentation(function: Callable[..., Any]) -> str | None:
    """Return the docstring of a function, or of the function that a partial or an object calls."""
    if isinstance(function, functools.partial) and function.__doc__ == functools.partial.__doc__:
        return read_documentation(function.func)
    if not _is_object(function):
        return function.__doc__
    own: str | None = type(function).__call__.__doc__
    return own or function.__doc__


def _is_object(function: Callable[..., Any]) -> bool:
    # An object with a method `__call__`, and not a wrapper such as that of `functools.cache`.
    if isinstance(function, functools.partial) or inspect.isroutine(function):
        return False
    return not hasattr(function, "__wrapped__")


def _read_signature(
    function: Callable[..., Any], name: str
) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    # Returns the parameters and the type hints. Raises if an argument cannot be passed by name.
    _refuse_method(function, name)
    hints = _read_hints(function, name)
    bound: Mapping[str, Any] = {}
    callee = function
    if isinstance(function, functools.partial):
        bound = function.keywords
        # A new one, without the `__wrapped__` of `functools.update_wrapper`.
        callee = functools.partial(function.func, *function.args, **bound)

    try:
        parameters = [*inspect.signature(callee).parameters.values()]
    except (TypeError, ValueError):  # some functions in C; a partial with arguments that do not fit
        raise UsageError(f"{name} has no signature that Python can read. {WRAP_HINT}") from None

    for each in parameters:
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise UsageError(_describe_unnamed(function, each, name))
    return [each for each in parameters if each.name not in bound], hints


def _read_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if _is_object(target):
        target = type(target).__call__

    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as exc:
        raise UsageError(f"{name}: a type hint uses an unknown name: {exc}") from exc
    except TypeError:
        raise UsageError(f"{name}: {function!r} is not a function. {WRAP_HINT}") from None
    except SyntaxError as exc:
        raise UsageError(f"{name}: a type hint is not valid Python: {exc.text or exc}") from exc


def _describe_unnamed(function: Callable[..., Any], parameter: inspect.Parameter, name: str) -> str:
    if inspect.isbuiltin(function):
        return f"{name}: its parameters cannot be passed by name. {WRAP_HINT}"
    if parameter.kind == parameter.POSITIONAL_ONLY:
        return (
            f"{name}: the parameter `{parameter.name}` is positional-only, and a model passes "
            "arguments by name. Remove the `/` from the parameters."
        )
    stars = "*" if parameter.kind == parameter.VAR_POSITIONAL else "**"
    return (
        f"{name}: a tool cannot have `{stars}{parameter.name}`. Give each parameter its own name."
    )


def find_class_name(function: Callable[..., Any]) -> str:
    """Return the qualified name of the class in which `function` was defined; "" without one."""
    qualified = getattr(function, "__qualname__", "")
    outer = qualified.rpartition(".")[0] if isinstance(qualified, str) else ""
    return "" if outer.endswith("<locals>") else outer


def _refuse_method(function: Callable[..., Any], name: str) -> None:
    """Raise `UsageError` for a method whose object or class is not known."""
    outer = find_class_name(function)
    if not outer or inspect.ismethod(function) or isinstance(function, staticmethod):
        return

    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # reported later
        return
    if first in ("self", "cls"):
        raise UsageError(describe_method(name, outer, first))


def describe_method(name: str, owner: str, first: str) -> str:
    """Return the error for the method `name` of the class `owner` with `first` as parameter."""
    kind = owner.rpartition(".")[2]
    bound = f"{kind}.{name}" if first == "cls" else f"{kind}().{name}"
    return (
        f"{name} is a method of {kind}, and the model cannot pass `{first}`. Remove `@jp.tool` "
        f"from the class, and make a tool of a bound method: `jp.tool({bound})`. For a function "
        "without an object, put `@jp.tool` above `@staticmethod`"
    )


# --- the model of the arguments ----------------------------------------------------------------


def _make_field(
    parameter: inspect.Parameter, hint: Any, description: str | None
) -> tuple[Any, FieldInfo]:
    """Return type and field of `parameter`, with its name as alias."""
    field = Field()
    if isinstance(parameter.default, FieldInfo):
        field = parameter.default
    elif parameter.default is not inspect.Parameter.empty:
        field = Field(parameter.default)

    try:
        own = FieldInfo.from_annotated_attribute(hint, field)
        # What the user wrote in a `Field` is more specific than the docstring and the name.
        if own.description is None and description is not None:
            hint = Annotated[hint, Field(description=description)]
        if own.validation_alias is None:
            hint = Annotated[hint, Field(validation_alias=parameter.name)]
    except Exception:  # a type hint that is no type, which the model reports
        return hint, field
    return hint, field


def _describe_parameter(
    parameter: inspect.Parameter, hints: Mapping[str, Any], field: FieldInfo
) -> FunctionParameter:
    default = inspect.Parameter.empty
    if not field.is_required() and field.default_factory is None:
        default = field.default
    alias = field.validation_alias
    key = alias if isinstance(alias, str) else parameter.name

    return FunctionParameter(
        name=parameter.name,
        hint=hints.get(parameter.name, Any),
        default=default,
        is_hinted=parameter.name in hints,
        property=key,
    )


def _describe_unsupported(
    name: str, fields: Mapping[str, tuple[Any, FieldInfo]], exc: Exception
) -> str:
    # Finds the first parameter that has no schema by itself.
    for parameter, (hint, field) in fields.items():
        if _has_schema(hint, field):
            continue

        shown = inspect.formatannotation(_without_annotations(hint))
        if _has_schema(_without_annotations(hint), Field()):
            return (
                f"{name}: its parameters have no JSON schema: the limits or the default in the "
                f"`Field` of `{parameter}` do not fit its type `{shown}`. Correct them."
            )
        return (
            f"{name}: its parameters have no JSON schema: `{parameter}` has the type `{shown}`, "
            f"and JSON has no form for it or for a part of it. Use a type such as {_JSON_TYPES}, "
            "and convert it in the function."
        )

    return (
        f"{name}: its parameters have no JSON schema ({type(exc).__name__}). Use types such as "
        f"{_JSON_TYPES}."
    )


def _without_annotations(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _has_schema(hint: Any, field: FieldInfo) -> bool:
    try:
        one = create_model("one", __config__=_CONFIG, argument=(hint, field))
        one.model_json_schema(schema_generator=TypeSchema)
    except Exception:  # pydantic raises several exceptions for unsupported types
        return False
    return True


def fits(hint: Any, value: object) -> bool:
    """Return True if `value` is valid for the type `hint`, or if that cannot be checked."""
    try:
        TypeAdapter(hint).validate_python(value)
    except ValidationError:
        return False
    except Exception:  # the user's validator failed, which a call will report
        return True
    return True


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


# --- errors for the model ----------------------------------------------------------------------


def _format_problem(error: Any, arguments: Mapping[str, JsonValue]) -> str:
    # The location may contain names of pydantic's validators, such as `list[str]` of a union.
    path: list[str] = []
    value: Any = arguments

    for step in error["loc"]:
        key = str(step)
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif error["type"] != "missing" or step is not error["loc"][-1]:
            continue
        path.append(key)

    return f"{'.'.join(path) or 'arguments'}: {error['msg']}"
