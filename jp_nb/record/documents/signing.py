"""Sign and verify records with the user's key.

The hash is incremental, so each entry is read once. It is over canonical JSON, because pages and
file formats rewrite JSON without changing its meaning.

A record is trusted if it began in this process, or has a signature of the whole record by the
user's key, which counts in the workspace of the notebook. `Projection` omits settings of an
untrusted record that only the user may set. Each state of a record has its own signature, so a file
with an earlier state remains valid.

Source: `docs/record.md` (signature), which has the signed text.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Protocol, Self, TypeGuard

from pydantic import JsonValue, SecretBytes

from jp_nb.errors import StorageError
from jp_nb.json_values import canonical_json
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.events import RawEntry
from jp_nb.record.stream import ConversationStream

SCHEME = "2"
_EARLIER = re.compile(r"1:[0-9a-f]{64}")  # it covered no message
_WRITTEN = re.compile(rf"{SCHEME}:[0-9a-f]{{64}}")
_PURPOSE = f"jp_nb record {SCHEME}"


def is_signature(value: JsonValue) -> TypeGuard[str]:
    """Return True if `value` has the form of a signature of this scheme."""
    return isinstance(value, str) and _WRITTEN.fullmatch(value) is not None


class Signer:
    """Incremental signature of one conversation. `count` is the number of signed entries."""

    def __init__(
        self, key: SecretBytes, *, conversation: str, base_config: Mapping[str, JsonValue]
    ) -> None:
        # Nothing here keeps the key as bytes: verbose tracebacks show the variables of a frame.
        self._mac = hmac.new(key.get_secret_value(), digestmod="sha256")
        self._hash = sha256()
        self.base_config = base_config
        self.count = 0
        self._entries: list[RawEntry] | None = None
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

    def may_follow(self, stream: ConversationStream) -> bool:
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
        return self.may_follow(stream) and len(stream.raw) == self.count

    def signature(self) -> str:
        """Return the signature of the entries so far."""
        return f"{SCHEME}:{self._mac.hexdigest()}"

    def verify(self, signature: JsonValue) -> bool:
        """Return True if `signature` is the current signature. A malformed value is not."""
        return is_signature(signature) and hmac.compare_digest(signature, self.signature())

    def digest(self) -> bytes:
        """Return the hash without the key: the result of `_compute_digest`."""
        return self._hash.digest()

    def _add_lines(self, *values: Any) -> None:
        lines = _encode_lines(*values)
        self._mac.update(lines)
        self._hash.update(lines)


def _encode_lines(*values: Any) -> bytes:
    return "".join(f"{canonical_json(value)}\n" for value in values).encode("ascii")


def _compute_digest(stream: ConversationStream) -> bytes:
    lines = _encode_lines(_PURPOSE, stream.id, stream.base_config, *stream.raw)
    return sha256(lines).digest()


SIGNATURE_KEY = "signature"
"""Key of the signature in the `jp` object."""


class NoKeyError(StorageError):
    """There is no usable key. The message has the reason."""


class SigningKeys(Protocol):
    """The user's key. It is read only to verify or to sign."""

    def read(self) -> SecretBytes | None:
        """Return the key, or None if there is none yet.

        Raises:
            NoKeyError: The key cannot be used.
        """

    def obtain(self) -> SecretBytes:
        """Return the key, and create it if there is none.

        Raises:
            NoKeyError: The key cannot be used or created.
        """


class Workspace(Protocol):
    """The workspace of the notebook. A signature counts only where the user made it."""

    def permits(self, stream: ConversationStream) -> bool:
        """Return True if a signature of `stream` counts here.

        Raises:
            StorageError: This cannot be decided.
        """

    def remember(self, stream: ConversationStream) -> None:
        """Remember that the user signed `stream` here."""

    def forget(self, stream: ConversationStream) -> None:
        """Forget that the user signed `stream` here.

        Raises:
            StorageError: The change cannot be stored.
        """


MOVED = "you signed it in another folder"
"""Reason why a conversation with a valid signature is not trusted."""


class Trust:
    """Decides if the active conversation of `document` is trusted, and keeps its signature current.

    Call `sign` after every append, before the record is stored. Call `follow` after another
    conversation was activated. It is not thread-safe, like the document.

    Args:
        is_local: True if the conversation began in this process. Otherwise, its signature decides.
        can_sign: False for reproducible records, which are not signed.
        workspace: The workspace of the notebook. Without one, a signature counts in each folder.

    Attributes:
        why_not: Why the active conversation is not trusted; None if it is.
        unsigned_reason: Why a trusted conversation is not signed; None if it is, or is empty.
    """

    def __init__(
        self,
        document: Document,
        keys: SigningKeys,
        *,
        is_local: bool,
        can_sign: bool = True,
        workspace: Workspace | None = None,
    ) -> None:
        self._document = document
        self._keys = keys
        self._workspace = workspace
        self._signs = can_sign
        self._left_states: set[bytes] = set()
        self._stream = document.conversation
        self._signer: Signer | None = None
        self.unsigned_reason: str | None = None
        self.why_not: str | None = None
        self._adopt(is_local=is_local)

    @property
    def trusted(self) -> bool:
        """True if the active conversation is trusted."""
        return self.why_not is None

    @property
    def is_moved(self) -> bool:
        """True if the user signed the active conversation, but in another workspace."""
        return self.why_not == MOVED

    def sign(self) -> bool:
        """Renew the signature of a trusted conversation with new entries.

        Return True if the signature was changed. Only new entries are read. An untrusted
        conversation, or one that `follow` was not called for, is not signed. After an error, which
        is not raised, `unsigned_reason` has the reason.
        """
        stream = self._stream

        if self._document.conversation is not stream or not (self.trusted and len(stream)):
            return False

        if not self._signs:
            self._document.extra.pop(SIGNATURE_KEY, None)  # it does not cover new entries
            return False

        signer = self._signer
        if self.unsigned_reason or (
            signer and signer.is_current(stream) and SIGNATURE_KEY in self._document.extra
        ):
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
        """Continue with the new active conversation. Sign it if it `is_local`.

        A conversation that was trusted when this process left it is trusted again.
        """
        left = self._stream
        signer = self._signer

        if self.trusted and len(left):
            with suppress(StorageError):  # otherwise it is untrusted on return
                if signer is not None and signer.is_current(left):
                    self._left_states.add(signer.digest())
                else:
                    self._left_states.add(_compute_digest(left))

        self._adopt(is_local=is_local)
        self.sign()

    def accept(self) -> None:
        """Sign the active conversation, which is trusted from now on.

        Raises:
            NoKeyError: There is no usable key. Nothing is changed.
            StorageError: The conversation cannot be signed. Nothing is changed.
        """
        if not self._signs:
            raise NoKeyError("a reproducible record is never signed")
        stream = self._document.conversation
        signer = Signer.of(self._keys.obtain(), stream)

        self._stream = stream
        self.why_not = None
        self.unsigned_reason = None
        self._write(signer)

    def revoke(self) -> bool:
        """Remove the signature. The active conversation is untrusted from now on.

        Return True if it was trusted or had a signature.

        Raises:
            StorageError: The workspace cannot forget it. Nothing is changed.
        """
        if self._workspace is not None:
            self._workspace.forget(self._document.conversation)
        had = self._document.extra.pop(SIGNATURE_KEY, None) is not None or self.trusted
        self._stream = self._document.conversation
        self._signer = None
        self.why_not = "you revoked your signature"
        return had

    # --- internals ---------------------------------------------------------------------------

    def _adopt(self, *, is_local: bool) -> None:
        self._stream = self._document.conversation
        self._signer = self.unsigned_reason = None
        if is_local and not len(self._stream):
            self._document.extra.pop(SIGNATURE_KEY, None)  # of another conversation
        self.why_not = None if is_local else self._find_untrusted_reason()

    def _find_untrusted_reason(self) -> str | None:
        try:
            if self._left_states and (found := _compute_digest(self._stream)) in self._left_states:
                self._left_states.discard(found)
                return None  # it is as trusted as when this process left it

            signature = self._document.extra.get(SIGNATURE_KEY)
            if signature is None:
                return "it is not signed"

            if isinstance(signature, str) and _EARLIER.fullmatch(signature):
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

        try:
            is_permitted = self._workspace is None or self._workspace.permits(self._stream)
        except StorageError as exc:
            return str(exc)

        return None if is_permitted else MOVED

    def _write(self, signer: Signer) -> bool:
        self._signer = signer
        before = self._document.extra.get(SIGNATURE_KEY)
        self._document.extra[SIGNATURE_KEY] = signer.signature()
        if self._workspace is not None:
            self._workspace.remember(self._stream)
        return self._document.extra[SIGNATURE_KEY] != before
