"""Constants of the configuration that modules need without its schema, which loads slowly.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

DEFAULT_MODEL = "scripted/welcome"
"""The built-in script: it needs no network and no key."""
ENVIRONMENT_PREFIX = "JP_CFG_"
"""Prefix of variables with settings, such as `JP_CFG_ASSISTANT__MODEL__ID`."""
