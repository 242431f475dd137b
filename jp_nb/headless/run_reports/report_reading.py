"""Make the report of a headless run from its result, whose notebook contains the record.

The record also has the turns of earlier runs. Each code cell has ended with a number of entries
(`CellEnd`), which shows the cell that began a turn.

Source: `docs/ci.md`, `docs/record.md`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.headless.kernels.cell_ends import CellEnd, CellFailure
from jp_nb.headless.run_reports.run_report import (
    ReportedCell,
    ReportedQuestion,
    ReportedTurn,
    RunReport,
    sum_run_usage,
)
from jp_nb.headless.runner import RunResult
from jp_nb.headless.terminal_text import format_one_line, format_text
from jp_nb.json_values import as_object
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_conversation_id, get_others
from jp_nb.record.entries.inquiry_events import InquiryRequest
from jp_nb.record.entries.timestamps import parse_timestamp, utc_now
from jp_nb.record.entries.token_usage import read_usage
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.reading.turn_reader import read_turn
from jp_nb.record.reading.turn_view import ConfigChange, StructuredData, Turn, TurnText
from jp_nb.record.stream import ConversationStream

MAX_SOURCE: Final = 60  # maximum length of the source text that identifies a cell


def make_report(result: RunResult, notebook: str) -> RunReport:
    """Return the report of a run. If the record is unreadable, it has the error and no turns."""
    try:
        turns = tuple(_read_turns(result))
        error = ""
    except StorageError as exc:
        turns = ()
        error = format_text(str(exc))

    turns_by_cell: dict[int | None, list[ReportedTurn]] = {}
    for turn in turns:
        turns_by_cell.setdefault(turn.cell, []).append(turn)

    cells = [
        _make_cell(end, result, tuple(turns_by_cell.get(end.cell, ()))) for end in result.cells
    ]
    return RunReport(
        notebook,
        result.failure,
        cells=tuple(cells),
        turns=turns,
        record_error=error,
        events=result.events,
    )


def _make_cell(end: CellEnd, result: RunResult, turns: tuple[ReportedTurn, ...]) -> ReportedCell:
    """Return a cell with its end, its error if it failed, and the turns that began in it."""
    cell = result.notebook.cells[end.cell]
    source = " ".join(format_one_line(cell.source).split())  # the beginning identifies the cell
    if len(source) > MAX_SOURCE:
        source = f"{source[:MAX_SOURCE]}…"

    error = ""
    traceback = ""
    if end.status == "failed":
        error = _format_error(result.failure)
        traceback = _format_traceback(cell)

    return ReportedCell(
        number=end.cell,
        source=source,
        status=end.status,
        seconds=end.seconds,
        error=error,
        traceback=traceback,
        turns=turns,
    )


def _format_error(failure: CellFailure | None) -> str:
    if failure is None:
        return "it did not finish"
    return format_text(f"{failure.name}: {failure.message}")


def _format_traceback(cell: Any) -> str:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    if not errors:
        return ""
    return format_text("\n".join(map(str, errors[-1].get("traceback", ()))))


def _read_turns(result: RunResult) -> Iterator[ReportedTurn]:
    """Yield the turns of this run, those of the active conversation last."""
    stored = carrier.read_carrier(result.notebook.metadata)
    if stored is None:
        return

    # With `tolerant`, malformed entries are no error: the other turns are reported.
    active = Document.load(stored, clock=utc_now, tolerant=True).conversation
    used = {end.conversation for end in result.cells}

    for other in reversed(get_others(stored)):  # the newest is the first
        identifier = get_conversation_id(other)
        if identifier in used and identifier != active.id:
            document = Document.load(other, clock=utc_now, tolerant=True)
            yield from _read_stream_turns(document.conversation, result)

    yield from _read_stream_turns(active, result)


def _read_stream_turns(stream: ConversationStream, result: RunResult) -> Iterator[ReportedTurn]:
    """Yield the turns of a conversation that this run added, with the cells that began them."""
    ends = [end for end in result.cells if end.conversation == stream.id]
    # Number of entries after each cell. A cell without a record has 0, but numbers must ascend.
    entry_counts = list(accumulate((end.entries for end in ends), max))

    old_entries = _count_old_entries(stream, result)
    copied_turns = _count_copied_turns(stream)

    starts: dict[int, int] = {}  # index of the first entry of each turn
    for event in stream.events():
        starts.setdefault(event.turn, event.position)

    for turn in stream.turns():
        start = starts.get(turn.number, 0)
        if start < old_entries or turn.number < copied_turns:
            continue

        # The first cell after which there were more entries than before the turn.
        index = bisect_right(entry_counts, start)
        cell = ends[index].cell if index < len(ends) else None
        yield _make_turn(stream, turn, cell)


def _count_copied_turns(stream: ConversationStream) -> int:
    """Return the number of turns that a fork has copied from its parent; 0 without a parent."""
    last_copied = as_object(stream.properties.get("parent")).get("turn")
    return last_copied + 1 if isinstance(last_copied, int) else 0


def _count_old_entries(stream: ConversationStream, result: RunResult) -> int:
    """Return the number of entries of a conversation that are not of this run."""
    count = result.taken_over.get(stream.id, 0)  # entries with this id before the run
    if not count or result.continued:
        return count

    # A reproducible run replaces its old conversation by a new one with the same id, so all entries
    # are new. Only such a run stores times as whole seconds.
    times = (parse_timestamp(entry.timestamp) for entry in stream.entries if entry.timestamp)
    first = next(times, None)
    return 0 if first is not None and not first.microsecond else count


def _make_turn(stream: ConversationStream, entries: TurnEntries, cell: int | None) -> ReportedTurn:
    """Return a turn with the tools of its questions, and the sum of its tokens by model."""
    turn = read_turn(entries.number, entries.entries, status="", images=stream.images)
    turn = replace(turn, status=turn.status or _find_status(turn))

    # The name of the tool that asked, or the kind of the source, such as `assistant`.
    requests = [entry for entry in entries.entries if isinstance(entry, InquiryRequest)]
    tools = {request.id: request.source.name or request.source.source for request in requests}
    questions = [ReportedQuestion(inquiry, tools.get(inquiry.id, "")) for inquiry in turn.inquiries]

    used = chain.from_iterable(read_usage(entry.metadata) for entry in entries.entries)
    usage = sum_run_usage((model_usage.model, model_usage.tokens) for model_usage in used)

    return ReportedTurn(stream.id, turn, cell=cell, questions=tuple(questions), usage=usage)


def _find_status(turn: Turn) -> str:
    """Return `answered` if the turn ends with an answer, apart from configuration changes."""
    parts = [part for part in turn.parts if not isinstance(part, ConfigChange)]
    match parts:
        case [*_, TurnText(by_person=False) | StructuredData()]:
            return "answered"
    return "unfinished"
