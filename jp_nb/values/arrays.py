"""Describe NumPy arrays, tensors, buffers, and scalars.

Source: `docs/values.md`.
"""

from __future__ import annotations

import array
import math
import os
import re
import stat
from contextlib import suppress
from typing import Any, Final

from jp_nb.images import Image, detect_media_type
from jp_nb.values.base import (
    Description,
    DescriptionLimits,
    bytes_without_hidden,
    count,
    hidden_part,
    hidden_value,
    truncate_end,
    truncate_middle,
)
from jp_nb.values.containers import int_text
from jp_nb.values.custom import FAILURES, repr_text, type_name, types_of

MAX_SAMPLED: Final = 200_000
"""Limit for the elements from which the range is computed."""
MAX_MAPPED: Final = 10_000
"""The same limit for an array in a memory-mapped file."""
WHOLE_ARRAY: Final = 200
"""Maximum size of an array whose elements are all shown."""


def describe_numpy_array(value: Any, limits: DescriptionLimits) -> str:
    """Return shape, type, range, and elements. A large array has the range of a sample."""
    kind = type(value).__name__
    title = f"numpy.{kind}, shape {_format_shape(value.shape)}, {_format_dtype(value)}"
    if value.dtype.names and (hidden := hidden_fields(value.dtype)):
        title += f"; not shown: {', '.join(hidden)}"
        value = value[[name for name in value.dtype.names if name not in hidden]]
    if limits.brief:
        return title
    if value.size == 0 or value.dtype.names == ():
        return title
    lines = [title]
    if value.dtype.kind in "biufc" and (facts := _format_range(value)):
        lines.append(facts)
    room = limits.chars - sum(map(len, lines)) - 120
    is_whole = value.size <= WHOLE_ARRAY
    shown = _format_elements(value, limits, room, is_whole=is_whole)
    lines.append(truncate_end(shown, max(room, 20)))
    if not is_whole:
        dimensions = ", ".join(["0"] * (value.ndim - 1) + [":20"])
        lines.append(
            f"… {count(value.size, 'element')} in total; "
            f"{limits.expression(f'[{dimensions}]')} has the first of them"
        )
    return "\n".join(lines)


def _format_shape(shape: Any) -> str:
    return f"({', '.join(str(int(side)) for side in shape)}{',' if len(shape) == 1 else ''})"


def _format_dtype(value: Any) -> str:
    names = value.dtype.names
    if names:
        return f"fields {', '.join(f'{name} {value.dtype[name]}' for name in names)}"
    return str(value.dtype)


def _format_range(value: Any) -> str:
    limit = MAX_MAPPED if type(value).__name__ == "memmap" else MAX_SAMPLED
    is_all = value.size <= limit
    sample = value.reshape(-1) if is_all else _take_sample(value, limit)
    note = "" if is_all else f" (in a sample of at most {limit:,} elements, evenly spaced)"
    if sample.dtype.kind == "b":
        of = f" of {sample.size:,}" if is_all else note
        return f"{count(int(sample.sum()), 'element')} True{of}"
    if sample.dtype.kind == "c":
        return ""
    missing = 0
    known = sample
    if sample.dtype.kind == "f":
        known = sample[sample == sample]  # nan is not equal to itself
        missing = sample.size - known.size
    if not known.size:
        return f"all elements are nan{note}"
    mean = float(known.mean(dtype="float64"))
    mean_text = hidden_value(mean) or f"{mean:.6g}"
    facts = f"min {_format_number(known.min())}, max {_format_number(known.max())}"
    nan = f", {missing:,} nan" if missing else ""
    return f"{facts}, mean {mean_text}{nan}{note}"


def _take_sample(value: Any, limit: int) -> Any:
    # Evenly spaced elements along each axis. Slices are views, so only the sample is copied.
    left = float(limit)
    steps = []
    for axis, side in enumerate(value.shape):
        wanted = max(1, int(left ** (1 / (value.ndim - axis))))
        step = max(1, math.ceil(side / wanted))
        left /= math.ceil(side / step)
        steps.append(slice(None, None, step))
    return value[tuple(steps)].reshape(-1)


def hidden_fields(dtype: Any) -> list[str]:
    """Return the fields of a structured type that are hidden, or contain hidden fields."""
    names: tuple[str, ...] = dtype.names or ()
    return [
        name for name in names if hidden_part(name) is not None or hidden_fields(dtype[name].base)
    ]


def _format_number(value: Any) -> str:
    plain = value.item()
    if (hidden := hidden_value(plain)) is not None:
        return hidden
    return f"{plain:.8g}" if isinstance(plain, float) else str(plain)


def _format_elements(value: Any, limits: DescriptionLimits, room: int, *, is_whole: bool) -> str:
    if is_whole:
        return limits.inner(value.tolist(), limits.part(room)).text
    corner = _first_elements(value)
    values = corner.tolist()
    if len(corner.shape) < 2:
        return limits.inner(_round(values), limits.part(room)).text
    room = max(room // len(values) - 2, 20)
    return "\n".join(
        f"[{limits.inner(_round(row), limits.part(room)).text.strip('[]')}, …]" for row in values
    )


def _round(values: list[Any]) -> list[Any]:
    return [float(f"{each:.6g}") if type(each) is float else each for each in values]


def _first_elements(value: Any) -> Any:
    # The first elements along the last two axes, at the index 0 of all other axes.
    while len(value.shape) > 2:
        value = value[0]
    return value[:5, :10] if len(value.shape) == 2 else value[:20]


def describe_tensor(value: Any, limits: DescriptionLimits) -> str:
    """Return shape, type, range, and elements of a tensor. A tensor on a device is not copied."""
    title = f"{type_name(type(value))}, shape {_format_shape(value.shape)}, {value.dtype}"
    device = str(getattr(value, "device", "") or "")
    if device:
        title = f"{title}, on {device}"
    if limits.brief or device not in ("", "cpu") or not math.prod(value.shape):
        return title
    size = math.prod(int(side) for side in value.shape)
    lines = [title]
    if size <= MAX_SAMPLED and "complex" not in str(value.dtype):
        with suppress(*FAILURES):  # some types have no order
            lines.append(f"min {_format_number(value.min())}, max {_format_number(value.max())}")
    is_whole = size <= WHOLE_ARRAY
    shown = _format_elements(value, limits, limits.chars - 200, is_whole=is_whole)
    lines.append(truncate_end(shown, max(limits.chars - sum(map(len, lines)) - 80, 20)))
    if not is_whole:
        lines.append(f"… {count(size, 'element')} in total")
    return "\n".join(lines)


def describe_buffer(value: Any, limits: DescriptionLimits) -> str:
    """Return type, length, and first elements of an `array.array` or a `memoryview`."""
    if isinstance(value, array.array):
        title = f"array.array of {value.typecode!r}, {count(len(value), 'element')}"
        shown = value[:20].tolist()
    else:
        title = f"memoryview, shape {_format_shape(value.shape or ())}, format {value.format!r}"
        shown = list(value[:20]) if value.ndim == 1 and value.contiguous else []
    if limits.brief or not shown:
        return title
    room = limits.chars - len(title) - 60
    text = f"{title}: {limits.inner(shown, limits.part(max(room, 20))).text}"
    left = len(value) - len(shown)
    return text if left <= 0 else f"{text} {limits.more(left, 'element', '[20:40] has the next')}"


MAX_IMAGE_BYTES = 5_000_000


def describe_text(value: str, limits: DescriptionLimits) -> str:
    """Return the text, without its middle if it is long."""
    text = str.__str__(value)
    if limits.brief:
        return repr(truncate_end(text, limits.chars))
    return truncate_middle(text, limits.chars, limits.name)


def describe_bytes(value: bytes | bytearray, limits: DescriptionLimits) -> str | Description:
    """Return length and first bytes. The bytes of an image file become an image."""
    length = len(value)
    kind = detect_media_type(bytes(value[:16]))
    title = f"{type(value).__name__}, {count(length, 'byte')}"
    if kind is not None:
        shown = limits.images > 0 and length <= MAX_IMAGE_BYTES
        images = (Image(kind, bytes(value), limits.name),) if shown else ()
        return Description(f"{title}: {kind}", images)
    room = max((limits.chars - len(title) - 60) // 4, 8)
    if length <= room:
        return repr(bytes(value))
    left = limits.more(length - room, "byte", f"[{room}:] has the rest")
    return f"{title}: {bytes_without_hidden(value)[:room]!r} {left}"


def describe_int(value: int, limits: DescriptionLimits) -> str:
    """Return the digits of an integer. A very long one is shortened."""
    return str(value) if type(value) is bool else int_text(value)


def describe_numpy_scalar(value: Any, limits: DescriptionLimits) -> str:
    """Return the text of a NumPy number, or the fields of a record."""
    if value.dtype.names is None:
        return str(value)
    return limits.inner({name: value[name] for name in value.dtype.names}, limits).text


def describe_as_text(value: Any, limits: DescriptionLimits) -> str:
    """Return the `str` of a value whose `repr` is code, such as a date or a decimal number."""
    return str(value)


def describe_member(value: Any, limits: DescriptionLimits) -> str:
    """Return name and value of a member of an enumeration."""
    kind = type(value)
    name = f"{type_name(kind).rpartition('.')[2]}.{value._name_}"
    inner = limits.inner(value._value_, limits.part(200, brief=True))
    return f"{name} (value {inner.text})"


def describe_path(value: Any, limits: DescriptionLimits) -> str:
    """Return a path, and the type and size of the file. The file is not read."""
    text = str(value)
    if "Path" not in {kind.__name__ for kind in types_of(value)}:
        return text  # a pure path may be a path of another machine
    try:
        found = os.stat(text)
    except (OSError, ValueError):
        return f"{text} (does not exist)"
    if stat.S_ISDIR(found.st_mode):
        return f"{text} (a folder)"
    return f"{text} (a file of {count(found.st_size, 'byte')}, not read)"


def describe_pattern(value: re.Pattern[Any], limits: DescriptionLimits) -> str:
    """Return a regular expression as code."""
    flags = re.RegexFlag(value.flags & ~re.UNICODE.value)
    end = f", flags {flags!s}" if flags else ""
    return f"re.compile({truncate_end(repr(value.pattern), limits.chars - len(end) - 14)}{end})"


def describe_own(value: Any, limits: DescriptionLimits) -> str:
    """Return the `repr` of the value."""
    return repr_text(value, limits.chars)
