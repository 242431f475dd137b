"""Cache diagnostics: a server tells why its prompt cache could not be used for a request.

For that, it compares the request with the previous one. A request names the previous one by the id
of its response (`read_response_id`).

Source: `docs/providers.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from jp_nb.json_writing import compact_json
from jp_nb.providers.key_redactor import KeyRedactor

_MAX_ID: Final = 200
_MAX_LOGGED: Final = 1_000


class CacheDiagnostics:
    """Decides if requests ask a server for cache diagnostics, and logs its answers.

    Diagnostics appear only in the log, so requests ask for them only if the log is on. The provider
    sets `is_accepted` to False after the server has rejected a request that asks for them.
    `redactor` returns the one of the current key.
    """

    def __init__(self, logger: logging.Logger, redactor: Callable[[], KeyRedactor]) -> None:
        self.is_accepted = True
        self._logger = logger
        self._redactor = redactor

    @property
    def are_wanted(self) -> bool:
        """True if the next request asks for diagnostics."""
        return self.is_accepted and self._logger.isEnabledFor(logging.DEBUG)

    def log(self, diagnostics: JsonValue) -> None:
        """Log the diagnostics of a response, if there are any, without the key."""
        if isinstance(diagnostics, dict):
            shown = self._redactor().hide(compact_json(diagnostics))
            self._logger.debug("Cache diagnostics: %s", shown[:_MAX_LOGGED])


def read_response_id(value: JsonValue) -> str | None:
    """Return the id of a response, which the next request names; None if there is none."""
    return str(value or "")[:_MAX_ID] or None
