"""The texts that replace secrets."""

from __future__ import annotations

NOT_SHOWN = "(set, not shown)"
"""Replaces a secret value in settings and texts."""
SECRET_ANSWER = "(secret)"
"""Replaces the answer to a secret question."""
PROVIDER_KEY_MARK = "[key]"
"""Replaces a provider's key in the response of a server."""


def redact_secret(secret: str) -> str:
    """Return the replacement for `secret`, with the same number of line breaks."""
    return NOT_SHOWN + "\n" * secret.count("\n")
