"""The head of model requests: instructions, tools, attachments, and similar parts.

Providers cache the beginning of a request, and bind reasoning to all that was before it. So a
conversation keeps the head of its first request. Each later change is appended to the messages
where it became effective. `head_marks.py` keeps heads in the record.

Source: `docs/record.md`, `docs/providers.md`.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.json_writing import canonical_json, compact_json
from jp_nb.storable_json import encode_utf8


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]

    def to_json(self) -> JsonObject:
        """Return the tool as one JSON object."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }


@dataclass(frozen=True, slots=True)
class Attachment:
    """A document or an image that the model gets with the conversation.

    The model sees `source`, such as `notes.md`. `media_type` is `text/plain` for every text.
    """

    source: str
    media_type: str
    content: str | bytes


@dataclass(frozen=True, slots=True)
class AttachmentDigest:
    """An attachment without its content, of which `digest` is the SHA-256 in hexadecimal digits."""

    source: str
    media_type: str
    digest: str


@lru_cache(64)
def digest_attachment(attachment: Attachment) -> AttachmentDigest:
    """Return `attachment` with a digest in place of its content."""
    content = attachment.content
    data = encode_utf8(content) if isinstance(content, str) else content
    return AttachmentDigest(attachment.source, attachment.media_type, sha256(data).hexdigest())


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The parts of a request that are not messages. See `ModelRequest` for their meaning."""

    system: tuple[str, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    attachments: tuple[AttachmentDigest, ...] = ()
    reasoning: JsonValue = None
    schema: Mapping[str, JsonValue] | None = None
    tool_choice: str = "auto"

    def is_part_of(self, other: RequestHead, schemas: Container[str]) -> bool:
        """Return True if `other` has all texts of this head, except its schema.

        An untrusted record may have any text in a head. It is sent only if it is part of a head
        that the user's own configuration makes (`request_contexts.py`). The schema must be in
        `schemas`, which are canonical JSON.
        """
        choices = {"auto", "none", "required", *(f"tool:{tool.name}" for tool in other.tools)}

        return (
            self.system == other.system
            and all(tool in other.tools for tool in self.tools)
            and all(digest in other.attachments for digest in self.attachments)
            and self.tool_choice in choices
            and (self.schema is None or canonical_json(self.schema) in schemas)
        )

    def to_json(self, before: RequestHead | None = None) -> JsonObject:
        """Return the parts that differ from those of `before`, or from an empty head.

        Tools and schemas are texts, because the key order of JSON objects is lost when Jupyter
        saves a notebook. Tools that `before` has are only named.
        """
        base = RequestHead() if before is None else before
        known = {tool.name: tool for tool in base.tools}
        schema = None if self.schema is None else compact_json(dict(self.schema))

        parts: JsonObject = {
            "system": list(self.system),
            "tools": [_mark_tool(tool, known) for tool in self.tools],
            "attachments": [
                {"source": item.source, "type": item.media_type, "digest": item.digest}
                for item in self.attachments
            ],
            "reasoning": self.reasoning,
            "schema": schema,
            "tool_choice": self.tool_choice,
        }

        return {
            name: value
            for name, value in parts.items()
            if getattr(self, name) != getattr(base, name)
        }

    def with_parts(self, parts: Mapping[str, JsonValue]) -> RequestHead:
        """Return this head with the changed `parts` of a record.

        Raises:
            ValueError: A part is not valid.
        """
        head = self
        for name, value in parts.items():
            match name, value:
                case "system", list():
                    head = replace(head, system=tuple(map(str, value)))
                case "tools", list():
                    known = {tool.name: tool for tool in self.tools}
                    head = replace(head, tools=tuple(_read_tool(item, known) for item in value))
                case "attachments", list():
                    head = replace(head, attachments=tuple(map(_read_attachment, value)))
                case "reasoning", _:
                    head = replace(head, reasoning=value)
                case "schema", str() | None:
                    schema = None if value is None else _read_object(value)
                    head = replace(head, schema=schema)
                case "tool_choice", str():
                    head = replace(head, tool_choice=value)
                case _:
                    raise ValueError(f"`{name}` is not a valid part of a head")

        return head


def _read_object(text: str) -> JsonObject:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value


def _mark_tool(tool: ToolDefinition, known: Mapping[str, ToolDefinition]) -> str:
    return tool.name if known.get(tool.name) == tool else compact_json(tool.to_json())


def _read_tool(stored: JsonValue, known: Mapping[str, ToolDefinition]) -> ToolDefinition:
    if not isinstance(stored, str):
        raise ValueError("expected a text for each tool")
    if stored in known:
        return known[stored]

    match _read_object(stored):
        case {"name": str(name), "description": str(description), "parameters": dict(parameters)}:
            return ToolDefinition(name, description, parameters)
    raise ValueError("a tool is not valid")


def _read_attachment(stored: JsonValue) -> AttachmentDigest:
    match stored:
        case {"source": str(source), "type": str(media_type), "digest": str(digest)}:
            return AttachmentDigest(source, media_type, digest)
    raise ValueError("an attachment is not valid")
