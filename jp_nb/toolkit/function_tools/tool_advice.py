"""Find the weaknesses in a Python tool's description, such as a missing docstring or type hint.

`%jp tools` shows them. They are advice: the tool works without.

Source: `docs/tools.md`.
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jp_nb.json_values import as_object
from jp_nb.toolkit.function_tools.docstrings import read_docstring
from jp_nb.toolkit.function_tools.function_arguments import FunctionParameter, fits_type
from jp_nb.toolkit.function_tools.function_signatures import read_documentation
from jp_nb.toolkit.function_tools.python_tool import PythonTool

_CONTAINERS: Final = (list, dict, set, frozenset, tuple)
_CONTAINER_EXAMPLES: Final = {
    "list": "list[str]",
    "dict": "dict[str, int]",
    "set": "set[str]",
    "frozenset": "frozenset[str]",
    "tuple": "tuple[str, ...]",  # `tuple[str]` has exactly one item
}


def suggest_improvements(tool: PythonTool) -> Iterator[str]:
    """Yield problems of the description of `tool`, each with its solution.

    >>> from jp_nb.toolkit.function_tools.python_tool import PythonTool
    >>> def halve(number): return number / 2
    >>> for sentence in suggest_improvements(PythonTool(halve)): print(sentence)
    there is no docstring, so the model gets only the name. Write one that describes the tool
    number has no type hint, so the model can send any value. Add one, such as `number: str`
    """
    documentation = read_documentation(tool.function) or ""
    is_documented = bool(documentation.strip())
    if not is_documented:
        yield (
            "there is no docstring, so the model gets only the name. Write one that "
            "describes the tool"
        )

    yield from _check_generator(tool.function)
    yield from _check_hints(tool)
    if is_documented:
        yield from _check_docstring(tool, documentation)


def _check_generator(function: Callable[..., Any]) -> Iterator[str]:
    """Yield advice if the function is a generator, whose body a call does not run."""
    if inspect.isgeneratorfunction(function):
        example = "a list, such as `return [*values]`"
    elif inspect.isasyncgenfunction(function):
        example = "a list, such as `return [value async for value in values]`"
    else:
        return
    yield (
        "it is a generator function (`yield`), so it does not run, and the model gets only the "
        f"type of the generator. Return {example}"
    )


def _check_hints(tool: PythonTool) -> Iterator[str]:
    """Yield advice about missing and imprecise type hints, and about defaults."""
    parameters = tool.arguments.parameters
    unhinted = [parameter.name for parameter in parameters if not parameter.is_hinted]
    if unhinted:
        has = "has" if len(unhinted) == 1 else "have"
        yield (
            f"{_join_names(unhinted)} {has} no type hint, so the model can send any "
            f"value. Add one, such as `{unhinted[0]}: str`"
        )

    hinted = [parameter for parameter in parameters if parameter.is_hinted]
    any_type = [parameter.name for parameter in hinted if parameter.hint is Any]
    if any_type:
        yield (
            f"{_join_names(any_type)} can be anything (`Any`). Use the type that {tool.name} "
            f"takes, such as `{any_type[0]}: str`"
        )

    for parameter in parameters:
        container = _find_bare_container(parameter.hint)
        if container is not None:
            yield (
                f"the type hint of {parameter.name} does not give the item type of {container}. "
                f"Add it, such as `{_CONTAINER_EXAMPLES[container]}`"
            )
        yield from _check_default(parameter)


def _find_bare_container(hint: object) -> str | None:
    """Return the name of a container without the type of its items, such as `list`, in `hint`."""
    arguments = typing.get_args(hint)
    if not arguments:
        bare_type = typing.get_origin(hint) or hint  # `typing.List` is `list`
        return next((kind.__name__ for kind in _CONTAINERS if kind is bare_type), None)
    return next(filter(None, map(_find_bare_container, arguments)), None)


def _check_default(parameter: FunctionParameter) -> Iterator[str]:
    """Yield advice if the default does not fit the type hint."""
    default = parameter.default
    if default is inspect.Parameter.empty or parameter.hint is Any:
        return
    if fits_type(parameter.hint, default):
        return

    name = parameter.name
    shown = inspect.formatannotation(parameter.hint)
    if default is None:
        found = "None"
        solution = f"`{name}: {shown} | None = None`"
    else:
        found = f"a value of type {type(default).__name__}"
        solution = "a default that fits"
    yield f"the default of {name} is {found}, which does not match `{shown}`. Write {solution}"


def _check_docstring(tool: PythonTool, documentation: str) -> Iterator[str]:
    """Yield advice about undescribed parameters, and about descriptions of no parameter."""
    parameters = tool.arguments.parameters
    properties = as_object(tool.schema.get("properties"))
    undescribed = [
        parameter.name
        for parameter in parameters
        if "description" not in as_object(properties.get(parameter.property))
    ]
    if undescribed:
        pronoun = "it" if len(undescribed) == 1 else "them"
        names = _join_names(undescribed)
        yield f"the docstring does not describe {names}. Describe {pronoun} under `Args:`"

    known = [parameter.name for parameter in parameters]
    if tool.context_name is not None:
        known.append(tool.context_name)

    _, descriptions = read_docstring(documentation)
    for name in descriptions:
        if name in known:
            continue
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f": did you mean {nearest[0]}?" if nearest else ""
        yield f"the docstring describes {name}, which is not a parameter of {tool.name}{hint}"


def _join_names(names: Sequence[str]) -> str:
    beginning = ", ".join(names[:-1])
    return " and ".join(filter(None, [beginning, names[-1]]))
