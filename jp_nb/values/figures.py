"""Describes figures and pictures: a PNG of them, and words that say what they show.

Drawing a figure neither shows it, nor changes its size, nor what `pyplot` has as the current one.
Equal figures give equal bytes: neither a date nor the name of a program is in them.

Source: `docs/values.md`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any, Final

from jp_nb.images import Image
from jp_nb.values.base import Description, DescriptionLimits, count, to_one_line, truncate_end
from jp_nb.values.custom import FAILURES

MAX_PIXELS: Final = 60_000_000
"""Of a picture that is made smaller: more would take long."""
MAX_INCHES: Final = 100
_MODES: Final = ("1", "L", "LA", "RGB", "RGBA")


def describe_figure(value: Any, limits: DescriptionLimits) -> str | Description:
    """Return a picture of a matplotlib figure, and its axes in words."""
    wide, high = (float(side) for side in value.get_size_inches())
    dpi = float(value.dpi)
    title = f"matplotlib.{type(value).__name__}, {wide * dpi:.0f} x {high * dpi:.0f} pixels"
    if limits.brief:
        return title
    axes = list(value.axes)
    heading = getattr(value, "_suptitle", None)
    named = f", titled {_quoted(heading.get_text())}" if heading is not None else ""
    lines = [f"{title}, {count(len(axes), 'axes', 'axes')}{named}"]
    lines += [f"{number}. {_axes_words(one)}" for number, one in enumerate(axes[:20], 1)]
    if len(axes) > 20:
        lines.append(limits.more(len(axes) - 20, "axes", ".axes[20:]", "axes"))
    return _with_picture("\n".join(lines), limits, lambda: _drawn(value, wide, high, limits))


def describe_axes(value: Any, limits: DescriptionLimits) -> str | Description:
    """Return matplotlib axes in words, with a picture of their figure."""
    if limits.brief:
        return f"matplotlib {_axes_words(value)}"
    figure = value.get_figure()
    words = f"matplotlib {_axes_words(value)}"
    if figure is None:
        return words
    figure = getattr(figure, "figure", None) or figure  # of a part of a figure
    wide, high = (float(side) for side in figure.get_size_inches())
    return _with_picture(words, limits, lambda: _drawn(figure, wide, high, limits))


def _with_picture(words: str, limits: DescriptionLimits, draw: Any) -> str | Description:
    if limits.images < 1:
        return words
    try:
        content = draw()
    except FAILURES as exc:
        why = to_one_line(f"{type(exc).__name__}: {exc}", 200)
        return truncate_end(f"{words}\n(Cannot be drawn: {why})", limits.chars)
    name = limits.name or words.partition(",")[0]
    return Description(words, (Image("image/png", content, to_one_line(name, 80)),))


def _drawn(figure: Any, wide: float, high: float, limits: DescriptionLimits) -> bytes:
    if not 0 < max(wide, high) <= MAX_INCHES * 10:
        raise ValueError(f"a figure of {wide:g} x {high:g} inches")
    out = io.BytesIO()
    dpi = min(float(figure.dpi), limits.side / max(wide, high))
    was_stale = figure.stale
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None}, bbox_inches=None)
    if was_stale:
        figure.stale = True  # what shows it on a screen still has to
    return out.getvalue()


def _axes_words(axes: Any) -> str:
    """Return title, labels, ranges and contents of axes."""
    words = [type(axes).__name__]
    if title := axes.get_title():
        words.append(f"title {_quoted(title)}")
    for letter in "xy":
        label = getattr(axes, f"get_{letter}label")()
        low, high = getattr(axes, f"get_{letter}lim")()
        words.append(f"{letter} {f'{_quoted(label)} ' if label else ''}{low:.6g} to {high:.6g}")
    words += list(_artists(axes))
    names = [name for name in axes.get_legend_handles_labels()[1] if name[:1] != "_"]
    if names:
        words.append(f"legend {', '.join(map(_quoted, names[:10]))}")
    return ", ".join(words)


def _artists(axes: Any) -> Iterator[str]:
    for what, word in (("lines", "line"), ("images", "image"), ("collections", "collection")):
        if number := len(getattr(axes, what)):
            yield count(number, word)
    if number := len(axes.patches):
        yield count(number, "patch", "patches")


def _quoted(text: object) -> str:
    return repr(to_one_line(str(text), 100))


# --- PIL -------------------------------------------------------------------------------------


def describe_picture(value: Any, limits: DescriptionLimits) -> str | Description:
    """Return a PIL image: size and mode, and a PNG that is no longer than allowed."""
    wide, high = value.size
    title = f"PIL.{type(value).__name__}, {wide} x {high} pixels, mode {value.mode}"
    if limits.brief:
        return title
    if wide * high > MAX_PIXELS:
        return f"{title}: too large to show. Make a smaller copy with .resize((768, 768))"
    return _with_picture(title, limits, lambda: _smaller(value, limits.side))


def _smaller(value: Any, side: int) -> bytes:
    """Return a PNG of a copy: without what the file of the image said beside its pixels."""
    shown = value
    if shown.mode not in _MODES:
        clear = shown.mode in ("PA", "RGBa") or "transparency" in shown.info
        shown = shown.convert("LA" if shown.mode == "La" else "RGBA" if clear else "RGB")
    shown = shown.copy()
    shown.info = {}
    if max(shown.size) > side:
        shown.thumbnail((side, side))
    out = io.BytesIO()
    shown.save(out, format="PNG")
    return out.getvalue()


def describe_image(value: Image, limits: DescriptionLimits) -> str | Description:
    """Return an image of ours as it is."""
    title = f"{value.media_type} of {count(len(value.content), 'byte')}"
    named = f"{title}, {_quoted(value.name)}" if value.name else title
    return Description(named, (value,) if limits.images > 0 and not limits.brief else ())


# --- plotly ----------------------------------------------------------------------------------


def describe_plotly(value: Any, limits: DescriptionLimits) -> str | Description:
    """Return a plotly figure in words; and a picture if what draws them is loaded already."""
    traces = list(value.data)
    title = f"plotly.Figure, {count(len(traces), 'trace')}"
    layout = value.layout
    if text := getattr(layout.title, "text", None):
        title = f"{title}, titled {_quoted(text)}"
    if limits.brief:
        return title
    lines = [title]
    for letter in "xy":
        axis = getattr(layout, f"{letter}axis", None)
        if label := getattr(getattr(axis, "title", None), "text", None):
            lines.append(f"{letter} axis: {_quoted(label)}")
    lines += [f"{number}. {_trace(trace)}" for number, trace in enumerate(traces[:30], 1)]
    if len(traces) > 30:
        lines.append(limits.more(len(traces) - 30, "trace", ".data[30:]"))
    words = "\n".join(lines)
    if "kaleido" not in sys.modules:
        return f"{words}\n(Not drawn: the package kaleido is not imported.)"
    return _with_picture(words, limits, lambda: _rendered(value, limits))


def _trace(trace: Any) -> str:
    words = [trace.type]
    if name := getattr(trace, "name", None):
        words.append(_quoted(name))
    for letter in "xyz":
        values = getattr(trace, letter, None) if letter in trace else None
        if values is not None:
            words.append(f"{letter}: {count(len(values), 'value')}")
    return ", ".join(words)


def _rendered(value: Any, limits: DescriptionLimits) -> bytes:
    wide = float(value.layout.width or 700)
    high = float(value.layout.height or 500)
    scale = min(1.0, limits.side / max(wide, high))
    content = value.to_image(format="png", width=int(wide), height=int(high), scale=scale)
    return bytes(content)
