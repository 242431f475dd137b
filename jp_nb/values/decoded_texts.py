"""Read the text of strings, bytes, buffers, and lists of characters, for the search for secrets.

A secret may be in a variable in another form than a `str`: as bytes, as an array of characters, or
in an object of pydantic that hides it.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

from typing import Any, Final

from jp_nb.values.class_facts import FAILURES, is_a

MAX_READ_BYTES: Final = 1_000_000
"""Maximum size of an array that is read as text."""
MAX_JOINED_ITEMS: Final = 10_000
"""Maximum length of a list of characters that is read as a text."""
_BYTES_KINDS: Final = "uib"
"""Kinds of numpy for whole numbers, with and without a sign, and for booleans."""
_CHARACTERS_KINDS: Final = "SU"
"""Kinds of numpy for bytes and for characters; an item may have several."""
_LONGEST_ITEM_BYTES: Final = 64
"""16 characters of the kind `U`."""


def decode_as_text(value: object) -> str | None:
    """Return the text of a string, of bytes, of a buffer, or of pydantic's secret types."""
    kind = type(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if kind in (bytes, bytearray):
        return bytes(value).decode(errors="replace")  # type: ignore[call-overload, no-any-return]

    if is_a(value, "pydantic", "SecretStr") or is_a(value, "pydantic", "SecretBytes"):
        return decode_as_text(object.__getattribute__(value, "_secret_value"))
    if kind is memoryview or is_a(value, "array", "array") or is_a(value, "numpy", "ndarray"):
        return _decode_buffer(value)

    return None


def _decode_buffer(value: Any) -> str | None:
    """Return the text of a buffer of bytes or characters; None if it is too large or has numbers.

    Only arrays of numpy say what their items are. An `array.array` or a view is read as text
    whatever its items are.
    """
    try:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and not _is_text_type(dtype):
            return None
        if getattr(value, "nbytes", len(value)) > MAX_READ_BYTES:
            return None

        encoding = "utf-32-le" if dtype is not None and dtype.kind == "U" else "utf-8"
        return str(value.tobytes(), encoding, "replace").replace("\0", "")
    except FAILURES:
        return None


def _is_text_type(dtype: Any) -> bool:
    """Return True if the items of a numpy array can be the bytes or characters of one text."""
    if dtype.kind in _BYTES_KINDS:
        return bool(dtype.itemsize == 1)
    # Longer items are texts of their own, which are read one by one.
    return dtype.kind in _CHARACTERS_KINDS and dtype.itemsize <= _LONGEST_ITEM_BYTES


def join_characters(value: list[object] | tuple[object, ...]) -> str | None:
    """Return the text of a list of single characters or of bytes; None for another list."""
    if not 1 < len(value) <= MAX_JOINED_ITEMS:
        return None

    if all(type(item) is str and len(item) == 1 for item in value):
        return "".join(value)  # type: ignore[arg-type]
    if all(type(item) is int and 0 <= item < 256 for item in value):
        return bytes(value).decode(errors="replace")  # type: ignore[arg-type]

    return None
