"""Arguments that are texts in a language, such as code, which prompts show as they are.

The schema of such a parameter has `contentMediaType`, such as `text/x-python`.

Source: `docs/extending.md`, https://json-schema.org/draft/2020-12/json-schema-validation#section-8.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import as_object

_LANGUAGE: Final = re.compile("text/(?:x-)?([a-z0-9][a-z0-9+#.-]{0,19})")
_PLAIN: Final = "text"
"""The language of `text/plain`."""


class TextArgument(NamedTuple):
    """An argument with text in a language such as `python`."""

    name: str
    language: str

    @property
    def caption(self) -> str:
        """Name and language, such as `code (python)`."""
        return self.name if self.language == _PLAIN else f"{self.name} ({self.language})"


def list_text_arguments(
    schema: Schema | None, arguments: Mapping[str, JsonValue]
) -> tuple[TextArgument, ...]:
    """Return the text arguments among `arguments`, in the order of `schema`.

    >>> schema = {"properties": {"code": {"type": "string", "contentMediaType": "text/x-python"}}}
    >>> list_text_arguments(schema, {"code": "1 + 1"})
    (TextArgument(name='code', language='python'),)
    """
    properties = as_object((schema or {}).get("properties"))
    found: list[TextArgument] = []
    for name, node in properties.items():
        language = _read_language(node)
        if language and isinstance(arguments.get(name), str):
            found.append(TextArgument(name, language))
    return tuple(found)


def _read_language(node: JsonValue) -> str:
    """Return the language that the schema `node` declares; "" if it declares none."""
    media_type = node.get("contentMediaType") if isinstance(node, dict) else None
    if not isinstance(media_type, str):
        return ""

    match = _LANGUAGE.fullmatch(media_type.partition(";")[0].strip().lower())
    if match is None:
        return ""
    return _PLAIN if match[1] == "plain" else match[1]
