"""Questions about the shape of the configuration, answered from its annotations.

Source: `spec/config.md` section 9.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter

from jp_nb.config.app_config import AppConfig, ModelParameters


class _Marker:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


FREE_MAP: Final = _Marker("any JSON")
"""A place that holds any JSON: objects merge, everything else replaces."""


@cache
def child(node: Any, key: str) -> Any:
    """The node below `node` at `key`: a model class, a map or list type, a leaf type.

    None if there is no such field. Maps answer for every key.
    """
    if isinstance(node, type) and issubclass(node, BaseModel):
        field = node.model_fields.get(key)
        if field is None:
            return FREE_MAP if issubclass(node, ModelParameters) else None
        return strip(field.annotation)
    if node is FREE_MAP:
        return FREE_MAP
    if get_origin(node) is dict:
        value = get_args(node)[1]
        return FREE_MAP if _is_json(value) else strip(value)
    if get_origin(node) is list and key.isdigit():
        return strip(get_args(node)[0])
    return None


def strip(annotation: Any) -> Any:
    """`annotation` without metadata and without None; the one table among several forms."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [strip(a) for a in get_args(annotation) if a is not type(None)]
        tables = [m for m in members if isinstance(m, type) and issubclass(m, BaseModel)]
        if tables:
            return tables[0]
        return members[0] if len(members) == 1 else annotation
    return FREE_MAP if _is_json(annotation) else annotation


def _is_json(annotation: Any) -> bool:
    return getattr(annotation, "__name__", None) == "JsonValue" or annotation is Any


def node_of(path: str) -> Any:
    """The node at the dotted `path`; None if the schema has none."""
    node: Any = AppConfig
    for key in path.split(".") if path else ():
        node = child(node, key)
        if node is None:
            return None
    return node


def is_table(node: Any) -> bool:
    """Whether `node` has named fields."""
    return isinstance(node, type) and issubclass(node, BaseModel)


@cache
def field_annotation(path: str) -> Any:
    """The full annotation at `path`, metadata and union members included."""
    parent, _, key = path.rpartition(".")
    node = node_of(parent)
    if is_table(node) and key in node.model_fields:
        field = node.model_fields[key]
        return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    if get_origin(node) is dict:
        return get_args(node)[1]
    if get_origin(node) is list:
        return get_args(node)[0]
    return Any


@cache
def adapter(path: str) -> TypeAdapter[Any]:
    """A validator of one value at `path`."""
    return TypeAdapter(field_annotation(path))
