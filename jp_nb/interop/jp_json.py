"""Write JSON text as JP does: indented by two spaces, with its own spelling of numbers.

JP is the command-line program whose files `interop` reads and writes. `json_text.py` reads JSON
text together with its notation. This module has no I/O.

Source: `docs/record.md`.
"""

from __future__ import annotations

import math

from pydantic import JsonValue

from jp_nb.json_writing import spaced_json


class NumberText(str):
    """A number in the notation of a text, such as `1e5`, which is written as it is."""

    __slots__ = ()


def render_json(value: JsonValue, pad: str = "") -> str:
    """Return `value` as JP writes it: indented by two spaces, keys in their current order.

    `pad` is the indentation of the lines after the first.
    """
    parts: list[str] = []
    _render(value, pad, parts)
    return "".join(parts)


def _render(value: JsonValue, pad: str, parts: list[str]) -> None:
    """Append the text of `value` to `parts`; see `render_json`."""
    inner = pad + "  "

    match value:
        case dict() if value:
            start = "{\n"
            for key, item in value.items():
                parts.append(f"{start}{inner}{spaced_json(key)}: ")
                _render(item, inner, parts)
                start = ",\n"
            parts.append(f"\n{pad}}}")

        case list() if value:
            start = "[\n"
            for item in value:
                parts.append(start + inner)
                _render(item, inner, parts)
                start = ",\n"
            parts.append(f"\n{pad}]")

        case NumberText():
            parts.append(value)
        case int() | float() if not isinstance(value, bool):
            parts.append(format_json_number(value))
        case _:
            parts.append(spaced_json(value))


def format_json_number(number: int | float) -> str:
    """Return a number as JP writes it: `1e-7`, `1e16`, `0.00001`; `null` for NaN and infinity."""
    text = repr(number)
    mantissa, exponent_mark, power = text.partition("e")

    if not exponent_mark:
        return text if isinstance(number, int) or math.isfinite(number) else "null"

    if int(power) == -5:  # JP uses an exponent only for smaller numbers, Python also for this one
        sign = "-" if number < 0 else ""
        digits = mantissa.lstrip("-").replace(".", "")
        return f"{sign}0.0000{digits}"

    return f"{mantissa}e{int(power)}"
