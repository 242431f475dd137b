"""Describe texts, bytes, numbers, dates, paths, and other plain values.

A *describer* returns the text of a value for the model, within its `limits` (`base.py`). With
`limits.brief`, the text is one line. `limits.describe_part` describes a part of the value within
`limits.for_part(chars)`.

Source: `docs/values.md`.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Final

from jp_nb.image_headers import detect_media_type
from jp_nb.images import Image
from jp_nb.values.base import Description, DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.class_facts import list_types, name_type
from jp_nb.values.cut_text import cut_end, cut_middle, format_quantity, without_addresses
from jp_nb.values.nested_text import format_int
from jp_nb.values.privacy import read_bytes_without_hidden

MAX_VALUE_IMAGE_BYTES = 5_000_000
"""Maximum size of an image or a PDF that the model gets. Of a larger one, only the format."""
_NOTE_CHARS: Final = 60
"""Room for the note about omitted bytes."""
_PATTERN_CHARS: Final = 14
"""Room for `re.compile(…)` around the pattern."""
_CHARS_PER_BYTE: Final = 4
"""Longest `repr` of a byte: `\\x00`."""


def _describe_text(value: str, limits: DescriptionLimits) -> str:
    text = str.__str__(value)  # a subclass may have another `__str__`, such as that of an `Enum`
    if limits.brief:
        return repr(cut_end(text, limits.chars))
    return cut_middle(text, limits.chars, limits.name)


def _describe_bytes(value: bytes | bytearray, limits: DescriptionLimits) -> str | Description:
    length = len(value)
    kind = detect_media_type(bytes(value[:16]))
    title = f"{type(value).__name__}, {format_quantity(length, 'byte')}"

    if kind is not None:
        shown = limits.images > 0 and length <= MAX_VALUE_IMAGE_BYTES
        images = (Image(kind, bytes(value), limits.name),) if shown else ()
        return Description(f"{title}: {kind}", images)

    room = max((limits.chars - len(title) - _NOTE_CHARS) // _CHARS_PER_BYTE, 8)
    if length <= room:
        return repr(bytes(value))

    # For example: `… 80 more bytes; data[20:] has the rest`
    left = limits.format_omitted(length - room, "byte", f"[{room}:] has the rest")
    return f"{title}: {read_bytes_without_hidden(value)[:room]!r} {left}"


def _describe_numpy_scalar(value: Any, limits: DescriptionLimits) -> str:
    if value.dtype.names is None:
        return str(value)
    return limits.describe_part({name: value[name] for name in value.dtype.names}, limits).text


def _describe_member(value: Any, limits: DescriptionLimits) -> str:
    kind = type(value)
    name = f"{name_type(kind).rpartition('.')[2]}.{value._name_}"
    inner = limits.describe_part(value._value_, limits.for_part(200, brief=True))
    return f"{name} (value {inner.text})"


def _describe_path(value: Any, limits: DescriptionLimits) -> str:
    text = str(value)
    if "Path" not in {kind.__name__ for kind in list_types(value)}:
        return text  # a pure path may be a path of another machine

    try:
        status = os.stat(text)
    except (OSError, ValueError):
        return f"{text} (does not exist)"

    if stat.S_ISDIR(status.st_mode):
        return f"{text} (a folder)"
    return f"{text} (a file of {format_quantity(status.st_size, 'byte')}, not read)"


def _describe_pattern(value: re.Pattern[Any], limits: DescriptionLimits) -> str:
    flags = re.RegexFlag(value.flags & ~re.UNICODE.value)
    end = f", flags {flags!s}" if flags else ""
    room = limits.chars - len(end) - _PATTERN_CHARS
    return f"re.compile({cut_end(repr(value.pattern), room)}{end})"


def _describe_displayed(value: Any, limits: DescriptionLimits) -> str | Description:
    """Describe an object of `IPython.display`, such as `Markdown` and `Image`, by its data."""
    data = value.data
    if isinstance(data, str):
        return data
    if isinstance(data, bytes | dict | list):
        return limits.describe_part(data, limits)
    return without_addresses(f"IPython {type(value).__name__}")


_STR: Final = ValueKind(lambda value, _: str(value))
_INT: Final = ValueKind(lambda value, _: str(value) if type(value) is bool else format_int(value))
PLAIN_KINDS: Final[ValueKinds] = (
    ("numpy", "generic", ValueKind(_describe_numpy_scalar)),
    ("IPython.core.display", "DisplayObject", ValueKind(_describe_displayed, is_rich=True)),
    ("builtins", "str", ValueKind(_describe_text)),
    ("enum", "Enum", ValueKind(_describe_member)),
    ("builtins", "bytes", ValueKind(_describe_bytes)),
    ("builtins", "bytearray", ValueKind(_describe_bytes)),
    ("builtins", "int", _INT),
    ("datetime", "date", _STR),
    ("datetime", "time", _STR),
    ("datetime", "timedelta", _STR),
    ("datetime", "tzinfo", _STR),
    ("decimal", "Decimal", _STR),
    ("fractions", "Fraction", _STR),
    ("uuid", "UUID", _STR),
    ("pathlib", "PurePath", ValueKind(_describe_path)),
    ("re", "Pattern", ValueKind(_describe_pattern)),
)
"""The order has no meaning: of a value, the nearest class that is listed counts (`ClassTable`)."""
