"""Defaults that hold when nobody configured anything. Imports nothing."""

from __future__ import annotations

DEFAULT_MODEL = "scripted/welcome"
"""The embedded script: no network, no key."""

ENVIRONMENT_PREFIX = "JP_CFG_"
"""Of the variables that configure, such as `JP_CFG_ASSISTANT__MODEL__ID`."""
