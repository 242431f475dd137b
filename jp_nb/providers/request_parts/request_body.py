"""Body of a request to a model: its members, and its messages as encoded JSON.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.shared_prefix import BodyPart
from jp_nb.json_writing import compact_json
from jp_nb.storable_json import replace_surrogates

WireMessage = dict[str, Any]
"""A message, or a part of one, as a provider's API defines it."""

_NUL: Final = r"\u0000"
_ENCODED_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""NUL in JSON. `\\\\u0000` does not match: there, a backslash is escaped, and `u0000` is text."""


def encode_json(value: object) -> bytes:
    """Encode `value` as compact UTF-8 JSON, with the keys in their order.

    A repeated value gives the same bytes, so that the provider can cache the prompt. U+FFFD
    replaces half of a surrogate pair, as in a stored record, and NUL, which some servers refuse.
    """
    text = compact_json(value)
    if _NUL in text:
        text = _ENCODED_NUL.sub(r"\1\\ufffd", text)
    return replace_surrogates(text).encode()


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The members of a request body, and its encoded messages, which are the last member.

    Attributes:
        fields: All members except the messages.
        messages: The messages, each as JSON.
        messages_name: The name of the member with the messages.
        prefix: The names of the members that the server's cache covers before the messages, in its
            order.
        headers: Further headers of this request only.
    """

    fields: Mapping[str, Any]
    messages: Sequence[bytes]
    messages_name: str = "messages"
    prefix: tuple[str, ...] = ("tools", "system")
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the JSON body."""
        beginning = encode_json({**self.fields, self.messages_name: []})
        return beginning[: -len(b"]}")] + b",".join(self.messages) + b"]}"

    @property
    def content_members(self) -> frozenset[str]:
        """Names of the members with the messages and of those before them: no settings."""
        return frozenset((self.messages_name, *self.prefix))

    def to_dict(self) -> dict[str, JsonValue]:
        """Return all members as the server decodes them."""
        members: dict[str, JsonValue] = json.loads(self.encode())
        return members

    def select(self, names: Collection[str]) -> dict[str, JsonValue]:
        """Return the members with these names, and the messages, as the server decodes them."""
        members = self.to_dict()
        selected = {*names, self.messages_name}
        return {name: value for name, value in members.items() if name in selected}

    def list_parts(self) -> list[BodyPart]:
        """Return the parts that a cache covers, in their order: the prefix, then the messages.

        Each has a name for the user, such as `message 3`.
        """
        named: list[BodyPart] = []
        for name in self.prefix:
            value = self.fields.get(name, ())
            elements = value if isinstance(value, list | tuple) else (value,)
            for element in elements:
                named.append((f"`{name}`", encode_json(without_cache_marks(element))))

        for number, content in enumerate(self.messages, start=1):
            named.append((f"message {number}", content))
        return named


def without_cache_marks(part: object) -> object:
    """Return `part` without `cache_control`, which moves and is not part of the cached text."""
    if isinstance(part, dict) and "cache_control" in part:
        return {key: value for key, value in part.items() if key != "cache_control"}
    return part
