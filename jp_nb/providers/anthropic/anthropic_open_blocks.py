"""A block of a response of Anthropic Messages that arrives in pieces.

The decoder (`anthropic_decoder.py`) adds the pieces, and makes events of them.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from jp_nb.agent.provider_events import TextKind
from jp_nb.json_reading import is_json_object
from jp_nb.providers.response_parts.streamed_arguments import StreamedArguments

THINKING_SIGNATURE_KEY: Final = "anthropic_thinking_signature"
REDACTED_THINKING_KEY: Final = "anthropic_redacted_thinking"
"""Keys of the metadata of reasoning."""


class OpenBlock:
    """A block that arrives.

    Attributes:
        type: The type that the server gave it, such as `tool_use`.
        index: Its output item.
        tool: The name of the tool that it calls.
        arguments: The arguments of this call.
        items: The output items of its texts, in the order in which they arrived: `index` for texts
            of its own kind, and another one for texts within a block of another kind.
        signature: Pieces of the signature of thinking.
        redacted: Encrypted thinking, which has no text.
        metadata: The metadata of the reasoning.
    """

    def __init__(self, kind: str, index: int) -> None:
        self.type = kind
        self.index = index
        self.tool = ""
        self.arguments = StreamedArguments()
        self.items: dict[TextKind, int] = {}
        self.signature: list[str] = []
        self.redacted = ""
        self.metadata: dict[str, JsonValue] = {}

    def is_whole(self) -> bool:
        """Return True if the block can end here: the arguments of a call must be a JSON object."""
        return self.type != "tool_use" or is_json_object(self.arguments.resolve())
