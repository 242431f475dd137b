"""Render the templates in the words (program and arguments) of a command line.

The configuration of a tool is the same as in JP, a command-line assistant, which renders it with
minijinja. Jinja has the same syntax. As in JP, a template has access to JSON values but not to
Python: `tool.arguments.items` is the argument `items`, not the method of a dict.

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
"""Types of JSON values except null. A template reads their keys and items, but no attributes."""


class TemplateError(Exception):
    """A template cannot be rendered. The message contains no value of the call."""


def render(template: str, variables: Mapping[str, JsonValue]) -> str:
    """Render one word of a command line.

    Strings are inserted unchanged, and all other values as compact JSON. A missing value, and any
    attribute of it, is `null`.

    Raises:
        TemplateError: The syntax is invalid, or rendering fails.
    """
    has_markup = any(mark in template for mark in ("{{", "{%", "{#"))
    if not has_markup:
        return template  # Jinja would replace \r\n by \n

    try:
        return _environment().from_string(template).render(variables)
    except JinjaError as exc:
        raise TemplateError(f"Template error: {exc.message or type(exc).__name__}") from exc
    except Exception as exc:  # a template is code that may fail, such as a division by zero
        raise TemplateError(f"Template error: {type(exc).__name__}") from exc


class _Missing(ChainableUndefined):
    """A missing value. Its attributes are missing values too."""

    def __str__(self) -> str:
        return "null"


class _Environment(ImmutableSandboxedEnvironment):
    """Environment in which `value.name` is a key of a JSON value, never a Python attribute.

    Jinja calls `getattr` for `value.name`, and `getitem` for `value["name"]`.
    """

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, _JSON):
            return self.getitem(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if not isinstance(obj, _JSON):
            return super().getitem(obj, argument)
        try:
            return obj[argument]  # type: ignore[index]  # a number raises TypeError
        except (LookupError, TypeError):
            return self.undefined(obj=obj, name=argument)


@cache
def _environment() -> _Environment:
    """Return the environment of all templates, which differs from Jinja's as `render` says."""
    environment = _Environment(
        undefined=_Missing, finalize=_to_text, keep_trailing_newline=True, autoescape=False
    )

    # The user approves a rendered command, and it is rendered again to run: both must be equal.
    del environment.filters["random"]
    del environment.globals["lipsum"]

    # Jinja's own filters escape HTML or write values as Python does, such as `True`.
    environment.filters |= {"tojson": _to_json, "string": _to_text, "join": _join}
    return environment


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else _to_json(value)


def _join(values: Any, joiner: str = "") -> str:
    return joiner.join(map(_to_text, values))


def _to_json(value: Any, indent: bool | int | None = None) -> str:
    """Return `value` as JSON, as the filter `tojson` of minijinja writes it."""
    if isinstance(value, Undefined):
        return "null"

    spaces: int | None = None
    if indent:
        spaces = 2 if indent is True else min(indent, 100)  # as in minijinja
    separators = (",", ":") if spaces is None else (",", ": ")
    return json.dumps(
        value, ensure_ascii=False, separators=separators, indent=spaces, default=_to_json_value
    )


def _to_json_value(value: Any) -> Any:
    """Convert a value that a template created, such as a range."""
    if isinstance(value, Undefined):
        return None
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return list(value)
    except TypeError:
        return str(value)
