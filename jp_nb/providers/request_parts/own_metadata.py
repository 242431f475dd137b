"""Parts of an answer in the metadata of a record, rebuilt from known fields to be sent back.

A record can be damaged or edited, and a server can send anything. So nothing of it is sent as it
is: data of a record never becomes an instruction, a tool, or an address that a server fetches. Only
reasoning, messages of the assistant, and calls of functions are rebuilt.

Source: `docs/providers.md` (metadata that is sent back), `docs/security.md`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.providers.request_parts.request_body import WireMessage

_ITEM_ID: Final = re.compile("[a-zA-Z0-9_-]{1,64}")
_PHASES: Final = ("commentary", "final_answer")
_ANNOTATION_TYPES: Final = frozenset(
    {"url_citation", "file_citation", "container_file_citation", "file_path", "place_citation"}
)
_ANNOTATION_FIELDS: Final = frozenset(
    {
        "type",
        "start_index",
        "end_index",
        "index",
        "url",
        "title",
        "file_id",
        "filename",
        "container_id",
        "source",
        "document_uri",
        "file_name",
        "place_id",
        "name",
    }
)
_DETAIL_TYPES: Final = frozenset({"reasoning.summary", "reasoning.encrypted", "reasoning.text"})
_DETAIL_FIELDS: Final = frozenset(
    {"type", "id", "format", "index", "summary", "data", "text", "signature"}
)


def read_own_text(metadata: Mapping[str, JsonValue], key: str) -> str:
    """Return the text at `key`, such as a signature; "" for another value."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def read_item_id(metadata: Mapping[str, JsonValue], key: str, prefix: str) -> str:
    """Return the id of an item of the Responses API; "" if the API would refuse it."""
    value = read_own_text(metadata, key)
    return value if value.startswith(prefix) and _ITEM_ID.fullmatch(value) else ""


def read_phase(metadata: Mapping[str, JsonValue], key: str) -> str:
    """Return the phase of a message; "" for an unknown one."""
    value = read_own_text(metadata, key)
    return value if value in _PHASES else ""


def rebuild_annotations(value: JsonValue) -> list[WireMessage]:
    """Return the known annotations of a text with their known fields."""
    return _rebuild_list(value, _ANNOTATION_TYPES, _ANNOTATION_FIELDS)


def rebuild_details(value: JsonValue) -> list[WireMessage]:
    """Return the known reasoning details of OpenRouter with their known fields."""
    return _rebuild_list(value, _DETAIL_TYPES, _DETAIL_FIELDS)


def _rebuild_list(
    value: JsonValue, types: Collection[str], fields: Collection[str]
) -> list[WireMessage]:
    """Return the objects of a list that have one of the `types`, with these `fields`."""
    listed = value if isinstance(value, list) else []
    known_types = list(types)  # no set: the type in the record may be a list, which has no hash
    return [
        _pick_scalars(part, fields)
        for part in listed
        if isinstance(part, dict) and part.get("type") in known_types
    ]


def _pick_scalars(value: Mapping[str, JsonValue], fields: Collection[str]) -> WireMessage:
    """Return the members of `value` among `fields` that are no lists or objects."""
    return {
        key: member
        for key, member in value.items()
        if key in fields and isinstance(member, str | int | float | None)
    }
