"""Remove the keys of providers from the logs of the HTTP libraries.

Their log records contain the headers of a server, which may send the key back.
"""

from __future__ import annotations

import logging
from typing import Final

from jp_nb.providers.key_redactor import get_current_redactor

_CORE_PARTS: Final = ("connection", "http11", "proxy", "socks")
_LOGGERS: Final = (
    "httpx",
    "httpx2",
    *(f"httpcore.{part}" for part in _CORE_PARTS),
    *(f"httpcore2.{part}" for part in _CORE_PARTS),
)


class _KeyFilter(logging.Filter):
    """Removes the keys in the environment `variables` from log records."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the message of `record` by one without keys. Every record is kept."""
        message = record.getMessage()
        shown = message
        for variable in [*self.variables]:
            shown = get_current_redactor(variable).hide(shown)

        if shown != message:
            record.msg = shown
            record.args = ()
        return True


_KEY_FILTER: Final = _KeyFilter()


def hide_key_in_logs(variable: str | None) -> None:
    """Remove the key in an environment variable from later log records of the HTTP libraries."""
    if variable is None:
        return

    _KEY_FILTER.variables.add(variable)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_KEY_FILTER)  # has no effect the second time
