"""Describes texts, bytes, numbers, times, members of enumerations, paths and patterns.

Source: `docs/values.md`.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from jp_nb.image import Image, media_type_of
from jp_nb.values.cutting import count, cut_end, cut_middle
from jp_nb.values.description import Description
from jp_nb.values.nested import int_text
from jp_nb.values.own_text import own_text, type_name, types_of
from jp_nb.values.privacy import bytes_without_hidden
from jp_nb.values.telling import Telling

MAX_IMAGE_BYTES = 5_000_000


def describe_text(value: str, telling: Telling) -> str:
    """Return the text itself; a long one is cut in its middle."""
    text = str.__str__(value)
    if telling.brief:
        return repr(cut_end(text, telling.chars))
    return cut_middle(text, telling.chars, telling.name)


def describe_bytes(value: bytes | bytearray, telling: Telling) -> str | Description:
    """Return the length of bytes and how they begin; an image is one."""
    length = len(value)
    kind = media_type_of(bytes(value[:16]))
    title = f"{type(value).__name__}, {count(length, 'byte')}"
    if kind is not None:
        shown = telling.images > 0 and length <= MAX_IMAGE_BYTES
        images = (Image(kind, bytes(value), telling.name),) if shown else ()
        return Description(f"{title}: {kind}", images)
    room = max((telling.chars - len(title) - 60) // 4, 8)
    if length <= room:
        return repr(bytes(value))
    left = telling.more(length - room, "byte", f"[{room}:] has the rest")
    return f"{title}: {bytes_without_hidden(value)[:room]!r} {left}"


def describe_int(value: int, telling: Telling) -> str:
    """Return an integer; a huge one by its size."""
    return str(value) if type(value) is bool else int_text(value)


def describe_numpy_scalar(value: Any, telling: Telling) -> str:
    """Return the text of a number of numpy; a record by its fields."""
    if value.dtype.names is None:
        return str(value)
    return telling.inner({name: value[name] for name in value.dtype.names}, telling).text


def describe_as_text(value: Any, telling: Telling) -> str:
    """Return the `str` of a value whose `repr` is code, such as a date or a decimal number."""
    return str(value)


def describe_member(value: Any, telling: Telling) -> str:
    """Return a member of an enumeration by its name and value."""
    kind = type(value)
    name = f"{type_name(kind).rpartition('.')[2]}.{value._name_}"
    inner = telling.inner(value._value_, telling.part(200, brief=True))
    return f"{name} (value {inner.text})"


def describe_path(value: Any, telling: Telling) -> str:
    """Return a path and what is there: nothing is read."""
    text = str(value)
    if "Path" not in {kind.__name__ for kind in types_of(value)}:
        return text  # a path that need not be one of this machine
    try:
        found = os.stat(text)
    except (OSError, ValueError):
        return f"{text} (does not exist)"
    if stat.S_ISDIR(found.st_mode):
        return f"{text} (a folder)"
    return f"{text} (a file of {count(found.st_size, 'byte')}, not read)"


def describe_pattern(value: re.Pattern[Any], telling: Telling) -> str:
    """Return a regular expression as code."""
    flags = re.RegexFlag(value.flags & ~re.UNICODE.value)
    end = f", flags {flags!s}" if flags else ""
    return f"re.compile({cut_end(repr(value.pattern), telling.chars - len(end) - 14)}{end})"


def describe_own(value: Any, telling: Telling) -> str:
    """Return what the value says of itself."""
    return own_text(value, telling.chars)
