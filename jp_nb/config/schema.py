"""Look up the types of settings in the schema of the configuration, by their paths.

The schema is made of the pydantic models in `tree/`. A `SchemaNode` is the type of one setting,
with its rule for merges. `ROOT` is the node of the whole configuration, and `JSON` that of free
JSON. A key in brackets, which may name an item of a list, is an `Element`.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, JsonValue, TypeAdapter

from jp_nb.config.setting_paths import (
    Element,
    PathKeys,
    format_path,
    is_index,
    parse_path,
    try_parse_path,
)
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.base import TABLE_OR_PLAIN_FORM, ShortTable
from jp_nb.config.tree.ignored_settings import is_ignored
from jp_nb.config.tree.merge_rules import APPEND_MERGE, REPLACE_MERGE, Merge
from jp_nb.errors import ConfigError

NodeKind = Literal["table", "map", "list", "text", "scalar", "json"]
"""A table has named fields, perhaps with short forms, and a map free keys. A scalar is a number, a
closed set of words, or a union of these."""

_fields_of: dict[type[BaseModel] | None, dict[str, SchemaNode]] = {}
"""Nodes of the fields of each table, created on first use.

All nodes of a table share these, because a table can contain itself: a parameter has parameters.
Other kinds have no fields; they share the empty entry of None.
"""


class SchemaNode:
    """One setting, table, or item in the schema.

    It is made of the annotation of a pydantic field, such as `Annotated[list[str], APPEND_MERGE]`.

    Attributes:
        annotation: The annotation, with all metadata.
        forms: The members of a union, or the only type, without metadata and None.
        kind: The kind of the value.
        optional: True if the value can be None.
        table: The pydantic model of a table; None for other kinds.
        merge: The merge rule.
        tagged: True if the union has the discriminator `TABLE_OR_PLAIN_FORM`, for a table or
            another value. Pydantic then adds the form that it read to the location of an error.
    """

    def __init__(self, annotation: Any, metadata: Sequence[Any] = ()) -> None:
        self.annotation = Annotated[annotation, *metadata] if metadata else annotation
        forms, self._metadata = _split_annotation(self.annotation)
        self.forms = [form for form in forms if form is not type(None)]
        self.kind = _find_kind(self.forms)
        self.optional = len(self.forms) < len(forms) or self.kind == "json"
        self.table: type[BaseModel] | None = next(filter(_is_model, self.forms), None)

        # Of a map, the types of its keys and values; of a list, the type of its items.
        containers = (form for form in self.forms if get_origin(form) in (dict, list))
        self._type_arguments = get_args(next(containers, None))

        merges = (item for item in self._metadata if isinstance(item, Merge))
        default = APPEND_MERGE if self.kind == "list" else REPLACE_MERGE
        self.merge = next(merges, default)
        self.tagged = TABLE_OR_PLAIN_FORM in self._metadata
        self._fields = _fields_of.setdefault(self.table, {})

    def __repr__(self) -> str:
        return f"<{self.kind} {self.annotation}>"

    @cached_property
    def item(self) -> SchemaNode:
        """The node of the items of a list, or of the values of a map or of free JSON."""
        item_type = JsonValue if self.kind == "json" else self._type_arguments[-1]
        return JSON if item_type is JsonValue else SchemaNode(item_type)

    @cached_property
    def key(self) -> TypeAdapter[str]:
        """Validator for a key of the map."""
        return TypeAdapter(self._type_arguments[0])

    @cached_property
    def shorthands(self) -> list[Callable[[Any], Any]]:
        """Functions that turn short forms of the value into its full form, in the order of use.

        A layer of the configuration is read with them before its tables are validated by parts
        (`layer_reading.py`). The order is that of pydantic, which runs the last validator first.
        """
        validators = [item for item in self._metadata if isinstance(item, BeforeValidator)]
        return [cast(Callable[[Any], Any], item.func) for item in reversed(validators)]

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Validator for a whole value."""
        annotation: Any = self.annotation
        return TypeAdapter(annotation)

    def child(self, key: str) -> SchemaNode | None:
        """Return the node at `key` below this one, or None. A map has a node for every key."""
        if (known := self._fields.get(key)) is not None:
            return known

        match self.kind:
            case "json":
                return JSON
            case "map":
                return self.item
            case "list":
                return self.item if is_index(key) or isinstance(key, Element) else None
            case "table":
                return self._find_field(key)
        return None

    def _find_field(self, key: str) -> SchemaNode | None:
        """Return the node of a field of this table, which is kept; None if it has no such field."""
        field = self.table.model_fields.get(key) if self.table is not None else None
        if field is None:
            return JSON if self.has_free_keys else None

        node = SchemaNode(field.annotation, field.metadata)
        return self._fields.setdefault(key, node)

    @property
    def has_plain_form(self) -> bool:
        """True for a table that can have a plain value instead, such as `reasoning = "auto"`."""
        return self.table is not None and self.tagged

    @property
    def has_short_form(self) -> bool:
        """True for a table that can also be written as another value.

        The other value is a plain form, or a text that expands to the table (`ShortTable`).
        """
        return self.has_plain_form or (
            self.table is not None and issubclass(self.table, ShortTable)
        )

    @property
    def has_free_keys(self) -> bool:
        """True for a table that accepts unknown keys, with any JSON as value."""
        return self.table is not None and self.table.model_config.get("extra") == "allow"

    @cached_property
    def fields(self) -> dict[str, SchemaNode]:
        """The named fields of a table, in the order of the model."""
        if self.table is None:
            return {}

        nodes = {name: self.child(name) for name in self.table.model_fields}
        return {name: node for name, node in nodes.items() if node is not None}

    @property
    def choices(self) -> list[str]:
        """The words that the setting accepts, such as `true` and `false`."""
        choices: list[str] = []
        for form in self.forms:
            if form is bool:
                choices += ["true", "false"]
            elif get_origin(form) is Literal:
                choices += [str(word) for word in get_args(form)]
        return choices

    @cached_property
    def takes_any_text(self) -> bool:
        """True if any text is a valid value."""
        return self.kind in ("json", "text") or str in self.forms

    @property
    def required_fields(self) -> list[str]:
        """The fields of a table that have no default."""
        fields = self.table.model_fields if self.table is not None else {}
        return [name for name, field in fields.items() if field.is_required()]


def _find_kind(forms: Sequence[Any]) -> NodeKind:
    """Return the kind of a value whose type is one of `forms`."""
    if any(map(_is_model, forms)):
        return "table"
    if Any in forms or JsonValue in forms:
        return "json"

    origins = {get_origin(form) for form in forms}
    if origins == {dict}:
        return "map"
    if origins == {list}:
        return "list"
    return "text" if list(forms) == [str] else "scalar"


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _split_annotation(annotation: Any) -> tuple[list[Any], list[Any]]:
    """Return the members of a union, or the only type, and all metadata, the outermost last.

    For `Annotated[Annotated[int, A] | None, B]`, these are `[int, NoneType]` and `[A, B]`.
    """
    own: Sequence[Any] = ()
    if get_origin(annotation) is Annotated:
        annotation, *own = get_args(annotation)

    if get_origin(annotation) not in (Union, types.UnionType):
        return [annotation], [*own]

    members = [_split_annotation(member) for member in get_args(annotation)]
    forms: list[Any] = []
    metadata: list[Any] = []
    for member_forms, member_metadata in members:
        forms += member_forms
        metadata += member_metadata

    return forms, [*metadata, *own]


JSON: Final = SchemaNode(JsonValue)
ROOT: Final = SchemaNode(AppConfig)


def node_at(keys: Sequence[str]) -> SchemaNode | None:
    """Return the node at `keys` below the root, or None."""
    node: SchemaNode | None = ROOT
    for key in keys:
        node = node.child(key) if node is not None else None
    return node


def mark_items(keys: Sequence[str]) -> PathKeys:
    """Return `keys`, of which only those that are items of lists remain an `Element`.

    A key of a map may be written in brackets, as in `labels["a.b"]`, so `parse_path`, which does
    not use the schema, returns an `Element` for it too.
    """
    marked: list[str] = []
    for depth, key in enumerate(keys):
        node = node_at(keys[:depth])
        is_item = node is not None and node.kind == "list"
        marked.append(key if is_item else str(key))
    return tuple(marked)


def find_node(path: str) -> SchemaNode | None:
    """Return the node at `path`, or the root for ""; None if there is none."""
    keys = try_parse_path(path) if path else ()
    return node_at(keys) if keys is not None else None


def require_node(path: str) -> SchemaNode:
    """Return the node at `path`.

    Raises:
        ConfigError: There is no such setting. The message suggests a similar key.
    """
    node = ROOT

    keys = parse_path(path)
    for depth, key in enumerate(keys):
        child = node.child(key)
        if child is None:
            known = describe_keys(node, key, keys[:depth])
            message = known if node.kind == "list" else f"unknown key, {known}"
            raise ConfigError(
                message,
                path=format_path(keys[: depth + 1]),
                kind="unknown_key",
            )

        node = child
    return node


def describe_keys(
    node: SchemaNode, key: str, above: Sequence[str] = (), *, hint: bool = True
) -> str:
    """Return the keys of `node`, at the path `above`, for the message about its unknown `key`.

    `hint` adds a similar key. The search is slow.
    """
    if node.kind == "list":
        return "expected the number of an item, or an item in brackets"
    if is_ignored([*above, key]):
        return "notebooks do not use this setting"

    known = sorted(node.fields)
    if not known:
        return "this setting has no keys"

    near = difflib.get_close_matches(key, known, n=1) if hint else []
    meant = f"did you mean {format_path([*above, near[0]])!r}? " if near else ""
    return f"{meant}expected one of: {', '.join(known)}"
