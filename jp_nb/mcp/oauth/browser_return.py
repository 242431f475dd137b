"""Read the address to which the authorization server sent the browser of a user who signed in.

It is the address of a page of this computer (`redirect_page.py`), with parameters of the server. A
browser on another computer cannot reach the page: the user then pastes the address.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from jp_nb.mcp.errors import SignInError
from jp_nb.text import one_line


class BrowserReturn(NamedTuple):
    """The parameters of the address to which the browser was sent.

    Attributes:
        code: The code that the flow exchanges for a token.
        state: The random text of the page on which the user signed in.
        issuer: The authorization server, if it names itself.
    """

    code: str
    state: str | None
    issuer: str | None


def read_return(address: str) -> BrowserReturn:
    """Read the address to which the browser was sent.

    Raises:
        SignInError: It has no code, or the reason why the user was refused.
    """
    try:
        query = parse_qs(urlsplit(address.strip()).query)
    except ValueError:
        query = {}

    if error := query.get("error"):
        reason = query.get("error_description", error)[0]
        raise SignInError(f"The sign-in was refused: {one_line(reason, limit=300)}")

    if not (codes := query.get("code")):
        raise SignInError(
            "The address has no code. Paste the whole address to which the browser was sent after "
            "you signed in."
        )

    return BrowserReturn(codes[0], get_first_value(query, "state"), get_first_value(query, "iss"))


def get_first_value(query: Mapping[str, list[str]], name: str) -> str | None:
    """Return the first value of a parameter of an address; None if there is none."""
    values = query.get(name)
    return values[0] if values else None
