"""Decide if a conversation is trusted, and keep its signature current.

A conversation is trusted if it began in this process, or has a signature of all of it by the user's
key, which counts in the workspace of the notebook. `Projection` omits settings of an untrusted
conversation that only the user may set.

Source: `docs/record.md` (signature), `docs/security.md`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from pydantic import SecretBytes

from jp_nb.errors import StorageError
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.signing import (
    SIGNATURE_KEY,
    Signer,
    compute_stream_digest,
    is_earlier_signature,
    is_signature,
)
from jp_nb.record.stream import ConversationStream


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

    A conversation that is left is remembered by its digest, so that it is trusted again when the
    user returns to it, even without a signature.

    Args:
        is_trusted: True if the conversation is trusted without a signature, for example because it
            began in this process. Otherwise, its signature decides.
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
        is_trusted: bool,
        can_sign: bool = True,
        workspace: Workspace | None = None,
    ) -> None:
        self._document = document
        self._keys = keys
        self._workspace = workspace
        self._can_sign = can_sign
        self._left_digests: set[bytes] = set()  # of trusted conversations, when they were left
        self._stream = document.conversation
        self._signer: Signer | None = None
        self.unsigned_reason: str | None = None
        self.why_not: str | None = None
        self._adopt(is_trusted=is_trusted)

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
        conversation, or one that `follow` was not called for, is not signed. An error is not
        raised: `unsigned_reason` has it, and later calls do nothing.
        """
        stream = self._stream

        if self._document.conversation is not stream or not (self.trusted and len(stream)):
            return False

        if not self._can_sign:
            self._document.extra.pop(SIGNATURE_KEY, None)  # it does not cover new entries
            return False

        if self.unsigned_reason or self._has_current_signature():
            return False

        signer = self._signer
        try:
            if signer is None or not signer.has_signed_start_of(stream):
                signer = Signer.of(self._keys.obtain(), stream)
            signer.catch_up(stream)
        except StorageError as exc:
            self.unsigned_reason = str(exc)
            return False
        return self._write(signer)

    def _has_current_signature(self) -> bool:
        has_signature = SIGNATURE_KEY in self._document.extra
        return has_signature and self._signer is not None and self._signer.is_current(self._stream)

    def follow(self, *, is_trusted: bool = False) -> None:
        """Continue with the new active conversation.

        If the caller knows that it `is_trusted`, sign it. Otherwise, its signature decides.
        A conversation that was trusted when this process left it is trusted again.
        """
        left = self._stream
        signer = self._signer

        if self.trusted and len(left):
            with suppress(StorageError):  # otherwise it is untrusted on return
                if signer is not None and signer.is_current(left):
                    self._left_digests.add(signer.digest())
                else:
                    self._left_digests.add(compute_stream_digest(left))

        self._adopt(is_trusted=is_trusted)
        self.sign()

    def accept(self) -> None:
        """Sign the active conversation, which is trusted from now on.

        Raises:
            NoKeyError: There is no usable key. Nothing is changed.
            StorageError: The conversation cannot be signed. Nothing is changed.
        """
        if not self._can_sign:
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
        had_signature = self._document.extra.pop(SIGNATURE_KEY, None) is not None
        was_trusted = self.trusted
        self._stream = self._document.conversation
        self._signer = None
        self.why_not = "you revoked your signature"
        return had_signature or was_trusted

    # --- internals ---------------------------------------------------------------------------

    def _adopt(self, *, is_trusted: bool) -> None:
        """Decide anew, for the conversation that is active now."""
        self._stream = self._document.conversation
        self._signer = None
        self.unsigned_reason = None
        if is_trusted and not len(self._stream):
            # The document has one signature, which was that of the conversation before.
            self._document.extra.pop(SIGNATURE_KEY, None)
        self.why_not = None if is_trusted else self._find_untrusted_reason()

    def _is_as_left(self) -> bool:
        """Return True if the conversation is trusted and unchanged since this process left it.

        This state is then forgotten.
        """
        if not self._left_digests:
            return False

        digest = compute_stream_digest(self._stream)
        is_left = digest in self._left_digests
        self._left_digests.discard(digest)
        return is_left

    def _find_untrusted_reason(self) -> str | None:
        """Return the reason why the conversation is not trusted; None if it is."""
        try:
            if self._is_as_left():
                return None

            signature = self._document.extra.get(SIGNATURE_KEY)
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

        try:
            is_permitted = self._workspace is None or self._workspace.permits(self._stream)
        except StorageError as exc:
            return str(exc)

        return None if is_permitted else MOVED

    def _write(self, signer: Signer) -> bool:
        """Store the signature of `signer`. Return True if it differs from the stored one."""
        self._signer = signer
        previous = self._document.extra.get(SIGNATURE_KEY)
        self._document.extra[SIGNATURE_KEY] = signer.signature()
        if self._workspace is not None:
            self._workspace.remember(self._stream)
        return self._document.extra[SIGNATURE_KEY] != previous
