"""Keep the log of the library `mcp` out of the cell.

Its texts come from servers. Those of a sign-in may quote tokens.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# The loggers of the library (one of its modules uses the name `client`), and of its HTTP client.
_LOGGERS: Final = (
    "client",
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
_IN_LIBRARY: ContextVar[bool] = ContextVar("_IN_LIBRARY", default=False)
"""True in the code of a connection. Other code of the kernel may use the library as well."""


@contextmanager
def without_library_log() -> Iterator[None]:
    """Drop the log of the library in this block, and in the tasks that it starts."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_keep_record)  # has no effect the second time

    token = _IN_LIBRARY.set(True)
    try:
        yield
    finally:
        _IN_LIBRARY.reset(token)


def _keep_record(record: logging.LogRecord) -> bool:
    """Return False for a record of a connection: the filter of the loggers."""
    return not _IN_LIBRARY.get()
