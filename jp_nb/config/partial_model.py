"""Models of partial configurations, made from the models of the tree; what is wrong with one.

In a partial every field may be absent, or null, which is the same. A list or a text may also be
written as `{value, strategy, …}`, and so may a map whose field says so. Items of lists are whole.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef, Optional, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    JsonValue,
    ValidationError,
    WrapSerializer,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo

from jp_nb.config.paths import format_path
from jp_nb.config.schema import ROOT, SchemaNode, forms_of, is_model, node_at, unknown_key
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.left_out import left_out
from jp_nb.config.tree.model_config import ModelParameters
from jp_nb.config.tree.node import PLAIN, TABLE, TABLE_OR_PLAIN, ShortTable, found
from jp_nb.config.tree.strategy import Merge
from jp_nb.errors import ConfigProblem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# --- values with a strategy ------------------------------------------------------------------

_STRATEGIES = {
    "list": ("append", "prepend", "replace"),
    "text": ("append", "prepend", "replace"),
    "map": ("deep_merge", "merge", "keep", "replace"),
}
_SEPARATORS = ("none", "space", "line", "paragraph")


class _Wrapped(dict[str, Any]):
    """A value with its strategy, as it was read."""


def _choices(kind: str) -> dict[str, tuple[Any, ...]]:
    """What may stand beside `value`."""
    said: dict[str, tuple[Any, ...]] = {
        "strategy": _STRATEGIES[kind],
        "discard_when_merged": (True, False),
    }
    if kind == "list":
        said["dedup"] = (True, False, "inherit")
    if kind == "text":
        said["separator"] = _SEPARATORS
    return said


def _wrapping(kind: str) -> WrapValidator:
    choices = _choices(kind)

    def read(value: Any, handler: Any) -> Any:
        if not isinstance(value, dict) or (
            kind == "map" and not {"value", "strategy"} <= set(value)
        ):
            return handler(value)
        if "value" not in value:
            plain = "a list" if kind == "list" else "a text"
            raise ValueError(
                f"expected {plain}, or a table of value and {', '.join(choices)}, "
                f"found a table of {', '.join(map(str, value)) or 'nothing'}"
            )
        said = {key: one for key, one in value.items() if key != "value" and one is not None}
        for key, one in said.items():
            if key not in choices:
                raise ValueError(
                    f"unknown key {key!r} beside `value`, expected one of: {', '.join(choices)}"
                )
            if not any(one is word or (isinstance(one, str) and one == word)
                       for word in choices[key]):  # fmt: skip
                listed = ", ".join(str(word).lower() for word in choices[key])
                raise ValueError(f"expected for {key!r} one of {listed}, {found(one)}")
        if value["value"] is None:
            raise ValueError("expected something for 'value', found nothing")
        return _Wrapped(value=handler(value["value"]), **said)

    return WrapValidator(read)


def _written(value: Any, handler: Any) -> Any:
    if isinstance(value, _Wrapped):
        return {**value, "value": handler(value["value"])}
    return handler(value)


def _wrappable(field: FieldInfo) -> str | None:
    """`list`, `text` or `map` if the field takes `{value, strategy}`."""
    forms = {
        form if form is str else get_origin(form)
        for form in forms_of(field.annotation)
        if form is not type(None)
    }
    if forms == {str}:
        return "text"
    if forms == {list}:
        return "list"
    annotated = any(isinstance(item, Merge) and item.annotated for item in field.metadata)
    return "map" if forms == {dict} and annotated else None


# --- the models ------------------------------------------------------------------------------


class PartialNode(BaseModel):
    """Any of the fields of a table."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class _PartialParameters(PartialNode):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]


@cache
def partial_of(model: type[BaseModel]) -> type[BaseModel]:
    """The model of any of `model`'s fields. The same one every time."""
    name = f"Partial{model.__name__}"
    fields: dict[str, Any] = {
        key: (_partial_field(field, model), None) for key, field in model.model_fields.items()
    }
    hooks: dict[str, Any] = {}
    if issubclass(model, ShortTable):
        hooks["expand"] = model_validator(mode="before")(_expand_as(model))
    made = create_model(
        name,
        __base__=_PartialParameters if model is ModelParameters else PartialNode,
        __doc__=f"Any of the fields of `{model.__name__}`.",
        __validators__=hooks,
        **fields,
    )
    if any(f"ForwardRef({name!r}" in repr(field) for field, _ in fields.values()):
        made.model_rebuild(_types_namespace={name: made})
    return made


def _expand_as(model: type[ShortTable]) -> Any:
    def expand(cls: type[BaseModel], value: Any) -> Any:
        return model.expand(value)

    return classmethod(expand)


def _partial_field(field: FieldInfo, owner: type[BaseModel]) -> Any:
    # What tells the members of a union apart goes with the union, and what looks at a value that
    # is there goes with that; the rest sees None as well.
    telling = [x for x in field.metadata if x is TABLE_OR_PLAIN or isinstance(x, AfterValidator)]
    metadata = [item for item in field.metadata if item not in telling]
    inner = _with(telling, _partial_type(field.annotation, owner))
    inner = _with(metadata, Optional[inner])  # noqa: UP045 - may be a reference
    kind = _wrappable(field)
    return inner if kind is None else _with([_wrapping(kind), WrapSerializer(_written)], inner)


def _with(metadata: Sequence[Any], annotation: Any) -> Any:
    return Annotated[annotation, *metadata] if metadata else annotation


def _partial_type(annotation: Any, owner: type[BaseModel]) -> Any:
    if is_model(annotation):
        name = f"Partial{annotation.__name__}"
        return ForwardRef(name) if annotation is owner else partial_of(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _with(arguments[1:], _partial_type(arguments[0], owner))
    if origin in (Union, types.UnionType):
        return Union[tuple(_partial_type(one, owner) for one in arguments)]  # noqa: UP007
    if origin is dict and arguments[1] is not JsonValue:
        below = _partial_type(arguments[1], owner)
        entries = types.GenericAlias(dict, (arguments[0], Optional[below]))  # noqa: UP045
        return _with([AfterValidator(_without_absent)], entries)
    return annotation


def _without_absent(entries: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if value is not None}


def normal(partial: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """`partial` with every value in its one written form. It has no problems."""
    read = partial_of(AppConfig).model_validate(partial)
    return read.model_dump(mode="json", exclude_unset=True, exclude_none=True)


# --- what is wrong ---------------------------------------------------------------------------


def placed_problems(
    partial: Mapping[str, JsonValue],
) -> list[tuple[tuple[str, ...], ConfigProblem]]:
    """Everything that is wrong in one layer, each thing once, with the keys that lead to it.

    Left-out settings are wrong.
    """
    try:
        partial_of(AppConfig).model_validate(partial)
    except ValidationError as exc:
        return list(_problems(exc).values())
    return []


def problems_of(exc: ValidationError) -> list[ConfigProblem]:
    """What `exc`, of an `AppConfig` or a partial of it, says in words: one problem a path."""
    return [problem for _, problem in _problems(exc).values() if not left_out(problem.path)]


_HINTS = 20
"""For how many unknown keys the nearest known one is looked for."""


def _problems(exc: ValidationError) -> dict[str, tuple[tuple[str, ...], ConfigProblem]]:
    """The first problem of every path, with its keys."""
    told: dict[str, tuple[tuple[str, ...], ConfigProblem]] = {}
    hints = _HINTS
    for error in exc.errors(include_url=False):
        keys = _keys(error)
        path = format_path(keys)
        if path in told:
            continue
        if error["type"] == "extra_forbidden":
            above, node = keys[:-1], node_at(keys[:-1])
            message = "unknown key"
            if node is not None:
                message = unknown_key(node, keys[-1], above, hint=hints > 0)
            hints -= 1
            told[path] = (keys, ConfigProblem(path, "unknown_key", message))
        else:
            told[path] = (keys, ConfigProblem(path, *_in_words(error, path)))
    return told


_KEY_ITSELF = "[key]"


def _keys(error: ErrorDetails) -> tuple[str, ...]:
    """The keys that lead to an error, without the names that unions give their members."""
    unknown = error["type"] == "extra_forbidden"
    keys: list[str] = []
    nodes: list[SchemaNode | None] = [ROOT]
    told_apart = False
    for part in map(str, error["loc"]):
        node = nodes[-1]
        tagged = node is not None and node.tagged and not told_apart
        if tagged and part in (TABLE.tag, PLAIN.tag):
            told_apart = True
        elif part == _KEY_ITSELF and not unknown and len(nodes) > 1 and _is_map(nodes[-2]):
            break
        else:
            keys.append(part)
            nodes.append(node.child(part) if node is not None else None)
            told_apart = False
    return tuple(keys)


def _is_map(node: SchemaNode | None) -> bool:
    return node is not None and node.kind == "map"


_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "list": "a list",
    "dict": "a table",
    "model": "a table",
    "literal": "one of {expected}",
    "enum": "one of {expected}",
    "finite": "a number",
    "greater": "a number greater than {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "invalid-json-value": "text, numbers, true, false, lists or tables",
}


def _in_words(error: ErrorDetails, path: str) -> tuple[str, str]:
    """Kind and message."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "value", "is needed here, and not set"
    if kind == "value_error":
        return "value", error["msg"].removeprefix("Value error, ")
    expected = _EXPECTED.get(kind) or _EXPECTED.get(kind.partition("_")[0])
    of_value = "value" if kind.partition("_")[0] in ("literal", "greater", "less") else "type"
    if expected is None:
        return of_value, error["msg"]
    return of_value, f"expected {expected.format(**context)}, {found(error['input'], path)}"
