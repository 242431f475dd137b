"""Decides whether a record is the user's own, and keeps its signature. Pure.

What a stranger put into a notebook is data (`Projection` leaves out what only the user may
decide). Ours is what began in this process, and what carries the signature that one of our
processes made of all of it: a record of ours in which a message was changed is a stranger's.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Protocol

from pydantic import SecretBytes

from jp_nb.errors import StorageError
from jp_nb.record.document import Document
from jp_nb.record.signature import Signer, is_earlier_signature, is_signature

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

    def __init__(self, document: Document, keys: Keys, *, ours: bool, signs: bool = True) -> None:
        self._document = document
        self._keys = keys
        self._signs = signs
        self._process_key = SecretBytes(secrets.token_bytes(32))
        self._left: set[str] = set()
        self._stream = document.conversation
        self._signer: Signer | None = None
        self.unsigned: str | None = None
        self.why_not: str | None = None
        self._take(ours=ours)

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
        if self.unsigned or (signer and signer.is_current(stream) and self._is_signed):
            return False
        try:
            if signer is None or not signer.may_follow(stream):
                signer = Signer.of(self._keys.obtain(), stream)
            signer.catch_up(stream)
        except StorageError as exc:
            self.unsigned = str(exc)
            return False
        return self._write(signer)

    def follow(self, *, ours: bool = False) -> None:
        """Go on with another active conversation: look at it, and sign it if it is `ours`.

        One that was trusted when this process left it still is, signed or not.
        """
        left = self._stream
        if self.trusted and len(left):
            with suppress(StorageError):  # then it is not trusted when it comes back
                self._left.add(Signer.of(self._process_key, left).signature())
        self._take(ours=ours)
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
        self._stream, self.why_not, self.unsigned = stream, None, None
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

    def _take(self, *, ours: bool) -> None:
        self._stream = self._document.conversation
        self._signer = self.unsigned = None
        if ours and not len(self._stream):
            self._document.extra.pop(SIGNATURE, None)  # of another one
        self.why_not = None if ours else self._doubt()

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
