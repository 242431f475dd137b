"""Compute and verify the signature of a conversation with the user's key.

The hash is incremental, so each entry is read once. It is over canonical JSON, because pages and
file formats rewrite JSON without changing its meaning. Each state of a conversation has its own
signature, so a file with an earlier state remains valid. `record_trust.py` decides what a signature
means.

Source: `docs/record.md` (signature), which has the signed text.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Self, TypeGuard

from pydantic import JsonValue, SecretBytes

from jp_nb.json_writing import canonical_json
from jp_nb.record.entries.events import RawEntry
from jp_nb.record.stream import ConversationStream

SIGNATURE_KEY = "signature"
"""Key of the signature in the `jp` object."""
SCHEME = "2"
_EARLIER = re.compile(r"1:[0-9a-f]{64}")
"""Signature of scheme 1. It did not cover messages, so it proves nothing about them."""
_WRITTEN = re.compile(rf"{SCHEME}:[0-9a-f]{{64}}")
_PURPOSE = f"jp_nb record {SCHEME}"


def is_signature(value: JsonValue) -> TypeGuard[str]:
    """Return True if `value` has the form of a signature of this scheme."""
    return isinstance(value, str) and _WRITTEN.fullmatch(value) is not None


def is_earlier_signature(value: JsonValue) -> bool:
    """Return True if `value` has the form of a signature of the earlier scheme."""
    return isinstance(value, str) and _EARLIER.fullmatch(value) is not None


class Signer:
    """Incremental signature of one conversation.

    Attributes:
        base_config: The signed base configuration.
        count: Number of signed entries.
    """

    def __init__(
        self, key: SecretBytes, *, conversation: str, base_config: Mapping[str, JsonValue]
    ) -> None:
        # Nothing here keeps the key as bytes: verbose tracebacks show the variables of a frame.
        self._mac = hmac.new(key.get_secret_value(), digestmod="sha256")
        self._hash = sha256()
        self.base_config = base_config
        self.count = 0
        self._entries: list[RawEntry] | None = None  # the list of the stream, to recognize it
        self._add_lines(_PURPOSE, conversation, base_config)

    @classmethod
    def of(cls, key: SecretBytes, stream: ConversationStream) -> Self:
        """Return a signer of the current state of `stream`.

        Raises:
            StorageError: The record is nested too deeply.
        """
        signer = cls(key, conversation=stream.id, base_config=stream.base_config)
        signer.catch_up(stream)
        return signer

    def catch_up(self, stream: ConversationStream) -> None:
        """Sign the entries that were appended to `stream`.

        Raises:
            StorageError: An entry is nested too deeply.
        """
        self._add_lines(*stream.raw[self.count :])
        self._entries = stream.raw
        self.count = len(stream.raw)

    def has_signed_start_of(self, stream: ConversationStream) -> bool:
        """Return True if `stream` is the signed conversation, possibly with new entries.

        Entries are never changed in place, and a removal makes another list. So identity is enough.
        """
        return (
            stream.base_config is self.base_config
            and stream.raw is self._entries
            and len(stream.raw) >= self.count
        )

    def is_current(self, stream: ConversationStream) -> bool:
        """Return True if `stream` has no new entries."""
        return self.has_signed_start_of(stream) and len(stream.raw) == self.count

    def signature(self) -> str:
        """Return the signature of the entries so far."""
        return f"{SCHEME}:{self._mac.hexdigest()}"

    def verify(self, signature: JsonValue) -> bool:
        """Return True if `signature` is the current signature. A malformed value is not."""
        return is_signature(signature) and hmac.compare_digest(signature, self.signature())

    def digest(self) -> bytes:
        """Return the hash of the signed text without the key, as `compute_stream_digest` does."""
        return self._hash.digest()

    def _add_lines(self, *values: Any) -> None:
        lines = _encode_lines(*values)
        self._mac.update(lines)
        self._hash.update(lines)


def _encode_lines(*values: Any) -> bytes:
    return "".join(f"{canonical_json(value)}\n" for value in values).encode("ascii")


def compute_stream_digest(stream: ConversationStream) -> bytes:
    """Return the hash of the signed text of `stream` without a key, which may be missing.

    It recognizes an unchanged conversation in the same process (`RecordTrust.follow`). It proves
    nothing to others.
    """
    lines = _encode_lines(_PURPOSE, stream.id, stream.base_config, *stream.raw)
    return sha256(lines).digest()
