"""Sign and verify records with the user's key.

The signed text is lines of canonical JSON: the purpose, the id of the conversation, its base
configuration, and each entry as it is stored. The hash is incremental: an appended entry is read
once. So every state of a conversation has a signature of its own, and an earlier saved one keeps
its.

Pages and file formats rewrite JSON without changing its meaning, so the canonical form depends
only on what they keep: numbers are IEEE doubles, keys are sorted, values that no file can hold are
replaced. It is close to RFC 8785, but numbers keep a point, and keys are sorted by code point.

A record is trusted if it began in this process, or has the signature of the user's key over all of
it. A trusted record with one changed message is untrusted. `Projection` omits settings of an
untrusted record that only the user may set.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol, Self, TypeGuard

from pydantic import JsonValue, SecretBytes

from jp_nb.errors import StorageError
from jp_nb.json_values import canonical_json
from jp_nb.record.document import Document
from jp_nb.record.events import RawEntry
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


SIGNATURE = "signature"
"""The key of the `jp` object that holds it."""


class NoKeyError(StorageError):
    """No key to sign with, or none that may be used; the message says why."""


class Keys(Protocol):
    """The user's key. Asked for only when there is something to check or to sign."""

    def read(self) -> SecretBytes | None:
        """Return the key; None if there is none yet.

        Raises:
            NoKeyError: If there is one and it may not or cannot be used.
        """
        ...

    def obtain(self) -> SecretBytes:
        """Return the key, made if there is none yet.

        Raises:
            NoKeyError: If there is none that may be used, and none can be made.
        """
        ...


class Trust:
    """Decides if the active conversation of `document` is trusted; keeps its signature current.

    Call `sign` after every append and before the store is told, `follow` when another
    conversation became the active one. One thread at a time, as for the document.

    Args:
        document: The conversations of the notebook.
        keys: Where the key is.
        ours: Whether the active conversation is known to have begun in this process; if not, its
            signature decides.
        signs: Whether anything is signed here: not where the record is the same whoever makes it.

    Attributes:
        why_not: Why the active conversation is not trusted, in words; None if it is.
        unsigned: Why a trusted one is not signed, in words; None if it is, or has nothing yet.
    """

    def __init__(
        self, document: Document, keys: Keys, *, is_local: bool, can_sign: bool = True
    ) -> None:
        self._document = document
        self._keys = keys
        self._signs = can_sign
        self._process_key = SecretBytes(secrets.token_bytes(32))
        self._left: set[str] = set()
        self._stream = document.conversation
        self._signer: Signer | None = None
        self.unsigned_reason: str | None = None
        self.why_not: str | None = None
        self._take(is_local=is_local)

    @property
    def trusted(self) -> bool:
        """True if what the active conversation holds counts in full."""
        return self.why_not is None

    def sign(self) -> bool:
        """Renew the signature of a trusted conversation to which something came.

        Returns whether it did. Costs what was appended since. What is not trusted is never
        signed, nor what `follow` was not told of.
        """
        stream = self._stream
        if self._document.conversation is not stream or not (self.trusted and len(stream)):
            return False
        if not self._signs:
            self._document.extra.pop(SIGNATURE, None)  # it says nothing of what came
            return False
        signer = self._signer
        if self.unsigned_reason or (signer and signer.is_current(stream) and self._is_signed):
            return False
        try:
            if signer is None or not signer.may_follow(stream):
                signer = Signer.of(self._keys.obtain(), stream)
            signer.catch_up(stream)
        except StorageError as exc:
            self.unsigned_reason = str(exc)
            return False
        return self._write(signer)

    def follow(self, *, is_local: bool = False) -> None:
        """Go on with another active conversation: look at it, and sign it if it is `is_local`.

        One that was trusted when this process left it still is, signed or not.
        """
        left = self._stream
        if self.trusted and len(left):
            with suppress(StorageError):  # then it is not trusted when it comes back
                self._left.add(Signer.of(self._process_key, left).signature())
        self._take(is_local=is_local)
        self.sign()

    def accept(self) -> None:
        """Sign what the active conversation says now: from here on it is trusted.

        Raises:
            NoKeyError: If there is no key to sign with; nothing changed.
            StorageError: If it cannot be signed; nothing changed.
        """
        if not self._signs:
            raise NoKeyError("a reproducible record is never signed")
        stream = self._document.conversation
        signer = Signer.of(self._keys.obtain(), stream)
        self._stream, self.why_not, self.unsigned_reason = stream, None, None
        self._write(signer)

    def revoke(self) -> bool:
        """Take the signature away: from here on the active conversation is not trusted.

        Returns whether it was, or carried a signature.
        """
        had = self._document.extra.pop(SIGNATURE, None) is not None or self.trusted
        self._stream, self._signer = self._document.conversation, None
        self.why_not = "you revoked your signature"
        return had

    # --- inside ------------------------------------------------------------------------------

    def _take(self, *, is_local: bool) -> None:
        self._stream = self._document.conversation
        self._signer = self.unsigned_reason = None
        if is_local and not len(self._stream):
            self._document.extra.pop(SIGNATURE, None)  # of another one
        self.why_not = None if is_local else self._doubt()

    def _doubt(self) -> str | None:
        """Return why what was read is not trusted; None if it is."""
        try:
            if self._was_left():
                return None
            signature = self._document.extra.get(SIGNATURE)
            if signature is None:
                return "it is not signed"
            if is_earlier_signature(signature):
                return (
                    "it was signed by an earlier release, whose signature did not cover the "
                    "messages. If it is yours, sign all of it with `%jp trust`"
                )
            if not is_signature(signature):
                return "its signature is damaged, or from a newer release"
            key = self._keys.read()
            if key is None:
                return "its signature is not yours: you have no key yet"
            signer = Signer.of(key, self._stream)
        except NoKeyError as exc:
            return f"its signature cannot be checked: {exc}"
        except StorageError as exc:
            return str(exc)
        if not signer.verify(signature):
            return "its signature is not yours, or someone else changed the record"
        self._signer = signer
        return None

    def _was_left(self) -> bool:
        """Return True if this process left it as it is now, trusted."""
        if not self._left:
            return False
        found = Signer.of(self._process_key, self._stream).signature()
        known = found in self._left
        self._left.discard(found)
        return known

    @property
    def _is_signed(self) -> bool:
        return SIGNATURE in self._document.extra

    def _write(self, signer: Signer) -> bool:
        self._signer = signer
        before = self._document.extra.get(SIGNATURE)
        self._document.extra[SIGNATURE] = signer.signature()
        return self._document.extra[SIGNATURE] != before
