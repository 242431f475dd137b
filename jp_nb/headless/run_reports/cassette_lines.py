"""Write the lines of a report about recorded, replayed, and unused exchanges of cassettes.

An *exchange* is a request to a model and its response. Exchanges have numbers, from 0, in the order
of the cassette. A `CassetteUse` tells how a run has used one cassette: the numbers of replayed
exchanges (`used`), the number of those that it recorded (`added`), and if it records a whole new
cassette (`is_new`), which replaces an earlier file.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from jp_nb.headless.run_events_reading import CassetteUse
from jp_nb.headless.run_reports.run_report import RunReport
from jp_nb.rendering.reports.exchange_lines import describe_exchange, format_exchange_count
from jp_nb.storage.cassettes.cassette_content import StoredExchange
from jp_nb.storage.cassettes.cassette_file import read_cassette
from jp_nb.text import MAX_LISTED_LINES


def format_cassettes(report: RunReport) -> list[str]:
    """Return lines about recorded exchanges and, after a run without a failure, replayed ones.

    Raises:
        StorageError: A cassette cannot be read.
    """
    uses = report.events.cassettes
    lines: list[str] = []

    for path, use in uses.items():
        lines += _format_recorded(path, use)

    if report.failure is not None:  # a failed run may not need the rest
        return lines

    for path, use in uses.items():
        total = len(_list_replayable(path, use))
        # If some are not used, `format_unused_exchanges` has the numbers.
        if use.used and len(use.used) == total:
            lines.append(f"{total} of {format_exchange_count(total)} of {path.name} used")

    return [*lines, *format_unused_exchanges(uses)]


def _format_recorded(path: Path, use: CassetteUse) -> Iterator[str]:
    """Yield a line if the run has recorded exchanges, or should have: it made no request."""
    shown = path
    if path.is_relative_to(Path.cwd()):
        shown = path.relative_to(Path.cwd())

    if use.is_new and not use.added:
        unchanged = "; the file is unchanged" if path.exists() else ""
        yield f"no model answered: nothing was recorded in {shown}{unchanged}"
    elif use.added:
        count = format_exchange_count(use.added)
        action = "recorded in" if use.is_new else "added to"
        yield f"{count} {action} {shown}"


def _list_replayable(path: Path, use: CassetteUse) -> list[StoredExchange]:
    """Return the exchanges that were on the cassette before the run, which adds some at its end."""
    if use.is_new or not path.exists():
        return []
    stored = read_cassette(path).exchanges
    return list(stored[: len(stored) - use.added])


def format_unused_exchanges(uses: Mapping[Path, CassetteUse]) -> Iterator[str]:
    """Yield lines about exchanges that were not replayed.

    Raises:
        StorageError: A cassette cannot be read.
    """
    for path, use in uses.items():
        replayable = _list_replayable(path, use)
        unused = [exchange for exchange in replayable if exchange.number not in use.used]
        if not unused:
            continue

        total = format_exchange_count(len(replayable))
        yield f"{len(unused)} of {total} of {path.name} not used:"

        content = read_cassette(path)
        for exchange in unused[:MAX_LISTED_LINES]:
            yield f"  {describe_exchange(content, exchange)}"
        if len(unused) > MAX_LISTED_LINES:
            yield f"  … and {len(unused) - MAX_LISTED_LINES} more"
