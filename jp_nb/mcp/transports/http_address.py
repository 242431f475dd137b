"""Check the address and the headers of a server before anything is sent to it.

`launch_resolution.py` has checked the address of a setting, with an error that names the setting.
This check holds for every launch, whoever made it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2

from jp_nb.mcp.errors import StartError
from jp_nb.mcp.transports.launches import HttpLaunch
from jp_nb.mcp.transports.loopback import is_loopback
from jp_nb.text import one_line


def check_address(launch: HttpLaunch) -> None:
    """Check that the address of a server may be used.

    Raises:
        StartError: It is not an address, or it is not encrypted.
    """
    try:
        urlsplit(launch.url)
        url = httpx2.URL(launch.url)
    except (httpx2.InvalidURL, ValueError) as exc:
        raise StartError("its url is not an address") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise StartError("its url does not begin with https:// or http://")
    if url.scheme == "http" and not is_loopback(url.host) and not launch.insecure:
        raise StartError(
            "plain HTTP sends headers and data unencrypted to another computer. Use https://, or "
            "set `insecure = true` for this server"
        )
    for name, value in launch.headers.items():
        if not (name.isascii() and name.isprintable() and value.isprintable() and value.isascii()):
            raise StartError(f"its header {one_line(name)} has characters that are not valid")
