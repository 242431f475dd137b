"""Find the signatures of thinking in the messages of a request to Anthropic.

The API says in errors and reports at which place a signature does not fit. A signature belongs to
one block of thinking, so its entry in the record is found by it.

Source: `docs/providers.md`, https://platform.claude.com/docs/en/build-with-claude/extended-thinking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from jp_nb.providers.request_parts.request_body import WireMessage

_THINKING_PLACE: Final = re.compile(r"messages\.(\d{1,7})(?:\.content\.(\d{1,7}))?")
"""Index of a message and of a block in it, in an error of the API."""


def is_about_signatures(error: str) -> bool:
    """Return True for an error such as `invalid signature in thinking block`, in lower case."""
    return "thinking" in error and ("signature" in error or "cannot be modified" in error)


def find_signatures(paths: Sequence[str], body: bytes) -> list[str]:
    """Return the signature of the thinking in `body` at each of the `paths`, else ""."""
    messages = json.loads(body)["messages"]
    return [next(iter_signatures(path, messages), "") for path in paths]


def iter_signatures(path: str, messages: Sequence[WireMessage]) -> Iterator[str]:
    """Yield the signature, or "", of the block at `path` and of each later one.

    An error may name a message, or a block before the thinking: the first signature from there on
    is that of the rejected thinking. `path` may be part of a text, such as an error.
    """
    match = _THINKING_PLACE.search(path)
    if match is None:
        return

    message_index = int(match[1])
    block_index = int(match[2] or 0)
    for message in messages[message_index:]:
        content = message["content"]
        if isinstance(content, list):
            yield from map(_get_signature, content[block_index:])
        block_index = 0  # of the later messages, all blocks


def _get_signature(block: WireMessage) -> str:
    """Return the signature of thinking, or the data of encrypted thinking, as its own; else ""."""
    match block["type"]:
        case "thinking":
            return str(block.get("signature", ""))
        case "redacted_thinking":
            return str(block.get("data", ""))
        case _:
            return ""
