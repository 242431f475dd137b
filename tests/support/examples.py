"""Numbers of examples of property tests."""

from __future__ import annotations

from hypothesis import settings

PLAIN = settings(max_examples=20, deadline=None)
MANY = settings(max_examples=500, deadline=None)
"""For the tier `deep`."""
