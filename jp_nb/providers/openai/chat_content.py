"""Read the content of a delta of Chat Completions: a text, or a list of parts with texts.

Servers name the parts and their fields differently. For example, Mistral sends reasoning as
`{"type": "thinking", "thinking": [{"type": "text", "text": "…"}]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

PartKind = Literal["message", "reasoning", "refusal"]
_PART_KINDS: Final[Mapping[str, PartKind]] = {
    "text": "message",
    "output_text": "message",
    "thinking": "reasoning",
    "reasoning": "reasoning",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
    "refusal": "refusal",
}
"""Kinds of the parts of a content that is a list. Others, such as images, are omitted."""
_TEXT_FIELDS: Final = ("text", "summary", "content")


def read_content_part(part: Any) -> tuple[PartKind | None, str]:
    """Return the kind and the text of a part of a content; None as the kind of an unknown part.

    The text is in the field that is named like the type of the part, or in another known field.

    Raises:
        TypeError: It is neither a text nor an object. `StreamDecoder` reports that.
    """
    if isinstance(part, str):
        return "message", part
    if not isinstance(part, dict):
        raise TypeError

    type_ = part.get("type") or "text"
    kind = _PART_KINDS.get(type_)
    texts = (join_content_texts(part.get(name)) for name in (type_, *_TEXT_FIELDS))
    first_text = next(filter(None, texts), "")
    return kind, first_text


def join_content_texts(value: Any) -> str:
    """Return the text of a field that is a text, or a list of texts and parts with texts.

    Lists in a list are omitted: no server sends them, and they could be nested without a limit.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        text = value.get("text")
        return text if isinstance(text, str) else ""
    if isinstance(value, list):
        parts = (part for part in value if not isinstance(part, list))
        return "".join(map(join_content_texts, parts))
    return ""
