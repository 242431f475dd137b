"""Read the signature of a function that is to be a tool: parameters, type hints, and docstring.

The function may also be a `functools.partial`, a static method, or an object with `__call__`. A
model passes arguments by name, so each parameter needs a name, and a method needs its object.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jp_nb.errors import UsageError
from jp_nb.toolkit.tool_context import ToolContext

WRAP_HINT: Final = (
    "Write a function with type hints that calls it, and decorate that function with `@jp.tool`."
)


def read_signature(
    function: Callable[..., Any], name: str
) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """Return the parameters that a call has to pass, and the type hints.

    Parameters that a partial has bound are not among them. `name` is that of the tool, for errors.

    Raises:
        UsageError: A parameter cannot be passed by name, or the function cannot be a tool.
    """
    _refuse_method(function, name)
    hints = _read_hints(function, name)

    bound_keywords: Mapping[str, Any] = {}
    callee = function
    if isinstance(function, functools.partial):
        bound_keywords = function.keywords
        # A copy without `__wrapped__`, which `functools.update_wrapper` may have set: with it,
        # `inspect.signature` would return the signature of the wrapped function.
        callee = functools.partial(function.func, *function.args, **bound_keywords)

    try:
        parameters = [*inspect.signature(callee).parameters.values()]
    except (TypeError, ValueError):  # some functions in C; a partial with arguments that do not fit
        raise UsageError(f"{name} has no signature that Python can read. {WRAP_HINT}") from None

    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(_describe_unnamed(function, parameter, name))

    unbound = [parameter for parameter in parameters if parameter.name not in bound_keywords]
    return unbound, hints


def find_context_name(
    parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> str | None:
    """Return the name of the parameter with the type `ToolContext`, or `ToolContext | None`."""
    for parameter in parameters:
        hint = hints.get(parameter.name, Any)
        if ToolContext in (hint, *typing.get_args(hint)):
            return parameter.name
    return None


def _read_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the type hints of the function that is called in the end, by parameter.

    Raises:
        UsageError: A type hint cannot be evaluated, or there is no function.
    """
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
    """Return the error about a parameter that cannot be passed by name."""
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


def read_documentation(function: Callable[..., Any]) -> str | None:
    """Return the docstring of a function, or of the function that a partial or an object calls."""
    if isinstance(function, functools.partial) and function.__doc__ == functools.partial.__doc__:
        return read_documentation(function.func)
    if not _is_object(function):
        return function.__doc__
    method_doc: str | None = type(function).__call__.__doc__
    return method_doc or function.__doc__


def _is_object(function: Callable[..., Any]) -> bool:
    """Return True for an object with `__call__`, but not a wrapper such as of `functools.cache`."""
    if isinstance(function, functools.partial) or inspect.isroutine(function):
        return False
    return not hasattr(function, "__wrapped__")


def find_class_name(function: Callable[..., Any]) -> str:
    """Return the qualified name of the class in which `function` was defined; "" without one."""
    qualified = getattr(function, "__qualname__", "")
    outer = qualified.rpartition(".")[0] if isinstance(qualified, str) else ""
    return "" if outer.endswith("<locals>") else outer


def _refuse_method(function: Callable[..., Any], name: str) -> None:
    """Raise `UsageError` for a method whose object or class is not known.

    Such a function is part of a class, and its first parameter is `self` or `cls`.
    """
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
