"""A message that leaves the kernel, whichever of the forms it has that `Session.send` takes.

Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Published:
    """What a message says.

    Attributes:
        parent: The header of the request that it is about.
        ident: The topic under which it is published.
    """

    kind: str
    content: Mapping[str, Any]
    parent: Mapping[str, Any]
    metadata: Mapping[str, Any]
    ident: Any

    @classmethod
    def read(
        cls, message: Any, content: Any = None, parent: Any = None, ident: Any = None, *_: Any,
        metadata: Any = None, **__: Any,
    ) -> Self:  # fmt: skip
        """Return what the arguments of `Session.send` behind its socket say."""
        kind = message
        if isinstance(message, dict):
            kind, content = message.get("msg_type"), message.get("content")
            parent, metadata = message.get("parent_header"), message.get("metadata")
        about = _mapping(parent)
        header = _mapping(about.get("header", about))
        return cls(str(kind), _mapping(content), header, _mapping(metadata), ident)

    @property
    def display_id(self) -> str | None:
        """By what a display is updated; None if it is no display, or has no such name."""
        name = _mapping(self.content.get("transient")).get("display_id")
        return name if isinstance(name, str) else None

    def is_about(self, request: str | None) -> bool:
        """Return whether it is about the request with this id."""
        return request is not None and self.parent.get("msg_id") == request


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NOTHING
