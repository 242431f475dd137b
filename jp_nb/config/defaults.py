"""What holds when nobody configured anything. Imports nothing."""

from __future__ import annotations

DEFAULT_MODEL = "scripted/welcome"
"""The embedded script: no network, no key."""
