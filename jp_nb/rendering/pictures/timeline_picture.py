"""The timeline of a turn as a picture, with one row for each step.

A step is a request, the run of a tool, or a wait for the user. Its bar shows when it ran. The times
of a step that `is_rough` are only those of the recorded entries. A timeline with the timing `order`
has no times: one unit for each step shows their order, as in a headless run. `text_bars.py` draws
the bars as characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.record.entries.token_usage import Usage
from jp_nb.record.reading.timeline_steps import FAILED_STATES, TimelineStep, TurnTimeline
from jp_nb.rendering.pictures.svg_picture import Anchor, SvgPicture, add_legend
from jp_nb.rendering.pictures.time_scale import TimeScale, make_scale
from jp_nb.rendering.pictures.time_words import format_time
from jp_nb.text import pluralize

MAX_TIMELINE_ROWS: Final = 100
"""Maximum number of steps that a picture or a table shows."""
# Sizes and positions in pixels: columns from left to right, then rows and bars. `_MIN_BAR` is the
# width of the shortest bar, and `_TICK_GAP` the shortest distance of two ticks.
_WIDTH: Final = 720
_LABEL_X: Final = 8
_CHART_X: Final = 140
_CHART_WIDTH: Final = 320
_TIME_X: Final = 472
_TOKENS_X: Final = 624
_TOP: Final = 30
_ROW: Final = 20
_BAR: Final = 12
_MIN_BAR: Final = 3.0
_TICK_GAP: Final = 48.0

# Words by the CSS class of a bar.
_LEGEND: Final = {
    "first": "until the first token",
    "request": "response",
    "tool": "tool",
    "wait": "waiting for you",
    "error": "failed",
}


def draw_timeline(timeline: TurnTimeline, title: str) -> str:
    """Return the picture of `timeline` as an image in Markdown."""
    picture = SvgPicture(_WIDTH, title)
    scale = make_scale(timeline, _CHART_WIDTH)
    shown = timeline.steps[:MAX_TIMELINE_ROWS]
    height = len(shown) * _ROW

    _draw_axis(picture, timeline, scale, height)
    for row, step in enumerate(shown):
        _draw_step(picture, timeline, scale, step, y=_TOP + row * _ROW)

    y = _TOP + height + 18
    omitted_count = len(timeline.steps) + timeline.omitted - len(shown)
    if omitted_count:
        text = f"… {omitted_count:,} more {pluralize('step', omitted_count)}"
        picture.add_text(_LABEL_X, y, text, width=_WIDTH, classes="dim")
        y += _ROW

    bottom = add_legend(picture, y, _list_legend_items(shown), indent=_LABEL_X)
    return picture.to_markdown(bottom)


def _draw_step(
    picture: SvgPicture, timeline: TurnTimeline, scale: TimeScale, step: TimelineStep, *, y: float
) -> None:
    """Draw the row of a step: its label, its bar, its times, and its tokens."""
    picture.add_text(_LABEL_X, y + 14, step.label, width=_CHART_X - _LABEL_X - 6)
    _draw_bar(picture, scale, step, y + 4)

    times = _describe_times(step, has_times=timeline.timing != "order")
    picture.add_text(_TIME_X, y + 14, times, width=_TOKENS_X - _TIME_X - 6)

    tokens = _format_token_pair(step.usage)
    picture.add_text(_TOKENS_X, y + 14, tokens, width=_WIDTH - _TOKENS_X)


def _list_legend_items(steps: Sequence[TimelineStep]) -> list[tuple[str, str]]:
    used = {_find_class(step) for step in steps}
    if any(_find_shown_first_token(step) is not None for step in steps):
        used.add("first")
    return [(name, words) for name, words in _LEGEND.items() if name in used]


def _draw_axis(
    picture: SvgPicture, timeline: TurnTimeline, scale: TimeScale, height: float
) -> None:
    """Draw the heads of the columns, the ticks, and the shortened waits, for rows of `height`."""
    has_times = timeline.timing != "order"
    time_head = "time (first token)" if has_times else "end"
    picture.add_text(_TIME_X, 16, time_head, width=_TOKENS_X - _TIME_X, classes="dim")
    head = "tokens in, out"
    picture.add_text(_TOKENS_X, 16, head, width=_WIDTH - _TOKENS_X, classes="dim")
    if not has_times:
        picture.add_text(_CHART_X, 16, "order", width=_CHART_WIDTH, classes="dim")
        return

    for cut in scale.cuts:  # waits for the user that are shortened
        picture.add_rect(_CHART_X + cut.x, _TOP - 6, cut.width, height + 6, "cut")
    for second, x in scale.list_ticks(_TICK_GAP):
        picture.add_line(_CHART_X + x, _TOP - 10, height + 10)
        label = format_time(second).replace(".0 s", " s")
        # The labels at both ends stay inside of the chart.
        anchor: Anchor = "start" if x < _TICK_GAP / 2 else "middle"
        if x > _CHART_WIDTH - _TICK_GAP / 2:
            anchor = "end"
        picture.add_text(_CHART_X + x, 16, label, width=2 * _TICK_GAP, anchor=anchor, classes="dim")


def _draw_bar(picture: SvgPicture, scale: TimeScale, step: TimelineStep, y: float) -> None:
    """Draw the bar of a step, with the time until its first token; a diamond without a duration."""
    x = _CHART_X + scale.find_x(step.start)
    end = _CHART_X + scale.find_x(step.end)
    classes = _find_class(step)
    if step.end <= step.start:
        picture.add_diamond(x, y + _BAR / 2, 5, f"{classes} hollow")
        return

    end = max(end, x + _MIN_BAR)
    if step.is_rough or step.state == "open":
        classes += " rough"
    first_x = x
    first_token = _find_shown_first_token(step)
    if first_token is not None:
        first_x = min(_CHART_X + scale.find_x(first_token), end)
        picture.add_rect(x, y, first_x - x, _BAR, "first")
    if end > first_x:
        radius = 3 if step.kind == "tool" else 0
        picture.add_rect(first_x, y, end - first_x, _BAR, classes, radius=radius)


def _find_shown_first_token(step: TimelineStep) -> float | None:
    """Return the time of the first token if the bar has a part for it. A failed bar is one part."""
    return step.first_token if step.state == "done" else None


def _find_class(step: TimelineStep) -> str:
    """Return the CSS class of a bar, a key of `_LEGEND`."""
    if step.state in FAILED_STATES:
        return "error"
    return "wait" if step.kind == "user" else step.kind


def _describe_times(step: TimelineStep, *, has_times: bool = True) -> str:
    """Return the duration, the time to the first token, and the end of a step that failed."""
    parts: list[str] = []
    if has_times and (step.seconds > 0 or not step.reason):
        about = "≈ " if step.is_rough else ""
        text = f"{about}{format_time(step.seconds)}"
        if step.first_token is not None:
            text += f" ({format_time(step.first_token - step.start)})"
        parts.append(text)
    if step.reason:
        parts.append(step.reason)
    return ", ".join(parts)


def _format_token_pair(usage: Usage | None) -> str:
    """Return input and output tokens, such as `1.2k → 48`; "" if none was reported."""
    if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
        return ""
    return f"{_shorten(usage.input_tokens)} → {_shorten(usage.output_tokens)}"


def _shorten(count: int | None) -> str:
    """Return a number in few characters, such as `1.2k`; `?` if it is unknown."""
    if count is None:
        return "?"
    for size, sign in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            digits = 1 if count < 10 * size else 0
            return f"{count / size:,.{digits}f}{sign}"
    return str(count)
