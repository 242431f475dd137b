"""Check the addresses that a server names during a sign-in.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from jp_nb.mcp.errors import SignInError
from jp_nb.mcp.transports.loopback import is_loopback
from jp_nb.text import one_line


class AddressRules:
    """Checks the addresses that a server names during a sign-in.

    An address must use HTTPS. Plain HTTP, this computer, and private networks are allowed only if
    the server itself is there: otherwise a server could make the kernel send requests into the
    user's network.
    """

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._host = (parts.hostname or "").lower()
        # Kinds of networks of the server itself; None before they are needed.
        self._own_kinds: set[str] | None = None

    async def check(self, url: str) -> None:
        """Check an address that the server named.

        Raises:
            SignInError: It is not allowed.
        """
        host = self._check_form(url)
        if host == self._host:
            return

        if self._own_kinds is None:
            self._own_kinds = await _find_network_kinds(self._host)

        refused = await _find_network_kinds(host) - self._own_kinds
        if refused:
            raise SignInError(
                f"The server named an authorization address on {', '.join(sorted(refused))} "
                f"({one_line(host, limit=100)}). It is not used, because the server itself is not "
                "there."
            )

    def _check_form(self, url: str) -> str:
        """Return the host of an address that has an allowed form, or raise `SignInError`."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            _ = parts.port  # raises for a port that is no number
        except ValueError:
            host = ""

        if not host or parts.username or parts.password:
            raise SignInError("The server named an authorization address that is not valid.")
        is_local = is_loopback(host) and is_loopback(self._host)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
            raise SignInError(
                f"The server named an authorization address without HTTPS on "
                f"{one_line(host, limit=100)}. It is not used."
            )

        return host


async def _find_network_kinds(host: str) -> set[str]:
    """Return the kinds of networks of `host`, such as `a private network`, except the internet."""
    try:
        addresses: list[IPv4Address | IPv6Address] = [ip_address(host)]
    except ValueError:
        loop = asyncio.get_running_loop()
        try:
            entries = await loop.getaddrinfo(host, None)
        except (OSError, UnicodeError):  # the name is not known
            return {"this computer"} if is_loopback(host) else set()

        texts = [str(socket_address[0]) for *_, socket_address in entries]
        addresses = [ip_address(text.partition("%")[0]) for text in texts]  # `%` begins a zone

    kinds = {_find_network_kind(address) for address in addresses}
    return kinds - {""}


def _find_network_kind(address: IPv4Address | IPv6Address) -> str:
    """Return the kind of network of an address; "" for the internet."""
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped

    if address.is_loopback:
        return "this computer"
    if address.is_link_local:
        return "a link-local network"
    return "" if address.is_global and not address.is_multicast else "a private network"
