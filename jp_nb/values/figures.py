"""Describe figures of Matplotlib and Plotly as text and images.

A figure is neither displayed nor resized, and the current figure of `pyplot` stays the same. Equal
figures have equal images: the images contain no date and no name of a program.

A *describer* returns the text of a value for the model, perhaps with images, within its `limits`
(`base.py`). With `limits.brief`, the text is one line, without images.

Source: `docs/values.md`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from jp_nb.images import Image
from jp_nb.values.base import Description, DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.class_facts import FAILURES
from jp_nb.values.cut_text import cut_end, format_quantity, to_one_line
from jp_nb.values.repr_text import format_repr

_SHOWN_AXES: Final = 20
_SHOWN_TRACES: Final = 30


def _describe_figure(value: Any, limits: DescriptionLimits) -> str | Description:
    width, height = (float(side) for side in value.get_size_inches())
    dpi = float(value.dpi)
    title = f"matplotlib.{type(value).__name__}, {width * dpi:.0f} x {height * dpi:.0f} pixels"
    if limits.brief:
        return title

    axes = list(value.axes)
    heading = getattr(value, "_suptitle", None)
    named = f", titled {quote_label(heading.get_text())}" if heading is not None else ""

    lines = [f"{title}, {format_quantity(len(axes), 'axes', 'axes')}{named}"]
    lines += [
        f"{number}. {_format_axes(one_axes)}"
        for number, one_axes in enumerate(axes[:_SHOWN_AXES], 1)
    ]

    omitted_count = len(axes) - _SHOWN_AXES
    if omitted_count > 0:
        lines.append(limits.format_omitted(omitted_count, "axes", f".axes[{_SHOWN_AXES}:]", "axes"))

    return add_image("\n".join(lines), limits, lambda: _draw(value, limits))


def _describe_axes(value: Any, limits: DescriptionLimits) -> str | Description:
    text = f"matplotlib {_format_axes(value)}"
    figure = None if limits.brief else value.get_figure()
    if figure is None:
        return text
    figure = getattr(figure, "figure", None) or figure  # the figure of a `SubFigure`
    return add_image(text, limits, lambda: _draw(figure, limits))


def add_image(text: str, limits: DescriptionLimits, draw: Callable[[], bytes]) -> str | Description:
    """Return `text` with the PNG that `draw` returns, if the limits permit an image."""
    if limits.images < 1:
        return text

    try:
        content = draw()
    except FAILURES as exc:
        why = to_one_line(f"{type(exc).__name__}: {exc}", 200)
        return cut_end(f"{text}\n(Cannot be drawn: {why})", limits.chars)

    name = limits.name or text.partition(",")[0]
    return Description(text, (Image("image/png", content, to_one_line(name, 80)),))


def _draw(figure: Any, limits: DescriptionLimits) -> bytes:
    """Return the figure as a PNG. Its state for an interactive backend stays."""
    width, height = (float(side) for side in figure.get_size_inches())
    if not 0 < max(width, height) <= 1000:  # drawing a larger one takes too much memory
        raise ValueError(f"a figure of {width:g} x {height:g} inches")

    out = io.BytesIO()
    dpi = min(float(figure.dpi), limits.side / max(width, height))
    was_stale = figure.stale
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None}, bbox_inches=None)

    if was_stale:
        figure.stale = True  # an interactive backend still has to draw it
    return out.getvalue()


def _format_axes(axes: Any) -> str:
    """Return one line: title, labels and ranges of x and y, number of lines, and legend."""
    words = [type(axes).__name__]
    if title := axes.get_title():
        words.append(f"title {quote_label(title)}")

    for letter in "xy":
        label = getattr(axes, f"get_{letter}label")()
        low, high = getattr(axes, f"get_{letter}lim")()
        named = f"{quote_label(label)} " if label else ""
        words.append(f"{letter} {named}{low:.6g} to {high:.6g}")

    words += list(_count_artists(axes))
    names = [name for name in axes.get_legend_handles_labels()[1] if name[:1] != "_"]
    if names:
        words.append(f"legend {', '.join(map(quote_label, names[:10]))}")

    return ", ".join(words)


def _count_artists(axes: Any) -> Iterator[str]:
    for attribute, word in (("lines", "line"), ("images", "image"), ("collections", "collection")):
        if number := len(getattr(axes, attribute)):
            yield format_quantity(number, word)
    if number := len(axes.patches):
        yield format_quantity(number, "patch", "patches")


def quote_label(text: object) -> str:
    """Return a title, label, or name in quotes, short and in one line."""
    return repr(to_one_line(str(text), 100))


def _describe_plotly(value: Any, limits: DescriptionLimits) -> str | Description:
    traces = list(value.data)
    title = f"plotly.Figure, {format_quantity(len(traces), 'trace')}"
    layout = value.layout
    if text := getattr(layout.title, "text", None):
        title = f"{title}, titled {quote_label(text)}"
    if limits.brief:
        return title

    lines = [title]
    for letter in "xy":
        axis = getattr(layout, f"{letter}axis", None)
        if label := getattr(getattr(axis, "title", None), "text", None):
            lines.append(f"{letter} axis: {quote_label(label)}")

    lines += [
        f"{number}. {_format_trace(trace)}"
        for number, trace in enumerate(traces[:_SHOWN_TRACES], 1)
    ]
    omitted_count = len(traces) - _SHOWN_TRACES
    if omitted_count > 0:
        lines.append(limits.format_omitted(omitted_count, "trace", f".data[{_SHOWN_TRACES}:]"))

    text = "\n".join(lines)
    if "kaleido" not in sys.modules:  # plotly draws with this package
        return f"{text}\n(Not drawn: the package kaleido is not imported.)"
    return add_image(text, limits, lambda: _render_plotly(value, limits))


def _format_trace(trace: Any) -> str:
    words = [trace.type]
    if name := getattr(trace, "name", None):
        words.append(quote_label(name))
    for letter in "xyz":
        values = getattr(trace, letter, None) if letter in trace else None
        if values is not None:
            words.append(f"{letter}: {format_quantity(len(values), 'value')}")
    return ", ".join(words)


def _render_plotly(value: Any, limits: DescriptionLimits) -> bytes:
    width = float(value.layout.width or 700)  # plotly's default size
    height = float(value.layout.height or 500)
    scale = min(1.0, limits.side / max(width, height))
    return bytes(value.to_image(format="png", width=int(width), height=int(height), scale=scale))


def _describe_subfigure(value: Any, limits: DescriptionLimits) -> str:
    # Matplotlib cannot save a part of a figure as an image.
    return format_repr(value, limits.chars)


FIGURE_KINDS: Final[ValueKinds] = (
    ("matplotlib.figure", "Figure", ValueKind(_describe_figure, is_rich=True)),
    ("matplotlib.axes", "Axes", ValueKind(_describe_axes, is_rich=True)),
    ("matplotlib.figure", "SubFigure", ValueKind(_describe_subfigure)),
    ("plotly.basedatatypes", "BaseFigure", ValueKind(_describe_plotly, is_rich=True)),
)
