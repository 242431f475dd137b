"""Report of `%jp timeline` and `jp-nb show --timeline`: the steps of a turn and their times.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.timeline_steps import TimelineStep, TurnTimeline
from jp_nb.rendering.markdown import make_details_block
from jp_nb.rendering.pictures.text_bars import (
    TEXT_LEGEND,
    draw_text_bar,
    make_text_scale,
)
from jp_nb.rendering.pictures.time_scale import make_scale
from jp_nb.rendering.pictures.time_words import format_time
from jp_nb.rendering.pictures.timeline_picture import MAX_TIMELINE_ROWS, draw_timeline
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_heading,
    make_note,
    make_remark,
    make_table,
)
from jp_nb.rendering.table_cells import UNKNOWN_VALUE, format_count
from jp_nb.text import pluralize

NO_STEPS: Final = "Turn {} has no request to a model in the record."
ROUGH_NOTE: Final = (
    "This turn has no measured times: an older release recorded it, or a cassette was used. "
    "Times marked `about` are those between entries of the record, and the time to the first "
    "token is unknown."
)
ORDER_NOTE: Final = (
    "The order of the steps, without times: this record or run is reproducible, so it has none."
)
WENT_BACK_NOTE: Final = "The clock went back during this turn, so some times are wrong."
CUT_NOTE: Final = "Hatched parts of the axis are waits that are drawn shorter."
ENDED_NOTES: Final = {
    "failed": "This turn failed: it has no answer.",
    "interrupted": "This turn was interrupted: it has no answer.",
}
OPEN_NOTE: Final = "This turn has a tool call without a result."
_TOKEN_HEAD: Final = ("tokens in", "from cache", "out", "end")
_TIME_HEAD: Final = ("start", "time", "first token")
TABLE_TITLE: Final = "Steps as a table"


def render_timeline(timeline: TurnTimeline) -> Report:
    """Return the picture, the table, and the notes of `timeline`.

    Its `timing` is `measured`, `rough` (only the times of entries are known), or `order` (there are
    no times).
    """
    number = to_shown_turn(timeline.number)
    if not timeline.steps:
        return make_remark(NO_STEPS.format(number))

    title = _format_title(timeline, number)
    has_times = timeline.timing != "order"
    shown = timeline.steps[:MAX_TIMELINE_ROWS]

    head = ["step", *(_TIME_HEAD if has_times else ()), *_TOKEN_HEAD]
    rows = [list(_list_cells(step, has_times=has_times)) for step in shown]
    table = make_table(head, rows)

    text_table = table
    if has_times:
        scale = make_text_scale(timeline)
        drawn = [[*row, draw_text_bar(scale, step)] for row, step in zip(rows, shown, strict=True)]
        drawn_table = make_table([*head, "timeline"], drawn)
        text_table = join_reports([drawn_table, TEXT_LEGEND])

    picture = draw_timeline(timeline, title)
    markdown = f"{picture}\n\n{make_details_block(TABLE_TITLE, table.markdown)}"
    notes = map(make_note, _list_notes(timeline))
    return join_reports([make_heading(title), Report(markdown, text_table.text), *notes])


def _format_title(timeline: TurnTimeline, number: int) -> str:
    """Return the title, such as `Timeline of turn 3: 5.2 s, 2 requests, 1 tool run`."""
    requests = sum(step.kind == "request" for step in timeline.steps)
    runs = sum(step.kind == "tool" for step in timeline.steps)
    parts = [f"{requests:,} {pluralize('request', requests)}"]
    if runs:
        parts.append(f"{runs:,} tool {pluralize('run', runs)}")
    if timeline.timing != "order":
        parts.insert(0, format_time(timeline.seconds))
        waited = sum(step.seconds for step in timeline.steps if step.kind == "user")
        if waited:
            parts.append(f"{format_time(waited)} waiting for you")

    listed = ", ".join(parts)
    return f"Timeline of turn {number}: {listed}"


def _list_cells(step: TimelineStep, *, has_times: bool) -> Iterator[str]:
    """Yield the cells of a step, in the order of the table heads."""
    yield step.label
    if has_times:
        about = "about " if step.is_rough else ""
        yield f"{about}{format_time(step.start)}"
        yield f"{about}{format_time(step.seconds)}"
        first = UNKNOWN_VALUE
        if step.first_token is not None:
            first = format_time(step.first_token - step.start)
        yield first

    counts: tuple[int | None, ...] = (None, None, None)
    if step.usage is not None:
        counts = (
            step.usage.input_tokens,
            step.usage.cache_read_tokens,
            step.usage.output_tokens,
        )
    yield from map(format_count, counts)
    yield step.reason


def _list_notes(timeline: TurnTimeline) -> Iterator[str]:
    """Yield what the picture and the table do not show, such as omitted steps or missing times."""
    more = len(timeline.steps) + timeline.omitted - MAX_TIMELINE_ROWS
    if more > 0:
        yield f"Only the first {MAX_TIMELINE_ROWS} steps are shown, {more:,} more are not."
    if timeline.ended in ENDED_NOTES:
        yield ENDED_NOTES[timeline.ended]
    if any(step.state == "open" for step in timeline.steps):
        yield OPEN_NOTE
    if timeline.timing == "order":
        yield ORDER_NOTE
        return

    if timeline.timing == "rough":
        yield ROUGH_NOTE
    if timeline.went_back:
        yield WENT_BACK_NOTE
    if make_scale(timeline, 1.0).cuts:  # waits are cut in a picture of any width
        yield CUT_NOTE
