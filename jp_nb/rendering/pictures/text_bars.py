"""The bars of a timeline as rows of characters, for readers without its picture.

look     ····░░███████···················   until the first token, and the response
weather  ············▒▒▒▒▒▒▒▒············   a tool
"""

from __future__ import annotations

from typing import Final

from jp_nb.record.reading.timeline_steps import FAILED_STATES, TimelineStep, TurnTimeline
from jp_nb.rendering.pictures.time_scale import TimeScale, make_scale

BAR_CHARS: Final = 32
"""Length of a row of characters."""
TEXT_LEGEND: Final = "░ first token, █ response, ▒ tool, x failed, ? waiting for you"


def draw_text_bar(scale: TimeScale, step: TimelineStep) -> str:
    """Return a step as a row of characters. `scale` has the width of `make_text_scale`."""
    start = min(int(scale.find_x(step.start)), BAR_CHARS - 1)
    end = max(round(scale.find_x(step.end)), start + 1)
    sign = "█"
    if step.state in FAILED_STATES:
        sign = "x"
    elif step.kind == "user":
        sign = "?"
    elif step.kind == "tool":
        sign = "▒"

    bar = sign * (end - start)
    if step.first_token is not None and sign == "█":
        first_chars = min(round(scale.find_x(step.first_token)) - start, len(bar) - 1)
        bar = "░" * first_chars + bar[first_chars:]
    before = "·" * start
    after = "·" * (BAR_CHARS - end)
    return f"{before}{bar}{after}"


def make_text_scale(timeline: TurnTimeline) -> TimeScale:
    """Return the scale of `draw_text_bar`."""
    return make_scale(timeline, float(BAR_CHARS))
