"""Fills values of a call into the words of a command line.

JP renders them with minijinja, which has the syntax of Jinja. Here too a template sees JSON and
nothing of Python: `tool.arguments.items` is the argument of that name, not a method.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import ChainableUndefined, Undefined
from jinja2 import TemplateError as JinjaError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import JsonValue

_JSON = (str, int, float, list, dict)


class TemplateError(Exception):
    """A word cannot be rendered. Its text holds no value of the call."""


def render(template: str, variables: Mapping[str, JsonValue]) -> str:
    """Return one word of a command line, with the values filled in.

    Texts and numbers are filled in as they are, `true`, `false` and `null` as JSON writes them,
    objects and lists as compact JSON. What is missing is `null`, and so is what is below it.

    Raises:
        TemplateError: If it is no template, or rendering it fails.
    """
    if not any(sign in template for sign in ("{{", "{%", "{#")):
        return template  # to the letter; in a template, Jinja rewrites line ends to \n
    try:
        return _environment().from_string(template).render(variables)
    except JinjaError as exc:
        raise TemplateError(f"Template error: {exc.message or type(exc).__name__}") from exc
    except Exception as exc:  # a template is code: it may divide by zero, recurse, and so on
        raise TemplateError(f"Template error: {type(exc).__name__}") from exc


class _Missing(ChainableUndefined):
    def __str__(self) -> str:
        return "null"


class _Environment(ImmutableSandboxedEnvironment):
    """Sees nothing of a JSON value but its members."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return (
            self.getitem(obj, attribute)
            if isinstance(obj, _JSON)
            else super().getattr(obj, attribute)
        )

    def getitem(self, obj: Any, argument: Any) -> Any:
        if not isinstance(obj, _JSON):
            return super().getitem(obj, argument)
        try:
            return obj[argument]  # type: ignore[index]  # a number has none, which is caught
        except (LookupError, TypeError):
            return self.undefined(obj=obj, name=argument)


@cache
def _environment() -> _Environment:
    environment = _Environment(
        undefined=_Missing, finalize=_filled_in, keep_trailing_newline=True, autoescape=False
    )
    # What was shown to a person is rendered again when it runs: the same, every time.
    del environment.filters["random"], environment.globals["lipsum"]
    environment.filters |= {"tojson": _to_json, "string": _filled_in, "join": _join}
    return environment


def _filled_in(value: Any) -> str:
    return value if isinstance(value, str) else _to_json(value)


def _join(values: Any, joiner: str = "") -> str:
    return joiner.join(map(_filled_in, values))


def _to_json(value: Any, indent: bool | int | None = None) -> str:
    """Return `value` as JSON, also what a template made, such as a range.

    An `indent` of true is one of two spaces, as in minijinja.
    """
    if isinstance(value, Undefined):
        return "null"
    spaces = min(2 if indent is True else indent, 100) if indent else None
    separators = (",", ":") if spaces is None else (",", ": ")
    return json.dumps(
        value, ensure_ascii=False, separators=separators, indent=spaces, default=_plain
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Undefined):
        return None
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return list(value)
    except TypeError:
        return str(value)
