"""Ids of received tool calls to which the server gave none."""

from __future__ import annotations

from hashlib import sha256


def make_call_id(number: int, request: bytes) -> str:
    """Return an id for a received call without one: a digest of its number and the request body.

    It is unique in the conversation, because each request has other messages. It is the same if the
    request is sent again.
    """
    digest = sha256(b"%d " % number + request)
    return f"call_{digest.hexdigest()[:32]}"
