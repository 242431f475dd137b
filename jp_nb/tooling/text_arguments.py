"""Arguments of a tool that are texts of their own, such as code: shown and edited as they are.

The schema of an argument says so with `contentMediaType`, such as `text/x-python`.

Source: `docs/extending.md`,
https://json-schema.org/draft/2020-12/json-schema-validation#section-8.4
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import JsonValue

_LANGUAGE: Final = re.compile("text/(?:x-)?([a-z0-9][a-z0-9+#.-]{0,19})")
_PLAIN: Final = "text"


class TextArgument(NamedTuple):
    """One such argument: its name, and the language of its text, such as `python`."""

    name: str
    language: str

    @property
    def caption(self) -> str:
        """Return its name and language, in words."""
        return self.name if self.language == _PLAIN else f"{self.name} ({self.language})"


def text_arguments(
    schema: Mapping[str, JsonValue] | None, arguments: Mapping[str, JsonValue]
) -> tuple[TextArgument, ...]:
    """Return those of `arguments` that `schema` says are such texts, in the order of `schema`.

    >>> schema = {"properties": {"code": {"type": "string", "contentMediaType": "text/x-python"}}}
    >>> text_arguments(schema, {"code": "1 + 1"})
    (TextArgument(name='code', language='python'),)
    """
    properties = (schema or {}).get("properties")
    nodes = properties if isinstance(properties, dict) else {}
    return tuple(
        TextArgument(name, language)
        for name, node in nodes.items()
        if isinstance(arguments.get(name), str) and (language := _language(node))
    )


def _language(node: JsonValue) -> str:
    """Return the language that a property is written in; "" if it is no such text."""
    media_type = node.get("contentMediaType") if isinstance(node, dict) else None
    if not isinstance(media_type, str):
        return ""
    found = _LANGUAGE.fullmatch(media_type.partition(";")[0].strip().lower())
    return "" if found is None else _PLAIN if found[1] == "plain" else found[1]
