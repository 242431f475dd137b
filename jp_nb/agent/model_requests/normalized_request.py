"""A model request in the form in which a cassette stores it, and in which requests are compared.

`request_normalizer.py` makes it from a `ModelRequest`. A request consists of *parts*, which a
cassette stores once. The messages form a chain: the id of a message covers all messages before it,
so the id of the last one stands for the conversation.

    tool, id "3f…": {"name": "fetch", …}
    message, id "a1…", after "": {"role": "user", "text": "Hello"}
    message, id "b2…", after "a1…": {"role": "assistant", "text": "Hello!"}

Requests with the same digest (`NormalizedRequest.id`) are equivalent.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.json_writing import sorted_json
from jp_nb.storable_json import encode_utf8

PART_DIGEST_CHARS: Final = 20
"""Length of the id of a part, in hexadecimal digits: 80 bits."""
NO_MESSAGE: Final = ""
"""Id of the message before the first one."""


def make_digest(value: JsonValue) -> str:
    """Return the digest of `value`, independent of the order of keys."""
    return hashlib.sha256(encode_utf8(sorted_json(value))).hexdigest()[:PART_DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A part of a request.

    Attributes:
        kind: `system`, `attachment`, `tool`, or `message`.
        id: The digest of the part and, for a message, of the messages before it.
        value: The content as JSON.
        after: The id of the message before; `NO_MESSAGE` for the first one, and for other parts.
    """

    kind: str
    id: str
    value: JsonObject
    after: str = NO_MESSAGE


def make_part(kind: str, value: JsonObject, after: str = NO_MESSAGE) -> RequestPart:
    """Return the part with `value` and its id."""
    return RequestPart(kind, make_digest([kind, after, value]), value, after)


@dataclass(frozen=True)
class NormalizedRequest:
    """A request without incidental content, for comparison.

    Attributes:
        settings: Provider, model, and tool choice, and the parameters and schema if there are any.
        system: Parts with the texts of the system prompt.
        attachments: Parts with the files in front of the messages.
        tools: Parts with the definitions of tools.
        messages: Parts with the messages, each of which covers those before it.
    """

    settings: JsonObject
    system: tuple[RequestPart, ...] = ()
    attachments: tuple[RequestPart, ...] = ()
    tools: tuple[RequestPart, ...] = ()
    messages: tuple[RequestPart, ...] = ()

    @cached_property
    def summary(self) -> JsonObject:
        """The settings and the ids of the parts. The id of the last message covers all messages."""
        listed = {"system": self.system, "attachments": self.attachments, "tools": self.tools}
        ids: JsonObject = {}
        for name, parts in listed.items():
            if parts:
                ids[name] = [part.id for part in parts]
        last = self.messages[-1].id if self.messages else NO_MESSAGE
        return {**self.settings, **ids, "messages": last}

    @cached_property
    def id(self) -> str:
        """Digest of the request."""
        return make_digest(self.summary)

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """All parts in the order of the request."""
        return (*self.system, *self.attachments, *self.tools, *self.messages)

    @property
    def is_inquiry(self) -> bool:
        """True if the request asks a model the question of a tool (`llm_inquiry.py` marks it so).

        Inquiries of several calls may run concurrently.
        """
        return bool(self.messages) and "inquiry" in self.messages[-1].value
