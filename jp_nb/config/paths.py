"""Paths into the configuration, and questions about its shape, answered from its annotations.

    path     = key *( "." key / "[" element "]" )
    element  = JSON text / text without "]"

A bracket behind a list names an item of it, by its JSON or by what identifies it; behind a map it
names a key, so that keys with dots have a path too.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue, TypeAdapter
from pydantic.fields import FieldInfo

from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.node import TABLE_OR_PLAIN, shortened
from jp_nb.config.tree.strategy import APPEND, REPLACE, Merge
from jp_nb.errors import ConfigError

Keys = tuple[str, ...]
"""A path, read: see `parse_path`."""
Kind = Literal["table", "map", "list", "text", "scalar", "json"]

# --- paths -----------------------------------------------------------------------------------

_PLAIN_KEY = re.compile(r"[^.\[\]]+")
_BRACKETED = re.compile(r"\[([^\]]*)\]")
_DECODER = json.JSONDecoder()

MAX_LENGTH: Final = 100_000
"""Characters of a path: an item of a list may be named by all that it says."""
MAX_DEPTH: Final = 32
"""Keys of a path, and tables and lists within one another: what lies deeper nobody looks at."""


class Element(str):
    """The last part of a path, in brackets: its text names an item, its `json` is the item."""

    __slots__ = ("json",)
    json: JsonValue

    def __new__(cls, value: JsonValue) -> Element:
        """An item of a list, or a key."""
        text = value if isinstance(value, str) else canonical(value)
        made = super().__new__(cls, text)
        made.json = value
        return made


def is_index(key: str) -> bool:
    """Whether `key` is the number of an item of a list."""
    return key.isascii() and key.isdigit() and len(key) < 10


def canonical(value: JsonValue) -> str:
    """The one JSON text of `value`: compact, keys sorted."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=4096)
def parse_path(path: str) -> tuple[str, ...]:
    """The keys of `path`; what stood in brackets is an `Element`.

    Raises:
        ConfigError: If it is no path.
    """
    keys: list[str] = []
    place = 0
    while place < len(path) <= MAX_LENGTH and len(keys) <= MAX_DEPTH:
        if path[place] == "[":
            element, place = _element(path, place)
            keys.append(element)
        else:
            found = _PLAIN_KEY.match(path, place)
            if found is None:
                break
            keys.append(found[0])
            place = found.end()
        if place == len(path):
            return tuple(keys)
        if path[place] == ".":
            place += 1
        elif path[place] != "[":
            break
    raise ConfigError(
        f"{shortened(path)!r} is no path, expected keys with dots between, at most {MAX_DEPTH}",
        kind="malformed",
    )


def _element(path: str, start: int) -> tuple[Element, int]:
    try:
        value, end = _DECODER.raw_decode(path, start + 1)
        if path[end : end + 1] == "]" and not deeper(value, MAX_DEPTH):
            return Element(value), end + 1
    except (ValueError, RecursionError):
        pass  # the other form: a bare identity
    found = _BRACKETED.match(path, start)
    if found is None or not found[1]:
        raise ConfigError(
            f"{shortened(path)!r}: a bracket is not closed, or empty", kind="malformed"
        )
    return Element(found[1]), found.end()


def deeper(value: object, depth: int) -> bool:
    """Whether more than `depth` tables and lists lie within one another in `value`."""
    level = [value]
    while level := [x for x in level if isinstance(x, (dict, list))]:
        if depth == 0:
            return True
        depth -= 1
        level = [x for one in level for x in (one.values() if isinstance(one, dict) else one)]
    return False


def end_of_path(text: str) -> int:
    """Where the first `=` of `text` is that no brackets of a path hold; -1 if nowhere."""
    place = 0
    while place < len(text) and text[place] != "=":
        if text[place] != "[":
            place += 1
            continue
        try:
            _, place = _element(text, place)
        except ConfigError:
            return text.find("=", place)  # said by who reads the path
    return place if place < len(text) else -1


def format_path(keys: Sequence[str]) -> str:
    """The path that `parse_path` reads as `keys`."""
    text = ""
    for key in keys:
        if isinstance(key, Element):
            text += f"[{canonical(key.json)}]"
        elif _PLAIN_KEY.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f"[{canonical(key)}]"
    return text


# --- the schema ------------------------------------------------------------------------------


class Node:
    """One place of the schema.

    Attributes:
        annotation: What stands in the tree, metadata and all forms included.
        kind: `table` (named fields, perhaps with shorthands), `map` (free keys), `list`, `text`,
            `scalar` (numbers, closed sets of words, several of those), `json` (anything).
        table: The model of a `table`.
        merge: How a later value meets an earlier one.
        optional: Whether nothing is a value too.
        tagged: Whether validation tells a table here from something plain.
    """

    def __init__(self, annotation: Any, metadata: Sequence[Any] = ()) -> None:
        self.annotation = Annotated[annotation, *metadata] if metadata else annotation
        _, found = _bare(annotation)
        forms = forms_of(annotation)
        self.optional = type(None) in forms
        forms = [form for form in forms if form is not type(None)]
        self.kind: Kind = _kind(forms)
        self.optional = self.optional or self.kind == "json"
        self.table: type[BaseModel] | None = next((f for f in forms if is_model(f)), None)
        self._below = [get_args(f)[-1] for f in forms if get_origin(f) in (dict, list)]
        own = [item for item in (*metadata, *found) if isinstance(item, Merge)]
        self.merge = own[0] if own else (APPEND if self.kind == "list" else REPLACE)
        self.tagged = _is_tagged(self.annotation)
        self._fields: dict[str, Node] = {}

    def __repr__(self) -> str:
        return f"<{self.kind} {self.annotation}>"

    @cached_property
    def item(self) -> Node:
        """What an item of the list, or a value of the map, is."""
        return JSON if self.kind == "json" else Node(self._below[0])

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """A validator of a whole value."""
        annotation: Any = self.annotation
        return TypeAdapter(annotation)

    def child(self, key: str) -> Node | None:
        """What is below at `key`; None if there is no such field. Maps answer for every key."""
        match self.kind:
            case "json":
                return JSON
            case "map":
                return self.item
            case "list":
                return self.item if is_index(key) or isinstance(key, Element) else None
            case "table":
                return self._field(key)
        return None

    def _field(self, key: str) -> Node | None:
        assert self.table is not None
        if key not in self._fields:
            field = self.table.model_fields.get(key) or self._by_alias(key)
            if field is None:
                return self._extra
            self._fields[key] = Node(field.annotation, field.metadata)
        return self._fields[key]

    def _by_alias(self, key: str) -> FieldInfo | None:
        fields = self.table.model_fields.values() if self.table else ()
        return next((field for field in fields if key == field.alias), None)

    @cached_property
    def _extra(self) -> Node | None:
        """What keys hold that no field names, where those are allowed."""
        table = self.table
        if table is None or table.model_config.get("extra") != "allow":
            return None
        extra = table.__annotations__.get("__pydantic_extra__")
        if extra is None:
            return JSON
        hints = _extra_hint(table)
        return JSON if hints is None else Node(hints)

    @cached_property
    def fields(self) -> dict[str, Node]:
        """The named fields of a table."""
        if self.table is None:
            return {}
        names = [field.alias or name for name, field in self.table.model_fields.items()]
        found = {name: self._field(name) for name in names}
        return {name: node for name, node in found.items() if node is not None}

    @property
    def words(self) -> list[str]:
        """The words that may stand here, if it is a closed set (or partly one)."""
        found: list[str] = []
        for form in forms_of(self.annotation):
            if form is bool:
                found += ["true", "false"]
            elif get_origin(form) is Literal:
                found += [str(word) for word in get_args(form)]
        return found

    @cached_property
    def takes_any_text(self) -> bool:
        """Whether a text stands for itself here, whatever it says."""
        return self.kind in ("json", "text") or str in forms_of(self.annotation)

    @property
    def requires(self) -> list[str]:
        """The fields of a table that have no default."""
        if self.table is None:
            return []
        fields = self.table.model_fields.items()
        return [field.alias or name for name, field in fields if field.is_required()]


def _kind(forms: Sequence[Any]) -> Kind:
    if any(is_model(form) for form in forms):
        return "table"
    if any(_is_json(form) for form in forms):
        return "json"
    origins = {get_origin(form) for form in forms}
    if origins == {dict}:
        return "map"
    if origins == {list}:
        return "list"
    return "text" if list(forms) == [str] else "scalar"


def is_model(annotation: Any) -> bool:
    """Whether `annotation` is a pydantic model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _bare(annotation: Any) -> tuple[Any, list[Any]]:
    """`annotation` without metadata, and the metadata."""
    found: list[Any] = []
    while not _is_json(annotation):
        if get_origin(annotation) is Annotated:
            annotation, *metadata = get_args(annotation)
            found += metadata
        elif hasattr(annotation, "__value__"):  # `type X = …`
            annotation = annotation.__value__
        else:
            break
    return annotation, found


def forms_of(annotation: Any) -> list[Any]:
    """The members of a union, otherwise the annotation alone, without metadata."""
    bare, _ = _bare(annotation)
    if get_origin(bare) in (Union, types.UnionType):
        return [form for arg in get_args(bare) for form in forms_of(arg)]
    return [bare]


def _is_tagged(annotation: Any) -> bool:
    bare, found = _bare(annotation)
    members = get_args(bare) if get_origin(bare) in (Union, types.UnionType) else ()
    return TABLE_OR_PLAIN in found or any(_is_tagged(member) for member in members)


def _is_json(annotation: Any) -> bool:
    return annotation is Any or getattr(annotation, "__name__", None) == "JsonValue"


def _extra_hint(table: type[BaseModel]) -> Any:
    """What the values of a table's free keys are; None if anything."""
    from typing import get_type_hints

    hint = get_type_hints(table, include_extras=True).get("__pydantic_extra__")
    arguments = get_args(_bare(hint)[0])
    return None if len(arguments) != 2 or _is_json(arguments[1]) else arguments[1]


JSON: Final = Node(JsonValue)
ROOT: Final = Node(AppConfig)


def node_at(keys: Sequence[str]) -> Node | None:
    """The node below the root at `keys`; None if the schema has none."""
    node: Node | None = ROOT
    for key in keys:
        node = node.child(key) if node is not None else None
    return node


def node_of(path: str) -> Node | None:
    """The node at `path`, "" for the root; None if the schema has none, or it is no path."""
    try:
        return node_at(parse_path(path)) if path else ROOT
    except ConfigError:
        return None


def unknown_key(node: Node, key: str, above: Sequence[str] = (), *, hint: bool = True) -> str:
    """What to say about `key`, which `node` does not have.

    Args:
        node: Where it was looked for.
        key: What was looked for.
        above: The keys that lead to `node`.
        hint: Whether to look for the nearest key, which takes its time.
    """
    if node.kind == "list":
        return "expected the number of an item, or an item in brackets"
    known = sorted(node.fields)
    if not known:
        return "unknown key, nothing lies below it"
    near = difflib.get_close_matches(key, known, n=1) if hint else []
    meant = f"did you mean {format_path([*above, near[0]])!r}? " if near else ""
    return f"unknown key, {meant}expected one of: {', '.join(known)}"


def is_map(path: str) -> bool:
    """Whether free keys lie below `path`: where `*` may stand for one, and one may be unset."""
    node = node_of(path)
    return node is not None and (node.kind in ("map", "json") or node._extra is not None)


def is_list(path: str) -> bool:
    """Whether items lie at `path`, that may be unset one by one."""
    node = node_of(path)
    return node is not None and node.kind == "list"


def is_optional_scalar(path: str) -> bool:
    """Whether one value stands at `path` that may also be absent for good."""
    node = node_of(path)
    return node is not None and node.optional and node.kind in ("text", "scalar", "json", "table")


def fields() -> list[str]:
    """The path of every field of the tree, `*` for a key of a map; lists are not entered."""
    return list(_fields(ROOT, (), ()))


def _fields(node: Node, keys: tuple[str, ...], above: tuple[Any, ...]) -> list[str]:
    found: list[str] = []
    if node.table in above:
        return found  # a table that may hold itself
    below = dict(node.fields)
    if node.kind == "map":
        below["*"] = node.item
    for key, child in below.items():
        path = (*keys, key)
        inner = _fields(child, path, (*above, node.table) if node.table else above)
        found += inner if inner and child.kind != "json" else []
        if not inner or child.kind != "table" or child.takes_any_text:
            found.append(format_path(path))
    return found


def variable(path: str) -> str:
    """The environment variable that sets `path` (`docs/decisions.md` D14)."""
    from jp_nb.config.defaults import ENVIRONMENT_PREFIX

    return ENVIRONMENT_PREFIX + "__".join(parse_path(path)).upper()


def lookup(value: Any, keys: Sequence[str]) -> Any:
    """What lies in nested objects and lists below `keys`; None if nothing."""
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(str(key))
        elif isinstance(value, list) and is_index(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
