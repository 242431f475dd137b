"""Describe arrays of numpy, tensors, and buffers.

The range of a large array is computed from a sample, and a tensor on a device is not copied.

A *describer* returns the text of a value for the model, within its `limits` (`base.py`). With
`limits.brief`, the text is one line. `limits.describe_part` describes a part of the value within
`limits.for_part(chars)`, and `limits.format_expression("[0]")` returns Python code for a part.
`hide_value` and `hide_part` return the text that replaces a secret; None for other values
(`privacy.py`).

Source: `docs/values.md`.
"""

from __future__ import annotations

import array
import math
from contextlib import suppress
from typing import Any, Final

from jp_nb.values.base import DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.class_facts import FAILURES, name_type
from jp_nb.values.cut_text import cut_end, format_quantity
from jp_nb.values.privacy import hide_part, hide_value

MAX_SAMPLED: Final = 200_000
"""Maximum number of elements from which the range is computed."""
MAX_MAPPED: Final = 10_000
"""The same for an array in a memory-mapped file."""
WHOLE_ARRAY: Final = 200
"""Maximum number of elements of an array that is shown completely."""
MAX_ARRAY_COLUMNS: Final = 10
"""Maximum number of columns that are shown of a larger array."""

ARRAY_NOTE_CHARS: Final = 120
"""Room for the note about omitted elements of an array."""
TENSOR_NOTE_CHARS: Final = 80
"""The same for a tensor."""
BUFFER_NOTE_CHARS: Final = 60
"""The same for a buffer."""
TENSOR_HEAD_CHARS: Final = 200
"""Room for the lines around the elements of a tensor."""


def _describe_numpy_array(value: Any, limits: DescriptionLimits) -> str:
    kind = type(value).__name__

    fields = ", ".join(f"{name} {value.dtype[name]}" for name in value.dtype.names or ())
    dtype = f"fields {fields}" if fields else str(value.dtype)
    title = f"numpy.{kind}, shape {_format_shape(value.shape)}, {dtype}"

    if value.dtype.names and (hidden := find_hidden_fields(value.dtype)):
        title += f"; not shown: {', '.join(hidden)}"
        value = value[[name for name in value.dtype.names if name not in hidden]]

    if limits.brief or value.size == 0 or value.dtype.names == ():
        return title

    lines = [title]
    if value.dtype.kind in "biufc" and (facts := _format_array_range(value)):
        lines.append(facts)

    room = limits.chars - sum(map(len, lines)) - ARRAY_NOTE_CHARS
    is_whole = value.size <= WHOLE_ARRAY
    shown = _format_elements(value, limits, room, is_whole=is_whole)
    lines.append(cut_end(shown, max(room, 20)))

    if not is_whole:
        dimensions = ", ".join(["0"] * (value.ndim - 1) + [":20"])
        lines.append(
            f"… {format_quantity(value.size, 'element')} in total; "
            f"{limits.format_expression(f'[{dimensions}]')} has the first of them"
        )

    return "\n".join(lines)


def _format_shape(shape: Any) -> str:
    sides = ", ".join(str(int(side)) for side in shape)
    comma = "," if len(shape) == 1 else ""
    return f"({sides}{comma})"


def _format_array_range(value: Any) -> str:
    """Return the line with minimum, maximum, and mean; for booleans, the number that are True."""
    limit = MAX_MAPPED if type(value).__name__ == "memmap" else MAX_SAMPLED
    is_all = value.size <= limit
    sample = value.reshape(-1) if is_all else _take_sample(value, limit)
    note = "" if is_all else f" (in a sample of at most {limit:,} elements, evenly spaced)"

    if sample.dtype.kind == "b":
        of = f" of {sample.size:,}" if is_all else note
        return f"{format_quantity(int(sample.sum()), 'element')} True{of}"
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
    mean_text = hide_value(mean) or f"{mean:.6g}"
    facts = f"min {_format_number(known.min())}, max {_format_number(known.max())}"
    nan = f", {missing:,} nan" if missing else ""
    return f"{facts}, mean {mean_text}{nan}{note}"


def _take_sample(value: Any, limit: int) -> Any:
    """Return at most `limit` elements, evenly spaced along each axis.

    Slices are views, so only the sample is copied. Each axis gets an equal share of the elements
    that the axes before it have left.
    """
    left = float(limit)
    steps = []

    for axis, side in enumerate(value.shape):
        axes_left = value.ndim - axis
        wanted = max(1, int(left ** (1 / axes_left)))
        step = max(1, math.ceil(side / wanted))
        left /= math.ceil(side / step)
        steps.append(slice(None, None, step))

    return value[tuple(steps)].reshape(-1)


def find_hidden_fields(dtype: Any) -> list[str]:
    """Return the fields of a structured type that are hidden, or contain hidden fields."""
    names: tuple[str, ...] = dtype.names or ()
    return [
        name
        for name in names
        if hide_part(name) is not None or find_hidden_fields(dtype[name].base)
    ]


def _format_number(value: Any) -> str:
    plain = value.item()
    if (hidden := hide_value(plain)) is not None:
        return hidden
    return f"{plain:.8g}" if isinstance(plain, float) else str(plain)


def _format_elements(value: Any, limits: DescriptionLimits, room: int, *, is_whole: bool) -> str:
    """Return all elements, or the first 20 of a flat array, or a corner of 5 rows by 10 columns.

    A row ends with `…` if the array has more columns.
    """
    if is_whole:
        return _describe_part(value.tolist(), limits, room)
    while len(value.shape) > 2:  # the first elements along the last two axes
        value = value[0]

    is_flat = len(value.shape) < 2
    shown = value[:20] if is_flat else value[:5, :MAX_ARRAY_COLUMNS]
    values = shown.tolist()
    if is_flat:
        return _describe_part(_round_floats(values), limits, room)

    room = max(room // len(values) - 2, 20)
    end = ", …]" if value.shape[1] > MAX_ARRAY_COLUMNS else "]"
    texts = [_describe_part(_round_floats(row), limits, room) for row in values]
    return "\n".join(f"[{text.strip('[]')}{end}" for text in texts)


def _describe_part(value: object, limits: DescriptionLimits, room: int) -> str:
    """Return the description of elements in at most `room` characters."""
    return limits.describe_part(value, limits.for_part(room)).text


def _round_floats(values: list[Any]) -> list[Any]:
    return list(map(_round_float, values))


def _round_float(value: Any) -> Any:
    return float(f"{value:.6g}") if type(value) is float else value


def _describe_tensor(value: Any, limits: DescriptionLimits) -> str:
    title = f"{name_type(type(value))}, shape {_format_shape(value.shape)}, {value.dtype}"

    device = str(getattr(value, "device", "") or "")
    if device:
        title = f"{title}, on {device}"

    if limits.brief or not _is_in_main_memory(value) or not math.prod(value.shape):
        return title

    size = math.prod(int(side) for side in value.shape)
    lines = [title]
    if size <= MAX_SAMPLED and "complex" not in str(value.dtype):
        with suppress(*FAILURES):  # some types have no order
            lines.append(f"min {_format_number(value.min())}, max {_format_number(value.max())}")

    is_whole = size <= WHOLE_ARRAY
    shown = _format_elements(value, limits, limits.chars - TENSOR_HEAD_CHARS, is_whole=is_whole)

    # The elements are cut if the lines above them need more room than was kept.
    room = limits.chars - sum(map(len, lines)) - TENSOR_NOTE_CHARS
    lines.append(cut_end(shown, max(room, 20)))

    if not is_whole:
        lines.append(f"… {format_quantity(size, 'element')} in total")
    return "\n".join(lines)


def _is_in_main_memory(tensor: Any) -> bool:
    """Return True if the elements can be read without a copy from a device such as a GPU."""
    device = getattr(tensor, "device", None)
    # The text of a CPU is `cpu` in torch, and `TFRT_CPU_0` in JAX, where `platform` names it.
    return str(device or "") in ("", "cpu") or getattr(device, "platform", None) == "cpu"


def _describe_buffer(value: Any, limits: DescriptionLimits) -> str:
    """Describe an `array.array` or a `memoryview`, with its first 20 elements."""
    if isinstance(value, array.array):
        title = f"array.array of {value.typecode!r}, {format_quantity(len(value), 'element')}"
        shown = value[:20].tolist()
    else:
        title = f"memoryview, shape {_format_shape(value.shape or ())}, format {value.format!r}"
        shown = list(value[:20]) if value.ndim == 1 and value.contiguous else []

    if limits.brief or not shown:
        return title

    room = limits.chars - len(title) - BUFFER_NOTE_CHARS
    text = f"{title}: {_describe_part(shown, limits, max(room, 20))}"

    left = len(value) - len(shown)
    if left <= 0:
        return text

    # For example: `… 80 more elements; data[20:40] has the next`
    return f"{text} {limits.format_omitted(left, 'element', '[20:40] has the next')}"


ARRAY_KINDS: Final[ValueKinds] = (
    ("numpy", "ndarray", ValueKind(_describe_numpy_array, is_rich=True)),
    ("torch", "Tensor", ValueKind(_describe_tensor, is_rich=True)),
    ("jax", "Array", ValueKind(_describe_tensor, is_rich=True)),
    ("array", "array", ValueKind(_describe_buffer)),
    ("builtins", "memoryview", ValueKind(_describe_buffer)),
)
