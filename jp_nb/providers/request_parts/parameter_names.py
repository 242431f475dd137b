"""Names of a tool's parameters in the form that an API accepts, and back.

An API that refuses one name would refuse every request that offers the tool.

Source: `docs/providers.md` (names and ids of tool calls).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import unquote

from pydantic import JsonValue

from jp_nb.json_reading import read_json
from jp_nb.json_schema import Schema, map_schemas
from jp_nb.json_values import JsonObject
from jp_nb.providers.request_parts.call_rules import CallRules
from jp_nb.providers.schemas.tool_parameters import get_parameter_schema
from jp_nb.record.request_context.request_head import ToolDefinition

_HOLDERS: Final = frozenset({"properties", "dependentSchemas"})
"""Keywords whose members have the names of parameters."""


class ParameterNames:
    """The accepted names of the parameters of a tool, those of nested objects included.

    They depend only on the tool, so each request has the same bytes. `sent` has the accepted name
    of each parameter whose own name is not accepted.
    """

    def __init__(self, schema: Schema, sent: Mapping[str, str]) -> None:
        self._schema = schema
        self._sent = sent
        self._original = {name: original for original, name in sent.items()}

    @classmethod
    def of(cls, tool: ToolDefinition, rules: CallRules) -> Self:
        """Return the names for `tool`, each a different one."""
        schema = get_parameter_schema(tool)
        declared = _list_declared(schema)
        taken = set(declared)
        sent: dict[str, str] = {}

        for name in declared:
            number = 1
            accepted = rules.format_parameter(name)  # `name` itself if the API accepts it
            while accepted != name and accepted in taken:
                number += 1
                accepted = rules.format_parameter(name, number)

            if accepted != name:
                sent[name] = accepted
                taken.add(accepted)

        return cls(schema, sent)

    def format_schema(self) -> JsonObject:
        """Return the schema of the parameters with accepted names."""
        if not self._sent:
            return dict(self._schema)
        return map_schemas(self._schema, self._rename_part)

    def format_arguments(self, arguments: JsonObject) -> JsonObject:
        """Return `arguments` with accepted names."""
        renamed = _rename_keys(arguments, self._sent)
        assert isinstance(renamed, dict)
        return renamed

    def restore(self, text: str) -> str:
        """Return the arguments `text` with the names of the tool. Invalid text stays unchanged."""
        if not self._sent:
            return text

        try:
            value = read_json(text)
        except ValueError:
            return text  # the turn loop reports it

        restored = _rename_keys(value, self._original)
        return text if restored == value else json.dumps(restored, ensure_ascii=False)

    def _rename_part(self, part: JsonObject) -> JsonObject:
        """Return a part of the schema with accepted names.

        `map_schemas` calls it for each part, from the innermost ones outwards, and replaces the
        part by the result.
        """
        return {key: self._rename_keyword(key, value) for key, value in part.items()}

    def _rename_keyword(self, key: str, value: JsonValue) -> JsonValue:
        """Return the value of a keyword, with the names of parameters that it has, accepted."""
        match key, value:
            case "properties", dict():
                return {
                    self._rename(name): self._describe(name, part) for name, part in value.items()
                }
            case (("dependentSchemas" | "dependentRequired" | "dependencies"), dict()):
                return {
                    self._rename(name): self._rename_list(names) for name, names in value.items()
                }
            case "required", list():
                return self._rename_list(value)
            case "discriminator", dict():
                tag = value.get("propertyName")
                if isinstance(tag, str):
                    return {**value, "propertyName": self._rename(tag)}
            case "$ref", str():
                return self._rename_reference(value)
            case (("default" | "const" | "enum" | "examples"), _):
                return _rename_keys(value, self._sent)
        return value

    def _rename(self, name: str) -> str:
        return self._sent.get(name, name)

    def _rename_list(self, names: JsonValue) -> JsonValue:
        if not isinstance(names, list):
            return names  # a schema, which is renamed by itself
        return list(map(self._rename_item, names))

    def _rename_item(self, name: JsonValue) -> JsonValue:
        return self._rename(name) if isinstance(name, str) else name

    def _describe(self, name: str, part: JsonValue) -> JsonValue:
        """Return the schema of the parameter `name`, with this name for the model."""
        if name not in self._sent or not isinstance(part, dict):
            return part
        described = part.get("description")
        text = f"{name}: {described}" if described else name
        return {**part, "description": text}

    def _rename_reference(self, reference: str) -> str:
        """Return a reference such as `#/properties/NAME` with accepted names."""
        steps = reference.split("/")
        for index, step in enumerate(steps):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if index > 0 and steps[index - 1] in _HOLDERS and name in self._sent:
                steps[index] = self._sent[name]
        return "/".join(steps)


def _list_declared(schema: Schema) -> list[str]:
    """Return the names of all parameters in all parts of `schema`."""
    # Not `walk_schemas`, which raises for a reference without a target.
    declared: dict[str, None] = {}  # in order

    def collect(part: JsonObject) -> JsonObject:
        properties = part.get("properties")
        if isinstance(properties, dict):
            declared.update(dict.fromkeys(properties))
        return part

    map_schemas(schema, collect)
    return list(declared)


def _rename_keys(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    """Return a copy of `value` with the keys of all objects renamed by `names`."""
    match value:
        case dict():
            renamed: JsonObject = {}
            for key, item in value.items():
                name = names.get(key, key)
                # If a value has both names, none is lost: the tool refuses the unknown one.
                kept = key if name in value else name
                renamed[kept] = _rename_keys(item, names)
            return renamed
        case list():
            return [_rename_keys(item, names) for item in value]
    return value
