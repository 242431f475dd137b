"""Merge the recordings of the runs of a batch into cassettes, after the runs.

Each run has recorded into a separate file (`batch_cassettes.py`). These are combined, sorted by the
ids of runs: the result does not depend on which worker ran them. An *exchange* is a request to a
model with its answer. One that several runs recorded alike is kept once.

Source: `docs/many-notebooks.md`, `docs/cassettes.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from jp_nb.agent.model_requests.recorded_exchange import Exchange
from jp_nb.batch.plans.batch_cassettes import RECORDINGS, choose_cassette, find_recording
from jp_nb.batch.results.run_log import RunState
from jp_nb.errors import StorageError
from jp_nb.file_writing import replace_file
from jp_nb.storage.cassettes.cassette_content import CassetteContent
from jp_nb.storage.cassettes.cassette_file import (
    MAX_CASSETTE_BYTES,
    read_cassette,
    refuse_unless_cassette,
    refuse_unsafe_cassette_link,
)
from jp_nb.storage.cassettes.cassette_writer import CassetteWriter
from jp_nb.text import pluralize


def merge_recordings(
    out: Path,
    base: Path,
    runs: Iterable[RunState],
    *,
    file: str = "",
    keeps_old: bool,
    is_complete: bool,
) -> Iterator[str]:
    """Merge the recordings of `runs` that are done, and yield a line about each cassette.

    Args:
        out: The output folder.
        base: The folder to which the names of notebooks are relative.
        runs: All runs of the log. Those that a resumed batch would repeat are omitted.
        file: The path of the cassette of all runs; "" for those of notebooks and runs.
        keeps_old: Keep the exchanges that a cassette has already (`replay-or-record`).
        is_complete: True if all planned runs have passed or wait. Otherwise the old exchanges are
            kept too, because the recordings may lack some of them.

    Raises:
        StorageError: A cassette cannot be read or written. The recordings stay in the folder.
    """
    sources: dict[Path, list[Path]] = {}
    for state in sorted(runs, key=lambda state: state.run):
        recording = find_recording(out, state.run)
        if state.is_done and recording.is_file():
            target = choose_cassette(base / state.notebook, state.run, file)
            sources.setdefault(target, []).append(recording)

    for target, recordings in sources.items():
        note = ""
        if target.is_file() and (keeps_old or not is_complete):
            recordings.insert(0, target)
            if not keeps_old:
                note = ". It keeps those that it had, because not all runs have passed"

        count = _merge(target, recordings, out / RECORDINGS)
        yield f"{count} {pluralize('exchange', count)} recorded in {target}{note}"


def _merge(target: Path, sources: Iterable[Path], folder: Path) -> int:
    """Write the exchanges of all `sources` to `target`, and return their number.

    They are written to a draft in `folder` before, so that an error leaves `target` unchanged.
    """
    draft = folder / "merged.jsonl"
    draft.unlink(missing_ok=True)
    writer = CassetteWriter(draft)
    written: Counter[str] = Counter()

    for source in sources:
        content = read_cassette(source)
        # A run may send equal requests: two of them are written twice, however many runs have two.
        in_source: Counter[str] = Counter()
        for key, exchange in _list_exchanges(content):
            in_source[key] += 1
            if in_source[key] > written[key]:
                written[key] += 1
                writer.add(exchange)

    # No run has sent a request. With `replay-or-record`, a recording begins as a copy of the run's
    # cassette, and these had no exchanges.
    if not written:
        return 0

    size = draft.stat().st_size
    if size > MAX_CASSETTE_BYTES:
        raise StorageError(
            f"{target} would have {size:,} bytes, more than {MAX_CASSETTE_BYTES:,}: copy the "
            f"recordings in {folder} beside their notebook, so that each run has its own"
        )

    target.parent.mkdir(parents=True, exist_ok=True)
    refuse_unsafe_cassette_link(target)
    refuse_unless_cassette(target)
    replace_file(target, draft.read_bytes())
    draft.unlink()
    return written.total()


def _list_exchanges(content: CassetteContent) -> Iterator[tuple[str, Exchange]]:
    """Yield each exchange of a cassette with a key that is the same for equal exchanges."""
    for stored in content.exchanges:
        key = repr((stored.request, stored.events, stored.end))
        yield key, Exchange(content.rebuild_request(stored), stored.events, stored.end)
