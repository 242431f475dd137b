"""Arguments of a Python function: their JSON schema, and their values as Python objects.

A pydantic model validates the arguments as JSON. Its fields have internal names, and the names of
the parameters are aliases: a parameter may have any name, such as `schema`, `self` or `_cursor`.
`TypeSchema` is pydantic's generator of schemas, without defaults that JSON cannot express.

Source: `docs/tools.md`.
"""

from __future__ import annotations

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
from jp_nb.finite_schemas import without_infinite_numbers
from jp_nb.storable_json import replace_surrogates
from jp_nb.toolkit.arguments.argument_repairs import drop_optional_nulls
from jp_nb.toolkit.function_tools.docstrings import read_docstring
from jp_nb.toolkit.function_tools.function_signatures import (
    find_context_name,
    read_documentation,
    read_signature,
)
from jp_nb.type_schemas import TypeSchema

_JSON_TYPES: Final = "`str`, `int`, `list[str]`, a dataclass, or a pydantic model"
_WRONG_LIMIT: Final = re.compile(r"Unable to apply constraint '(\w+)'")  # of pydantic
_CONFIG: Final = ConfigDict(extra="forbid", arbitrary_types_allowed=False)


class ArgumentsError(Exception):
    """The arguments of a call do not fit the parameters. The text is for the model."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """A parameter that the model sees.

    Attributes:
        name: Its name in the function.
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
    """The arguments of a function that is a tool. `name` is that of the tool, for errors.

    Attributes:
        context_name: Name of the parameter that receives the `ToolContext`; None without one.
        parameters: The other parameters.
        schema: JSON schema of the arguments.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        signature_parameters, hints = read_signature(function, name)
        self.context_name = find_context_name(signature_parameters, hints)

        # The parameters that the model sees, by the names of their fields in the pydantic model.
        visible: dict[str, inspect.Parameter] = {}
        for parameter in signature_parameters:
            if parameter.name != self.context_name:
                visible[f"argument_{len(visible)}"] = parameter

        _, descriptions = read_docstring(read_documentation(function))
        fields: dict[str, Any] = {}
        for field_name, parameter in visible.items():
            hint = hints.get(parameter.name, Any)
            fields[field_name] = _make_field(parameter, hint, descriptions.get(parameter.name))

        try:
            self._model = create_model(name, __config__=_CONFIG, **fields)
            schema = self._model.model_json_schema(schema_generator=TypeSchema)
        except Exception as exc:  # pydantic raises several exceptions for unsupported types
            # Without the cause: it speaks of pydantic's models, which the user did not write.
            fields_by_parameter = {visible[key].name: field for key, field in fields.items()}
            raise UsageError(_describe_unsupported(name, fields_by_parameter, exc)) from None

        self.schema = _complete_schema(schema)
        self.parameters = tuple(
            _describe_parameter(parameter, hints, self._model.model_fields[field_name])
            for field_name, parameter in visible.items()
        )
        self._parameter_names = {key: parameter.name for key, parameter in visible.items()}
        # Defaults such as `Field(3)`, which Python would pass to the function as they are.
        self._field_defaults = {
            parameter.name: self._model.model_fields[field_name]
            for field_name, parameter in visible.items()
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
            match = _WRONG_LIMIT.match(str(exc))
            if match is None:
                raise
            raise UsageError(
                f"{self._model.__name__}: the limit `{match[1]}` in the `Field` of a parameter "
                "does not fit its type. Only the user can correct the function"
            ) from None

        return {
            name: getattr(values, field_name) for field_name, name in self._parameter_names.items()
        }

    def fill_field_defaults(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return `kwargs` of a direct call with the values of defaults such as `Field(3)`.

        Raises:
            TypeError: A parameter with a `Field` that has no default is missing.
        """
        if not self._field_defaults:
            return dict(kwargs)

        passed = inspect.signature(function).bind_partial(*args, **kwargs).arguments
        filled = dict(kwargs)
        for name, field in self._field_defaults.items():
            if name in passed:
                continue
            if field.is_required():
                raise TypeError(f"missing the required argument {name!r}")
            filled[name] = field.get_default(call_default_factory=True)
        return filled


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
        user_field = FieldInfo.from_annotated_attribute(hint, field)
        # The `Field` of the user is more specific than the docstring and the name.
        if user_field.description is None and description is not None:
            hint = Annotated[hint, Field(description=description)]
        if user_field.validation_alias is None:
            hint = Annotated[hint, Field(validation_alias=parameter.name)]
    except Exception:  # a type hint that is no type, which the model reports
        return hint, field
    return hint, field


def _describe_parameter(
    parameter: inspect.Parameter, hints: Mapping[str, Any], field: FieldInfo
) -> FunctionParameter:
    """Return the facts about `parameter`, whose `field` in the model pydantic has completed."""
    default = inspect.Parameter.empty
    if not field.is_required() and field.default_factory is None:
        default = field.default
    alias = field.validation_alias
    property_name = alias if isinstance(alias, str) else parameter.name

    return FunctionParameter(
        name=parameter.name,
        hint=hints.get(parameter.name, Any),
        default=default,
        is_hinted=parameter.name in hints,
        property=property_name,
    )


def _describe_unsupported(
    name: str, fields: Mapping[str, tuple[Any, FieldInfo]], exc: Exception
) -> str:
    """Return the error about the first parameter that has no schema by itself."""
    for parameter, (hint, field) in fields.items():
        if _has_schema(hint, field):
            continue

        bare_type = _remove_annotations(hint)
        shown = inspect.formatannotation(bare_type)
        if _has_schema(bare_type, Field()):
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


def _remove_annotations(hint: Any) -> Any:
    # `Annotated[int, Field(gt=0)]` becomes `int`.
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _has_schema(hint: Any, field: FieldInfo) -> bool:
    """Return True if a parameter with this type and field has a JSON schema."""
    try:
        model = create_model("one", __config__=_CONFIG, argument=(hint, field))
        model.model_json_schema(schema_generator=TypeSchema)
    except Exception:  # pydantic raises several exceptions for unsupported types
        return False
    return True


def fits_type(hint: Any, value: object) -> bool:
    """Return True if `value` is valid for the type `hint`, or if that cannot be checked."""
    try:
        TypeAdapter(hint).validate_python(value)
    except ValidationError:
        return False
    except Exception:  # the user's validator failed, which a call will report
        return True
    return True


def _complete_schema(schema: dict[str, Any]) -> dict[str, JsonValue]:
    """Return the schema of a pydantic model in the form that models and MCP clients expect."""
    complete: dict[str, JsonValue] = without_infinite_numbers(_remove_titles(schema))
    complete.pop("description", None)  # that of pydantic's model
    complete.setdefault("properties", {})
    complete.setdefault("required", [])
    return complete


def _remove_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` without titles, which pydantic derives from the names."""
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
    """Return path and text of an error of pydantic, as `options.days: …`.

    Its location also has names of validators, such as `list[str]` of a union. They are omitted:
    they are no key of the arguments.
    """
    path: list[str] = []
    value: Any = arguments
    location = error["loc"]

    for index, step in enumerate(location):
        key = str(step)
        is_missing_key = error["type"] == "missing" and index == len(location) - 1

        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif not is_missing_key:
            continue  # the name of a validator
        path.append(key)

    return f"{'.'.join(path) or 'arguments'}: {error['msg']}"
