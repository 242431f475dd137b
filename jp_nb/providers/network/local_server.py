"""Find the address at which a local server answers, among the default addresses of its versions.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from time import monotonic
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

Local = Literal["llamacpp", "ollama"]
"""A kind of local server."""
PROBE_SECONDS: Final = 0.5
"""Limit for connecting to an address, and again for its answer."""
SILENCE_SECONDS: Final = 5.0
"""Time for which addresses without an answer are not asked again."""
_REQUEST: Final = b"GET /health HTTP/1.0\r\nHost: %b\r\n\r\n"  # llama-server needs no key for it
_HEALTHY: Final = re.compile(rb"HTTP/1\.[01] (?:200|503) ")  # 503: it loads its model

# The results of the searches in this process, which all endpoints share:
_answering: set[str] = set()
"""Addresses at which a server is known to run, until `forget_addresses`."""
_silent_until: dict[tuple[str, ...], tuple[float, str]] = {}
"""For addresses without an answer: the time until which they are not asked, and the one to use.

The time is one of `monotonic`.
"""


def find_answering_address(addresses: Sequence[str]) -> str:
    """Return the first of `addresses` at which a server answers, and remember it.

    If none answers, it is the first that accepts a connection, otherwise the first of all. The
    search takes at most `PROBE_SECONDS` twice for each address. A closed port takes no time.
    """
    for address in addresses:
        if address in _answering:
            return address

    until, fallback = _silent_until.get(tuple(addresses), (0.0, addresses[0]))
    if monotonic() < until:
        return fallback

    accepting = []
    for address in addresses:
        probe = _probe(address)
        if probe.is_healthy:
            _answering.add(address)
            return address
        if probe.is_open:
            accepting.append(address)

    fallback = (accepting or addresses)[0]
    _silent_until[tuple(addresses)] = monotonic() + SILENCE_SECONDS, fallback
    return fallback


def has_answered(address: str) -> bool:
    """Return True if `find_answering_address` remembers a server at `address`."""
    return address in _answering


def forget_addresses(addresses: Sequence[str]) -> bool:
    """Search again at the next request. Return True if one of `addresses` had answered."""
    _silent_until.pop(tuple(addresses), None)
    known = _answering.intersection(addresses)
    _answering.difference_update(known)
    return bool(known)


class _Probe(NamedTuple):
    """The state of an address.

    Attributes:
        is_open: True if the port accepts connections.
        is_healthy: True if a model server answers.
    """

    is_open: bool
    is_healthy: bool = False


def _probe(address: str) -> _Probe:
    """Ask the server at `address`, if there is one, for its health."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    port = parts.port or 80
    is_open = False
    try:
        with socket.create_connection((host, port), PROBE_SECONDS) as connection:
            is_open = True
            connection.sendall(_REQUEST % parts.netloc.encode())
            is_healthy = _HEALTHY.match(connection.recv(64)) is not None
            return _Probe(is_open, is_healthy)
    except OSError:
        return _Probe(is_open)
