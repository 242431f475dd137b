"""The signature of a conversation: whoever holds the key made it, all of it. Pure.

Signed are lines of canonical JSON, each ended by a newline: what this is, the conversation's id,
its base configuration, then each entry as it is stored. The hash runs along: an entry that is
appended is read once, however long the conversation is. So every state of a conversation has a
signature of its own, and one that was saved earlier keeps it.

Pages and file formats rewrite JSON without changing what it says, so the canonical form is made
of what they keep: numbers are IEEE doubles, keys are sorted, what no file can hold is replaced.
It is near RFC 8785, and not the same: numbers keep a point, keys are sorted by code point.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Any, Self, TypeGuard

from pydantic import JsonValue, SecretBytes

from jp_nb.json_values import canonical_json
from jp_nb.record.entry import RawEntry
from jp_nb.record.stream import ConversationStream

SCHEME = "2"
_EARLIER = re.compile(r"1:[0-9a-f]{64}")
_WRITTEN = re.compile(rf"{SCHEME}:[0-9a-f]{{64}}")
_PURPOSE = f"jp_nb record {SCHEME}"


def is_signature(value: JsonValue) -> TypeGuard[str]:
    """Return True if `value` is written as a signature of this scheme."""
    return isinstance(value, str) and _WRITTEN.fullmatch(value) is not None


def is_earlier_signature(value: JsonValue) -> bool:
    """Return True if `value` is written as a signature of scheme 1, which covered no message."""
    return isinstance(value, str) and _EARLIER.fullmatch(value) is not None


class Signer:
    """Signs one conversation as it grows: each entry is read once.

    Attributes:
        base_config: The base configuration that is signed.
        count: How many entries are signed.
    """

    def __init__(
        self, key: SecretBytes, *, conversation: str, base_config: Mapping[str, JsonValue]
    ) -> None:
        # Nothing here keeps the key as bytes: verbose tracebacks show the variables of a frame.
        self._mac = hmac.new(key.get_secret_value(), digestmod="sha256")
        self.base_config = base_config
        self.count = 0
        self._entries: list[RawEntry] | None = None
        for value in (_PURPOSE, conversation, base_config):
            self._add_line(value)

    @classmethod
    def of(cls, key: SecretBytes, stream: ConversationStream) -> Self:
        """Return a signer of everything that `stream` says now.

        Raises:
            StorageError: If it is nested too deeply.
        """
        signer = cls(key, conversation=stream.id, base_config=stream.base_config)
        signer.catch_up(stream)
        return signer

    def add(self, entry: RawEntry) -> None:
        """Sign one more entry, the next of its conversation."""
        self._add_line(entry)
        self.count += 1

    def catch_up(self, stream: ConversationStream) -> None:
        """Sign the entries of `stream` that were appended since."""
        for entry in stream.raw[self.count :]:
            self.add(entry)
        self._entries = stream.raw

    def may_follow(self, stream: ConversationStream) -> bool:
        """Return True if `stream` is what is signed, with more behind it. Looks at no entry.

        Entries are never changed where they are: who takes one away makes another list.
        """
        return (
            stream.base_config is self.base_config
            and stream.raw is self._entries
            and len(stream.raw) >= self.count
        )

    def is_current(self, stream: ConversationStream) -> bool:
        """Return True if nothing came to `stream` since."""
        return self.may_follow(stream) and len(stream.raw) == self.count

    def signature(self) -> str:
        """Return the signature of what was added so far."""
        return f"{SCHEME}:{self._mac.hexdigest()}"

    def verify(self, signature: JsonValue) -> bool:
        """Return True if `signature` is this one; anything else, damage included, is not."""
        return is_signature(signature) and hmac.compare_digest(signature, self.signature())

    def _add_line(self, value: Any) -> None:
        self._mac.update(canonical_json(value).encode("ascii") + b"\n")
