"""Read a URL as a browser reads it: its host, the link to open, and reasons to be careful.

A URL of a tool or a server may be made to look like another one. So the host is marked, and a text
that browsers and Python may read differently gets no link: the user only sees it.

Source: https://url.spec.whatwg.org/#host-parsing, https://modelcontextprotocol.io/specification
(client, elicitation, Safe URL Handling).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

MAX_URL_CHARS: Final = 4_000
"""Maximum length of the URL in a question: the user has to read all of it."""

# Scheme, user, host, and port. Everything after them is the `rest`.
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#@]*)@)?(?P<host>[^/?#@:\[\]]+|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<rest>(?:[/?#].*)?)",
    re.IGNORECASE | re.ASCII,
)
_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", re.IGNORECASE | re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE | re.ASCII)
"""The last part of a host that browsers read as an IP address."""
_USER: Final = re.compile(r"//[^/@]*@")
_KEPT_IN_LINK: Final = "!#$%&'()*+,/:;=?@[]~"
"""Characters that stay as they are in the link."""

NO_LINK: Final = "This is no web address that a browser certainly opens as it is shown"
NOT_ENCRYPTED: Final = "The connection is not encrypted (http)"
NAMES_A_USER: Final = "The text before @ is not the host: the address leads to {}"
IS_AN_ADDRESS: Final = "The host is a number, not a name"
HAS_LOOKALIKES: Final = (
    "The host contains letters that may look like others. Browsers also write it as {}"
)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL for the user.

    Attributes:
        before: The text of the URL before its host.
        host: The host; "" if it is not certain.
        after: The text after the host.
        link: The URL for a browser, in ASCII; None if it must not be opened by a click.
        warnings: Reasons to be careful, each a sentence without its end.
    """

    before: str
    host: str = ""
    after: str = ""
    link: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole URL."""
        return f"{self.before}{self.host}{self.after}"


def remove_details(url: str) -> str:
    """Return `url` without query, fragment, and user, which may contain keys."""
    return _USER.sub("//", re.split(r"[?#]", url, maxsplit=1)[0], count=1)


@lru_cache(maxsize=100)
def read_web_address(url: str) -> WebAddress:
    """Return the parts of `url`, in linear time. Any text is accepted."""
    match = _URL.fullmatch(url)
    if match is None or len(url) > MAX_URL_CHARS or _has_ambiguous_chars(url):
        return WebAddress(url, warnings=(NO_LINK,))

    host = _encode_host(match["host"])
    if host is None or int(match["port"] or 0) > 65_535:
        return WebAddress(url, warnings=(NO_LINK,))

    start, end = match.span("host")
    before = url[:start]
    after = url[end:]
    link = quote(before, safe=_KEPT_IN_LINK) + host + quote(after, safe=_KEPT_IN_LINK)
    warnings = tuple(_list_warnings(match, host))
    return WebAddress(before, host=match["host"], after=after, link=link, warnings=warnings)


def _list_warnings(match: re.Match[str], host: str) -> Iterator[str]:
    """Yield reasons to be careful with the URL of `match`, whose host is encoded as `host`."""
    if match["scheme"].lower() != "https":
        yield NOT_ENCRYPTED
    if match["user"] is not None:
        yield NAMES_A_USER.format(host)

    last_part = host.rstrip(".").rpartition(".")[2]
    if host.startswith("[") or _NUMBER.fullmatch(last_part):
        yield IS_AN_ADDRESS
    if "xn--" in host or not match["host"].isascii():
        yield HAS_LOOKALIKES.format(host)


def _has_ambiguous_chars(url: str) -> bool:
    """Return True if browsers change characters: they read a backslash as a slash, for example."""
    return not url.isprintable() or any(char in '\\<>"` ' for char in url)


def _encode_host(host: str) -> str | None:
    """Return the host in ASCII, as browsers send it; None if it is not certain."""
    if host.startswith("["):
        return host.lower()
    try:
        encoded = host.lower().encode("idna").decode("ascii")
    except UnicodeError:
        return None
    return encoded if _HOST.fullmatch(encoded) else None
