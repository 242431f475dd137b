"""Read from the response of a busy MCP server when it may accept the same request.

Source: `docs/mcp.md`, Protocols, transports, limits;
https://www.rfc-editor.org/rfc/rfc9110#name-retry-after.
"""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import httpx2

BUSY_STATUSES: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Statuses of a server that may accept the same request later."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def read_wait_s(response: httpx2.Response) -> float | None:
    """Return the seconds for which the server asks to wait, or None without a readable value."""
    # The header has a number of seconds or a date.
    text = response.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)

    try:
        wait = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, LookupError, ArithmeticError, OSError):  # any text of a server
        return None

    return max(wait, 0)
