"""The messages that a kernel publishes on iopub, read from the arguments of `Session.send`.

Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self


@dataclass(frozen=True, slots=True)
class Published:
    """A message that is published on iopub.

    Attributes:
        kind: The type of the message, such as `stream`.
        content: Its content, as the messaging documentation describes it.
        parent: The header of the request to which the message belongs.
        metadata: Its metadata.
        ident: The topic for ZeroMQ.
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
        """Read the arguments of `Session.send` after the socket.

        `message` is the type of a message, or a whole message as a dict.
        """
        kind = message
        if isinstance(message, dict):
            kind = message.get("msg_type")
            content = message.get("content")
            parent = message.get("parent_header")
            metadata = message.get("metadata")

        request = read_mapping(parent)  # a whole request, or only its header
        header = read_mapping(request.get("header", request))
        return cls(str(kind), read_mapping(content), header, read_mapping(metadata), ident)

    @property
    def display_id(self) -> str | None:
        """The display id of the output, if it has one."""
        display_id = read_mapping(self.content.get("transient")).get("display_id")
        return display_id if isinstance(display_id, str) else None

    def is_about(self, request: str | None) -> bool:
        """Return True if the message belongs to the request with this id."""
        return request is not None and self.parent.get("msg_id") == request


def read_mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


OUTPUTS: Final = frozenset(("stream", "display_data", "execute_result", "error"))
"""Types of messages that add an output to a cell."""
OUTPUT_CHANGES: Final = OUTPUTS | {"update_display_data", "clear_output"}
"""Types of messages that change the outputs of a cell."""
