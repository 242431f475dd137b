"""Hosts that are this computer: connections to them need no encryption, and no proxy.

Source: `docs/mcp.md`, Configure servers.
"""

from __future__ import annotations

import ipaddress
from typing import Final

_LOOPBACK_NAMES: Final = ("localhost", "localhost.")


def is_loopback(host: str) -> bool:
    """Return True if `host` is this computer, by its name or its address."""
    name = host.lower()
    if name in _LOOPBACK_NAMES or name.endswith((".localhost", ".localhost.")):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False
