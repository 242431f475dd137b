"""What a model is not told about a Python tool, and what to write so that it is.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from jp_nb.json_values import as_object
from jp_nb.tooling.python import PythonTool, read_docstring

_CONTAINERS: Final = (list, dict, set, frozenset, tuple)


def advice(tool: PythonTool) -> tuple[str, ...]:
    """Return what would tell the model more about `tool`, a sentence each; nothing is a good sign.

    >>> from jp_nb.tooling.python import PythonTool
    >>> def halve(number): return number / 2
    >>> for sentence in advice(PythonTool(halve)): print(sentence)
    there is no docstring, so the model gets only the name. Write one that describes the tool
    number has no type hint, so the model can send any value. Add one, such as `number: str`
    """
    return tuple(_sentences(tool))


def _sentences(tool: PythonTool) -> Iterator[str]:
    hints = typing.get_type_hints(tool.function, include_extras=True)
    parameters = dict(inspect.signature(tool.function).parameters)
    properties = as_object(tool.schema.get("properties"))
    taken = [name for name in parameters if name in properties]  # not the context
    documented = bool((tool.function.__doc__ or "").strip())
    if not documented:
        yield (
            "there is no docstring, so the model gets only the name. Write one that "
            "describes the tool"
        )
    if names := [name for name in taken if name not in hints]:
        yield (
            f"{_listed(names)} {_has(names)} no type hint, so the model can send any "
            f"value. Add one, such as `{names[0]}: str`"
        )
    if names := [name for name in taken if hints.get(name) is Any]:
        yield (
            f"{_listed(names)} can be anything (`Any`). Use the type that {tool.name} "
            f"takes, such as `{names[0]}: str`"
        )
    for name in taken:
        if (bare := _bare(hints.get(name))) is not None:
            example = f"{bare}[str, int]" if bare == "dict" else f"{bare}[str]"
            yield (
                f"the type hint of {name} does not give the item type of {bare}. Add it, such "
                f"as `{example}`"
            )
        yield from _default(name, hints.get(name, Any), parameters[name].default)
    if documented:
        silent = [name for name in taken if "description" not in as_object(properties[name])]
        yield from _docstring(tool, silent, list(parameters))


def _docstring(tool: PythonTool, silent: Sequence[str], parameters: Sequence[str]) -> Iterator[str]:
    _, described = read_docstring(tool.function.__doc__)
    unknown = [name for name in described if name not in parameters]
    if silent:
        what = "it" if len(silent) == 1 else "them"
        yield (f"the docstring does not describe {_listed(silent)}. Describe {what} under `Args:`")
    for name in unknown:
        near = difflib.get_close_matches(name, parameters, n=1)
        hint = f": did you mean {near[0]}?" if near else ""
        yield f"the docstring describes {name}, which is not a parameter of {tool.name}{hint}"


def _default(name: str, hint: Any, default: object) -> Iterator[str]:
    """Yield what is wrong with a default that a model could not have sent."""
    if default is inspect.Parameter.empty or hint is Any:
        return
    try:
        TypeAdapter(hint).validate_python(default)
    except ValidationError:
        shown = inspect.formatannotation(hint)
        kind = "None" if default is None else f"a value of type {type(default).__name__}"
        how = f"`{name}: {shown} | None = None`" if default is None else "a default that fits"
        yield f"the default of {name} is {kind}, which does not match `{shown}`. Write {how}"
    except Exception:  # a validator of the user's own: the call will say so
        return


def _bare(hint: object) -> str | None:
    """Return the name of a container somewhere in `hint` that does not say what it holds."""
    inside = typing.get_args(hint)
    if not inside:
        kind = typing.get_origin(hint) or hint
        return next((each.__name__ for each in _CONTAINERS if kind is each), None)
    return next((found for each in inside if (found := _bare(each)) is not None), None)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
