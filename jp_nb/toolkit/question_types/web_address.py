"""Read a URL as a browser reads it: its host, the link to open, and reasons to be careful.

A URL of a tool or a server may be made to look like another one. So the host is marked, and a text
that browsers and Python may read differently gets no link: the user only sees it.

Source: https://url.spec.whatwg.org/#host-parsing, https://modelcontextprotocol.io/specification
(client, elicitation, Safe URL Handling).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

MAX_URL_CHARS: Final = 4_000
"""Maximum length of the URL in a question: the user has to read all of it."""

_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#@]*)@)?(?P<host>[^/?#@:\[\]]+|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<rest>(?:[/?#].*)?)",
    re.IGNORECASE | re.ASCII,
)
_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", re.IGNORECASE | re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE | re.ASCII)
"""The last part of a host that browsers read as an IP address."""
_USER: Final = re.compile(r"//[^/@]*@")
_UNRESERVED: Final = "!#$%&'()*+,/:;=?@[]~"

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
    found = _URL.fullmatch(url)
    if found is None or len(url) > MAX_URL_CHARS or not url.isprintable() or _has_breaks(url):
        return WebAddress(url, warnings=(NO_LINK,))
    host = _encode_host(found["host"])
    if host is None or int(found["port"] or 0) > 65_535:
        return WebAddress(url, warnings=(NO_LINK,))

    warnings = list[str]()
    if found["scheme"].lower() != "https":
        warnings.append(NOT_ENCRYPTED)
    if found["user"] is not None:
        warnings.append(NAMES_A_USER.format(host))
    if host.startswith("[") or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        warnings.append(IS_AN_ADDRESS)
    if "xn--" in host or not found["host"].isascii():
        warnings.append(HAS_LOOKALIKES.format(host))

    start, end = found.span("host")
    before = url[:start]
    after = url[end:]
    link = quote(before, safe=_UNRESERVED) + host + quote(after, safe=_UNRESERVED)
    return WebAddress(before, found["host"], after, link, tuple(warnings))


def _has_breaks(url: str) -> bool:
    # Browsers read a backslash as a slash. They remove or escape the others.
    return any(char in '\\<>"` ' for char in url)


def _encode_host(host: str) -> str | None:
    if host.startswith("["):
        return host.lower()
    try:
        encoded = host.lower().encode("idna").decode("ascii")
    except UnicodeError:
        return None
    return encoded if _HOST.fullmatch(encoded) else None
