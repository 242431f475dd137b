"""Errors about values of settings, without secrets: a user may write a key where none belongs.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from pydantic import BaseModel

from jp_nb.config.secrets.api_keys import looks_like_secret
from jp_nb.config.secrets.secret_names import may_hold_secret

_MAX_CHARS = 80
"""Maximum length of a text in an error."""
_SECRET_PREFIX_CHARS = 4
"""Length of the shown part of a possible key: enough to find it, and too little to use it."""


class UnexpectedValueError(ValueError):
    """Raised for a value that a setting does not accept.

    Attributes:
        expected: The accepted values, in words. The message begins with "expected", and ends with a
            description of `value`, or with `found`.
        cause: The reason, such as "'aliases' cannot be the name of a server". With a cause, the
            message begins with it, and does not describe the value.
    """

    def __init__(
        self, expected: str, value: object = None, *, cause: str = "", found: str = ""
    ) -> None:
        self.expected = expected
        self.cause = cause
        shown = f"found {found}" if found else describe_found(value)

        message = f"expected {expected}, {shown}"
        if cause:
            message = f"{cause}, expected {expected}"
        super().__init__(message)


def shorten_for_error(text: str) -> str:
    """Return the first part of `text` for an error message, shorter for a possible key."""
    if looks_like_secret(text[: 5 * _MAX_CHARS]):
        return f"{text[:_SECRET_PREFIX_CHARS]}…"
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"


def describe_found(value: object, path: str = "") -> str:
    """Return `found …` for an error message, without contents of tables and without secrets.

    `path` is the setting, whose name may tell that the value is a secret.
    """
    match value:
        case dict() | BaseModel():
            return "found a table"
        case list() | tuple():
            return "found a list"
        case None:
            return "found nothing"

    if may_hold_secret(path) or (
        isinstance(value, str) and looks_like_secret(value[: 5 * _MAX_CHARS])
    ):
        return "found something else (not shown: it may be a secret)"

    text = repr(value) if isinstance(value, (str, int, float)) else str(value)
    if isinstance(value, bool):
        text = str(value).lower()
    if len(text) > _MAX_CHARS:
        text = f"{text[:_MAX_CHARS]}…"

    return f"found {text}"
