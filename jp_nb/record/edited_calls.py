"""Arguments of a tool call that a person changed before it ran.

Kept in the `metadata` of the call's response, because the request stays what the model sent:
    {"edited_arguments": {"to": "Ada"}, "edited_by": "person", "channel": "form"}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

ARGUMENTS = "edited_arguments"


@dataclass(frozen=True, slots=True)
class Edited:
    """What a tool ran with.

    Attributes:
        arguments: In place of the model's own.
        channel: Where the person changed them: `form`, `stdin` or `terminal`, if known.
    """

    arguments: Mapping[str, JsonValue]
    channel: str | None = None


def edited_by_person(arguments: dict[str, JsonValue], channel: str) -> dict[str, JsonValue]:
    """The metadata of the response of a call whose `arguments` a person changed."""
    return {ARGUMENTS: arguments, "edited_by": "person", "channel": channel}


def edited(metadata: Mapping[str, JsonValue]) -> Edited | None:
    """What `metadata` of a response says about that; None if nothing, or it is malformed."""
    arguments, channel = metadata.get(ARGUMENTS), metadata.get("channel")
    if not isinstance(arguments, dict):
        return None
    return Edited(arguments, channel if isinstance(channel, str) else None)
