"""Rules that hide secrets in the descriptions of values.

`describe` sets the rules in a context variable, and every describer uses them. The rules for a
user's notebook are in `jp_nb/toolkit/secrets/notebook_secrets.py`.

Source: `docs/values.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Privacy:
    """Rules for the hidden parts of values. This one hides nothing."""

    def name(self, name: str, value: object) -> str | None:
        """Return the replacement for a part with this name; None if it is shown."""
        return None

    def value(self, value: object) -> str | None:
        """Return the replacement for a value that is a secret as a whole; None if it is shown."""
        return None

    def text(self, text: str) -> str:
        """Return `text` without the secrets in it."""
        return text


_CURRENT: ContextVar[Privacy] = ContextVar("jp_nb_privacy", default=Privacy())  # noqa: B039
"""The rules of the description that runs in this context. The default hides nothing."""


@contextmanager
def apply_privacy(privacy: Privacy | None) -> Iterator[None]:
    """Apply `privacy` to descriptions and paths inside the block; None keeps the current rules."""
    if privacy is None:
        yield
        return

    token = _CURRENT.set(privacy)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def hide_part(key: object, value: object = None) -> str | None:
    """Return the replacement for the part `value` under `key`; None if it is shown.

    The key may be a tuple, such as a column of several levels: each of its texts is a name.
    """
    if type(key) is tuple:
        replacements = (hide_part(name, value) for name in key)
        return next((text for text in replacements if text is not None), None)

    # Not `isinstance`: a key may claim another `__class__`.
    if issubclass(type(key), bytes):
        key = key.decode(errors="replace")  # type: ignore[attr-defined]
    if not issubclass(type(key), str):
        return None
    return _CURRENT.get().name(key, value)  # type: ignore[arg-type]


def hide_value(value: object) -> str | None:
    """Return the replacement for `value` if it is a secret as a whole; None if it is shown."""
    return _CURRENT.get().value(value)


def without_hidden(text: str) -> str:
    """Return `text` without the secrets in it."""
    return _CURRENT.get().text(text)


def read_bytes_without_hidden(value: bytes | bytearray) -> bytes:
    """Return `value` without the secrets in it."""
    # Latin-1 has a character for each byte, so all other bytes stay the same.
    return without_hidden(value.decode("latin-1")).encode("latin-1", "replace")
