"""Change a TOML configuration file and keep its comments.

A change is made twice: in the settings of the file (`Partial`, a table as JSON), and in its TOML
document, which keeps comments and order. It is written only if the document then has exactly the
values of the settings.

A *node* is the type of a setting in the schema. A `Change` unsets paths, then merges the settings
in its `delta`. A *wrapper* is a value with a merge strategy, `{value = […], strategy = "append"}`,
and `strip_strategies` returns the settings without them. A table such as a model id may have a
*short form*, a text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import JsonValue
from tomlkit.exceptions import TOMLKitError

from jp_nb.config.assignments import parse_assignment
from jp_nb.config.directives import Directive
from jp_nb.config.layers import Layer, parse_layer
from jp_nb.config.partials.partial import Partial, is_wrapper
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.partials.setting_leaves import remove_empty
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at, require_node
from jp_nb.config.setting_paths import PathKeys, format_path, look_up, parse_path
from jp_nb.errors import ConfigError, StorageError, UsageError
from jp_nb.file_writing import replace_file, resolve_write_target
from jp_nb.storage.files import ForeignFileError, read_owned_file

BYTE_ORDER_MARK = "\ufeff"


class ConfigFile:
    """A configuration file, which may not exist yet, with changes in memory.

    Raises:
        ConfigError: The current content is invalid.
        StorageError: The file cannot be read, or is not owned.
    """

    def __init__(self, path: Path, layer: str) -> None:
        try:  # only the user's configuration file may be a link to another folder
            is_own = layer == "user file"
            self.path = Path(os.path.realpath(path)) if is_own else resolve_write_target(path)
        except OSError as exc:
            raise StorageError(f"{path} cannot be changed: {exc.strerror}") from exc

        self.paths: list[str] = []
        """Paths of the changed settings, in order."""

        self._layer = layer
        text = self._read_text()
        self._mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
        self._partial = parse_layer(text, layer, str(self.path)).partial
        self._document = tomlkit.parse(text.removeprefix(BYTE_ORDER_MARK))

    def _read_text(self) -> str:
        try:
            return read_owned_file(self.path).decode("utf-8")
        except FileNotFoundError:
            return ""
        except ForeignFileError as exc:  # saving it would make the user own the foreign settings
            raise StorageError(f"the file cannot be changed: {exc}") from exc
        except (OSError, UnicodeDecodeError) as exc:
            raise StorageError(f"{self.path} cannot be read: {exc}") from exc

    def change(self, directive: Directive) -> None:
        """Apply `directive` in memory.

        Raises:
            ConfigError: A path or value is invalid.
            UsageError: The directive sets nothing that a file can store.
        """
        match directive.kind:
            case "cfg":
                change = parse_assignment(directive.text, self._partial, layer=self._layer)
            case "unset":
                require_node(directive.text)
                change = Change(unsets=(directive.text,))
            case _:
                raise UsageError(
                    "a file takes PATH=VALUE, PATH:=JSON, PATH+=VALUE, and --unset PATH"
                )

        after = apply_change(self._partial, change)
        changed = [*change.unsets, *map(format_path, _iter_written_keys(change.delta))]
        paths = dict.fromkeys(changed)

        if not paths:
            raise UsageError(f"{directive.text!r} sets nothing that a file can store")

        self._write(paths, after)
        self._partial = after
        self.paths += [path for path in paths if path not in self.paths]

    def _write(self, paths: Iterable[str], after: Partial) -> None:
        """Write the values of `after` at `paths` into the TOML document.

        A new table becomes a section. TOML allows no section below a dotted or inline table, so the
        second try writes new tables inline. A try counts only if the document then has exactly the
        values of `after`.
        """
        original = tomlkit.dumps(self._document)

        for inline in (False, True):
            with suppress(TOMLKitError, TypeError, ValueError, ConfigError):
                for path in paths:
                    self._write_value(parse_path(path), after, inline=inline)

                written = strip_strategies(self.layer().partial)
                if remove_empty(written) == remove_empty(strip_strategies(after)):
                    return

            self._document = tomlkit.parse(original)  # undo an incomplete try

        raise ConfigError(
            f"{self.path} has a layout that cannot be changed automatically: edit the file yourself"
        )

    def _write_value(self, keys: PathKeys, after: Partial, *, inline: bool) -> None:
        """Write the value of `after` at `keys`, or at the first parent that is written as a whole.

        That is a list, a short form, or with `inline` a table that does not exist yet.
        """
        table: Any = self._document

        # Descend to the table that has the value, and make the missing ones.
        for depth, key in enumerate(keys, start=1):
            present = table.get(str(key))
            node = node_at(keys[:depth])
            value: JsonValue = look_up(after, keys[:depth])

            is_end = depth == len(keys) or (node is not None and node.kind == "list")
            is_new_inline = present is None and inline
            # Such as a model id as a text, of which a field is changed.
            has_short_form = present is not None and not isinstance(present, MutableMapping)
            if is_end or is_new_inline or has_short_form:
                _set_item(table, str(key), _shorten_model(value, node))
                return

            if present is None:
                if look_up(after, keys) is None:
                    return  # nothing to unset
                # A table with only tables in it needs no own header.
                table[str(key)] = tomlkit.table(is_super_table=depth + 1 < len(keys))

            table = table[str(key)]

    def layer(self) -> Layer:
        """Return the layer of the changed file."""
        return parse_layer(self.text(), self._layer, str(self.path))

    def text(self) -> str:
        """Return the text of the changed file."""
        return self._mark + tomlkit.dumps(self._document)

    def save(self) -> None:
        """Write the file atomically, and create a missing folder.

        Raises:
            StorageError: The file cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, self.text().encode("utf-8"))
        except OSError as exc:
            raise StorageError(f"{self.path} cannot be written: {exc}") from exc


def _set_item(table: Any, key: str, value: JsonValue) -> None:
    """Set the item `key` of a TOML table; remove it if `value` is None."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = _to_toml(value)  # keeps a comment after the old value


def _iter_written_keys(
    partial: Mapping[str, JsonValue], node: SchemaNode = ROOT, above: PathKeys = ()
) -> Iterator[PathKeys]:
    """Yield the keys of each value of `partial` that is written as a whole."""
    for key, value in partial.items():
        keys = (*above, key)
        child = node.child(key) or JSON

        # A table with a short form is written as a whole.
        is_group = child.kind in ("table", "map") and not child.takes_any_text
        if isinstance(value, dict) and value and is_group and not is_wrapper(value, child):
            yield from _iter_written_keys(value, child, keys)
        elif value is not None:
            yield keys


def _shorten_model(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """Return a model id as `provider/name`, and other values unchanged."""
    is_model = node is not None and node.required_fields == ["provider", "name"]
    if is_model and isinstance(value, dict) and value.keys() == {"provider", "name"}:
        return f"{value['provider']}/{value['name']}"
    return value


def _to_toml(value: JsonValue) -> Any:
    """Return `value` as inline TOML. Raise `ValueError` for null in a list."""
    if isinstance(value, dict):
        table = tomlkit.inline_table()

        for key, item in value.items():
            if item is not None:
                table.append(key, _to_toml(item))
        return table
    if isinstance(value, list):
        if None in value:
            raise ValueError("TOML has no null")

        array = tomlkit.array()
        for item in value:
            array.append(_to_toml(item))
        return array

    return tomlkit.item(value)
